package filters

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// idleSums are the summed figures of the idle slices of a filter. A slice that wakes never becomes idle again, so if the number of
// idle slices is unchanged, the slices are the same.
type idleSums struct {
	slices int
	info   Info
}

// awakeAndIdle returns the slices that were used since the open, and the indexes of the others.
func (f *Filter) awakeAndIdle() (parts []*filterSlice, idle []uint32) {
	for i := range f.slices {
		switch part := f.slices[i].Load(); part {
		case nil:
		case &idleSlice:
			idle = append(idle, uint32(i))
		default:
			parts = append(parts, part)
		}
	}
	return parts, idle
}

// addIdle adds the figures of idle slices, which stay idle, and returns how many of them exist. It wakes a slice with an error,
// which then reports it.
func (f *Filter) addIdle(info *Info, idle []uint32) (there int, err error) {
	if len(idle) == 0 {
		return 0, nil
	}
	sums := f.idle.Load()
	if sums == nil || sums.slices != len(idle) {
		var wrong []*filterSlice
		if sums, wrong, err = f.sumIdle(idle); err != nil {
			return 0, err
		}
		for _, part := range wrong {
			if e := part.addTo(info); !errors.Is(e, bigset.ErrNoFilter) {
				there++
				err = errors.Join(err, e)
			}
		}
		if len(wrong) == 0 {
			f.idle.Store(sums)
		}
	}
	if sums.info.SlicesHere == 0 {
		return there, err
	}
	info.SlicesHere += sums.info.SlicesHere
	info.Options = sums.info.Options
	info.Capacity += sums.info.Capacity
	info.Size += sums.info.Size
	info.Storage += sums.info.Storage
	info.Pages += sums.info.Pages
	return there + sums.info.SlicesHere, err
}

// sumIdle reads the figures of idle slices, all with one iterator. It returns those that can't be read this way, and wakes them.
func (f *Filter) sumIdle(idle []uint32) (sums *idleSums, wrong []*filterSlice, err error) {
	upper := keyscheme.SlotRange(0, keyscheme.SlotMax).Upper
	it, err := f.fs.db.NewIter(&pebble.IterOptions{UpperBound: upper})
	if err != nil {
		return nil, nil, lsm.DiskError(err)
	}
	defer func() { _ = it.Close() }() // the slice that is woken for an error meets it again
	sums = &idleSums{slices: len(idle)}
	for _, i := range idle {
		part := newFilterSlice(f, i)
		if !part.readIdle(it, &sums.info) {
			if part = f.at(i); part != nil {
				wrong = append(wrong, part)
			}
		}
	}
	return sums, wrong, nil
}

// readIdle adds the figures in the head and the layers of a slice. It reports false if they do not exist, or can't be read.
func (f *filterSlice) readIdle(it *pebble.Iterator, info *Info) bool {
	prefix := f.prefix()
	head := prefix.AppendHead(nil, f.of.generation)
	if !it.SeekGE(head) || !bytes.Equal(it.Key(), head) {
		return false
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return false
	}
	opt, err := f.decodeHead(value)
	if err != nil {
		return false
	}
	var layers []bloomslice.Layer
	for end := prefix.Layers(f.of.generation).Upper; it.Next() && comparator.Compare(it.Key(), end) < 0; {
		value, err := it.ValueAndErr()
		if err != nil {
			return false
		}
		l, err := f.decodeLayer(it.Key(), value)
		if err != nil {
			return false
		}
		layers = append(layers, l)
	}
	if it.Error() != nil {
		return false
	}
	info.SlicesHere++
	info.addLayers(f.of.shared(opt), slices.Clip(layers))
	return true
}
