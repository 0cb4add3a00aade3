package filters

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/comparator"
	"bigset/keyscheme"
)

// SliceDigests lists the slices in a range of slots, both ends included, and those that were dropped for good, by slot, then by
// name. The digest of a slice includes what was marked before its turn. Between slices it keeps no resources open. A slice that
// can't be read comes with its error, which wraps bigset.ErrCorrupt, and the list continues.
func (fs *Filters) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return func(yield func(bigset.SliceDigest, error) bool) {
		if err := fs.db.Enter(); err != nil {
			yield(bigset.SliceDigest{}, err)
			return
		}
		defer fs.db.Leave()
		for _, l := range fs.listedSlices(first, last) {
			d, err := l.SliceDigest, ctx.Err()
			if err == nil && l.of != nil {
				part := l.of.at(l.Slice)
				if part == nil {
					continue // it was removed since
				}
				if d, err = part.digestNow(); errors.Is(err, bigset.ErrNoFilter) {
					continue
				}
			}
			if !yield(d, err) || err != nil && !errors.Is(err, bigset.ErrCorrupt) {
				return
			}
		}
	}
}

// listedSlice is a slice to be digested, or one that was dropped.
type listedSlice struct {
	bigset.SliceDigest
	of   *Filter
	slot keyscheme.Slot
}

// listedSlices lists the slices in a range of slots.
func (fs *Filters) listedSlices(first, last keyscheme.Slot) (all []listedSlice) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	add := func(d bigset.SliceDigest, of *Filter) {
		if slot := d.Slot(); slot >= first && slot <= last {
			all = append(all, listedSlice{d, of, slot})
		}
	}
	for _, f := range fs.byName {
		for i := range f.slices {
			if f.slices[i].Load() != nil {
				add(bigset.SliceDigest{SliceSpec: bigset.SliceSpec{Name: f.name, Slice: uint32(i)}}, f)
			}
		}
	}
	for name, e := range fs.dropped {
		f := fs.byName[name]
		for i := range e.Slice {
			if f != nil && int(i) < len(f.slices) && f.slices[i].Load() != nil {
				continue // a later generation
			}
			d := bigset.SliceDigest{SliceSpec: bigset.SliceSpec{Name: e.Name, Slice: i, Generation: e.Generation}, Dropped: true}
			d.Options.Slices = e.Slice
			add(d, nil)
		}
	}
	slices.SortFunc(all, func(a, b listedSlice) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), bytes.Compare(a.Name, b.Name))
	})
	return all
}

// spec returns the spec by which others refer to the slice. Its head must have been read.
func (f *filterSlice) spec() bigset.SliceSpec {
	opt := f.opt.Load()
	return bigset.SliceSpec{Name: f.of.name, Slice: uint32(f.index), Generation: f.of.generation, Options: bigset.FilterOptions{Options: opt.Options, InMemory: opt.InMemory, Durability: opt.Durability}}
}

// digestNow returns the digest of the current content of the slice.
func (f *filterSlice) digestNow() (bigset.SliceDigest, error) {
	d := bigset.SliceDigest{SliceSpec: bigset.SliceSpec{Name: f.of.name, Slice: uint32(f.index), Generation: f.of.generation}}
	if err := f.loadHead(); err != nil {
		return d, err
	}
	d.SliceSpec = f.spec()
	if d.Options.InMemory { // nothing of it is stored, so it is not shared with replicas
		return d, bigset.ErrNoFilter
	}
	known, mine, err := f.beginDigest(&d.Sum)
	if known || err != nil {
		return d, err
	}
	done := false
	defer func() { f.endDigest(&d.Sum, mine, done) }()
	err = f.digestPages(&d)
	done = err == nil
	return d, err
}

// beginDigest returns the digest if it is known. Otherwise it records that the caller computes it, unless another goroutine does.
func (f *filterSlice) beginDigest(sum *[16]byte) (known, mine bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.damaged(); err != nil {
		return false, false, err
	}
	if f.flags&flagDigested != 0 {
		*sum = f.sum
		return true, false, nil
	}
	if f.flags&flagDigesting == 0 {
		f.flags |= flagDigesting | flagQuiet
		mine = true
	}
	return false, mine, nil
}

