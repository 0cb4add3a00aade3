package filters

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Page is a page of the bits of a layer.
type Page struct {
	Layer bloomslice.LayerID
	Page  uint32
	Bits  []byte // at most bloomslice.PageBytes; bit 0 is the most significant of the first byte, and missing bytes at the end are zero
}

// Import makes a filter from layers and pages that were made elsewhere. The filter exists when all of it is on disk, and not
// before: after an error, or a crash, nothing of it is left except pages that are removed in the background or after the next open.
// The filter is closed.
//
// Layers come in their order; pages by layer, then by number; missing pages are zero. A page belongs to the caller again when the
// next one is requested. Until the last page has come, no range is dropped and no small set is rewritten, so pages must not make
// filters of the store. Errors are those of Create, that of pages, and bigset.ErrRequest for an invalid page or layer.
func (fs *Filters) Import(ctx context.Context, name []byte, o bigset.FilterOptions, layers []bloomslice.Layer, pages iter.Seq2[Page, error]) (*Filter, error) {
	if err := fs.db.Enter(); err != nil {
		return nil, err
	}
	defer fs.db.Leave()
	setDefaults(&o)
	if err := errors.Join(bigset.CheckFilterName(name), o.Check(), checkImport(o, layers)); err != nil {
		return nil, err
	}
	fs.passes.RLock() // no range is excised until then
	defer fs.passes.RUnlock()
	im := &importing{fs: fs, name: name, layers: layers}
	err := im.begin(ctx, o)
	if errors.Is(err, bigset.ErrFilterExists) {
		return fs.find(name), err
	}
	if err == nil {
		if err = im.run(ctx, pages); err != nil {
			fs.exciser.add(im.gone)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: import filter %q: %w", name, lsm.DiskError(err))
	}
	return im.f.of, nil
}

func checkImport(o bigset.FilterOptions, layers []bloomslice.Layer) error {
	switch {
	case o.Slices != 1 || o.Owners != 1:
		return fmt.Errorf("%w: bits can't be divided, a filter is imported into one slice of one owner", bigset.ErrRequest)
	case o.InMemory:
		return fmt.Errorf("%w: a filter in memory only has nothing to import", bigset.ErrRequest)
	case len(layers) == 0 || len(layers) > bloomslice.LayersMax:
		return fmt.Errorf("%w: a filter of %d layers", bigset.ErrRequest, len(layers))
	}
	for i, l := range layers {
		if err := l.Shape.Validate(); err != nil {
			return err
		}
		if i > 0 && layers[i-1].ID.Compare(l.ID) >= 0 || len(l.ID.Owner) > bloomslice.OwnerBytesMax {
			return fmt.Errorf("%w: layer %d of %q, out of order", bigset.ErrRequest, l.ID.Index, l.ID.Owner)
		}
	}
	return nil
}

// importing is one import. Its pages are written under a generation that the directory lists as dropped, until the batch that
// brings the head changes that.
type importing struct {
	fs     *Filters
	name   []byte
	f      *filterSlice
	prefix keyscheme.FilterPrefix
	opt    keyscheme.FilterOptions
	layers []bloomslice.Layer
	gone   droppedSlice
	last   *Page // the next page must come after it; nil at first
	batch  *pebble.Batch
	in     int // pages in the batch
	key    []byte
}

// begin takes a generation and records in the directory that its data is to be excised.
func (im *importing) begin(ctx context.Context, o bigset.FilterOptions) error {
	fs := im.fs
	fs.life.Lock()
	defer fs.life.Unlock()
	if err := errors.Join(ctx.Err(), fs.db.Writable(), fs.db.Room()); err != nil {
		return err
	}
	if err := im.mustBeNew(); err != nil {
		return err
	}
	generation := fs.nextGeneration()
	im.f = newFilter(fs, im.name, generation, 1).add(0)
	im.prefix = im.f.prefix()
	im.opt = keyscheme.FilterOptions{Options: o.Options, Generation: generation, Durability: o.Durability}
	im.gone = droppedSlice{string(im.name), 0, generation}
	batch := fs.db.NewBatch()
	if err := fs.commit(batch, errors.Join(
		batch.Set(im.gone.entry(), nil, nil),
		batch.Set(keyGeneration, binary.BigEndian.AppendUint64(nil, generation), nil))); err != nil {
		return err
	}
	fs.generation = generation
	return nil
}

// mustBeNew returns bigset.ErrFilterExists if a filter of the name exists, including one that was cleared.
func (im *importing) mustBeNew() error {
	if im.fs.listed(im.name) != nil {
		return bigset.ErrFilterExists
	}
	f, _, err := im.fs.unlisted(im.name)
	if err == nil && f != nil {
		err = fmt.Errorf("%w: it was cleared", bigset.ErrFilterExists)
	}
	return err
}

func (im *importing) run(ctx context.Context, pages iter.Seq2[Page, error]) (err error) {
	im.batch = im.fs.db.NewBatch()
	defer func() {
		if err != nil && im.batch != nil {
			err = errors.Join(err, im.batch.Close())
		}
	}()
	for p, err := range pages {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := im.add(p); err != nil {
			return err
		}
	}
	if err := im.write(); err != nil {
		return err
	}
	return im.finish()
}

// add writes a page.
func (im *importing) add(p Page) error {
	if im.last != nil && (bigset.PagePlace{Layer: im.last.Layer, Page: im.last.Page}).Compare(bigset.PagePlace{Layer: p.Layer, Page: p.Page}) >= 0 {
		return fmt.Errorf("%w: page %d of layer %d, out of order", bigset.ErrRequest, p.Page, p.Layer.Index)
	}
	im.last = &Page{Layer: p.Layer, Page: p.Page}
	at, found := slices.BinarySearchFunc(im.layers, p.Layer, func(l bloomslice.Layer, id bloomslice.LayerID) int { return l.ID.Compare(id) })
	if !found || uint64(p.Page)*bloomslice.PageBytes+uint64(len(p.Bits)) > im.layers[at].Shape.Bytes {
		return fmt.Errorf("%w: page %d of layer %d of %q does not exist", bigset.ErrRequest, p.Page, p.Layer.Index, p.Layer.Owner)
	}
	if len(bytes.TrimLeft(p.Bits, "\x00")) == 0 {
		return nil
	}
	value, err := bloomslice.AppendPage(nil, p.Bits)
	if err != nil {
		return fmt.Errorf("%w: %w", bigset.ErrRequest, err)
	}
	im.key = im.prefix.AppendPage(im.key[:0], im.opt.Generation, p.Layer, p.Page)
	if err := im.batch.Set(im.key, value, nil); err != nil {
		return err
	}
	if im.in++; im.in < pagesBatched {
		return nil
	}
	if err := im.write(); err != nil {
		return err
	}
	im.batch = im.fs.db.NewBatch()
	return nil
}

// write commits the batch. The sync of the last batch syncs all.
func (im *importing) write() error {
	batch := im.batch
	im.batch, im.in = nil, 0
	_, err := im.fs.db.Commit(batch, false)
	return err
}

// finish makes the filter visible.
func (im *importing) finish() error {
	fs, f := im.fs, im.f
	fs.life.Lock()
	defer fs.life.Unlock()
	if err := im.mustBeNew(); err != nil {
		return err
	}
	batch := fs.db.NewBatch()
	if err := fs.commit(batch, errors.Join(
		f.storeNew(batch, &im.opt, im.layers),
		batch.SingleDelete(im.gone.entry(), nil))); err != nil {
		return err
	}
	f.opt.Store(&im.opt)
	f.count(im.layers)
	fs.enlist(f.of)
	return nil
}
