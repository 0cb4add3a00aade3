package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// VerifyOptions configure Verify.
type VerifyOptions struct {
	// Set is the set to verify; nil is all of them.
	Set []byte
	// BytesPerSecond, if it is not 0, makes it a scrub that reads no faster: it may run for hours while readers and
	// writers continue.
	BytesPerSecond int64
	// Progress is called every few thousand keys, and after each piece of a scrub, if it is not nil.
	Progress func(VerifyReport)
}

// VerifyReport reports what Verify has found.
type VerifyReport struct {
	Sets           int    `json:"sets"`
	Keys           uint64 `json:"keys"`      // element keys that an iterator shows
	LiveKeys       uint64 `json:"live_keys"` // of Keys, those whose dot is live
	DeadKeys       uint64 `json:"dead_keys"` // of Keys, dead ones that are not yet dropped
	UnresolvedKeys uint64 `json:"open_keys"` // of Keys, those whose wide context is not resolved yet, live or dead
	LiveDots       uint64 `json:"live_dots"` // by clocks and tombstones
	Elements       uint64 `json:"elements"`  // present
	// Counts are of bloom filters.
	filters.Counts
	// Problems are the first ProblemsMax problems; ProblemCount counts all.
	Problems     []Problem `json:"problems,omitempty"`
	ProblemCount int       `json:"problem_count"`
}

// ProblemsMax bounds the problems that a report names.
const ProblemsMax = 100

// Problem is one fault of a store.
type Problem struct {
	Set     []byte `json:"set,omitempty"`
	Filter  []byte `json:"filter,omitempty"`
	Element []byte `json:"element,omitempty"`
	What    string `json:"what"`
}

// OK reports whether no problem was found.
func (r *VerifyReport) OK() bool { return r.ProblemCount == 0 }

func (r *VerifyReport) problem(set, element []byte, format string, args ...any) {
	r.add(Problem{Set: bytes.Clone(set), Element: bytes.Clone(element), What: fmt.Sprintf(format, args...)})
}

func (r *VerifyReport) add(p Problem) {
	if r.ProblemCount++; len(r.Problems) < ProblemsMax {
		r.Problems = append(r.Problems, p)
	}
}

// Verify checks the store, or one set. It checks that keys decode, are in order and in their set's slot; that pages
// of clocks and tombstones contain what their keys say; that Dead is within Seen; that every key's dot is in Seen;
// that no dot has two keys; that each live dot has exactly one key, so that nothing acknowledged is missing and
// nothing removed is back; and that the clock counts at least as many unresolved keys as exist. Filters are checked
// as far as they have rules. Verify reads everything once, while writers continue. An error means that it could not
// finish; faults of the store are in the report.
//
// Verify reports each set and filter in an unreadable block as a problem and continues after the block. After a
// Verify of the whole store, Damage returns what it found in this way.
//
// Verify reads at one moment, and while it runs the drop filter receives no new tombstones. With BytesPerSecond it is
// a scrub, which may take hours: it reads in small pieces, each at a moment of its own, and holds nothing up. In a set
// that takes several pieces, a scrub may overlook that the clock counts too few unresolved keys: up to as many as the
// store resolved, in any set, while the set was read.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (rep VerifyReport, err error) {
	if err := s.db.Enter(); err != nil {
		return rep, err
	}
	defer s.db.Leave()
	bounds := keyscheme.SlotRange(0, keyscheme.SlotMax)
	if o.Set != nil {
		if err := bigset.CheckName(o.Set); err != nil {
			return rep, err
		}
		bounds = keyscheme.NewPrefix(o.Set).All()
	}
	v := verifier{s: s, rep: &rep, only: o.Set, unread: map[lsm.Damaged]string{}}
	if o.Set == nil {
		problem := func(filter []byte, what string) { rep.add(Problem{Filter: bytes.Clone(filter), What: what}) }
		if v.filters, err = s.filters.Verify(filters.Findings{Counts: &rep.Counts, Problem: problem, Unread: v.unread}); err != nil {
			return rep, lsm.DiskError(err)
		}
	}
	for piece := int64(math.MaxInt64); bounds.Lower != nil; {
		if o.BytesPerSecond > 0 {
			piece = min(scrubBytes, max(o.BytesPerSecond/scrubPieces, 1))
		}
		read := int64(0)
		from := bounds.Lower
		bounds.Lower, read, err = s.verifyPiece(ctx, &v, bounds, piece, o.Progress)
		if err = lsm.DiskError(err); errors.Is(err, bigset.ErrCorrupt) {
			bounds.Lower, err = v.pass(ctx, keyscheme.Bounds{Lower: from, Upper: bounds.Upper}, err)
		}
		if err != nil {
			return rep, lsm.DiskError(err)
		}
		if bounds.Lower != nil {
			if o.Progress != nil {
				o.Progress(rep)
			}
			if err := pause(ctx, read, o.BytesPerSecond); err != nil {
				return rep, err
			}
		}
	}
	v.endSet()
	if v.filters != nil {
		if err = lsm.DiskError(v.filters.Finish()); err == nil {
			s.damages.Replace(v.unread)
		}
	}
	return rep, err
}

