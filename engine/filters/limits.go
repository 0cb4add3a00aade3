package filters

import (
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
)

// ErrLimit is returned for a filter, or a key, that Options.Limits does not allow: *LimitError says which limit it is.
var ErrLimit = errors.New("engine: limit of filters exceeded")

// Limits bound what filters may take, for a store that does not trust its clients with its memory and its disk. They apply to
// Create, and to a key that makes a filter grow; 0 is no limit. Existing filters are served, whatever they have, and a key that is
// present is found: only a new filter, or a new key that needs more room, is refused.
type Limits struct {
	// Capacity is the largest capacity, in keys, with which a filter may be made.
	Capacity uint64
	// Filters is the largest number of filters, including those that were cleared.
	Filters int
	// Bytes is the largest sum of the layers of one filter, in bytes of their bits. If a filter has several slices, each has its
	// part.
	Bytes uint64
	// TotalBytes is the largest sum of the layers of all filters, including those that were cleared. With this limit, opening a
	// store reads the layers of one slice of each filter, and assumes that the others are as large until they are opened.
	TotalBytes uint64
	// MemoryBytes is the most that filters that are only in memory may take together: pages that have a bit, and 8 bytes for each
	// page that their layers have room for. Concurrent marks of several filters may exceed it by the pages of one key each.
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
	Want, Max uint64 // what the new total would be, and the maximum
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %d %s, at most %d", ErrLimit, e.Want, e.Limit, e.Max)
}

// Unwrap makes errors.Is find ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// within returns an error if want exceeds the limit.
func within(limit Limit, want, most uint64) error {
	if most > 0 && want > most {
		return &LimitError{limit, want, most}
	}
	return nil
}

// MayCreate returns a *LimitError if a new filter that several stores are to hold would exceed a limit, given the number of
// existing filters.
func (fs *Filters) MayCreate(o bigset.FilterOptions, filters int) error {
	return fs.mayAdd(&o, filters)
}

// mayCreate returns the limit that a new filter would exceed. The lock life is held.
func (fs *Filters) mayCreate(o *bigset.FilterOptions) error {
	fs.mu.RLock()
	n := len(fs.byName) + len(fs.cleared)
	fs.mu.RUnlock()
	return fs.mayAdd(o, n)
}

// mayAdd returns the limit that a filter would exceed, given the number n of others.
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

// mayPin returns an error if filters that are only in memory may not take that many bytes more.
func (fs *Filters) mayPin(bytes int64) error {
	return within(LimitMemoryBytes, uint64(max(0, fs.pinned.Bytes())+bytes), uint64(fs.opt.Limits.MemoryBytes))
}

// mayGrow counts a layer that is about to be added for a new key, or returns the limit that it would exceed. The slice's lock is
// held.
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

// mayMark returns an error if the key that was admitted last needs pages that filters that are only in memory may not take.
func (f *filterSlice) mayMark(opt *keyscheme.FilterOptions, slice *bloomslice.Slice) error {
	if !opt.InMemory || f.of.fs.opt.Limits.MemoryBytes == 0 {
		return nil
	}
	if needs := slice.Needs(); needs > 0 {
		return f.of.fs.mayPin(needs)
	}
	return nil
}

// count adds the layers of the slice to the bytes of all filters, in place of those that were counted before. The slice's lock is
// held, or no other goroutine knows the slice.
func (f *filterSlice) count(layers []bloomslice.Layer) {
	bytes := uint64(0)
	for i := range layers {
		bytes += layers[i].Shape.Bytes
	}
	f.of.fs.bytes.Add(int64(bytes) - int64(f.bytes))
	f.bytes = bytes
}

// countAll counts the layers of all filters, if they are limited. It reads one slice of each filter: keys are spread evenly, so the
// others are assumed to be as large until they are opened. A filter that can't be read counts nothing until then.
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
