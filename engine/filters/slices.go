package filters

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// MarkSlice marks keys, by their hashes, in layers of an owner, and returns the marks for the other replicas: those of keys that were
// there already, too, which name the layer where they were found. added, as long as hashes, is told which were new. When it returns they
// are as durable as the filter promises. A slice that is not here is made. bigset.ErrNoFilter is a generation that is over, bigset.ErrRequest a request
// that can't be. After any other error keys may be marked, or not.
func (fs *Filters) MarkSlice(ctx context.Context, spec bigset.SliceSpec, owner string, hashes []bloomslice.Hash, added []bool) (bigset.Marks, error) {
	if err := fs.db.Enter(); err != nil {
		return bigset.Marks{}, err
	}
	defer fs.db.Leave()
	if err := spec.CheckHashes(hashes); err != nil {
		return bigset.Marks{}, err
	}
	if len(owner) > bloomslice.OwnerBytesMax {
		return bigset.Marks{}, fmt.Errorf("%w: an owner's name of %d bytes, at most %d", bigset.ErrRequest, len(owner), bloomslice.OwnerBytesMax)
	}
	if err := fs.mayMark(ctx); err != nil {
		return bigset.Marks{}, err
	}
	part, err := fs.madeSlice(&spec, func(slice *bloomslice.Slice) error { return slice.AddLayer(owner) })
	if err != nil {
		return bigset.Marks{}, err
	}
	m := bigset.Marks{SliceSpec: spec, Marks: make([]bigset.Mark, len(hashes))}
	for from := 0; from < len(hashes); from += hashedAtOnce {
		to := min(from+hashedAtOnce, len(hashes))
		err := part.markHashes(hashes[from:to], owner, added[from:to], func(i int, in bloomslice.Layer) {
			m.Marks[from+i] = bigset.Mark{Layer: layerIn(&m, in), Hash: hashes[from+i]}
		})
		if err != nil {
			return bigset.Marks{}, fs.goneFor(&spec, part.readError(err))
		}
		fs.trim()
	}
	return m, part.waitLogged(part.logged.Load())
}

// layerIn returns the place of a layer among those that the marks name, with its count raised.
func layerIn(m *bigset.Marks, l bloomslice.Layer) int {
	for i := range m.Layers {
		if m.Layers[i].ID == l.ID {
			m.Layers[i].Count = max(m.Layers[i].Count, l.Count)
			return i
		}
	}
	m.Layers = append(m.Layers, l)
	return len(m.Layers) - 1
}

// ApplyMarks does what another replica has decided: each key's bits are set in the layer that the mark names, whatever is here of the key.
// added, as long as m.Marks, is told which keys were not here before. When it returns the marks are as durable as the filter promises.
// Errors are those of MarkSlice.
func (fs *Filters) ApplyMarks(ctx context.Context, m bigset.Marks, added []bool) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := m.Check(); err != nil || len(m.Marks) == 0 {
		return err
	}
	if err := fs.mayMark(ctx); err != nil {
		return err
	}
	part, err := fs.madeSlice(&m.SliceSpec, func(slice *bloomslice.Slice) error { return restoreShapes(slice, m.Layers) })
	if err != nil {
		return err
	}
	for from := 0; from < len(m.Marks); from += hashedAtOnce {
		to := min(from+hashedAtOnce, len(m.Marks))
		if err := part.apply(m.Layers, m.Marks[from:to], added[from:to]); err != nil {
			return fs.goneFor(&m.SliceSpec, part.readError(err))
		}
		fs.trim()
	}
	return part.waitLogged(part.logged.Load())
}

// restoreShapes adds layers that another replica has. Their counts are raised when their bits are here.
func restoreShapes(slice *bloomslice.Slice, layers []bloomslice.Layer) error {
	for _, l := range layers {
		l.Count = 0
		if err := slice.Restore(l); err != nil {
			return err
		}
	}
	return nil
}

// apply sets the bits of keys in the layers that another replica names.
func (f *filterSlice) apply(layers []bloomslice.Layer, marks []bigset.Mark, added []bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slice, err := f.openLocked()
	if err != nil {
		return err
	}
	if err := restoreShapes(slice, layers); err != nil { // before the log tells of them
		return err
	}
	logs := f.durability(f.opt.Load()) != bigset.FilterInterval
	for i := range marks {
		to, h := layers[marks[i].Layer], &marks[i].Hash
		has, err := slice.Check(h)
		if err != nil {
			return err
		}
		if added[i] = !has; has {
			f.markMisses++
		} else {
			f.markHits++
		}
		if logs {
			if err := f.log(&to, h); err != nil {
				return err
			}
		}
		f.changes++
		if err := slice.Set(to, h); err != nil {
			return err
		}
	}
	return nil
}

