package filters

import (
	"fmt"
	"slices"
	"unsafe"

	"bigset"
	"bigset/bloomslice"
)

// SegmentsOf makes the log of marks ask for a flush when its segment has that many bytes.
func (o *Options) SegmentsOf(bytes int64) { o.segmentBytes = bytes }

// Excised waits until the filters that were dropped are excised.
func (o *Owner) Excised() { o.fs.exciser.done.Wait() }

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
	all := o.fs.awake()
	for _, f := range all {
		open := f.isOpen() && !f.opt.Load().InMemory
		if in := f.place > 0; in && !open || !in && open && f.used.Load()&usedInRing != 0 {
			return fmt.Errorf("%s: in the ring: %v, open: %v, used: %x", f.of.name, in, open, f.used.Load())
		}
	}
	for i, f := range r.parts {
		if int(f.place) != i+1 || !slices.Contains(all, f) {
			return fmt.Errorf("%s: at place %d, it says %d; or it is not listed", f.of.name, i+1, f.place)
		}
	}
	return nil
}

// Made returns how many batches of slices were made for replicas since the open.
func (o *Owner) Made() uint64 { return o.fs.made.Load() }

// Awake returns how many slices were used since the open.
func (o *Owner) Awake() int { return len(o.fs.awake()) }

// LayerBytes returns how large the layers of all filters are taken to be.
func (o *Owner) LayerBytes() int64 { return o.fs.bytes.Load() }

// SliceBytes is what a slice that was used takes in memory, beside what few have.
const SliceBytes = unsafe.Sizeof(filterSlice{})

// Part returns a slice of the filter as it is in memory.
func (f *Filter) Part(index uint32) any { return f.at(index) }

// Wake does what a goroutine does that has found a slice idle.
func (f *Filter) Wake(index uint32) any { return f.wake(index) }

// DigestDuring works out the digest of a slice. Between the reading of its pages and the end it calls change.
func (f *Filter) DigestDuring(index uint32, change func()) (sum [16]byte) {
	part := f.at(index)
	_, mine, err := part.beginDigest(&sum)
	d := bigset.SliceDigest{}
	if err == nil {
		err = part.digestPages(&d)
	}
	if err != nil {
		panic(err)
	}
	change()
	part.endDigest(&d.Sum, mine, true)
	return d.Sum
}

// DropSums has a slice forget the hashes of its pages, and its digest. It reports whether it had any.
func (f *Filter) DropSums(index uint32) (had bool) {
	part := f.at(index)
	part.mu.Lock()
	defer part.mu.Unlock()
	had = part.rest != nil && part.rest.sums != nil
	part.dropSums()
	part.changed()
	return had
}

// TableBytes returns what tables of open slices take in memory.
func (o *Owner) TableBytes() int64 { return o.fs.resident.Tables.Load() }

// SumsDuring collects the hashes of a slice's pages. Between the reading of the pages and the end it calls change.
func (f *Filter) SumsDuring(index uint32, change func()) {
	part := f.at(index)
	s := part.beginSums()
	_, whole, err := part.eachPage(nil, func(p bigset.PageSum, layers []bloomslice.Layer) bool {
		s.add(p, layers)
		return true
	})
	if err != nil {
		panic(err)
	}
	change()
	part.endSums(&s, whole)
}
