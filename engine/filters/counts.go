package filters

import (
	"sync/atomic"
	"unsafe"
)

// counts counts keys. Concurrent goroutines mostly count in different cache lines: a single line would move from processor to
// processor with each check.
type counts [8]struct {
	hits, misses atomic.Uint64
	_            [48]byte // the rest of a cache line
}

// add counts keys. It chooses the line by the address of the goroutine's stack.
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

// filterCounts are the counts of a filter, allocated at its first use.
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
