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

// Counts are what a Verifier has met. Filters that were dropped and are still to be excised are checked, and not counted.
type Counts struct {
	Filters      int    `json:"filters"`
	FilterSlices int    `json:"filter_slices"` // of them in this store
	FilterPages  uint64 `json:"filter_pages"`  // of them on disk
	FilterBytes  uint64 `json:"filter_bytes"`  // of the pages, as they are stored before tables compress them
}

// Findings are what a Verifier reports to, as it goes.
type Findings struct {
	Counts *Counts
	// Problem is told what is wrong with a filter, or, without a name, with what belongs to none.
	Problem func(filter []byte, what string)
	// Unread gets the generations of which something can't be read, with the file that is damaged.
	Unread map[lsm.Damaged]string
}

// Verifier checks the keys of filters as they come, those of one generation in a row: pages decode and lie within a layer, layers
// follow one another, a generation has a head, and the directory tells of it. An entry of the directory without a filter is no damage:
// a crash in the middle of DropRange leaves one. One goroutine uses it.
type Verifier struct {
	fs    *Filters
	rep   Findings
	blind bool            // the directory can't be read
	last  uint64          // the last generation that was given when it began
	known map[string]bool // entries of the directory when it began, and when it ended

	at     *sliceOf // the slice and generation at hand, nil before the first
	torn   bool     // some of it can't be read
	left   bool     // it was dropped, and is still to be excised
	head   bool
	owners bool                                     // replicas fill it: a layer may come before those that are below it
	memory bool                                     // it is in memory only
	layers map[bloomslice.LayerID]*bloomslice.Layer // nil where it can't be read. Its count may be ahead of its pages
	seen   []*sliceOf
}

// sliceOf names a slice of a generation of a filter, which need not be one that there can be.
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

// Verify begins to verify all filters. The store's keys are then told to Key, in order, and at the end Finish.
func (o *Owner) Verify(rep Findings) (*Verifier, error) {
	fs := o.fs
	fs.life.Lock()
	v := &Verifier{fs: fs, rep: rep, last: fs.generation, known: map[string]bool{}}
	fs.life.Unlock()
	return v, v.directory(false)
}

// Unit is a slice of a filter that lies in a store, and what its keys are within.
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

// Unreadable notes that some of a slice can't be read.
func (v *Verifier) Unreadable(u Unit, damage error) error {
	if err := v.begin(u.of.name, u.of.generation, u.index); err != nil {
		return err
	}
	v.unreadable(damage)
	return nil
}

// Over ends the slice at hand: the next key is of something else.
func (v *Verifier) Over() error {
	err := v.end()
	v.at = nil
	return err
}

func (v *Verifier) problem(name []byte, format string, args ...any) {
	v.rep.Problem(name, fmt.Sprintf(format, args...))
}

// bad is a problem that keeps the slice at hand from being read.
func (v *Verifier) bad(format string, err error) {
	v.rep.Unread[v.at.of.damaged()] = lsm.TableOf(err)
	v.problem(v.at.of.name, format, err)
}

// directory takes the directory in, and at the end reports what is wrong with it.
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

// Key takes a key that is a slot's own.
func (v *Verifier) Key(k *keyscheme.Key, value []byte) error {
	if k.Kind != keyscheme.KindSlotBloom {
		return nil
	}
	f, ok := keyscheme.DecodeFilterKey(k.Rest)
	if !ok {
		v.problem(nil, "%x in slot %08x is no key of a filter", k.Rest, k.Slot)
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

// begin ends the slice at hand and begins another, if it is another.
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

// unreadable notes that some of the slice at hand can't be read.
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
	if !known { // a scrub may have passed before there was one
		stored, err := v.get(v.at.prefix().AppendLayer(nil, v.at.of.generation, k.Layer))
		if errors.Is(err, bigset.ErrCorrupt) {
			v.unreadable(err)
			v.layers[k.Layer] = nil
			return nil
		}
		if err != nil {
			return err
		}
		if stored == nil && v.left { // an import brings its layers last
			v.layers[k.Layer] = nil
			return nil
		}
		if stored == nil {
			v.problem(v.at.of.name, "page %d of layer %d, which is gone", k.Page, k.Layer.Index)
			v.layers[k.Layer] = nil
			return nil
		}
		v.takeLayer(k.Layer, stored)
		l = v.layers[k.Layer]
	}
	if v.memory {
		v.problem(v.at.of.name, "page %d of layer %d, and it is in memory only", k.Page, k.Layer.Index)
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

// get returns a value, nil where there is none.
func (v *Verifier) get(key []byte) ([]byte, error) {
	value, _, err := v.fs.db.Get(key)
	return value, lsm.DiskError(err)
}

// end checks what can be said only of a whole generation.
func (v *Verifier) end() error {
	if v.at == nil {
		return nil
	}
	v.seen = append(v.seen, v.at)
	if v.torn && !v.head && v.at.index == 0 && !v.left {
		v.rep.Counts.Filters++
	}
	if !v.head { // as of a layer
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
			v.problem(v.at.of.name, "layer %d is gone", i)
			break
		}
	}
	return nil
}

// Finish checks the last generation, and that the directory tells of all.
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
			v.problem(f.of.name, "generations %d and %d are there", other, f.of.generation)
		case present && !dropped:
			listed[string(f.of.name)] = f.of.generation
		}
	}
	return nil
}