// CheckSlice reports which keys are in the slice, by their hashes. In one that is not here is none. Errors are those of MarkSlice.
func (fs *Filters) CheckSlice(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash, present []bool) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := errors.Join(ctx.Err(), spec.CheckHashes(hashes)); err != nil {
		return err
	}
	clear(present[:len(hashes)])
	part, err := fs.knownSlice(&spec)
	if part == nil || err != nil {
		return err
	}
	if err := part.checkHashes(hashes, present); err != nil {
		return fs.goneFor(&spec, part.readError(err))
	}
	return nil
}

// goneFor returns what to tell a replica of an error: that a slice has gone meanwhile says nothing of its generation.
func (fs *Filters) goneFor(spec *bigset.SliceSpec, err error) error {
	if !errors.Is(err, bigset.ErrNoFilter) {
		return err
	}
	if _, over := fs.knownSlice(spec); errors.Is(over, bigset.ErrNoFilter) {
		return over
	}
	return fmt.Errorf("%w: slice %d of filter %q", bigset.ErrSliceAway, spec.Slice, spec.Name)
}

// knownSlice returns a slice that another replica speaks of, or nil where the store does not have it. It allocates nothing.
func (fs *Filters) knownSlice(spec *bigset.SliceSpec) (*filterSlice, error) {
	fs.mu.RLock()
	f, dropped := fs.byName[string(spec.Name)], fs.dropped[string(spec.Name)].Generation
	fs.mu.RUnlock()
	if dropped > 0 && spec.Generation <= dropped || f != nil && f.generation > spec.Generation {
		return nil, fmt.Errorf("%w: generation %d of filter %q is over", bigset.ErrNoFilter, spec.Generation, spec.Name)
	}
	if f == nil || f.generation < spec.Generation {
		return nil, nil
	}
	if int(spec.Slice) >= len(f.slices) {
		return nil, differs(spec)
	}
	part := f.slices[spec.Slice].Load()
	if part == nil {
		return nil, nil
	}
	if err := part.loadHead(); errors.Is(err, bigset.ErrNoFilter) {
		return nil, nil // what a crash has left of a range that was dropped
	} else if err != nil {
		return nil, err
	}
	if opt := part.opt.Load(); opt.Options != spec.Options.Options || opt.Durability != spec.Options.Durability || opt.InMemory {
		return nil, differs(spec)
	}
	return part, nil
}

func differs(s *bigset.SliceSpec) error {
	return fmt.Errorf("%w: generation %d of filter %q has other options here", bigset.ErrRequest, s.Generation, s.Name)
}

// madeSlice returns a slice that another replica speaks of. One that the store does not have it makes, with first layers.
func (fs *Filters) madeSlice(spec *bigset.SliceSpec, first func(*bloomslice.Slice) error) (*filterSlice, error) {
	if part, err := fs.knownSlice(spec); part != nil || err != nil {
		return part, err
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	fs.passes.RLock() // as Create
	defer fs.passes.RUnlock()
	fs.life.Lock()
	defer fs.life.Unlock()
	if part, err := fs.knownSlice(spec); part != nil || err != nil {
		return part, err
	}
	part, err := fs.makeSlice(spec, first)
	if err != nil {
		return nil, fmt.Errorf("engine: slice %d of filter %q: %w", spec.Slice, spec.Name, lsm.DiskError(err))
	}
	return part, nil
}

// makeSlice makes a slice, or brings one back that was cleared. A filter of an earlier generation goes before.
func (fs *Filters) makeSlice(spec *bigset.SliceSpec, first func(*bloomslice.Slice) error) (*filterSlice, error) {
	trial, err := bloomslice.New(spec.Options.Options, nil, nil, nil)
	if err == nil {
		err = first(trial)
	}
	if err != nil { // before a filter of an earlier generation goes
		return nil, err
	}
	f, stale, err := fs.filterOf(spec)
	if err != nil {
		return nil, err
	}
	if part := f.slices[spec.Slice].Load(); part != nil {
		fs.put(f)
		if known, err := fs.knownSlice(spec); known != nil || err != nil {
			return known, err
		}
		stale = append(stale, present{DirectoryEntry: part.directoryEntry(keyscheme.EntryPresent)}) // a crash has left that alone
	}
	if left, err := fs.isLeft(spec); left || err != nil {
		return nil, errors.Join(err, fmt.Errorf("%w: generation %d was dropped here, and is still to be cut out", bigset.ErrSliceAway, spec.Generation))
	}
	opt := &keyscheme.FilterOptions{Options: spec.Options.Options, Generation: spec.Generation, Durability: spec.Options.Durability}
	part := newFilterSlice(f, spec.Slice)
	slice, err := part.newSlice(opt, nil)
	if err != nil {
		return nil, err
	}
	if err := first(slice); err != nil {
		slice.Release()
		return nil, err
	}
	batch := fs.db.NewBatch()
	for _, e := range stale {
		err = errors.Join(err, batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e.DirectoryEntry), nil))
	}
	if err := fs.commit(batch, errors.Join(err, part.storeNew(batch, opt, slice.Layers()))); err != nil {
		slice.Release()
		return nil, err
	}
	part.begin(opt, slice)
	fs.ring.add(part)
	f.slices[spec.Slice].Store(part)
	fs.put(f)
	return part, nil
}

