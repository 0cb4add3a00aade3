package filters

import (
	"sync/atomic"
	"unsafe"
)

// counts count keys. Goroutines that run beside each other count in different cache lines, mostly: one for all would go from
// processor to processor with each check.
type counts [8]struct {
	hits, misses atomic.Uint64
	_            [48]byte // the rest of a cache line
}

// add counts keys. Which line it uses follows from where the goroutine's stack is.
func (c *counts) add(hits, misses uint64) {
	var here byte
	line := &c[uint64(uintptr(unsafe.Pointer(&here)))>>11*0x9E3779B97F4A7C15>>61]
	if hits > 0 {
		line.hits.Add(hits)
	}
	if misses > 0 {
		line.misses.Add(misses)
	}
}

// sums returns what was counted so far.
func (c *counts) sums() (hits, misses uint64) {
	for i := range c {
		hits += c[i].hits.Load()
		misses += c[i].misses.Load()
	}
	return hits, misses
}

// filterCounts are the counts of a filter, which it has when it was used.
type filterCounts struct {
	checks, marks     counts
	pageIns, pageOuts atomic.Uint64
}

// counted returns the counts of the filter, to be added to.
func (f *Filter) counted() *filterCounts {
	if c := f.counts.Load(); c != nil {
		return c
	}
	f.counts.CompareAndSwap(nil, &filterCounts{})
	return f.counts.Load()
}