// A scrub reads scrubPieces pieces a second, each of at most scrubBytes of keys and values and with an iterator of
// its own.
const (
	scrubPieces = 100
	scrubBytes  = 1 << 20
)

// verifyPiece verifies keys from bounds.Lower on, about bytesMax bytes of them. It returns where to continue, nil at
// the end, and how many bytes it read.
func (s *Store) verifyPiece(ctx context.Context, v *verifier, bounds keyscheme.Bounds, bytesMax int64, progress func(VerifyReport)) (next []byte, read int64, err error) {
	e := s.readers.enter()
	defer s.readers.leave(e)
	lower := bounds.Lower
	if v.set != nil { // the set's clock and tombstone are read again, with the keys that they belong to
		lower = v.prefix
	}
	s.swapping.Lock()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: bounds.Upper})
	v.resolved = s.counters.rewriteResolved.Load()
	s.swapping.Unlock()
	if err != nil {
		return nil, 0, err
	}
	defer lsm.Closing(it, &err)
	if v.set != nil {
		if err := v.resume(it); err != nil {
			return nil, 0, err
		}
	}
	for ok := it.SeekGE(bounds.Lower); ok; ok = it.Next() {
		if read >= bytesMax && !v.within(it.Key()) {
			return bytes.Clone(it.Key()), read, nil
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, read, err
		}
		read += int64(len(it.Key()) + len(value))
		if err := v.key(it.Key(), value); err != nil {
			return nil, read, err
		}
		if v.read++; v.read%8192 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, read, err
			}
			if s.db.Closed() {
				return nil, read, bigset.ErrClosed
			}
			if progress != nil {
				progress(*v.rep)
			}
		}
	}
	return nil, read, it.Error()
}

// within reports whether a key belongs to the current element, or comes before the first element of the current set:
// those are read whole.
func (v *verifier) within(key []byte) bool {
	k, err := keyscheme.Decode(key)
	return err == nil && k.PrefixLen() > 0 && bytes.Equal(k.Set, v.set) && (k.Kind != keyscheme.KindElement || bytes.Equal(k.Element, v.element))
}

// verifier checks keys in the order in which they are read. A set may be read in pieces, each of a later moment: a
// dot that was live in the first and is in the last was live all along, so its key existed when its piece was read.
type verifier struct {
	s    *Store
	rep  *VerifyReport
	last []byte
	read uint64 // keys of all kinds

	filters *filters.Verifier      // nil if one set is verified
	unread  map[lsm.Damaged]string // what could not be read, with the damaged file

	only          []byte // the only set to verify; nil for all
	set           []byte // the current set, nil before the first
	prefix        []byte // of the set's keys
	flags         keyscheme.ClockFlags
	hasTombstone  bool // the set has a tombstone key
	seen, dead    *clock.Clock
	live          *clock.Clock // dots that were live in the first piece; nil before its first element
	found         *clock.Clock // dots that have a key
	unresolvedMax int64        // unresolved keys that the clock counts
	unresolved    int64        // unresolved keys found, in all pieces
	resolved      uint64       // unresolved keys of the store that were resolved before the current piece
	resolvedThen  uint64       // resolved, as of the set's first piece
	element       []byte       // the current element
	dots          []clock.Dot  // dots of element that are not in Dead
	wide          *clock.Clock // the contexts of the element's unresolved keys
	broken        bool         // the clock or tombstone cannot be read: nothing more can be checked in the set
}

