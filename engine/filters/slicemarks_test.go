package filters_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
)

// openReplicas are stores without slices.
func openReplicas(t *testing.T, n int) (replicas []*sliceReplica) {
	for i := range n {
		r := &sliceReplica{room: newRoom(fmt.Sprint("replica ", i)), seat: bloomslice.Seat(i)}
		r.open(t)
		replicas = append(replicas, r)
	}
	return replicas
}

// marks marks keys under the replica's name.
func (r *sliceReplica) marks(t *testing.T, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool) {
	t.Helper()
	added := make([]bool, len(hashes))
	m, err := r.store.Filters().MarkSlice(bg, spec, r.seat, hashes, added)
	must(t, err, "mark")
	r.acked = append(r.acked, hashes...)
	return m, added
}

// applies applies what another replica has decided.
func (r *sliceReplica) applies(t *testing.T, m bigset.Marks) []bool {
	t.Helper()
	added := make([]bool, len(m.Marks))
	must(t, r.store.Filters().ApplyMarks(bg, m, added), "apply")
	for _, mark := range m.Marks {
		r.acked = append(r.acked, mark.Hash)
	}
	return added
}

// has counts the keys that are in a slice.
func (r *sliceReplica) has(t *testing.T, spec bigset.SliceSpec, hashes []bloomslice.Hash) (n int) {
	t.Helper()
	present := make([]bool, len(hashes))
	must(t, r.store.Filters().CheckSlice(bg, spec, hashes, present), "check")
	for _, yes := range present {
		if yes {
			n++
		}
	}
	return n
}

// verified checks all that the replica has.
func (r *sliceReplica) verified(t *testing.T, what string) {
	t.Helper()
	if rep, err := r.store.Verify(); err != nil || !rep.OK() {
		t.Errorf("%s: %+v, %v", what, rep.Problems, err)
	}
}

// TestMarksConverge: two replicas that have applied each other's marks are equal, also if both had a key before; each has layers of
// its own. The marks include keys that were found.
func TestMarksConverge(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	r := openReplicas(t, 3)
	hashes := sliceKeys(&spec, 0, 600)
	ones, _ := r[0].marks(t, spec, hashes[:200])
	twos, _ := r[1].marks(t, spec, hashes[100:])
	if added := r[1].applies(t, ones); slices.Contains(added[100:], true) || !slices.Contains(added[:100], true) {
		t.Errorf("told as new: %v", added)
	}
	r[0].applies(t, twos)
	one, two := r[0].digestOf(t, spec), r[1].digestOf(t, spec)
	if one == nil || two == nil || one.Sum != two.Sum {
		t.Errorf("%+v and %+v", one, two)
	}
	for i, m := range []bigset.Marks{ones, twos} {
		if len(m.Layers) != 1 || m.Layers[0].ID.Owner != r[i].seat.Owner() {
			t.Errorf("%s has marked in %+v", r[i].label, m.Layers)
		}
	}
	again, added := r[0].marks(t, spec, hashes)
	if slices.Contains(added, true) || len(again.Marks) != len(hashes) {
		t.Errorf("%d marks, told as new: %v", len(again.Marks), added)
	}
	r[2].applies(t, again)
	r[2].denies(t, spec, "marked what it had")
	for _, r := range r {
		r.verified(t, r.label)
		r.close(t)
	}
}

// TestMarksAckedAreDurable cuts the power after the first and after the second marks: the first make the slice.
func TestMarksAckedAreDurable(t *testing.T) {
	spec := sliceSpec(1, 7, bigset.FilterSync)
	r := openReplicas(t, 2)
	for from := 0; from < 200; from += 50 {
		m, _ := r[0].marks(t, spec, sliceKeys(&spec, from, from+50))
		r[1].applies(t, m)
		for _, r := range r {
			r.crash(0)
			r.open(t)
			r.denies(t, spec, fmt.Sprint("crash behind ", from))
			r.verified(t, r.label)
		}
	}
	for _, r := range r {
		r.close(t)
	}
}

// TestDropOfEarlier: the drop of a generation leaves a later one as it is, and is remembered also by a store that had nothing of
// the filter.
func TestDropOfEarlier(t *testing.T) {
	r := openReplicas(t, 1)[0]
	spec := sliceSpec(0, 7, bigset.FilterSync)
	r.marks(t, spec, sliceKeys(&spec, 0, 100))
	must(t, r.store.Filters().DropGeneration(bg, spec.Name, 2, 6), "drop an earlier one")
	other := sliceSpec(0, 9, bigset.FilterSync)
	other.Name = []byte("other")
	must(t, r.store.Filters().DropGeneration(bg, other.Name, 2, 9), "drop what is not here")
	for range 2 {
		r.denies(t, spec, "an earlier one was dropped")
		if d := r.digestOf(t, spec); d == nil || d.Dropped {
			t.Errorf("listed as %+v", d)
		}
		hashes := sliceKeys(&other, 0, 10)
		if _, err := r.store.Filters().MarkSlice(bg, other, 0, hashes, make([]bool, len(hashes))); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("marked what was dropped: %v", err)
		}
		if d := r.digestOf(t, other); d == nil || !d.Dropped || d.Generation != 9 {
			t.Errorf("listed as %+v", d)
		}
		r.crash(0)
		r.open(t)
	}
	r.close(t)
}

