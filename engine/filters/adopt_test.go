package filters_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
)

// aloneOptions are those of a small filter as a node alone makes it.
func aloneOptions(parts uint32) bigset.FilterOptions {
	return bigset.FilterOptions{Options: bloomslice.Options{Capacity: 10_001, Probability: 0.01, Scale: 2, Reduction: 0.9, Slices: parts, Owners: 1}, Durability: bigset.FilterSync}
}

// replicated returns a spec of a filter that a store has.
func (r *sliceReplica) replicated(t *testing.T, name string) bigset.SliceSpec {
	t.Helper()
	f, err := r.store.Filters().Get([]byte(name))
	must(t, err, "get")
	info, err := f.Info()
	must(t, err, "info")
	return bigset.SliceSpec{Name: []byte(name), Generation: info.Generation, Options: info.Options}
}

// TestAdopt: a filter that was made alone is copied to two other replicas, and all three mark keys in it, also while one is away.
// No replica denies a key that it has acknowledged; the layers from before stay as they are, and new ones follow them; and false
// positives are no more frequent than the filter was made for.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, parts := range []uint32{1, 2} {
		const before, after, asked = 25_000, 40_000, 40_000
		r := openReplicas(t, 3)
		f, err := r[0].store.Filters().Create(bg, []byte("f"), aloneOptions(parts))
		must(t, err, "create")
		keys := markKeys(0, before)
		must(t, f.MarkAll(bg, keys, make([]bool, before)), "mark")
		old := r[0].replicated(t, "f")
		must(t, r[0].store.Filters().Adopt(bg, []byte("f"), 3), "adopt")
		must(t, r[0].store.Filters().Adopt(bg, []byte("f"), 3), "adopt again")
		if parts == 1 { // of the other the slices are open
			r[0].crash(0)
			r[0].open(t)
		}
		spec := r[0].replicated(t, "f")
		if spec.Options.Owners != 3 || spec.Generation != old.Generation {
			t.Fatalf("%+v", spec)
		}
		for i := range parts {
			s := spec
			s.Slice = i
			was := r[0].layersOf(t, s)
			for _, other := range r[1:] {
				pull(t, s, r[0], other)
			}
			var hashes []bloomslice.Hash
			for _, key := range markKeys(0, before+after) {
				if h := bloomslice.Sum(key); h.Slice(parts) == i {
					hashes = append(hashes, h)
				}
			}
			var acked []bloomslice.Hash
			for _, key := range keys {
				if h := bloomslice.Sum(key); h.Slice(parts) == i {
					acked = append(acked, h)
				}
			}
			for n, chunk := 0, 0; n < len(hashes)-len(acked); n, chunk = n+500, chunk+1 {
				some := hashes[len(acked)+n : min(len(acked)+n+500, len(hashes))]
				by := chunk % 3
				m, err := r[by].store.Filters().MarkSlice(bg, s, r[by].seat, some, make([]bool, len(some)))
				must(t, err, "mark")
				if to := (by + 1) % 3; chunk%5 > 0 || to == 0 { // the third misses it, and gets it at the end
					must(t, r[to].store.Filters().ApplyMarks(bg, m, make([]bool, len(some))), "apply")
				}
			}
			for round := range 2 {
				for from := range r {
					pull(t, s, r[from], r[(from+1)%3])
					pull(t, s, r[from], r[(from+2)%3])
				}
				if round == 0 {
					r[1].crash(0)
					r[1].open(t)
				}
			}
			seats := map[string]bool{}
			for _, one := range r {
				one.acked = hashes
				one.denies(t, s, "at the end")
				for at, l := range one.layersOf(t, s) {
					seats[l.ID.Owner] = true
					if shape, err := spec.Options.Shape(int(l.ID.Index)); at >= len(was) && (shape != l.Shape || err != nil) {
						t.Errorf("%v is of shape %+v, want %+v, %v", l.ID, l.Shape, shape, err)
					}
					if at < len(was) && (l.ID != was[at].ID || l.Shape != was[at].Shape) || at >= len(was) && int(l.ID.Index) < len(was) {
						t.Errorf("layers %+v, there were %+v", one.layersOf(t, s), was)
						break
					}
				}
				one.verified(t, one.label)
			}
			if len(seats) != 3 {
				t.Errorf("layers of seats %v", seats)
			}
			found, of := 0, 0
			for i := range asked {
				if h := bloomslice.Sum(fmt.Append(nil, "other", i)); h.Slice(parts) == s.Slice {
					present := [1]bool{}
					must(t, r[2].store.Filters().CheckSlice(bg, s, []bloomslice.Hash{h}, present[:]), "check")
					if of++; present[0] {
						found++
					}
				}
			}
			if rate := float64(found) / float64(of); rate > 0.011 {
				t.Errorf("%d slices: %.4f of others are found", parts, rate)
			}
		}
		for _, one := range r {
			one.close(t)
		}
	}
}

