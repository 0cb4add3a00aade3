package clock

import (
	"fmt"
	"iter"
	"strings"
)

// Run is the counters First..Last of one actor, First at least 1.
type Run struct {
	Actor       Actor
	First, Last uint64
}

// Runs returns the clock as maximal runs, ordered by actor, then counter. The clock must not be mutated during the iteration.
func (c *Clock) Runs() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for i := range c.records() {
			r := &c.recs[i]
			for first, last := range r.runs() {
				if !yield(Run{r.actor, first, last}) {
					return
				}
			}
		}
	}
}

// Dots returns every dot of the clock, ordered by actor, then counter. The clock must not be mutated during the iteration. A clock
// that came from outside may hold 2^64 of them: check Len first.
func (c *Clock) Dots() iter.Seq[Dot] {
	return func(yield func(Dot) bool) {
		for run := range c.Runs() {
			for n := run.First; ; n++ {
				if !yield(Dot{run.Actor, n}) {
					return
				}
				if n == run.Last { // tested here because Last may be 2^64-1
					break
				}
			}
		}
	}
}

// GapCount returns the number of gaps: maximal runs of counters that are missing below the highest of their actor. It costs
// O(runs).
func (c *Clock) GapCount() int {
	gaps := 0
	for i := range c.records() {
		for first := range c.recs[i].runs() {
			if first != 1 {
				gaps++
			}
		}
	}
	return gaps
}

// stringRunsMax is how many runs String shows.
const stringRunsMax = 64

// String renders the clock for people, actors in hex: {61:1-5,7 62:3}. It ends in an ellipsis after 64 runs.
func (c *Clock) String() string {
	var b strings.Builder
	b.WriteByte('{')
	shown, last := 0, Actor("")
	for run := range c.Runs() {
		if shown == stringRunsMax {
			b.WriteString("…")
			break
		}
		switch {
		case run.Actor == last:
			b.WriteByte(',')
		case shown > 0:
			b.WriteByte(' ')
			fallthrough
		default:
			fmt.Fprintf(&b, "%x:", string(run.Actor))
		}
		if fmt.Fprintf(&b, "%d", run.First); run.Last != run.First {
			fmt.Fprintf(&b, "-%d", run.Last)
		}
		shown, last = shown+1, run.Actor
	}
	b.WriteByte('}')
	return b.String()
}

// runs returns the maximal runs of r. Runs that touch at a page border are joined.
func (r *Counters) runs() iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		j := joiner{first: 1, last: r.base, yield: yield}
		for i := range r.pages {
			if !r.pages[i].runsTo(&j) {
				return
			}
		}
		j.flush()
	}
}

// runsTo passes the page's runs to j; it returns false when the reader has stopped.
func (p *page) runsTo(j *joiner) bool {
	if p.bits == nil {
		return j.push(p.start(), p.end())
	}
	for lo, hi := range p.bits.Ranges() {
		if !j.push(p.start()|uint64(lo), p.start()+hi-1) {
			return false
		}
	}
	return true
}

// joiner holds back one run until it knows that the next run does not touch it. A last of 0 means that it holds none.
type joiner struct {
	first, last uint64
	yield       func(first, last uint64) bool
}

func (j *joiner) push(first, last uint64) bool {
	if j.last != 0 && j.last+1 == first {
		j.last = last
		return true
	}
	if !j.flush() {
		return false
	}
	j.first, j.last = first, last
	return true
}

func (j *joiner) flush() bool { return j.last == 0 || j.yield(j.first, j.last) }