// TestOtherOptions: a request for a filter of other options is refused, and changes nothing.
func TestOtherOptions(t *testing.T) {
	r := openReplicas(t, 1)[0]
	spec := sliceSpec(0, 7, bigset.FilterSync)
	r.marks(t, spec, sliceKeys(&spec, 0, 100))
	before := r.digestOf(t, spec).Sum
	for what, change := range map[string]func(*bigset.FilterOptions){
		"capacity":    func(o *bigset.FilterOptions) { o.Capacity++ },
		"probability": func(o *bigset.FilterOptions) { o.Probability /= 2 },
		"scale":       func(o *bigset.FilterOptions) { o.Scale = 2 },
		"reduction":   func(o *bigset.FilterOptions) { o.Reduction = 0.8 },
		"slices":      func(o *bigset.FilterOptions) { o.Slices = 4 },
		"owners":      func(o *bigset.FilterOptions) { o.Owners = 2 },
		"durability":  func(o *bigset.FilterOptions) { o.Durability = bigset.FilterLog },
	} {
		other := spec
		change(&other.Options)
		hashes := sliceKeys(&other, 200, 210)
		_, marked := r.store.Filters().MarkSlice(bg, other, 0, hashes, make([]bool, len(hashes)))
		checked := r.store.Filters().CheckSlice(bg, other, hashes, make([]bool, len(hashes)))
		_, summed := r.store.Filters().PageSums(bg, other, nil, 0)
		for _, err := range []error{marked, checked, summed} {
			if !errors.Is(err, bigset.ErrRequest) {
				t.Errorf("another %s: %v", what, err)
			}
		}
	}
	if after := r.digestOf(t, spec).Sum; after != before {
		t.Error("the slice has changed")
	}
	r.close(t)
}

// TestLaterGeneration: a filter of a later generation leaves nothing of the earlier one.
func TestLaterGeneration(t *testing.T) {
	r := openReplicas(t, 1)[0]
	for generation := uint64(5); generation < 8; generation++ {
		spec := sliceSpec(0, generation, bigset.FilterSync)
		r.marks(t, spec, sliceKeys(&spec, 0, 100))
	}
	r.store.own.Excised()
	keys, err := r.store.FilterKeys([]byte("f"))
	must(t, err, "keys")
	present, left, err := r.store.Directory()
	must(t, err, "directory")
	for generation := range keys {
		if generation != 7 {
			t.Errorf("keys of generation %d", generation)
		}
	}
	if present != 1 || left != 0 {
		t.Errorf("the directory has %d and %d entries", present, left)
	}
	r.close(t)
}

// TestMadeAgainAfterDrop: a slice is not made again in a generation whose keys are not excised yet, because it would contain them.
func TestMadeAgainAfterDrop(t *testing.T) {
	r := openReplicas(t, 1)[0]
	spec := sliceSpec(0, 7, bigset.FilterSync)
	hashes := sliceKeys(&spec, 0, 400)
	r.marks(t, spec, hashes)
	must(t, r.store.Filters().Flush(bg), "flush")
	r.store.own.Stop()
	must(t, r.store.Filters().Drop(bg, spec.Name), "drop")
	if _, err := r.store.Filters().MarkSlice(bg, spec, 0, hashes[:1], make([]bool, 1)); !errors.Is(err, bigset.ErrSliceAway) {
		t.Errorf("marked: %v", err)
	}
	r.close(t)
	r.open(t)
	r.store.own.Excised()
	r.marks(t, spec, hashes[:1])
	if n := r.has(t, spec, hashes); n != 1 {
		t.Errorf("it has %d keys", n)
	}
	r.verified(t, "made again")
	r.close(t)
}

// twoSlices is a replica with a key and more in each slice of a filter.
func twoSlices(t *testing.T) (r *sliceReplica, specs [2]bigset.SliceSpec, hashes [2][]bloomslice.Hash) {
	r = openReplicas(t, 1)[0]
	for i := range specs {
		specs[i] = sliceSpec(uint32(i), 7, bigset.FilterSync)
		hashes[i] = sliceKeys(&specs[i], 0, 200)
		r.marks(t, specs[i], hashes[i])
	}
	must(t, r.store.Filters().Flush(bg), "flush")
	must(t, r.store.FlushTables(), "flush tables")
	return r, specs, hashes
}