// isLeft reports whether the slice was dropped, in this generation, and keys of it are still there.
func (fs *Filters) isLeft(spec *bigset.SliceSpec) (bool, error) {
	entries, err := fs.entries(keyscheme.DirectoryOf(keyscheme.EntryLeft, spec.Name))
	return slices.ContainsFunc(entries, func(e present) bool { return e.Slice == spec.Slice && e.Generation == spec.Generation }), err
}

// put lists a filter.
func (fs *Filters) put(f *Filter) {
	fs.uncleared(f.name)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.byName[string(f.name)] = f
	fs.generation = max(fs.generation, f.generation)
}

// filterOf returns the filter that a slice is to be made in. One of an earlier generation it drops.
func (fs *Filters) filterOf(spec *bigset.SliceSpec) (f *Filter, stale []present, err error) {
	f = fs.find(spec.Name)
	if f == nil || !f.onDisk() {
		if f, stale, err = fs.unlisted(spec.Name); err != nil {
			return nil, nil, err
		}
	}
	if f != nil && f.generation > spec.Generation {
		return nil, nil, fmt.Errorf("%w: generation %d is over", bigset.ErrNoFilter, spec.Generation)
	}
	if f != nil && f.generation < spec.Generation {
		if err := fs.drop(f, fs.db.NewBatch()); err != nil {
			return nil, nil, err
		}
		f = nil
	}
	if f == nil {
		for _, other := range fs.list() {
			if other.generation == spec.Generation {
				return nil, nil, fmt.Errorf("%w: generation %d is that of filter %q", bigset.ErrRequest, spec.Generation, other.name)
			}
		}
		f = newFilter(fs, spec.Name, spec.Generation, spec.Options.Slices)
	}
	if len(f.slices) != int(spec.Options.Slices) {
		return nil, nil, differs(spec)
	}
	return f, stale, nil
}

// DropGeneration takes all slices of a filter away, of the generation and of those before, and sees to it that none comes back from
// another replica. When it returns that is on disk. To do it twice changes nothing. Parts is how many slices the filter has.
func (fs *Filters) DropGeneration(ctx context.Context, name []byte, parts uint32, generation uint64) error {
	if err := fs.db.Enter(); err != nil {
		return err
	}
	defer fs.db.Leave()
	if err := bigset.CheckFilterName(name); err != nil {
		return err
	}
	if parts == 0 || parts > bloomslice.SlicesMax || parts&(parts-1) != 0 || generation == 0 || generation > math.MaxInt64 {
		return fmt.Errorf("%w: generation %d of a filter of %d slices", bigset.ErrRequest, generation, parts)
	}
	fs.life.Lock()
	defer fs.life.Unlock()
	if err := errors.Join(ctx.Err(), fs.db.Writable()); err != nil {
		return err
	}
	if err := fs.dropGeneration(keyscheme.DirectoryEntry{Kind: keyscheme.EntryDropped, Name: name, Slice: parts, Generation: generation}); err != nil {
		return fmt.Errorf("engine: drop filter %q: %w", name, lsm.DiskError(err))
	}
	return nil
}

// dropGeneration drops what an entry of the directory says, and makes the entry.
func (fs *Filters) dropGeneration(e keyscheme.DirectoryEntry) error {
	f := fs.find(e.Name)
	if f == nil {
		var err error
		if f, _, err = fs.unlisted(e.Name); err != nil { // it may have been cleared
			return err
		}
	}
	fs.mu.RLock()
	was, dropped := fs.dropped[string(e.Name)]
	fs.mu.RUnlock()
	if dropped && was.Generation >= e.Generation || f != nil && f.generation > e.Generation {
		return nil
	}
	if f != nil && f.generation == e.Generation && len(f.slices) != int(e.Slice) {
		return fmt.Errorf("%w: it has %d slices here, not %d", bigset.ErrRequest, len(f.slices), e.Slice)
	}
	batch := fs.db.NewBatch()
	if dropped {
		if err := batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, was), nil); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	if err := batch.Set(keyscheme.AppendDirectoryKey(nil, e), nil, nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	var err error
	if f == nil {
		err = fs.commit(batch, nil)
	} else {
		err = fs.drop(f, batch)
	}
	if err != nil {
		return err
	}
	e.Name = []byte(string(e.Name))
	fs.uncleared(e.Name)
	fs.mu.Lock()
	fs.dropped[string(e.Name)] = e
	fs.mu.Unlock()
	fs.generation = max(fs.generation, e.Generation)
	return nil
}
