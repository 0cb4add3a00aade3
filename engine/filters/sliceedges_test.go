// Single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package filters_test

import (
	"errors"
	"slices"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
)

// markSlice marks keys in a slice of a replica, in its own layers.
func (r *sliceReplica) markSlice(t *testing.T, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool) {
	t.Helper()
	added := make([]bool, len(hashes))
	m, err := r.store.Filters().MarkSlice(bg, spec, r.seat, hashes, added)
	must(t, err, "mark")
	return m, added
}

// TestFoundAfterMerge: a key whose bits came as pages from another replica is marked again, and acknowledged as found. It is then
// as durable as the filter promises, though the pages are not stored yet.
func TestFoundAfterMerge(t *testing.T) {
	for _, c := range []struct {
		d        bigset.FilterDurability
		survives int
	}{{bigset.FilterSync, 0}, {bigset.FilterLog, 100}} {
		a, b := &sliceReplica{room: newRoom("a")}, &sliceReplica{room: newRoom("b")}
		a.open(t)
		b.open(t)
		spec := sliceSpec(1, 7, c.d)
		hashes := sliceKeys(&spec, 0, 200)
		b.markSlice(t, spec, hashes)
		pull(t, spec, b, a)
		_, added := a.markSlice(t, spec, hashes)
		if slices.Contains(added, true) {
			t.Error("a key that came before is new")
		}
		a.crash(c.survives)
		a.open(t)
		a.acked = hashes
		a.denies(t, spec, "after a crash")
		a.close(t)
		b.close(t)
	}
}

// TestRefusedChangesNothing: a request that no correct replica sends is refused before anything of it is done or logged, so that
// the next open finds nothing wrong.
func TestRefusedChangesNothing(t *testing.T) {
	r := &sliceReplica{room: newRoom("replica")}
	r.open(t)
	spec := sliceSpec(0, 7, bigset.FilterSync)
	spec.Options.Slices, spec.Options.Owners = 1, 1 // whose shapes may be those of an import
	hashes := sliceKeys(&spec, 0, 50)
	m, _ := r.markSlice(t, spec, hashes)
	r.acked = hashes
	added := make([]bool, len(hashes))
	other := m
	other.Layers = slices.Clone(m.Layers)
	other.Layers[0].Shape.Bytes++
	full := m
	full.Layers = slices.Clone(m.Layers)
	full.Layers[0].Count = full.Layers[0].Shape.Capacity + 1
	huge := m
	huge.Layers = slices.Clone(m.Layers)
	for i := range uint16(5) {
		huge.Layers = append(huge.Layers, bloomslice.Layer{ID: bloomslice.LayerID{Index: 10 + i}, Shape: bloomslice.Shape{Bytes: bloomslice.LayerBytesMax, K: 3, Capacity: 9}})
	}
	later := other
	later.Generation = 8
	later.Layers = append(slices.Clone(m.Layers), other.Layers...) // one layer, in two shapes
	twice := later                                                 // of the slice that exists; the marks name the right one
	twice.Generation = m.Generation
	for what, bad := range map[string]bigset.Marks{"another shape": other, "more keys than there is room for": full, "layers without end": huge,
		"a layer twice": later, "a layer twice, of a slice that exists": twice} {
		if err := r.store.Filters().ApplyMarks(bg, bad, added); err == nil {
			t.Errorf("%s is taken", what)
		}
		if err := r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: bad.SliceSpec, Layers: bad.Layers}); err == nil {
			t.Errorf("%s is merged", what)
		}
	}
	more := sliceKeys(&spec, 50, 60)
	r.markSlice(t, spec, more) // writes what is in the log by then
	r.acked = append(r.acked, more...)
	for range 2 {
		r.denies(t, spec, "after refused requests") // also of a later generation
		r.crash(100)
		r.open(t)
	}
	for _, generation := range []uint64{0, 1 << 63} {
		if err := r.store.Filters().DropGeneration(bg, spec.Name, 1, generation); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("drop of generation %d: %v", generation, err)
		}
	}
	if err := r.store.Filters().DropGeneration(bg, spec.Name, 2, 7); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("drop with another number of slices: %v", err)
	}
	r.close(t)
}

// TestCreateFindsFirst: a filter that exists, or was cleared, is found whatever options it is created with.
func TestCreateFindsFirst(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	defer p.close(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
	must(t, err, "create")
	bad := bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1}}
	if _, err := p.store.Filters().Create(bg, []byte("f"), bad); !errors.Is(err, bigset.ErrFilterExists) {
		t.Errorf("created again: %v", err)
	}
	_, err = f.Close(bg)
	must(t, err, "close")
	must(t, p.store.Filters().Clear([]byte("f")), "clear")
	if _, err := p.store.Filters().Create(bg, []byte("f"), bad); err != nil {
		t.Errorf("cleared: %v", err)
	}
	if _, err := p.store.Filters().Create(bg, []byte("g"), bad); !errors.Is(err, bloomslice.ErrOptions) {
		t.Errorf("a new one: %v", err)
	}
}
