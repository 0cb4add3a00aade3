package filters

import (
	"context"
	"errors"
	"fmt"
	"math"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// MarkSlice marks keys, by their hashes, in layers of a seat. It returns the marks for the other replicas, including those of keys
// that were already present, which name the layer in which they were found. added, as long as hashes, is set to which keys were
// new. When MarkSlice returns, the marks are as durable as the filter promises. It makes a slice that this store does not have. It
// returns bigset.ErrNoFilter if the generation has been dropped or replaced, and bigset.ErrRequest if the request is invalid. After
// any other error keys may be marked, or not.
func (fs *Filters) MarkSlice(ctx context.Context, spec bigset.SliceSpec, seat bloomslice.Seat, hashes []bloomslice.Hash, added []bool) (bigset.Marks, error) {
	one := [1]SliceMarking{{Spec: spec, Seat: seat, Hashes: hashes, Added: added}}
	fs.MarkSlices(ctx, one[:])
	return one[0].Marks, one[0].Err
}

// SliceMarking is a request to mark keys of one slice, and its result.
type SliceMarking struct {
	Spec   bigset.SliceSpec
	Seat   bloomslice.Seat // the seat whose layers take new keys; below Spec.Options.Owners
	Hashes []bloomslice.Hash
	Added  []bool // as long as Hashes; set to which keys were new

	Marks bigset.Marks // set to the marks for the other replicas
	Begun bool         // set to whether any key may have been marked
	Err   error        // set to the error that MarkSlice would return
}

// MarkSlices does what MarkSlice does for several slices, and sets the result of each. It makes missing slices in one batch, and
// waits for the disk once, for all of them.
func (fs *Filters) MarkSlices(ctx context.Context, all []SliceMarking) {
	makings, keys := make([]making, len(all)), 0
	for i := range all {
		m := &all[i]
		m.Marks, m.Begun = bigset.Marks{}, false
		makings[i] = making{spec: &m.Spec, err: m.check(), owner: m.Seat.Owner()}
		keys += len(m.Hashes)
	}
	room := make([]bigset.Mark, keys)
	fs.eachMade(ctx, makings, func(i int, part *filterSlice) error {
		n := len(all[i].Hashes)
		marks := room[:n:n]
		room = room[n:]
		return fs.markSlice(part, &all[i], marks)
	})
	for i := range all {
		all[i].Err = makings[i].err
	}
}

// check returns what is wrong with a request.
func (m *SliceMarking) check() error {
	if err := m.Spec.CheckHashes(m.Hashes); err != nil {
		return err
	}
	return m.Spec.CheckSeat(m.Seat)
}

// eachMade finds or makes slices and calls mark for each, then waits until everything is as durable as the filters promise. An
// error of one slice is set in its making.
func (fs *Filters) eachMade(ctx context.Context, all []making, mark func(i int, part *filterSlice) error) {
	err := fs.db.Enter()
	if err == nil {
		defer fs.db.Leave()
		err = fs.mayMark(ctx)
	}
	for i := range all {
		if m := &all[i]; m.err == nil && !m.nothing {
			m.err = err
		}
	}
	fs.madeSlices(all)
	var waits waits
	for i := range all {
		m := &all[i]
		if m.err != nil || m.nothing {
			continue
		}
		if m.err = ctx.Err(); m.err == nil {
			m.err = mark(i, m.part)
		}
		if m.err == nil {
			waits.add(m.part)
		}
	}
	errs := waits.await(fs)
	for i := range all {
		if m := &all[i]; m.err == nil && !m.nothing {
			m.err = errs[m.part.durabilityNow()]
		}
	}
}

// markSlice marks the keys of a request. room has room for their marks.
func (fs *Filters) markSlice(part *filterSlice, r *SliceMarking, room []bigset.Mark) error {
	owner := r.Seat.Owner()
	m := bigset.Marks{SliceSpec: r.Spec, Marks: room}
	for from := 0; from < len(r.Hashes); from += hashedAtOnce {
		to := min(from+hashedAtOnce, len(r.Hashes))
		err := part.markHashes(r.Hashes[from:to], owner, r.Added[from:to], func(i int, in bloomslice.Layer) {
			r.Begun = true
			m.Marks[from+i] = bigset.Mark{Layer: layerIn(&m, in), Hash: r.Hashes[from+i]}
		})
		if err != nil {
			return fs.goneFor(&r.Spec, part.readError(err))
		}
		fs.trim()
	}
	r.Marks = m
	return nil
}

// waits is what marks of several slices wait for: positions of the log of marks, by the durability of the filters.
type waits struct {
	any     bool
	upTo    [bigset.FilterSync + 1]uint64
	promise lsm.Promise
}

func (w *waits) add(part *filterSlice) {
	d := part.durabilityNow()
	w.any = true
	w.promise |= part.promise(part.opt.Load())
	w.upTo[d] = max(w.upTo[d], part.logged.Load())
}

// durabilityNow returns the durability of a slice whose head was read.
func (f *filterSlice) durabilityNow() bigset.FilterDurability { return f.durability(f.opt.Load()) }

// await returns when everything is as durable as the filters promise, and the disk records what may nevertheless be lost. errs has
// the errors by durability.
func (w *waits) await(fs *Filters) (errs [bigset.FilterSync + 1]error) {
	if !w.any {
		return errs
	}
	if err := errors.Join(fs.db.Promise(w.promise), fs.awaitMade()); err != nil {
		for d := range errs {
			errs[d] = err
		}
		return errs
	}
	for d, position := range w.upTo {
		if position > 0 {
			errs[d] = fs.log.Wait(position, bigset.FilterDurability(d))
		}
	}
	return errs
}

// layerIn returns the index of a layer in m.Layers, and raises its count.
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

// ApplyMarks applies what another replica has decided: it sets each key's bits in the layer that the mark names, whatever this
// store has of the key. added, as long as m.Marks, is set to which keys were not here before. When it returns, the marks are as
// durable as the filter promises. Errors are those of MarkSlice.
func (fs *Filters) ApplyMarks(ctx context.Context, m bigset.Marks, added []bool) error {
	one := [1]SliceMarks{{Marks: m, Added: added}}
	fs.ApplyMarksOf(ctx, one[:])
	return one[0].Err
}

// SliceMarks are marks of one slice that another replica has decided, and the result of applying them.
type SliceMarks struct {
	Marks bigset.Marks
	Added []bool // as long as Marks.Marks; set to which keys were not here before

	Begun bool  // set to whether any key may have been marked
	Err   error // set to the error that ApplyMarks would return
}

// ApplyMarksOf does what ApplyMarks does for several slices, and sets the result of each. It makes missing slices in one batch, and
// waits for the disk once, for all of them.
func (fs *Filters) ApplyMarksOf(ctx context.Context, all []SliceMarks) {
	makings := make([]making, len(all))
	for i := range all {
		m := &all[i]
		m.Begun = false
		makings[i] = making{spec: &m.Marks.SliceSpec, err: m.Marks.Check(), nothing: len(m.Marks.Marks) == 0, layers: m.Marks.Layers}
	}
	fs.eachMade(ctx, makings, func(i int, part *filterSlice) error {
		all[i].Begun = true
		return fs.applySlice(part, &all[i])
	})
	for i := range all {
		all[i].Err = makings[i].err
	}
}

// applySlice sets the bits of the keys of a request.
func (fs *Filters) applySlice(part *filterSlice, r *SliceMarks) error {
	marks := r.Marks.Marks
	for from := 0; from < len(marks); from += hashedAtOnce {
		to := min(from+hashedAtOnce, len(marks))
		if err := part.apply(r.Marks.Layers, marks[from:to], r.Added[from:to]); err != nil {
			return fs.goneFor(&r.Marks.SliceSpec, part.readError(err))
		}
		fs.trim()
	}
	return nil
}

// restoreShapes adds layers that another replica has. Their counts are raised when their bits are set here.
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
	n := slice.LayerCount()
	err = restoreShapes(slice, layers) // before the log refers to them
	if slice.LayerCount() > n {
		f.changed() // its digest depends on its layers
	}
	if err != nil {
		return err
	}
	logs := f.durability(f.opt.Load()) != bigset.FilterInterval
	var hits, misses uint64
	defer func() { f.of.counted().marks.add(hits, misses) }()
	for i := range marks {
		to, h := layers[marks[i].Layer], &marks[i].Hash
		has, err := slice.AdmitSet(to, h)
		if err != nil {
			return err
		}
		if added[i] = !has; has {
			misses++
		} else {
			hits++
		}
		if logs {
			if err := f.log(&to, h); err != nil {
				return err
			}
		}
		if slice.Changes(to) { // marks of keys that were present come here, too
			f.changed()
		}
		slice.CommitSet(to)
	}
	return nil
}