// TestExcisedSlice: when a range is excised, the slice in it is removed, and no other.
func TestExcisedSlice(t *testing.T) {
	for cut := range 2 {
		r, specs, hashes := twoSlices(t)
		slot := specs[cut].Slot()
		must(t, r.store.DropRange(bg, slot, slot), "drop range")
		for range 2 {
			if _, err := r.store.Filters().Get(specs[0].Name); err != nil {
				t.Errorf("the filter: %v", err)
			}
			if n := r.has(t, specs[cut], hashes[cut]); n > 0 {
				t.Errorf("%d keys of what was excised", n)
			}
			if n := r.has(t, specs[1-cut], hashes[1-cut]); n != len(hashes[1-cut]) {
				t.Errorf("%d keys of the other slice, %d were marked", n, len(hashes[1-cut]))
			}
			r.verified(t, "excised")
			r.crash(0)
			r.open(t)
		}
		r.marks(t, specs[cut], hashes[cut][:1]) // it comes again
		if n := r.has(t, specs[cut], hashes[cut]); n != 1 {
			t.Errorf("it has %d keys", n)
		}
		r.verified(t, "made again")
		r.close(t)
	}
}

// TestExcisedSliceCrashes cuts the power before every operation on the disk while a slice is excised: the other is whole, and the slice can
// come again, whatever the directory says of it.
func TestExcisedSliceCrashes(t *testing.T) {
	r, specs, hashes := twoSlices(t)
	slot := specs[0].Slot()
	stop := r.disk.CrashEverywhere(0, 100)
	must(t, r.store.DropRange(bg, slot, slot), "drop range")
	crashes := stop()
	must(t, r.store.Close(), "close")
	for i, disk := range crashes {
		r.disk = disk
		r.open(t)
		more := sliceKeys(&specs[0], 1000, 1010)
		r.marks(t, specs[0], more)
		for opens := range 1 + i/2%2 {
			if opens > 0 {
				r.crash(0)
				r.open(t)
			}
			if n := r.has(t, specs[0], more); n != len(more) {
				t.Errorf("crash %d: %d keys of the slice that comes again", i, n)
			}
			if n := r.has(t, specs[1], hashes[1]); n != len(hashes[1]) {
				t.Errorf("crash %d: %d keys of the other slice", i, n)
			}
			r.verified(t, fmt.Sprint("crash ", i))
		}
		must(t, r.store.Filters().Drop(bg, specs[0].Name), "drop")
		r.store.own.Excised()
		must(t, r.store.FlushTables(), "flush tables")
		must(t, r.store.CompactTables(bg), "compact")
		if present, left, err := r.store.Directory(); present+left > 0 || err != nil {
			t.Errorf("crash %d: the directory has %d and %d entries, %v", i, present, left, err)
		}
		must(t, r.store.Close(), "close")
	}
	t.Logf("%d crashes", len(crashes))
}

// layersOf returns the layers that are stored of a slice.
func (r *sliceReplica) layersOf(t *testing.T, spec bigset.SliceSpec) []bloomslice.Layer {
	t.Helper()
	return allSums(t, spec, r).Layers
}

// TestCountsAreStored: counts and layers that come without a bit are stored, by a flush and by a close, also if they came during a
// flush.
func TestCountsAreStored(t *testing.T) {
	spec := sliceSpec(0, 7, bigset.FilterSync)
	spec.Options.Capacity = 12_000_000 // its pages go in as a table
	r := openReplicas(t, 1)[0]
	r.seat = 2
	r.marks(t, spec, sliceKeys(&spec, 0, 100))
	must(t, r.store.Filters().FlushSlice(bg, spec), "flush")
	layers := r.layersOf(t, spec)
	raise := func() error {
		layers[len(layers)-1].Count += 7
		return r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers})
	}
	is := func(what string) {
		t.Helper()
		if got := r.layersOf(t, spec); !slices.Equal(got, layers) {
			t.Errorf("%s: %+v, want %+v", what, got, layers)
		}
	}
	must(t, raise(), "raise")
	must(t, r.store.Filters().FlushSlice(bg, spec), "flush")
	r.crash(0)
	r.open(t)
	is("flushed")
	empty := layers[0]
	empty.ID.Owner, empty.Count = bloomslice.Seat(1).Owner(), 0
	layers = append([]bloomslice.Layer{empty}, layers...)
	must(t, r.store.Filters().MergePages(bg, bigset.SlicePages{SliceSpec: spec, Layers: layers}), "merge an empty layer")
	is("before a flush")
	must(t, r.store.Filters().FlushSlice(bg, spec), "flush")
	r.crash(0)
	r.open(t)
	is("an empty layer")
	must(t, raise(), "raise")
	r.close(t)
	r.open(t)
	is("closed")

	m, _ := r.marks(t, spec, sliceKeys(&spec, 1000, 5000))
	layers[1].Count = m.Layers[0].Count
	var once sync.Once
	err := errors.New("no table was made")
	r.disk.SetHook("raise", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(path.Base(op.Path), "span-") {
			once.Do(func() { err = raise() })
		}
		return nil
	})
	f, e := r.store.Filters().Get(spec.Name)
	must(t, e, "filter")
	if closed, e := f.Close(bg); !closed || e != nil || err != nil {
		t.Fatalf("close: %v, %v, %v", closed, e, err)
	}
	r.disk.SetHook("raise", nil)
	r.close(t)
	r.open(t)
	is("raised within a close")
	r.verified(t, "at the end")
	r.close(t)
}
