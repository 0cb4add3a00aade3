package clock

import (
	"encoding/binary"
	"iter"
)

// A clock that is too large for one value is stored in parts, so that a change rewrites only one part. An actor has a part for each
// page that is neither empty nor full, under the page's index. Part 0 has all the rest: base, extents and page 0. A full run takes
// a few bytes wherever it is, so part 0 is small except for page 0's own values. The union of the parts is the actor's counters. A
// page that fills up, or that the base reaches, moves to part 0; what its own part held by then stays true.

// Parts returns the numbers of the parts that the counters have, in ascending order.
func (r *Counters) Parts() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if r == nil || r.hasRest() && !yield(0) {
			return
		}
		for i := range r.pages {
			if p := &r.pages[i]; p.bits != nil && p.first != 0 && !yield(p.first) {
				return
			}
		}
	}
}

// HasPart reports whether the counters have a part of that number.
func (r *Counters) HasPart(n uint64) bool {
	switch {
	case r == nil:
		return false
	case n == 0:
		return r.hasRest()
	}
	p := r.pageAt(n)
	return p != nil && p.bits != nil
}

// hasRest reports whether the counters have a part 0.
func (r *Counters) hasRest() bool {
	if r.base != 0 {
		return true
	}
	for i := range r.pages {
		if p := &r.pages[i]; p.bits == nil || p.first == 0 {
			return true
		}
	}
	return false
}

// AppendPart appends the canonical encoding of the clock that holds part n of the counters and nothing else. If the counters have
// no such part, it encodes the empty clock. It costs O(part); part 0 also costs O(number of pages).
func (r *Counters) AppendPart(dst []byte, n uint64) []byte {
	if !r.HasPart(n) {
		return new(Clock).Append(dst)
	}
	part := Counters{actor: r.actor}
	if n != 0 {
		part.pages = []page{*r.pageAt(n)}
	} else {
		part.base = r.base
		for i := range r.pages {
			if p := &r.pages[i]; p.bits == nil || p.first == 0 {
				part.pages = append(part.pages, *p)
			}
		}
	}
	part.count = part.base
	for i := range part.pages {
		part.count += part.pages[i].size()
	}
	return part.append(dst)
}

// append appends the encoding of the clock that holds these counters alone.
func (r *Counters) append(dst []byte) []byte {
	if r.count == 1 {
		dst = binary.AppendUvarint(append(dst, formDot), r.Max())
		return append(dst, r.actor...)
	}
	var w pageWriter
	return w.section(append(dst, formClock, 1), r)
}

// CountIn returns how many counters from first to last are in the clock. It costs O(pages between them).
func (r *Counters) CountIn(first, last uint64) uint64 {
	if first = max(first, 1); r == nil || last < first {
		return 0
	}
	sum := uint64(0)
	if first <= r.base {
		sum = min(last, r.base) - first + 1
		first = r.base + 1
	}
	if last <= r.base {
		return sum
	}
	return sum + r.cloudCount(first, last)
}