// goneFor returns the error to send to a replica: the removal of a slice says nothing about its generation.
func (fs *Filters) goneFor(spec *bigset.SliceSpec, err error) error {
	if !errors.Is(err, bigset.ErrNoFilter) {
		return err
	}
	if _, over := fs.knownSlice(spec); errors.Is(over, bigset.ErrNoFilter) {
		return over
	}
	return fmt.Errorf("%w: slice %d of filter %q", bigset.ErrSliceAway, spec.Slice, spec.Name)
}

// knownSlice returns a slice in a request of another replica, or nil if the store does not have it. It allocates nothing.
func (fs *Filters) knownSlice(spec *bigset.SliceSpec) (*filterSlice, error) {
	f, err := fs.knownFilter(spec)
	if f == nil || err != nil {
		return nil, err
	}
	return f.known(spec)
}

// knownFilter returns the filter of a slice in a request of another replica, or nil if the store has none of the generation.
func (fs *Filters) knownFilter(spec *bigset.SliceSpec) (*Filter, error) {
	fs.mu.RLock()
	f, dropped := fs.byName[string(spec.Name)], fs.dropped[string(spec.Name)].Generation
	fs.mu.RUnlock()
	if dropped > 0 && spec.Generation <= dropped || f != nil && f.generation > spec.Generation {
		return nil, fmt.Errorf("%w: generation %d of filter %q was dropped or replaced", bigset.ErrNoFilter, spec.Generation, spec.Name)
	}
	if f == nil || f.generation < spec.Generation {
		return nil, nil
	}
	return f, nil
}

// known returns a slice of the filter, of its generation, or nil if the store does not have it.
func (f *Filter) known(spec *bigset.SliceSpec) (*filterSlice, error) {
	if int(spec.Slice) >= len(f.slices) {
		return nil, differs(spec)
	}
	part := f.at(spec.Slice)
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

// put lists a filter that slices were made in.
func (fs *Filters) put(f *Filter) {
	fs.uncleared(f.name)
	fs.enlist(f)
	fs.generation = max(fs.generation, f.generation)
}

// DropGeneration removes all slices of a filter, of the given generation and of those before, and ensures that none comes back from
// another replica. When it returns, that is on disk. Dropping twice changes nothing. parts is the number of the filter's slices.
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

// dropGeneration drops the generations that an entry of the directory names, and stores the entry.
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
