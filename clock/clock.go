package clock

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Clock is a set of dots: per actor a base (the counters 1..base, which make up the version vector) and a cloud of counters beyond
// a gap. It only grows by Add and its kin; Subtract and Intersect make new sets out of it in place. The zero value is empty and
// ready, and a nil *Clock reads as empty.
//
// A Clock is not safe for concurrent mutation. Any number of goroutines may read and Clone one while no goroutine mutates it.
type Clock struct {
	recs  []Counters            // sorted by actor, none of them empty
	owner atomic.Pointer[token] // the right to write in place; nil until the first write after a Clone
}

// token is the right to write: a page list or page that carries a clock's token belongs to that clock alone. Clone takes the token
// away, so that nothing needs to be marked as shared. A token is not of size zero, because pointers to distinct values of size zero
// may be equal.
type token struct{ _ byte }

// Of returns a clock that holds dots.
func Of(dots ...Dot) *Clock {
	c := new(Clock)
	for _, d := range dots {
		c.Add(d)
	}
	return c
}

// Add puts d into the clock and reports whether it is new. A dot that is not Valid is no event: Add ignores it and returns false.
// Adding the counter after base only increments base and allocates nothing.
func (c *Clock) Add(d Dot) bool {
	if d.Counter == 0 {
		return false
	}
	i, ok := c.find(string(d.Actor))
	if !ok {
		if !d.Actor.valid() {
			return false
		}
		c.insert(i, d.Actor)
	}
	return c.recs[i].add(d.Counter, c.token())
}

// AddRange puts the counters first..last of actor a into the clock. Memory and time depend on the pages of the cloud that they
// touch, not on the number of counters. A first of 0 means 1. AddRange does nothing if last < first or if a is not a valid actor.
func (c *Clock) AddRange(a Actor, first, last uint64) {
	if first = max(first, 1); last < first || !a.valid() {
		return
	}
	i, ok := c.find(string(a))
	if !ok {
		c.insert(i, a)
	}
	c.recs[i].addRange(first, last, c.token())
}

// Contains reports whether d is in the clock.
func (c *Clock) Contains(d Dot) bool {
	i, ok := c.find(string(d.Actor))
	return ok && c.recs[i].Contains(d.Counter)
}

// ContainsBytes is Contains for an actor in bytes that the caller keeps; it allocates nothing.
func (c *Clock) ContainsBytes(actor []byte, counter uint64) bool {
	i, ok := c.find(stringOf(actor))
	return ok && c.recs[i].Contains(counter)
}

// Counters returns the counters of an actor, or nil if the clock has none of it (a nil *Counters is empty). The result belongs to
// the clock and is valid until the clock is next mutated; to keep it, take it from a Clone that is not mutated. Counters
// allocates nothing.
func (c *Clock) Counters(a Actor) *Counters {
	if i, ok := c.find(string(a)); ok {
		return &c.recs[i]
	}
	return nil
}

// Max returns the highest counter of a, 0 if there is none.
func (c *Clock) Max(a Actor) uint64 { return c.Counters(a).Max() }

// Base returns the highest n for which 1..n of a are all in the clock, 0 if 1 is not.
func (c *Clock) Base(a Actor) uint64 { return c.Counters(a).Base() }

// Len returns the number of dots; 2^64-1 stands for itself and for everything above. It costs one addition per actor.
func (c *Clock) Len() uint64 {
	sum := uint64(0)
	for i := range c.records() {
		n, carry := bits.Add64(sum, c.recs[i].count, 0)
		if carry != 0 {
			return 1<<64 - 1
		}
		sum = n
	}
	return sum
}

// Empty reports whether the clock holds no dot.
func (c *Clock) Empty() bool { return len(c.records()) == 0 }

// Actors returns the actors that have a dot in the clock, sorted by their bytes. The slice is the caller's.
func (c *Clock) Actors() []Actor {
	names := make([]Actor, len(c.records()))
	for i := range names {
		names[i] = c.recs[i].actor
	}
	return names
}

// Clone returns a copy; afterwards both may be mutated independently. It costs O(actors): lists and pages are shared, and copied by
// whichever side writes to them first. The only field of c that Clone writes is one that no reading method looks at, so Clone needs
// no lock against readers of c, only against mutators.
func (c *Clock) Clone() *Clock {
	if c == nil {
		return new(Clock)
	}
	if c.owner.Load() != nil {
		c.owner.Store(nil)
	}
	return &Clock{recs: slices.Clone(c.recs)}
}

// HeapBytes returns roughly how much memory the clock keeps alive, including what it shares with clones.
func (c *Clock) HeapBytes() int {
	n := int(unsafe.Sizeof(Clock{}))
	for i := range c.records() {
		n += c.recs[i].heapBytes()
	}
	return n
}

// token returns the clock's right to write, and makes a new one if the clock has none.
func (c *Clock) token() *token {
	t := c.owner.Load()
	if t == nil {
		t = new(token)
		c.owner.Store(t)
	}
	return t
}

func (c *Clock) records() []Counters {
	if c == nil {
		return nil
	}
	return c.recs
}

// actorsLinear is the number of actors up to which a linear search beats a binary one.
const actorsLinear = 6

// find returns the index of actor's record and true, or the index at which it would be inserted and false.
func (c *Clock) find(actor string) (int, bool) {
	recs := c.records()
	if len(recs) <= actorsLinear {
		for i := range recs {
			if string(recs[i].actor) == actor {
				return i, true
			}
		}
	}
	lo, hi := 0, len(recs)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if string(recs[mid].actor) < actor {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(recs) && string(recs[lo].actor) == actor
}

func (c *Clock) insert(i int, a Actor) {
	c.recs = slices.Insert(c.recs, i, Counters{actor: a, owner: c.token()})
}

// stringOf looks at b as a string without copying it. The string must not be kept.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
