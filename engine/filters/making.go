package filters

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// making is a slice in a request of another replica: it is found, or made with its first layers.
type making struct {
	spec   *bigset.SliceSpec
	layers []bloomslice.Layer // the first layers, without keys; nil is one layer of the owner
	owner  string

	nothing bool         // the request has no effect on the slice, which is left as it is
	part    *filterSlice // the slice, unless there is an error
	err     error        // an error that is set before is left alone
}

// first adds the first layers to a slice that is made.
func (m *making) first(slice *bloomslice.Slice) error {
	if m.layers == nil {
		return slice.AddLayer(m.owner)
	}
	return restoreShapes(slice, m.layers)
}

// madeSlices finds slices, and makes those that the store does not have, all in one batch. What it makes is not on disk before
// awaitMade returns.
func (fs *Filters) madeSlices(all []making) {
	unknown := 0
	var f *Filter // of the last slice
	var last *bigset.SliceSpec
	for i := range all {
		m := &all[i]
		if m.err != nil || m.nothing {
			continue
		}
		if f == nil || last.Generation != m.spec.Generation || !bytes.Equal(last.Name, m.spec.Name) {
			f, m.err = fs.knownFilter(m.spec)
			last = m.spec
		}
		if f != nil {
			m.part, m.err = f.known(m.spec)
		}
		if m.part == nil && m.err == nil {
			if m.err = m.spec.Check(); m.err == nil {
				unknown++
			}
		}
	}
	if unknown == 0 {
		return
	}
	fs.passes.RLock() // as in Create
	defer fs.passes.RUnlock()
	fs.life.Lock()
	defer fs.life.Unlock()
	r := newMakingRound(fs)
	for i := range all {
		if m := &all[i]; m.part == nil && m.err == nil && !m.nothing {
			r.make(m)
		}
	}
	r.commit()
}

// madeSlice is madeSlices for one slice.
func (fs *Filters) madeSlice(spec *bigset.SliceSpec, layers []bloomslice.Layer) (*filterSlice, error) {
	all := [1]making{{spec: spec, layers: layers}}
	fs.madeSlices(all[:])
	return all[0].part, all[0].err
}

// awaitMade returns when all slices that were made so far are on disk. Nothing about a slice is acknowledged before. One sync
// serves all goroutines that wait.
func (fs *Filters) awaitMade() error {
	made := fs.made.Load()
	if fs.madeDurable.Load() >= made {
		return nil
	}
	if err := fs.db.SyncLog(); err != nil {
		return fmt.Errorf("engine: make slices: %w", lsm.DiskError(err))
	}
	for {
		durable := fs.madeDurable.Load()
		if durable >= made || fs.madeDurable.CompareAndSwap(durable, made) {
			return nil
		}
	}
}

// makingRound is one batch of slices that are made. The lock life is held.
type makingRound struct {
	fs     *Filters
	batch  *pebble.Batch
	staged []*stagedSlice
	byKey  map[madeKey]*stagedSlice
	names  map[string]*madeName
	err    error // why the batch can't be committed
}

func newMakingRound(fs *Filters) *makingRound {
	return &makingRound{fs: fs, byKey: map[madeKey]*stagedSlice{}, names: map[string]*madeName{}}
}

// madeKey names a slice of a generation.
type madeKey struct {
	name       string
	slice      uint32
	generation uint64
}

// stagedSlice is a slice that the batch creates.
type stagedSlice struct {
	asked []*making
	part  *filterSlice
	opt   *keyscheme.FilterOptions
	slice *bloomslice.Slice
}

// madeName is what a round has read of a name.
type madeName struct {
	f     *Filter
	stale []present // entries of the directory for which no slice exists, and that the batch does not remove yet
	left  []present // slices that were dropped, but are not excised yet
}

// make finds a slice, or adds it to the batch.
func (r *makingRound) make(m *making) {
	if m.part, m.err = r.fs.knownSlice(m.spec); m.part != nil || m.err != nil {
		return
	}
	key := madeKey{string(m.spec.Name), m.spec.Slice, m.spec.Generation}
	s := r.byKey[key]
	if s == nil {
		if s, m.err = r.stage(m); s == nil {
			if m.err != nil {
				m.err = makingError(m.spec, m.err)
			}
			return
		}
		r.byKey[key] = s
		r.staged = append(r.staged, s)
	} else if o := &m.spec.Options; s.opt.Options != o.Options || s.opt.Durability != o.Durability {
		m.err = differs(m.spec)
		return
	}
	s.asked = append(s.asked, m)
}

func makingError(spec *bigset.SliceSpec, err error) error {
	return fmt.Errorf("engine: slice %d of filter %q: %w", spec.Slice, spec.Name, lsm.DiskError(err))
}

