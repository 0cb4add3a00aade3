package bigset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"bigset/clock"
	"bigset/fold"
)

// Portion is a part of a set on its way to another store: the keys of consecutive elements, packed, and what the sending store knew
// of the set when they were read. Like Facts it claims nothing about what it leaves out.
type Portion struct {
	Set []byte
	// Bound is the last element looked at, present or not: the portion is complete up to and including it. The next portion starts
	// after it. It is nil if Done: then the portion is complete to the end of the set.
	Bound []byte
	Done  bool
	// Count is the number of keys in Keys, which are packed; see docs/format.md.
	Count int
	Keys  []byte
	// Seen and Dead are those of the sender at the moment of the read; they are shared: read only. Seen is not a fact and is never
	// joined: a finished copy is checked against it. A sender that has just sent Dead may leave it out.
	Seen, Dead *clock.Clock
}

// PortionBytesMax is the largest portion that may be asked for, in bytes of keys as they are on disk.
const PortionBytesMax = 64 << 20

// Facts returns the unpacked content of the portion. Its error for malformed bytes is ErrFacts.
func (p *Portion) Facts() (Facts, error) {
	f := Facts{Set: p.Set, Dead: p.Dead}
	r := NewPortionReader(p.Keys)
	for r.More() {
		element, dot, err := r.Next()
		if err != nil {
			return Facts{}, err
		}
		if n := len(f.Keys); n > 0 && string(f.Keys[n-1].Name) == string(element) {
			f.Keys[n-1].Dots = append(f.Keys[n-1].Dots, r.Dot(dot))
		} else {
			f.Keys = append(f.Keys, fold.Element{Name: append([]byte{}, element...), Dots: []clock.Dot{r.Dot(dot)}})
		}
	}
	return f, nil
}

// Pack sets the keys of the portion to the dots of elements, both in ascending order. Facts inverts it.
func (p *Portion) Pack(elements []fold.Element) {
	w := PortionWriter{}
	p.Count = 0
	for _, e := range elements {
		for _, d := range e.Dots {
			w.Add(e.Name, []byte(d.Actor), d.Counter)
			p.Count++
		}
	}
	p.Keys = w.Keys()
}

// PortionWriter packs keys, in ascending order. A packed key has: the number of bytes that its element shares with the one before;
// the number of bytes that follow, and these bytes; the number of its actor, followed, if it is new, by its length and bytes; and
// the difference of its counter from the actor's last, zigzag. All numbers are uvarints. The zero value has no keys yet.
type PortionWriter struct {
	keys    []byte
	element []byte
	actors  map[string]int
	names   []string // of the actors, by number
	at      int      // the number of the last key's actor
	last    []uint64 // counter of each actor
}

// Keys returns the keys packed so far. They are valid until the next Add.
func (w *PortionWriter) Keys() []byte { return w.keys }

// Grow makes room for n more bytes of packed keys.
func (w *PortionWriter) Grow(n int) { w.keys = slices.Grow(w.keys, n) }

// Add packs one more key. It keeps neither element nor actor.
func (w *PortionWriter) Add(element, actor []byte, counter uint64) {
	shared := 0
	for shared < len(w.element) && shared < len(element) && w.element[shared] == element[shared] {
		shared++
	}
	w.keys = binary.AppendUvarint(w.keys, uint64(shared))
	w.keys = binary.AppendUvarint(w.keys, uint64(len(element)-shared))
	w.keys = append(w.keys, element[shared:]...)
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
	w.keys = binary.AppendUvarint(w.keys, uint64(i))
	if !ok {
		w.keys = append(binary.AppendUvarint(w.keys, uint64(len(actor))), actor...)
	}
	w.keys = binary.AppendVarint(w.keys, int64(counter-w.last[i]))
	w.last[i] = counter
}

// PortionKeyBytesMin is the least size of a packed key: a byte each for shared, rest, actor and counter.
const PortionKeyBytesMin = 4

// PortionReader unpacks what a PortionWriter has packed. The bytes may come from anywhere.
type PortionReader struct {
	in      packed
	element []byte
	order   int // how the element compares with the one before it
	actors  []clock.Actor
	last    []uint64
}

// PortionDot is a dot of an actor of a portion, by the actor's number.
type PortionDot struct {
	Actor   uint32
	Counter uint64
}

// NewPortionReader returns a reader of packed keys. It keeps them, and does not change them.
func NewPortionReader(keys []byte) *PortionReader { return &PortionReader{in: packed{b: keys}} }

// More reports whether there is another key.
func (r *PortionReader) More() bool { return len(r.in.b) > 0 }

// Order says how the last key's element compares with the one before it: below 0, 0 or above 0, as bytes.Compare.
func (r *PortionReader) Order() int { return r.order }

// Actors returns the actors that the keys read so far have named, by number.
func (r *PortionReader) Actors() []clock.Actor { return r.actors }

// Dot returns a dot that Next has returned.
func (r *PortionReader) Dot(d PortionDot) clock.Dot {
	return clock.Dot{Actor: r.actors[d.Actor], Counter: d.Counter}
}

// Next returns the next key. The element is valid until the next call. For malformed bytes the error is ErrFacts; then nothing more
// can be read.
func (r *PortionReader) Next() (element []byte, dot PortionDot, err error) {
	shared := r.in.number()
	rest := r.in.bytes()
	if r.in.bad || shared > uint64(len(r.element)) || int(shared)+len(rest) > ElementBytesMax {
		return nil, dot, fmt.Errorf("%w: a portion's element is cut short or too long", ErrFacts)
	}
	r.order = bytes.Compare(rest, r.element[shared:])
	r.element = append(r.element[:shared], rest...)
	i := r.in.number()
	if i == uint64(len(r.actors)) && !r.in.bad {
		actor := r.in.bytes()
		if len(actor) == 0 || len(actor) > clock.ActorBytesMax {
			return nil, dot, fmt.Errorf("%w: a portion's actor of %d bytes", ErrFacts, len(actor))
		}
		r.actors, r.last = append(r.actors, clock.Actor(actor)), append(r.last, 0)
	}
	zigzag := r.in.number()
	if r.in.bad || i >= uint64(len(r.actors)) {
		return nil, dot, fmt.Errorf("%w: a portion's dot is cut short, or of no actor", ErrFacts)
	}
	r.last[i] += uint64(int64(zigzag>>1) ^ -int64(zigzag&1))
	if r.last[i] == 0 {
		return nil, dot, fmt.Errorf("%w: a portion's dot has the counter 0", ErrFacts)
	}
	return r.element, PortionDot{uint32(i), r.last[i]}, nil
}

// packed is the unread rest of packed keys. After a number that can't be read nothing is left.
type packed struct {
	b   []byte
	bad bool
}

func (p *packed) number() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *packed) bytes() []byte {
	n := p.number()
	if n > uint64(len(p.b)) {
		p.bad, p.b = true, nil
		return nil
	}
	v := p.b[:n]
	p.b = p.b[n:]
	return v
}