// TestAdoptCrashes cuts the power before every operation on the disk of an adoption: all slices have one owner, or all have three, and no key is
// denied.
func TestAdoptCrashes(t *testing.T) {
	t.Parallel()
	r := openReplicas(t, 1)[0]
	f, err := r.store.Filters().Create(bg, []byte("f"), aloneOptions(4))
	must(t, err, "create")
	keys := markKeys(0, 500)
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	stop := r.disk.CrashEverywhere(0, 100)
	must(t, r.store.Filters().Adopt(bg, []byte("f"), 3), "adopt")
	crashes := stop()
	must(t, r.store.Close(), "close")
	for i, disk := range crashes {
		r.disk = disk
		r.open(t)
		for s := range uint32(4) {
			one := r.replicated(t, "f")
			one.Slice = s
			if _, err := r.store.Filters().PageSums(bg, one, nil, 0); err != nil || one.Options.Owners != 1 && one.Options.Owners != 3 {
				t.Errorf("crash %d: slice %d of %+v: %v", i, s, one.Options, err)
			}
		}
		f, err := r.store.Filters().Get([]byte("f"))
		must(t, err, "get")
		present := make([]bool, len(keys))
		if must(t, f.CheckAll(keys, present), "check"); slices.Contains(present, false) {
			t.Errorf("crash %d: a key is denied", i)
		}
		r.verified(t, fmt.Sprint("crash ", i))
		must(t, r.store.Filters().Adopt(bg, []byte("f"), 3), "adopt again")
		r.close(t)
	}
}

// TestAdoptRefused: a filter that can't be adopted stays as it is.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	r := openReplicas(t, 1)[0]
	fs := r.store.Filters()
	memory := aloneOptions(1)
	memory.InMemory = true
	named := bloomslice.Layer{ID: bloomslice.LayerID{Owner: "node"}}
	var err error
	named.Shape, err = aloneOptions(1).Shape(0)
	must(t, err, "shape")
	_, err = fs.Create(bg, []byte("memory"), memory)
	must(t, err, "create")
	_, err = fs.Create(bg, []byte("one"), aloneOptions(1))
	must(t, err, "create")
	_, err = fs.Import(bg, []byte("named"), aloneOptions(1), []bloomslice.Layer{named}, noPages)
	must(t, err, "import")
	for _, c := range []struct {
		name   string
		owners uint32
		want   error
	}{
		{"none", 3, bigset.ErrNoFilter},
		{"memory", 3, bigset.ErrRequest},
		{"named", 3, bigset.ErrRequest},
		{"one", 0, bigset.ErrRequest},
		{"one", 200, bloomslice.ErrOptions},
		{"one", 2, nil},
		{"one", 2, nil},
		{"one", 3, bigset.ErrRequest},
	} {
		if err := fs.Adopt(bg, []byte(c.name), c.owners); !errors.Is(err, c.want) {
			t.Errorf("%s for %d: %v, want %v", c.name, c.owners, err, c.want)
		}
	}
	for name, owners := range map[string]uint32{"memory": 1, "named": 1, "one": 2} {
		if spec := r.replicated(t, name); spec.Options.Owners != owners {
			t.Errorf("%s has %d owners", name, spec.Options.Owners)
		}
	}
	last := fs.LastGeneration()
	for _, name := range []string{"memory", "named", "one"} {
		if g := r.replicated(t, name).Generation; g > last {
			t.Errorf("generation %d of %s, the last is said to be %d", g, name, last)
		}
	}
	later := sliceSpec(0, last+7, bigset.FilterSync)
	must(t, fs.DropGeneration(bg, later.Name, 2, later.Generation), "drop")
	if got := fs.LastGeneration(); got != last+7 {
		t.Errorf("the last generation is %d, %d was dropped", got, last+7)
	}
	r.close(t)
}

func noPages(func(filters.Page, error) bool) {}