// endDigest keeps a digest that was computed, if nothing has changed in the meantime.
func (f *filterSlice) endDigest(sum *[16]byte, mine, done bool) {
	if !mine {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if done && f.flags&flagQuiet != 0 {
		f.sum = *sum
		f.flags |= flagDigested
	}
	f.flags &^= flagDigesting | flagQuiet
}

// digestPages computes a digest from what is stored.
func (f *filterSlice) digestPages(d *bigset.SliceDigest) error {
	hash := sha256.New()
	var buf []byte
	layers, done, err := f.eachSum(nil, func(p bigset.PageSum) bool {
		buf = appendPlace(buf[:0], p.PagePlace)
		_, _ = hash.Write(binary.BigEndian.AppendUint64(buf, p.Sum))
		return true
	})
	if err != nil || !done {
		return err
	}
	for i := range layers {
		buf = appendPlace(buf[:0], bigset.PagePlace{Layer: layers[i].ID})
		_, _ = hash.Write(keyscheme.AppendFilterLayer(buf, layers[i]))
	}
	copy(d.Sum[:], hash.Sum(nil))
	return nil
}

func appendPlace(dst []byte, p bigset.PagePlace) []byte {
	dst = append(binary.BigEndian.AppendUint16(dst, p.Layer.Index), byte(len(p.Layer.Owner)))
	return binary.BigEndian.AppendUint32(append(dst, p.Layer.Owner...), p.Page)
}

// eachPage calls yield with the stored pages of a slice after a place (nil is the start), and all layers, until it returns false.
// It returns the layers, and whether it reached the end.
func (f *filterSlice) eachPage(after *bigset.PagePlace, yield func(p bigset.PageSum, layers []bloomslice.Layer) bool) (layers []bloomslice.Layer, done bool, err error) {
	r, err := f.reader()
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	from := r.pages.Lower
	if after != nil {
		from = append(f.prefix().AppendPage(nil, f.of.generation, after.Layer, after.Page), 0)
	}
	var bits []byte
	for ok := r.it.SeekGE(from); ok; ok = r.it.Next() {
		p, err := r.page(bits[:0])
		if err != nil {
			return nil, false, f.readError(err)
		}
		bits = p.Bits[:0]
		value, err := r.it.ValueAndErr()
		if err != nil {
			return nil, false, f.readError(err)
		}
		if !yield(bigset.PageSum{PagePlace: bigset.PagePlace{Layer: p.Layer, Page: p.Page}, Sum: xxhash.Sum64(value)}, r.Layers) {
			return r.Layers, false, nil
		}
	}
	if err := r.it.Error(); err != nil {
		return nil, false, f.readError(err)
	}
	return r.Layers, true, nil
}

// PageSums returns hashes of the stored pages of a slice after a place (nil is the start), at most most of them; 0 is
// bigset.PageSumsMax. They include marks from before the call. A slice that this store does not have has no pages and no layers. It
// returns bigset.ErrNoFilter if the generation has been dropped or replaced.
func (fs *Filters) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (bigset.PageSums, error) {
	if err := fs.db.Enter(); err != nil {
		return bigset.PageSums{}, err
	}
	defer fs.db.Leave()
	if most <= 0 || most > bigset.PageSumsMax {
		most = bigset.PageSumsMax
	}
	part, err := fs.knownSlice(&spec)
	if err = errors.Join(err, ctx.Err()); part == nil || err != nil {
		return bigset.PageSums{Done: true}, err
	}
	var sums bigset.PageSums
	sums.Layers, sums.Done, err = part.eachSum(after, func(p bigset.PageSum) bool {
		if len(sums.Sums) < most {
			sums.Sums = append(sums.Sums, p)
			return true
		}
		return false
	})
	return sums, fs.goneFor(&spec, err)
}

// Pages returns the pages of a slice at the given places, at most bigset.PagesMax, in order, with all layers. It omits pages that
// are not stored. Errors are those of PageSums.
func (fs *Filters) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (bigset.SlicePages, error) {
	if err := fs.db.Enter(); err != nil {
		return bigset.SlicePages{}, err
	}
	defer fs.db.Leave()
	if len(places) > bigset.PagesMax {
		return bigset.SlicePages{}, &bigset.LimitError{What: "pages at once", Got: len(places), Max: bigset.PagesMax}
	}
	if !slices.IsSortedFunc(places, bigset.PagePlace.Compare) {
		return bigset.SlicePages{}, fmt.Errorf("%w: places out of order", bigset.ErrRequest)
	}
	part, err := fs.knownSlice(&spec)
	if err = errors.Join(err, ctx.Err()); part == nil || err != nil {
		return bigset.SlicePages{SliceSpec: spec}, err
	}
	pages, err := part.pagesAt(spec, places)
	return pages, fs.goneFor(&spec, err)
}

func (f *filterSlice) pagesAt(spec bigset.SliceSpec, places []bigset.PagePlace) (pages bigset.SlicePages, err error) {
	pages.SliceSpec = spec
	if err := f.flush(); err != nil {
		return pages, f.readError(err)
	}
	r, err := f.reader()
	if err != nil {
		return pages, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	pages.Layers = r.Layers
	prefix := f.prefix()
	var key, bits []byte
	for _, at := range places {
		key = prefix.AppendPage(key[:0], f.of.generation, at.Layer, at.Page)
		if !r.it.SeekGE(key) || comparator.Compare(r.it.Key(), key) != 0 {
			continue
		}
		if bits, err = r.pageBits(bits); err != nil {
			return pages, f.readError(err)
		}
		value, err := r.it.ValueAndErr()
		if err != nil {
			return pages, f.readError(err)
		}
		pages.Pages = append(pages.Pages, bigset.SlicePage{PagePlace: at, Value: bytes.Clone(value)})
	}
	if err := r.it.Error(); err != nil {
		return pages, f.readError(err)
	}
	return pages, nil
}

// pageBits returns the bits of the page at which the iterator is, and checks the page.
func (r *Reader) pageBits(buf []byte) ([]byte, error) {
	p, err := r.page(buf[:0])
	return p.Bits, err
}

// pagesMerged is how many pages are joined before other goroutines get the slice.
const pagesMerged = 16

// MergePages joins what another replica has of a slice: pages by OR, counts by the larger, layers by union. It makes a slice that
// this store does not have. The result is durable after FlushSlice, or after the next flush. Errors are those of MarkSlice, and
// bigset.ErrCorrupt for damaged pages; then some pages may have been joined.
func (fs *Filters) MergePages(ctx context.Context, p bigset.SlicePages) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := p.Check(); err != nil || len(p.Layers) == 0 {
		return err
	}
	if err := fs.mayMark(ctx); err != nil {
		return err
	}
	part, err := fs.madeSlice(&p.SliceSpec, p.Layers)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(p.Pages, pagesMerged) {
		if err := part.merge(func(slice *bloomslice.Slice) error {
			if err := restoreShapes(slice, p.Layers); err != nil {
				return err
			}
			for i := range chunk {
				if err := slice.MergePage(chunk[i].Layer, chunk[i].Page, chunk[i].Value); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fs.goneFor(&p.SliceSpec, err)
		}
		fs.trim()
	}
	err = part.merge(func(slice *bloomslice.Slice) error {
		for _, l := range p.Layers {
			if err := slice.Restore(l); err != nil {
				return err
			}
		}
		return nil
	})
	return fs.goneFor(&p.SliceSpec, err)
}

// merge joins something to the slice.
func (f *filterSlice) merge(join func(*bloomslice.Slice) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err == nil {
		f.changed()
		f.flags |= flagMerged
		err = join(slice)
	}
	if err != nil && !errors.Is(err, bloomslice.ErrOptions) {
		err = f.readError(err)
	}
	return err
}

// FlushSlice makes the current content of a slice durable. For a slice that this store does not have it does nothing.
func (fs *Filters) FlushSlice(ctx context.Context, spec bigset.SliceSpec) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	part, err := fs.knownSlice(&spec)
	if err = errors.Join(err, ctx.Err(), fs.db.Writable()); part == nil || err != nil {
		return err
	}
	if err := errors.Join(part.flush(), fs.db.SyncLog()); err != nil {
		return part.readError(err)
	}
	return nil
}
