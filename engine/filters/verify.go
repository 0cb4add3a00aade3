package filters

import (
	"bytes"
	"errors"
	"fmt"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Counts are what a Verifier has found. Filters that were dropped but are not excised yet are checked, but not counted.
type Counts struct {
	Filters      int    `json:"filters"`
	FilterSlices int    `json:"filter_slices"` // of them in this store
	FilterPages  uint64 `json:"filter_pages"`  // of them on disk
	FilterBytes  uint64 `json:"filter_bytes"`  // of the pages, as they are stored before tables compress them
}

// Findings are the receivers of a Verifier's reports.
type Findings struct {
	Counts *Counts
	// Problem is called with what is wrong with a filter, or, without a name, with data that belongs to no filter.
	Problem func(filter []byte, what string)
	// Unread gets the generations with unreadable data, with the damaged file.
	Unread map[lsm.Damaged]string
}

// Verifier checks the keys of filters in order, those of one generation consecutively: pages decode and lie within a layer, layers
// follow one another, a generation has a head, and the directory lists it. An entry of the directory without a filter is not
// damage: a crash in the middle of DropRange leaves one. One goroutine uses it.
type Verifier struct {
	fs    *Filters
	rep   Findings
	blind bool            // the directory can't be read
	last  uint64          // the last generation that had been given when it began
	known map[string]bool // entries of the directory when it began, and when it ended

	at     *sliceOf // the current slice and generation, nil before the first
	torn   bool     // some of it can't be read
	left   bool     // it was dropped, but is not excised yet
	head   bool
	owners bool                                     // replicas fill it: a layer may come before those below it
	memory bool                                     // it is only in memory
	layers map[bloomslice.LayerID]*bloomslice.Layer // nil if it can't be read. Its count may be ahead of its pages
	seen   []*sliceOf
}

// sliceOf names a slice of a generation of a filter, which need not be valid.
type sliceOf struct {
	of    *Filter
	index uint32
}

func (s *sliceOf) prefix() keyscheme.FilterPrefix {
	return keyscheme.NewFilterPrefix(s.of.name, s.index)
}

// entry returns the key of its entry of a kind in the directory.
func (s *sliceOf) entry(kind keyscheme.EntryKind) string {
	e := keyscheme.DirectoryEntry{Kind: kind, Name: s.of.name, Slice: s.index, Generation: s.of.generation}
	return string(keyscheme.AppendDirectoryKey(nil, e))
}

// Verify begins to verify all filters. Then the store's keys must be passed to Key, in order, and at the end Finish must be called.
func (o *Owner) Verify(rep Findings) (*Verifier, error) {
	fs := o.fs
	fs.life.Lock()
	v := &Verifier{fs: fs, rep: rep, last: fs.generation, known: map[string]bool{}}
	fs.life.Unlock()
	return v, v.directory(false)
}

// Unit is a slice of a filter in a store, and the bounds of its keys.
type Unit struct {
	Bounds keyscheme.Bounds
	Slot   keyscheme.Slot
	sliceOf
}

// Units returns the slices that are listed, in no order.
func (v *Verifier) Units() (units []Unit) {
	for _, f := range v.fs.list() {
		for i := range f.slices {
			if slice := uint32(i); f.slices[i].Load() != nil {
				bounds := keyscheme.NewFilterPrefix(f.name, slice).Generation(f.generation)
				units = append(units, Unit{bounds, keyscheme.SlotOf(keyscheme.PartitionFilter, f.name, slice), sliceOf{f, slice}})
			}
		}
	}
	return units
}

// Unreadable records that a part of a slice can't be read.
func (v *Verifier) Unreadable(u Unit, damage error) error {
	if err := v.begin(u.of.name, u.of.generation, u.index); err != nil {
		return err
	}
	v.unreadable(damage)
	return nil
}

// Over ends the current slice: the next key belongs to something else.
func (v *Verifier) Over() error {
	err := v.end()
	v.at = nil
	return err
}

func (v *Verifier) problem(name []byte, format string, args ...any) {
	v.rep.Problem(name, fmt.Sprintf(format, args...))
}

// bad reports a problem that makes the current slice unreadable.
func (v *Verifier) bad(format string, err error) {
	v.rep.Unread[v.at.of.damaged()] = lsm.TableOf(err)
	v.problem(v.at.of.name, format, err)
}

// directory reads the directory, and at the end reports what is wrong with it.
func (v *Verifier) directory(report bool) error {
	err := lsm.DiskError(v.readDirectory(report))
	if errors.Is(err, bigset.ErrCorrupt) && !v.blind {
		v.blind = true
		v.problem(nil, "directory of filters: %v", err)
	}
	if v.blind {
		return nil
	}
	return err
}

func (v *Verifier) readDirectory(report bool) error {
	return v.fs.db.Each(keyscheme.Directory(), func(raw, value []byte) error {
		key, err := keyscheme.Decode(raw)
		e, _ := keyscheme.DecodeDirectoryKey(key.Rest)
		if err == nil && e.Kind == keyscheme.EntryPresent {
			_, err = keyscheme.DecodePresentValue(value, e.Slice)
		} else if err == nil && len(value) > 0 {
			err = fmt.Errorf("entry %x has a value", raw)
		}
		if report && err != nil {
			v.problem(nil, "directory of filters: %v", err)
		}
		v.known[string(raw)] = true
		return nil
	})
}

// Key takes a key of a slot's own.
func (v *Verifier) Key(k *keyscheme.Key, value []byte) error {
	if k.Kind != keyscheme.KindSlotBloom {
		return nil
	}
	f, ok := keyscheme.DecodeFilterKey(k.Rest)
	if !ok {
		v.problem(nil, "%x in slot %08x is not a key of a filter", k.Rest, k.Slot)
		return nil
	}
	index := keyscheme.SliceAt(keyscheme.PartitionFilter, f.Name, k.Slot)
	if err := v.begin(f.Name, f.Generation, index); err != nil {
		return err
	}
	switch f.Part {
	case keyscheme.FilterHead:
		return v.takeHead(value)
	case keyscheme.FilterLayer:
		v.takeLayer(f.Layer, value)
		return nil
	}
	return v.takePage(&f, value)
}

// begin ends the current slice and begins another, if it differs.
func (v *Verifier) begin(name []byte, generation uint64, index uint32) error {
	if v.at != nil && v.at.of.generation == generation && v.at.index == index && bytes.Equal(v.at.of.name, name) {
		return nil
	}
	if err := v.end(); err != nil {
		return err
	}
	of := newFilter(v.fs, name, generation, 1)
	*v = Verifier{fs: v.fs, rep: v.rep, blind: v.blind, last: v.last, known: v.known, seen: v.seen,
		at: &sliceOf{of, index}, layers: map[bloomslice.LayerID]*bloomslice.Layer{}}
	if v.left = v.known[v.at.entry(keyscheme.EntryLeft)]; !v.left {
		v.rep.Counts.FilterSlices++
	}
	if index >= bloomslice.SlicesMax {
		v.problem(name, "keys in slot %08x, the filter's is %08x", uint32(keyscheme.SlotOf(keyscheme.PartitionFilter, name, index)),
			uint32(keyscheme.SlotOf(keyscheme.PartitionFilter, name, 0)))
	}
	return nil
}

// unreadable records that a part of the current slice can't be read.
func (v *Verifier) unreadable(damage error) {
	if !v.torn {
		v.torn = true
		v.bad("can't be read: %v", damage)
	}
}

func (v *Verifier) takeHead(value []byte) error {
	v.head = true
	if v.at.index == 0 && !v.left {
		v.rep.Counts.Filters++
	}
	opt, err := keyscheme.DecodeFilterHead(value)
	if err != nil {
		v.bad("head: %v", err)
	} else if opt.Generation != v.at.of.generation {
		v.problem(v.at.of.name, "the head of generation %d is in generation %d", opt.Generation, v.at.of.generation)
	} else if v.at.index >= opt.Slices {
		v.problem(v.at.of.name, "slice %d of %d in slot %08x", v.at.index, opt.Slices, keyscheme.SlotOf(keyscheme.PartitionFilter, v.at.of.name, v.at.index))
	}
	v.owners = err == nil && opt.Owners > 1
	v.memory = err == nil && opt.InMemory
	return nil
}

func (v *Verifier) takeLayer(id bloomslice.LayerID, value []byte) {
	l, err := keyscheme.DecodeFilterLayer(value)
	if err != nil {
		v.bad(fmt.Sprintf("layer %d: %%v", id.Index), err)
		v.layers[id] = nil
		return
	}
	l.ID = id
	if v.owners = v.owners || id.Owner != ""; l.Count > l.Shape.Capacity {
		v.problem(v.at.of.name, "layer %d has %d keys, at most %d", id.Index, l.Count, l.Shape.Capacity)
	}
	v.layers[id] = &l
}

func (v *Verifier) takePage(k *keyscheme.FilterKey, value []byte) error {
	if !v.left {
		v.rep.Counts.FilterPages++
		v.rep.Counts.FilterBytes += uint64(len(value))
	}
	l, known := v.layers[k.Layer]
	if !known { // a scrub may have passed before it existed
		stored, err := v.get(v.at.prefix().AppendLayer(nil, v.at.of.generation, k.Layer))
		if errors.Is(err, bigset.ErrCorrupt) {
			v.unreadable(err)
			v.layers[k.Layer] = nil
			return nil
		}
		if err != nil {
			return err
		}
		if stored == nil && v.left { // an import writes its layers last
			v.layers[k.Layer] = nil
			return nil
		}
		if stored == nil {
			v.problem(v.at.of.name, "page %d of layer %d, which does not exist", k.Page, k.Layer.Index)
			v.layers[k.Layer] = nil
			return nil
		}
		v.takeLayer(k.Layer, stored)
		l = v.layers[k.Layer]
	}
	if v.memory {
		v.problem(v.at.of.name, "page %d of layer %d, although the filter is only in memory", k.Page, k.Layer.Index)
	}
	page, err := bloomslice.DecodePage(nil, value)
	if err != nil {
		v.bad(fmt.Sprintf("page %d of layer %d: %%v", k.Page, k.Layer.Index), err)
	}
	if err != nil || l == nil {
		return nil
	}
	from := uint64(k.Page) * bloomslice.PageBytes
	if bits := page[min(uint64(len(page)), max(l.Shape.Bytes, from)-from):]; from >= l.Shape.Bytes || len(bytes.Trim(bits, "\x00")) > 0 {
		v.problem(v.at.of.name, "page %d of layer %d lies beyond its end", k.Page, k.Layer.Index)
	}
	return nil
}

// get returns a value, or nil if there is none.
func (v *Verifier) get(key []byte) ([]byte, error) {
	value, _, err := v.fs.db.Get(key)
	return value, lsm.DiskError(err)
}

// end checks what can be checked only for a whole generation.
func (v *Verifier) end() error {
	if v.at == nil {
		return nil
	}
	v.seen = append(v.seen, v.at)
	if v.torn && !v.head && v.at.index == 0 && !v.left {
		v.rep.Counts.Filters++
	}
	if !v.head { // as for a layer: a scrub may have passed before it existed
		stored, err := v.get(v.at.prefix().AppendHead(nil, v.at.of.generation))
		if errors.Is(err, bigset.ErrCorrupt) {
			v.unreadable(err)
		} else if err != nil {
			return err
		} else if stored == nil && !v.torn && !v.left {
			v.problem(v.at.of.name, "generation %d has no head", v.at.of.generation)
		}
	}
	if v.torn {
		return nil
	}
	indexes := map[uint16]bool{}
	for id := range v.layers {
		indexes[id.Index] = true
	}
	for i := range max(1, len(indexes)) {
		if !indexes[uint16(i)] && !v.owners {
			v.problem(v.at.of.name, "layer %d is missing", i)
			break
		}
	}
	return nil
}

// Finish checks the last generation, and that the directory lists all.
func (v *Verifier) Finish() error {
	if err := errors.Join(v.end(), v.directory(true)); err != nil {
		return err
	}
	if v.blind {
		return nil
	}
	listed := map[string]uint64{}
	for _, f := range v.seen {
		present, dropped := v.known[f.entry(keyscheme.EntryPresent)], v.known[f.entry(keyscheme.EntryLeft)]
		switch other, twice := listed[string(f.of.name)]; {
		case !present && !dropped && f.of.generation <= v.last:
			v.problem(f.of.name, "generation %d is not in the directory", f.of.generation)
		case twice && other != f.of.generation && present && !dropped:
			v.problem(f.of.name, "generations %d and %d both exist", other, f.of.generation)
		case present && !dropped:
			listed[string(f.of.name)] = f.of.generation
		}
	}
	return nil
}