func (v *verifier) key(raw, value []byte) error {
	if v.last != nil && comparator.Compare(v.last, raw) >= 0 {
		v.rep.problem(v.set, nil, "key %x does not come after %x", raw, v.last)
	}
	v.last = append(v.last[:0], raw...)
	k, err := keyscheme.Decode(raw)
	if err != nil {
		v.rep.problem(nil, nil, "%v", err)
		return nil
	}
	if k.PrefixLen() == 0 { // not a set's
		if v.filters != nil {
			return v.filters.Key(&k, value)
		}
		return nil
	}
	if n := k.PrefixLen(); v.set == nil || !bytes.Equal(v.prefix, raw[:n]) {
		v.endSet()
		v.beginSet(k.Set, raw[:n])
	}
	if k.Kind == keyscheme.KindElement {
		v.elementKey(&k, value)
	} else {
		v.head(&k, value)
	}
	return nil
}

// head checks a key that comes before a set's elements.
func (v *verifier) head(k *keyscheme.Key, value []byte) {
	switch k.Kind {
	case keyscheme.KindClock:
		cv, err := keyscheme.DecodeClockValue(value)
		if err != nil {
			v.bad("clock: %v", err)
			return
		}
		v.seen, v.flags = cv.Seen, cv.Flags
		v.unresolvedMax = cv.Unresolved
	case keyscheme.KindTombstone:
		dead, err := keyscheme.DecodeTombstoneValue(value)
		if err != nil {
			v.bad("tombstone: %v", err)
			return
		}
		v.dead, v.hasTombstone = dead, true
		v.needClock("a tombstone")
	case keyscheme.KindClockPage:
		if v.needClock("a page of a clock"); !v.broken {
			v.page(v.seen, keyscheme.FlagClockPages, "clock", k, value)
		}
	case keyscheme.KindTombstonePage:
		if v.needClock("a page of a tombstone"); !v.broken {
			v.page(v.dead, keyscheme.FlagTombstonePages, "tombstone", k, value)
		}
	default:
		v.rep.problem(v.set, nil, "a key of kind %v is stored", k.Kind)
	}
}

// page adds a page to its record. It checks that the page contains only dots of its actor and, except for page 0,
// only dots of its own range. Without the clock's flag pages are ignored: those of a tombstone may be left from
// before the set was emptied.
func (v *verifier) page(all *clock.Clock, flag keyscheme.ClockFlags, what string, k *keyscheme.Key, value []byte) {
	page, err := keyscheme.DecodePageValue(value)
	if err != nil {
		v.bad(fmt.Sprintf("page %d of actor %x of the %s: %%v", k.Page, k.Actor, what), err)
		return
	}
	for _, a := range page.Actors() {
		if string(a) != string(k.Actor) {
			v.rep.problem(v.set, nil, "page %d of actor %x of the %s holds dots of actor %x", k.Page, k.Actor, what, string(a))
		} else if c := page.Counters(a); k.Page != 0 && c.CountIn(k.Page<<clock.PageBits, k.Page<<clock.PageBits|(1<<clock.PageBits-1)) != c.Len() {
			v.rep.problem(v.set, nil, "page %d of actor %x of the %s holds dots of other pages", k.Page, k.Actor, what)
		}
	}
	if v.flags&flag != 0 {
		all.Union(page)
	}
}

// resume reads the head of the current set from a new iterator.
func (v *verifier) resume(it *pebble.Iterator) error {
	if v.broken || v.seen == nil {
		return nil
	}
	v.begun()
	for ok := it.SeekGE(v.prefix); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil || k.Kind == keyscheme.KindElement || !bytes.Equal(k.Set, v.set) {
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		v.head(&k, value)
	}
	return it.Error()
}

// begun records which dots are live before the set's first element.
func (v *verifier) begun() {
	if v.live == nil && v.seen != nil {
		v.live = v.seen.Clone()
		v.live.Subtract(v.dead)
	}
}

