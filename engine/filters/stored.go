package filters

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// loadHead reads the filter's options, unless they were read before. Its errors are bigset.ErrNoFilter and bigset.ErrCorrupt.
func (f *filterSlice) loadHead() error {
	if f.opt.Load() != nil {
		return nil
	}
	value, closer, err := f.of.fs.db.View(f.prefix().AppendHead(nil, f.of.generation))
	if errors.Is(err, pebble.ErrNotFound) {
		return bigset.ErrNoFilter
	}
	if err != nil {
		return lsm.DiskError(err)
	}
	opt, err := f.decodeHead(value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return fmt.Errorf("%w: filter %q: %w", bigset.ErrCorrupt, f.of.name, err)
	}
	f.opt.Store(f.of.shared(opt))
	return nil
}

// decodeHead decodes the head of the slice.
func (f *filterSlice) decodeHead(value []byte) (opt keyscheme.FilterOptions, err error) {
	opt, err = keyscheme.DecodeFilterHead(value)
	if err == nil && uint32(f.index) >= opt.Slices {
		err = fmt.Errorf("slice %d of %d", f.index, opt.Slices)
	}
	if err == nil && opt.Generation != f.of.generation {
		err = fmt.Errorf("a head of generation %d, in generation %d", opt.Generation, f.of.generation)
	}
	return opt, err
}

// shared returns options that all slices of the filter share, if theirs are equal.
func (f *Filter) shared(opt keyscheme.FilterOptions) *keyscheme.FilterOptions {
	if known := f.options.Load(); known != nil && *known == opt {
		return known
	}
	f.options.CompareAndSwap(nil, &opt)
	return &opt
}

// storedLayers returns the layers of a closed filter. The lock is held.
func (f *filterSlice) storedLayers() (layers []bloomslice.Layer, err error) {
	if f.rest != nil && f.rest.layers != nil {
		return f.rest.layers, nil
	}
	if err := f.loadHead(); err != nil {
		return nil, err
	}
	layers = []bloomslice.Layer{}
	err = f.of.fs.db.Each(f.prefix().Layers(f.of.generation), func(key, value []byte) error {
		l, err := f.decodeLayer(key, value)
		layers = append(layers, l)
		return err
	})
	if err != nil {
		return nil, lsm.DiskError(err)
	}
	f.remember(layers)
	return layers, nil
}

func (f *filterSlice) decodeLayer(raw, value []byte) (l bloomslice.Layer, err error) {
	key, err := keyscheme.Decode(raw)
	if err != nil {
		return l, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
	}
	fk, ok := keyscheme.DecodeFilterKey(key.Rest)
	if !ok {
		return l, fmt.Errorf("%w: key of a layer of filter %q", bigset.ErrCorrupt, f.of.name)
	}
	if l, err = keyscheme.DecodeFilterLayer(value); err != nil {
		return l, fmt.Errorf("%w: layer %d of filter %q: %w", bigset.ErrCorrupt, fk.Layer.Index, f.of.name, err)
	}
	l.ID = fk.Layer
	return l, nil
}

// pageSource reads the pages of a filter.
type pageSource struct{ f *filterSlice }

// keyBuffers has buffers for keys that are looked up.
var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

// Page implements bloomslice.Source.
func (p pageSource) Page(id bloomslice.LayerID, page uint32) ([]byte, error) {
	buf := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buf)
	*buf = keyscheme.AppendFilterPrefix((*buf)[:0], p.f.of.name, uint32(p.f.index))
	n := len(*buf)
	*buf = keyscheme.FilterPrefix((*buf)[:n:n]).AppendPage(*buf, p.f.of.generation, id, page)
	value, closer, err := p.f.of.fs.db.View((*buf)[n:])
	switch {
	case err == nil:
		value = bytes.Clone(value)
		err = closer.Close()
	case errors.Is(err, pebble.ErrNotFound):
		value, err = nil, nil
	}
	if p.f.gone.Load() { // its pages may have been about to be removed
		return nil, bigset.ErrNoFilter
	}
	p.f.of.fs.faults.Add(1)
	return value, err
}
