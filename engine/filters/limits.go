package filters

import (
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// ErrLimit is returned for a filter, or a key, that Options.Limits does not allow: *LimitError says which limit it is.
var ErrLimit = errors.New("engine: over a limit of filters")

// Limits bound what filters may take, for a store whose clients are not trusted with its memory and its disk. They hold for Create,
// and for a key that makes a filter grow; 0 is no limit. Filters that exist are served, whatever they have, and a key that is there is
// found: what is refused is a new filter, or a new key that needs more room.
type Limits struct {
	// Capacity is the largest capacity, in keys, that a filter may be made with.
	Capacity uint64
	// Filters is how many filters there may be, with those that were cleared.
	Filters int
	// Bytes is how large the layers of one filter may be together, in bytes of their bits. Where a filter has several slices, each has its part.
	Bytes uint64
	// TotalBytes is how large the layers of all filters may be together, also of those that were cleared. The open of a store then reads
	// the layers of one slice of each filter, and takes the others to be as large until they are opened.
	TotalBytes uint64
	// MemoryBytes is what filters that are in memory only may take there together: pages that have a bit, and 8 bytes for each page that their
	// layers have room for. Marks of several filters that come at one time may go over it by the pages of a key each.
	MemoryBytes int64
}

// Limit names one of Limits.
type Limit string

// The limits.
const (
	LimitCapacity    Limit = "keys that a filter is made for"
	LimitFilters     Limit = "filters"
	LimitBytes       Limit = "bytes of a filter"
	LimitTotalBytes  Limit = "bytes of all filters"
	LimitMemoryBytes Limit = "bytes of filters in memory only"
)

// LimitError says which limit refused a filter or a key. errors.Is finds ErrLimit in it.
type LimitError struct {
	Limit     Limit
	Want, Max uint64 // what there would be of it, and the most that there may be
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %d %s, the most is %d", ErrLimit, e.Want, e.Limit, e.Max)
}

// Unwrap makes errors.Is find ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// within returns an error where there would be more than the limit.
func within(limit Limit, want, most uint64) error {
	if most > 0 && want > most {
		return &LimitError{limit, want, most}
	}
	return nil
}

// MayCreate returns which limit a new filter would pass that several stores are to hold, *LimitError, where there are so many already.
func (fs *Filters) MayCreate(o bigset.FilterOptions, filters int) error {
	return fs.mayAdd(&o, filters)
}

// mayCreate returns which limit a new filter would pass. The lock of life is held.
func (fs *Filters) mayCreate(o *bigset.FilterOptions) error {
	fs.mu.RLock()
	n := len(fs.byName) + len(fs.cleared)
	fs.mu.RUnlock()
	return fs.mayAdd(o, n)
}

// mayAdd returns which limit a filter would pass, where there are so many others.
func (fs *Filters) mayAdd(o *bigset.FilterOptions, n int) error {
	shape, err := o.Shape(0)
	if err != nil {
		return err
	}
	most, bytes := &fs.opt.Limits, shape.Bytes*uint64(o.Slices)*uint64(o.Owners)
	for _, err := range []error{
		within(LimitCapacity, o.Capacity, most.Capacity),
		within(LimitBytes, bytes, most.Bytes),
		within(LimitFilters, uint64(n)+1, uint64(most.Filters)),
		within(LimitTotalBytes, uint64(fs.bytes.Load())+bytes, most.TotalBytes),
	} {
		if err != nil {
			return err
		}
	}
	if o.InMemory {
		return fs.mayPin(int64(o.Slices) * shape.TableBytes())
	}
	return nil
}

// mayPin returns an error where filters that are in memory only may not take so many bytes more.
func (fs *Filters) mayPin(bytes int64) error {
	return within(LimitMemoryBytes, uint64(max(0, fs.pinned.Bytes())+bytes), uint64(fs.opt.Limits.MemoryBytes))
}

// mayGrow counts a layer that is about to be added for a new key, or returns which limit it would pass. The slice's lock is held.
func (f *filterSlice) mayGrow(next bloomslice.Shape) error {
	most, opt := &f.of.fs.opt.Limits, f.opt.Load()
	if err := within(LimitBytes, (f.bytes+next.Bytes)*uint64(max(1, opt.Slices)), most.Bytes); err != nil {
		return err
	}
	if opt.InMemory {
		if err := f.of.fs.mayPin(next.TableBytes()); err != nil {
			return err
		}
	}
	total := f.of.fs.bytes.Add(int64(next.Bytes))
	if err := within(LimitTotalBytes, uint64(total), most.TotalBytes); err != nil {
		f.of.fs.bytes.Add(-int64(next.Bytes))
		return err
	}
	f.bytes += next.Bytes
	return nil
}

// mayMark returns an error where the key that was admitted last needs pages that filters in memory only may not take.
func (f *filterSlice) mayMark(opt *keyscheme.FilterOptions, slice *bloomslice.Slice) error {
	if !opt.InMemory || f.of.fs.opt.Limits.MemoryBytes == 0 {
		return nil
	}
	if needs := slice.Needs(); needs > 0 {
		return f.of.fs.mayPin(needs)
	}
	return nil
}

// count counts the layers of the slice to the bytes of all filters, instead of those that were counted. The slice's lock is held, or nobody
// else knows the slice.
func (f *filterSlice) count(layers []bloomslice.Layer) {
	bytes := uint64(0)
	for i := range layers {
		bytes += layers[i].Shape.Bytes
	}
	f.of.fs.bytes.Add(int64(bytes) - int64(f.bytes))
	f.bytes = bytes
}

// countAll counts the layers of all filters, where there is a limit to them. Of each it reads one slice: keys are spread evenly over all, so the
// others are taken to be as large until they are opened. A filter that can't be read counts nothing until then.
func (fs *Filters) countAll() {
	if fs.opt.Limits.TotalBytes == 0 {
		return
	}
	for _, f := range fs.list() {
		f.countOne()
		parts, idle := f.awakeAndIdle()
		for _, part := range parts {
			part.mu.Lock()
			f.guess = max(f.guess, part.bytes)
			part.mu.Unlock()
		}
		fs.bytes.Add(int64(f.guess) * int64(len(idle)))
	}
}

// countOne counts the layers of the first slice of a filter that can be read.
func (f *Filter) countOne() {
	for i := range f.slices {
		part := f.at(uint32(i))
		if part == nil {
			continue
		}
		part.mu.Lock()
		layers, err := part.storedLayers()
		if err == nil {
			part.count(layers)
		}
		part.mu.Unlock()
		if err == nil {
			return
		}
	}
}

// uncleared forgets that a filter of the name was cleared: it is back, or its keys are gone.
func (fs *Filters) uncleared(name []byte) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.bytes.Add(-fs.cleared[string(name)])
	delete(fs.cleared, string(name))
}
