package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// Span is a part of a set on its way to another store: the keys of consecutive elements, packed, and what its store knew of the
// set when they were read. Like Facts it claims nothing of what it leaves out.
type Span struct {
	Set []byte
	// Bound is the last element looked at, present or not: the span is complete up to it and including it. The next one starts
	// behind it. It is nil when Done: the span is complete to the end of the set.
	Bound []byte
	Done  bool
	// Count is the number of keys in Keys, which are packed; see docs/format.md.
	Count int
	Keys  []byte
	// Seen and Dead are those of the sender at the moment of the read; they are shared: read only. Seen is no fact and is never
	// joined: it is what a copy is checked by, when it is done. Dead may be left out, by a sender who has just sent it.
	Seen, Dead *clock.Clock
}

// SpanBytesMax is the largest span that may be asked for, in bytes of keys as they are on disk.
const SpanBytesMax = 64 << 20

// spanBytesDefault is the size of a span when none is asked for.
const spanBytesDefault = 8 << 20

// ExportSpan reads live keys of a set, from behind an element on, or from the start with nil, until they are about bytesMax bytes,
// 0 is 8 MiB, or until a second has passed. It is one moment of the set. A set of which this store has never heard is
// ErrNotFound, a key with an open context ErrOpenKey.
func (s *Store) ExportSpan(ctx context.Context, name, after []byte, bytesMax int) (span *Span, err error) {
	if bytesMax == 0 {
		bytesMax = spanBytesDefault
	}
	if bytesMax < 0 || bytesMax > SpanBytesMax {
		return nil, fmt.Errorf("%w: a span of %d bytes, at most %d", ErrRequest, bytesMax, SpanBytesMax)
	}
	if err := checkElement(after); err != nil {
		return nil, err
	}
	err = s.withSet(ctx, name, func(st *set) error {
		b := ReadOptions{After: after}.bounds(st.prefix)
		if span, err = s.exportSpan(ctx, st, b, bytesMax); err != nil {
			return fmt.Errorf("engine: export a span of %q: %w", st.name, lsm.DiskError(err))
		}
		return nil
	})
	return span, err
}

func (s *Store) exportSpan(ctx context.Context, st *set, b keyscheme.Bounds, bytesMax int) (_ *Span, err error) {
	e := st.readers.enter()
	defer st.readers.leave(e)
	st.viewing.RLock()
	_, state := st.state()
	it, err := s.db.OpenSet(st.prefix, &pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	st.viewing.RUnlock()
	if err != nil {
		return nil, err
	}
	defer closing(it, &err)
	w := spanWriter{}
	span := &Span{Set: slices.Clone(st.name), Seen: state.Seen, Dead: state.Dead, Done: true}
	began, prefixLen, size, full := time.Now(), len(st.prefix), 0, false
	var last []byte
	for ok, n := it.First(), 1; ok; ok, n = it.Next(), n+1 {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			full = full || time.Since(began) > iteratorAgeMax
		}
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return nil, fmt.Errorf("%w: key %x", ErrCorrupt, it.Key())
		}
		if full && n > 1 && string(element) != string(last) {
			span.Done, span.Bound = false, append([]byte{}, last...)
			break
		}
		last = append(last[:0], element...)
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if keyscheme.IsOpen(value) || op != keyscheme.OpAdd {
			return nil, fmt.Errorf("%w: element %.64q", ErrOpenKey, element)
		}
		if state.Dead.ContainsBytes(actor, counter) {
			continue
		}
		w.add(element, actor, counter)
		span.Count++
		size += len(it.Key()) + len(value)
		full = full || size >= bytesMax
	}
	span.Keys = w.b
	return span, it.Error()
}

// Facts returns what the span says, unpacked. What is malformed is ErrFacts.
func (span *Span) Facts() (Facts, error) {
	f := Facts{Set: span.Set, Dead: span.Dead}
	r := spanReader{in: uvarints{b: span.Keys}}
	for len(r.in.b) > 0 {
		element, dot, err := r.next()
		if err != nil {
			return Facts{}, err
		}
		if n := len(f.Keys); n > 0 && string(f.Keys[n-1].Name) == string(element) {
			f.Keys[n-1].Dots = append(f.Keys[n-1].Dots, r.dot(dot))
		} else {
			f.Keys = append(f.Keys, fold.Element{Name: append([]byte{}, element...), Dots: []clock.Dot{r.dot(dot)}})
		}
	}
	return f, nil
}