// stage adds the creation of a slice to the batch. If the slice was cleared, it brings the slice back and returns nil. It first
// drops a filter of an earlier generation.
func (r *makingRound) stage(m *making) (*stagedSlice, error) {
	fs, spec := r.fs, m.spec
	name, older, err := r.filterOf(spec)
	if err != nil {
		return nil, err
	}
	f := name.f
	if part := f.at(spec.Slice); part != nil {
		fs.put(f)
		if m.part, err = fs.knownSlice(spec); m.part != nil || err != nil {
			return nil, err
		}
		name.stale = append(name.stale, present{DirectoryEntry: part.directoryEntry(keyscheme.EntryPresent)}) // a crash has left only the entry
	}
	if slices.ContainsFunc(name.left, func(e present) bool { return e.Slice == spec.Slice && e.Generation == spec.Generation }) {
		return nil, fmt.Errorf("%w: generation %d was dropped here, and is not excised yet", bigset.ErrSliceAway, spec.Generation)
	}
	opt := &keyscheme.FilterOptions{Options: spec.Options.Options, Generation: spec.Generation, Durability: spec.Options.Durability}
	s := &stagedSlice{part: newFilterSlice(f, spec.Slice), opt: opt}
	if s.slice, err = s.part.newSlice(opt, nil); err != nil {
		return nil, err
	}
	if err = m.first(s.slice); err == nil && older != nil { // everything that can be refused is refused before
		if err = fs.drop(older, fs.db.NewBatch()); err == nil {
			r.names[string(spec.Name)] = name
		}
	}
	if err != nil {
		s.slice.Release()
		return nil, err
	}
	r.write(name, s)
	return s, nil
}

// write adds a slice to the batch.
func (r *makingRound) write(name *madeName, s *stagedSlice) {
	if r.batch == nil {
		r.batch = r.fs.db.NewBatch()
	}
	for _, e := range name.stale {
		r.err = errors.Join(r.err, r.batch.SingleDelete(keyscheme.AppendDirectoryKey(nil, e.DirectoryEntry), nil))
	}
	name.stale = nil
	r.err = errors.Join(r.err, s.part.storeNew(r.batch, s.opt, s.slice.Layers()))
}

// filterOf returns the filter in which a slice is to be made, and one of an earlier generation that has to be dropped before.
func (r *makingRound) filterOf(spec *bigset.SliceSpec) (name *madeName, older *Filter, err error) {
	if name = r.names[string(spec.Name)]; name != nil && name.f.generation < spec.Generation {
		r.commit() // the filters in the batch free room
		name = nil
	}
	if name == nil {
		name = &madeName{}
		if older, err = r.findFilter(spec, name); err != nil {
			return nil, nil, err
		}
		if name.left, err = r.fs.entries(keyscheme.DirectoryOf(keyscheme.EntryLeft, spec.Name)); err != nil {
			return nil, nil, err
		}
		if older == nil {
			r.names[string(spec.Name)] = name
		}
	}
	switch f := name.f; {
	case f.generation > spec.Generation:
		return nil, nil, fmt.Errorf("%w: generation %d was dropped or replaced", bigset.ErrNoFilter, spec.Generation)
	case len(f.slices) != int(spec.Options.Slices):
		return nil, nil, differs(spec)
	}
	return name, older, nil
}

// findFilter finds the filter of a name, which may be of a later generation, or makes one.
func (r *makingRound) findFilter(spec *bigset.SliceSpec, name *madeName) (older *Filter, err error) {
	fs := r.fs
	f := fs.find(spec.Name)
	if f == nil || !f.onDisk() {
		if f, name.stale, err = fs.unlisted(spec.Name); err != nil {
			return nil, err
		}
	}
	if f != nil && f.generation < spec.Generation {
		older, f = f, nil
	}
	if f == nil {
		if other := r.ofGeneration(spec.Generation); other != nil {
			return nil, fmt.Errorf("%w: generation %d belongs to filter %q", bigset.ErrRequest, spec.Generation, other.name)
		}
		f = newFilter(fs, spec.Name, spec.Generation, spec.Options.Slices)
	}
	name.f = f
	return older, nil
}

// ofGeneration returns the filter that has a generation, or nil.
func (r *makingRound) ofGeneration(generation uint64) *Filter {
	for _, name := range r.names {
		if name.f.generation == generation {
			return name.f
		}
	}
	r.fs.mu.RLock()
	defer r.fs.mu.RUnlock()
	return r.fs.generations[generation]
}

// commit makes what was staged, and begins another batch.
func (r *makingRound) commit() {
	fs, staged := r.fs, r.staged
	if len(staged) == 0 {
		return
	}
	err := r.err
	if err != nil {
		err = errors.Join(err, r.batch.Close())
	} else {
		_, err = fs.db.Commit(r.batch, false)
		fs.made.Add(1) // before any other goroutine can find them
	}
	*r = *newMakingRound(fs)
	for _, s := range staged {
		if err != nil {
			s.slice.Release()
		} else {
			s.part.begin(s.opt, s.slice)
			fs.ring.add(s.part)
			s.part.of.slices[s.part.index].Store(s.part)
		}
		for _, m := range s.asked {
			if m.part = s.part; err != nil {
				m.part, m.err = nil, makingError(m.spec, err)
			}
		}
	}
	if err != nil {
		return
	}
	for i, s := range staged {
		if i == 0 || staged[i-1].part.of != s.part.of {
			fs.put(s.part.of)
		}
	}
}
