package filters_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit/tier"
)

// TestSumsKept changes a slice in every possible way. After each change the digest and the hashes of pages computed from what the
// slice has kept are those computed from what is stored.
func TestSumsKept(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Times(4)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		spec := sliceSpec(0, 7, bigset.FilterInterval)
		spec.Options.Capacity = 40_000 // a few dozen pages, of several layers at the end
		if seed%2 > 0 {
			spec.Options.Capacity = 3_000_000 // which go in as tables
		}
		r := openReplicas(t, 2)
		a, b := r[0], r[1]
		a.opt.FilterCacheBytes = 300 << 10
		a.close(t)
		a.open(t)
		mark := func(r *sliceReplica, n int) {
			from := rng.IntN(60_000)
			hashes := sliceKeys(&spec, from, from+n)
			_, err := r.store.Filters().MarkSlice(bg, spec, r.seat, hashes, make([]bool, len(hashes)))
			must(t, err, "mark")
		}
		mark(a, 2000)
		mark(b, 100)
		kept := 0
		for step := range 25 {
			what := fmt.Sprintf("seed %d, step %d", seed, step)
			switch rng.IntN(10) {
			case 0, 1, 2:
				mark(a, 1+rng.IntN(30))
			case 3:
				mark(a, 1000)
			case 4:
				must(t, a.store.Filters().Flush(bg), what)
			case 5:
				mark(b, 50)
				pull(t, spec, b, a)
			case 6:
				f, err := a.store.Filters().Get(spec.Name)
				must(t, err, what)
				_, err = f.Close(bg)
				must(t, err, what)
			case 7:
				must(t, a.store.Filters().FlushSlice(bg, spec), what)
				a.crash(100)
				a.open(t)
			case 8:
				other := spec // whose pages push those of this one out
				other.Name, other.Generation = []byte("other"), 8
				hashes := sliceKeys(&other, 0, 3000)
				_, err := a.store.Filters().MarkSlice(bg, other, 0, hashes, make([]bool, len(hashes)))
				must(t, err, what)
			}
			f, err := a.store.Filters().Get(spec.Name)
			must(t, err, what)
			digest, sums := a.digestOf(t, spec).Sum, allSums(t, spec, a)
			again := a.digestOf(t, spec).Sum
			if f.DropSums(0) {
				kept++
			}
			if d, s := a.digestOf(t, spec).Sum, allSums(t, spec, a); d != digest || again != digest || !slices.Equal(s.Sums, sums.Sums) || !slices.Equal(s.Layers, sums.Layers) {
				t.Fatalf("%s: %x, of what is stored %x; %d and %d pages", what, digest, d, len(sums.Sums), len(s.Sums))
			}
		}
		if kept < 8 {
			t.Errorf("seed %d: hashes were kept %d times", seed, kept)
		}
		for _, name := range []string{"f", "other"} {
			if err := a.store.Filters().Drop(bg, []byte(name)); err != nil && !errors.Is(err, bigset.ErrNoFilter) {
				t.Error(err)
			}
		}
		if n := a.store.own.TableBytes(); n != 0 {
			t.Errorf("seed %d: %d bytes of tables are left", seed, n)
		}
		a.close(t)
		b.close(t)
	}
}

// TestSumsMidway: pages that are stored while hashes are collected are included in what is kept.
func TestSumsMidway(t *testing.T) {
	t.Parallel()
	r := openReplicas(t, 1)[0]
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	hashes := sliceKeys(&spec, 0, 5000)
	mark := func(some []bloomslice.Hash) {
		_, err := r.store.Filters().MarkSlice(bg, spec, 0, some, make([]bool, len(some)))
		must(t, err, "mark")
	}
	mark(hashes[:1000])
	f, err := r.store.Filters().Get(spec.Name)
	must(t, err, "get")
	for n := 1000; n < 1400; n += 100 {
		f.DropSums(0)
		f.SumsDuring(0, func() {
			mark(hashes[n : n+100])
			must(t, r.store.Filters().FlushSlice(bg, spec), "flush")
		})
		digest := r.digestOf(t, spec).Sum
		f.DropSums(0)
		if d := r.digestOf(t, spec).Sum; d != digest {
			t.Fatalf("%x, of what is stored %x", digest, d)
		}
	}
	r.close(t)
}

// TestSumsAfterFailedClose: if a close could not store all pages, the kept hashes know of every page that it has stored.
func TestSumsAfterFailedClose(t *testing.T) {
	t.Parallel()
	r := openReplicas(t, 1)[0]
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	spec.Options.Capacity = 12_000_000
	hashes := sliceKeys(&spec, 0, 9000)
	_, err := r.store.Filters().MarkSlice(bg, spec, 0, hashes[:3000], make([]bool, 3000))
	must(t, err, "mark")
	r.digestOf(t, spec)
	f, err := r.store.Filters().Get(spec.Name)
	must(t, err, "get")
	var once sync.Once
	r.disk.SetHook("fail", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(path.Base(op.Path), "span-") {
			once.Do(func() { err = errors.New("no table") })
			return err
		}
		return nil
	})
	_, marked := r.store.Filters().MarkSlice(bg, spec, 0, hashes[3000:4000], make([]bool, 1000))
	must(t, marked, "mark")
	if _, e := f.Close(bg); e == nil {
		t.Error("a close without a table")
	}
	r.disk.SetHook("fail", nil)
	digest := r.digestOf(t, spec).Sum
	f.DropSums(0)
	if d := r.digestOf(t, spec).Sum; d != digest {
		t.Errorf("%x, of what is stored %x", digest, d)
	}
	r.close(t)
}
