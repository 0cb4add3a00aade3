package filters

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/comparator"
	"bigset/keyscheme"
)

// Reader reads a filter as it was at one moment: concurrent marks, flushes and a drop do not change what it shows. It belongs to
// one goroutine, and must be closed.
type Reader struct {
	Options bigset.FilterOptions
	Layers  []bloomslice.Layer // in order. All keys that a count covers have their bits in the pages

	f     *filterSlice
	it    *pebble.Iterator
	pages keyscheme.Bounds
}

// Read flushes the filter and returns a reader of its content at that time. It does not open a closed filter. Errors are those of
// Flush, bigset.ErrCorrupt, and bigset.ErrRequest for a filter of more than one slice.
func (f *Filter) Read(ctx context.Context) (*Reader, error) {
	if len(f.slices) > 1 {
		return nil, fmt.Errorf("%w: filter %q has %d slices, and is read slice by slice", bigset.ErrRequest, f.name, len(f.slices))
	}
	if err := f.Flush(ctx); err != nil {
		return nil, err
	}
	part := f.at(0)
	if part == nil {
		return nil, bigset.ErrNoFilter
	}
	return part.reader()
}

// reader returns a reader of the stored content of the slice.
func (f *filterSlice) reader() (*Reader, error) {
	if err := f.of.fs.db.Enter(); err != nil {
		return nil, err
	}
	r := &Reader{f: f}
	f.mu.Lock()
	damaged := f.damaged()
	f.mu.Unlock()
	if damaged != nil {
		return nil, errors.Join(damaged, r.Close())
	}
	if err := r.open(); err != nil {
		return nil, errors.Join(f.readError(err), r.Close())
	}
	return r, nil
}

func (r *Reader) open() (err error) {
	f := r.f
	if err := f.loadHead(); err != nil {
		return err
	}
	opt := f.opt.Load()
	r.Options = bigset.FilterOptions{Options: opt.Options, InMemory: opt.InMemory, Durability: opt.Durability}
	prefix := f.prefix()
	layers := prefix.Layers(f.of.generation)
	r.pages = keyscheme.Bounds{Lower: layers.Upper, Upper: prefix.Generation(f.of.generation).Upper}
	if r.it, err = f.of.fs.db.NewIter(&pebble.IterOptions{LowerBound: layers.Lower, UpperBound: r.pages.Upper}); err != nil {
		return err
	}
	if f.gone.Load() { // its pages may have been about to be removed
		return bigset.ErrNoFilter
	}
	for ok := r.it.First(); ok && comparator.Compare(r.it.Key(), layers.Upper) < 0; ok = r.it.Next() {
		value, err := r.it.ValueAndErr()
		if err != nil {
			return err
		}
		l, err := f.decodeLayer(r.it.Key(), value)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, l)
	}
	return r.it.Error()
}

// Pages returns the stored pages, by layer, then by number; all others are zero. The bits are valid until the next page. An error,
// which is bigset.ErrCorrupt or the disk's, ends the sequence.
func (r *Reader) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		var bits []byte
		for ok := r.it.SeekGE(r.pages.Lower); ok; ok = r.it.Next() {
			p, err := r.page(bits[:0])
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(Page{}, r.f.readError(err))
				return
			}
			if bits = p.Bits; !yield(p, nil) {
				return
			}
		}
		if err := r.it.Error(); err != nil {
			yield(Page{}, r.f.readError(err))
		}
	}
}

// page decodes the page at which the iterator is.
func (r *Reader) page(bits []byte) (p Page, err error) {
	key, err := keyscheme.Decode(r.it.Key())
	if err != nil {
		return p, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
	}
	fk, ok := keyscheme.DecodeFilterKey(key.Rest)
	if !ok {
		return p, fmt.Errorf("%w: key of a page of filter %q", bigset.ErrCorrupt, r.f.of.name)
	}
	value, err := r.it.ValueAndErr()
	if err != nil {
		return p, err
	}
	if bits, err = bloomslice.DecodePage(bits, value); err != nil {
		return p, fmt.Errorf("page %d of layer %d: %w", fk.Page, fk.Layer.Index, err)
	}
	at, found := slices.BinarySearchFunc(r.Layers, fk.Layer, func(l bloomslice.Layer, id bloomslice.LayerID) int { return l.ID.Compare(id) })
	from := uint64(fk.Page) * bloomslice.PageBytes
	if !found || from >= r.Layers[at].Shape.Bytes {
		return p, fmt.Errorf("%w: page %d of layer %d of filter %q belongs to no layer", bigset.ErrCorrupt, fk.Page, fk.Layer.Index, r.f.of.name)
	}
	return Page{fk.Layer, fk.Page, bits[:min(bloomslice.PageBytes, r.Layers[at].Shape.Bytes-from)]}, nil
}

// Close ends the reading.
func (r *Reader) Close() (err error) {
	if r.f == nil {
		return nil
	}
	fs := r.f.of.fs
	r.f = nil
	defer fs.db.Leave()
	if r.it != nil {
		err = r.it.Close()
	}
	return err
}