// Pack makes the dots of elements, both in ascending order, the keys of the span: it is what Facts undoes.
func (span *Span) Pack(elements []fold.Element) {
	w := spanWriter{}
	span.Count = 0
	for _, e := range elements {
		for _, d := range e.Dots {
			w.add(e.Name, []byte(d.Actor), d.Counter)
			span.Count++
		}
	}
	span.Keys = w.b
}

// spanWriter packs keys, in ascending order. For each: how many bytes its element shares with the one before; how many follow, and
// they; the number of its actor, and where that is new its length and bytes; by how much its counter differs from the actor's
// last, zigzag. All numbers are uvarints.
type spanWriter struct {
	b       []byte
	element []byte
	actors  map[string]int
	names   []string // of the actors, by number
	at      int      // the number of the last key's actor
	last    []uint64 // counter of each actor
}

func (w *spanWriter) add(element, actor []byte, counter uint64) {
	shared := 0
	for shared < len(w.element) && shared < len(element) && w.element[shared] == element[shared] {
		shared++
	}
	w.b = binary.AppendUvarint(w.b, uint64(shared))
	w.b = binary.AppendUvarint(w.b, uint64(len(element)-shared))
	w.b = append(w.b, element[shared:]...)
	w.element = append(w.element[:shared], element[shared:]...)
	i, ok := w.at, w.at < len(w.names) && w.names[w.at] == string(actor)
	if !ok {
		i, ok = w.actors[string(actor)]
	}
	if !ok {
		if w.actors == nil {
			w.actors = map[string]int{}
		}
		i = len(w.actors)
		w.actors[string(actor)] = i
		w.names, w.last = append(w.names, string(actor)), append(w.last, 0)
	}
	w.at = i
	w.b = binary.AppendUvarint(w.b, uint64(i))
	if !ok {
		w.b = append(binary.AppendUvarint(w.b, uint64(len(actor))), actor...)
	}
	w.b = binary.AppendVarint(w.b, int64(counter-w.last[i]))
	w.last[i] = counter
}

// spanKeyBytesMin is the least that a key takes in a span: a byte for each of shared, rest, actor and counter.
const spanKeyBytesMin = 4

// spanReader unpacks what a spanWriter has packed. Its bytes may come from anywhere.
type spanReader struct {
	in      uvarints
	element []byte
	order   int // how the element compares with the one before it
	actors  []clock.Actor
	last    []uint64
}

// spanDot is a dot of an actor of a span, by its number.
type spanDot struct {
	actor   uint32
	counter uint64
}

func (r *spanReader) dot(d spanDot) clock.Dot {
	return clock.Dot{Actor: r.actors[d.actor], Counter: d.counter}
}

// next returns the next key. The element is good until the next call.
func (r *spanReader) next() (element []byte, dot spanDot, err error) {
	shared := r.in.next()
	rest := r.in.bytes()
	if r.in.bad || shared > uint64(len(r.element)) || int(shared)+len(rest) > ElementBytesMax {
		return nil, dot, fmt.Errorf("%w: a span's element is cut short or too long", ErrFacts)
	}
	r.order = bytes.Compare(rest, r.element[shared:])
	r.element = append(r.element[:shared], rest...)
	i := r.in.next()
	if i == uint64(len(r.actors)) && !r.in.bad {
		actor := r.in.bytes()
		if len(actor) == 0 || len(actor) > clock.ActorBytesMax {
			return nil, dot, fmt.Errorf("%w: a span's actor of %d bytes", ErrFacts, len(actor))
		}
		r.actors, r.last = append(r.actors, clock.Actor(actor)), append(r.last, 0)
	}
	zigzag := r.in.next()
	if r.in.bad || i >= uint64(len(r.actors)) {
		return nil, dot, fmt.Errorf("%w: a span's dot is cut short, or of no actor", ErrFacts)
	}
	r.last[i] += uint64(int64(zigzag>>1) ^ -int64(zigzag&1))
	if r.last[i] == 0 {
		return nil, dot, fmt.Errorf("%w: a span's dot has the counter 0", ErrFacts)
	}
	return r.element, spanDot{uint32(i), r.last[i]}, nil
}