// bad reports a problem that prevents the current set from being read.
func (v *verifier) bad(format string, err error) {
	v.broken = true
	v.unread[lsm.Damaged{Name: string(v.set)}] = lsm.TableOf(err)
	v.rep.problem(v.set, nil, format, err)
}

// needClock reports keys of a set without a clock. A clock comes before all other keys of its set.
func (v *verifier) needClock(what string) {
	if v.seen == nil && !v.broken {
		v.broken = true
		v.rep.problem(v.set, nil, "%s without a clock", what)
	}
}

func (v *verifier) beginSet(name, prefix []byte) {
	*v = verifier{
		s: v.s, rep: v.rep, filters: v.filters, unread: v.unread, only: v.only, last: v.last, read: v.read, resolved: v.resolved, resolvedThen: v.resolved, set: bytes.Clone(name), prefix: bytes.Clone(prefix),
		dead: &clock.Clock{}, found: &clock.Clock{}, element: v.element[:0], dots: v.dots[:0],
	}
	if want := keyscheme.NewPrefix(name); !bytes.Equal(prefix, want) {
		v.broken = true
		v.rep.problem(v.set, nil, "keys in slot %08x, the set's is %08x", keyscheme.Prefix(prefix).Slot(), want.Slot())
		return
	}
	v.rep.Sets++
}

func (v *verifier) elementKey(k *keyscheme.Key, value []byte) {
	v.rep.Keys++
	if v.needClock("elements"); v.broken {
		return
	}
	v.begun()
	if string(v.element) != string(k.Element) {
		v.endElement()
		v.element = append(v.element[:0], k.Element...)
	}
	dot, dead := k.Dot(), v.dead.Contains(k.Dot())
	isUnresolved := keyscheme.IsUnresolved(value)
	if isUnresolved {
		if wide, err := fold.Widen(v.wide, value); err != nil {
			v.rep.problem(v.set, k.Element, "value: %v", err)
		} else {
			v.wide = wide
			v.unresolved++
			v.rep.UnresolvedKeys++
		}
	}
	// A dead add that the drop filter left out may become visible again next to the remove that keeps its context.
	if !v.found.Add(dot) && !(dead && isUnresolved && k.Op == keyscheme.OpRemove) {
		v.rep.problem(v.set, k.Element, "dot %v has two keys", dot)
	}
	switch {
	case !v.seen.Contains(dot):
		v.rep.problem(v.set, k.Element, "dot %v has a key and is not in the clock", dot)
	case dead:
		v.rep.DeadKeys++
		return
	case k.Op != keyscheme.OpAdd:
		v.rep.problem(v.set, k.Element, "dot %v is live and its key is no add", dot)
	}
	v.rep.LiveKeys++
	v.dots = append(v.dots, dot)
}

// endElement counts the current element if it is present.
func (v *verifier) endElement() {
	if v.wide != nil {
		v.dots = slices.DeleteFunc(v.dots, v.wide.Contains)
	}
	if len(v.dots) > 0 {
		v.rep.Elements++
	}
	v.dots, v.wide = v.dots[:0], nil
}

// endSet checks what can be checked only in a whole set.
func (v *verifier) endSet() {
	v.endElement()
	if v.set == nil || v.broken || v.seen == nil {
		return
	}
	if unresolved := v.unresolved - int64(v.resolved-v.resolvedThen); unresolved > v.unresolvedMax { // keys that were found first may be resolved by now
		v.rep.problem(v.set, nil, "the clock counts %d unresolved keys, there are %d", v.unresolvedMax, unresolved)
	}
	if flagged := v.flags&keyscheme.FlagTombstone != 0; flagged && !v.hasTombstone {
		v.rep.problem(v.set, nil, "the tombstone is gone")
	} else if !flagged && v.hasTombstone {
		v.rep.problem(v.set, nil, "the clock does not record the tombstone")
	}
	if !v.seen.Descends(v.dead) {
		v.rep.problem(v.set, nil, "the tombstone holds dots that the clock has not seen")
	}
	v.begun()
	v.rep.LiveDots += v.live.Len()
	v.live.Subtract(v.found)
	v.live.Subtract(v.dead)
	for run := range v.live.Runs() {
		v.rep.problem(v.set, nil, "live dots %x:%d-%d have no key", string(run.Actor), run.First, run.Last)
	}
}
