package filters

import (
	"fmt"
	"slices"
)

// SegmentsOf makes the log of marks ask for a flush when its segment has so many bytes.
func (o *Options) SegmentsOf(bytes int64) { o.segmentBytes = bytes }

// Cut waits until the filters that were dropped are cut out.
func (o *Owner) Cut() { o.fs.cutter.done.Wait() }

// TrimLooks returns how many open slices were looked at when pages had to leave memory.
func (o *Owner) TrimLooks() uint64 {
	r := &o.fs.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks
}

// CheckRing returns what is wrong with the ring of slices that may have pages in memory: one that is not open or not listed is in it, or one
// that is open and was used is not. Nothing is under way.
func (o *Owner) CheckRing() error {
	r := &o.fs.ring
	all := o.fs.all()
	for _, f := range all {
		open := f.isOpen() && !f.opt.Load().InMemory
		if in := f.place > 0; in && !open || !in && open && f.used.Load()&usedInRing != 0 {
			return fmt.Errorf("%s: in the ring: %v, open: %v, used: %x", f.name, in, open, f.used.Load())
		}
	}
	for i, f := range r.parts {
		if f.place != i+1 || !slices.Contains(all, f) {
			return fmt.Errorf("%s: at place %d, it says %d; or it is not listed", f.name, i+1, f.place)
		}
	}
	return nil
}

// Made returns how many batches of slices were made for replicas since the open.
func (o *Owner) Made() uint64 { return o.fs.made.Load() }
