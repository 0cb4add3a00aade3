package filters_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/engine/internal/lsm"
)

// manySlices is a filter of many slices, and keys of each.
func manySlices(parts int, d bigset.FilterDurability) (spec bigset.SliceSpec, hashes [][]bloomslice.Hash) {
	spec = sliceSpec(0, 7, d)
	spec.Options.Capacity, spec.Options.Slices = max(20_000, uint64(parts)*300), uint32(parts)
	hashes = make([][]bloomslice.Hash, parts)
	for i := range parts * 20 {
		h := bloomslice.Sum(fmt.Append(nil, "many ", i))
		s := h.Slice(uint32(parts))
		hashes[s] = append(hashes[s], h)
	}
	return spec, hashes
}

// markings are requests for the keys of all slices.
func markings(spec bigset.SliceSpec, hashes [][]bloomslice.Hash) (all []filters.SliceMarking) {
	for i := range hashes {
		spec.Slice = uint32(i)
		all = append(all, filters.SliceMarking{Spec: spec, Hashes: hashes[i], Added: make([]bool, len(hashes[i]))})
	}
	return all
}

// openOthers opens stores in which a slice was marked, so that their mark and the record of what marks promise are on disk, with
// room for a batch in memory.
func openOthers(t *testing.T, n int) (replicas []*sliceReplica) {
	for i := range n {
		r := &sliceReplica{room: newRoom(fmt.Sprint("replica ", i))}
		r.opt.MemTableBytes = 4 << 20
		r.open(t)
		first := sliceSpec(0, 1, bigset.FilterSync)
		first.Name = []byte("first")
		must(t, r.store.db.Promise(lsm.PromiseFiltersMemory|lsm.PromiseFiltersLog), "promise")
		r.marks(t, first, sliceKeys(&first, 0, 10))
		replicas = append(replicas, r)
	}
	return replicas
}

// syncs counts the syncs of logs on a disk, until stop.
func (r *sliceReplica) syncs() (stop func() int64) {
	var n atomic.Int64
	r.disk.SetHook("syncs", func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log") {
			n.Add(1)
		}
		return nil
	})
	return func() int64 {
		r.disk.SetHook("syncs", nil)
		return n.Load()
	}
}

// TestManySlicesAtOnce: the first marks in all slices of a filter make the slices with one sync, and wait for the log of marks
// once; so do marks that another replica has decided. Power cuts take back nothing that was acknowledged.
func TestManySlicesAtOnce(t *testing.T) {
	t.Parallel()
	const parts = 64
	for d, most := range map[bigset.FilterDurability]int64{bigset.FilterInterval: 1, bigset.FilterLog: 1, bigset.FilterSync: 2} {
		spec, hashes := manySlices(parts, d)
		r := openOthers(t, 2)
		all := markings(spec, hashes)
		stop := r[0].syncs()
		r[0].store.Filters().MarkSlices(bg, all)
		if n := stop(); n > most { // that of the slices, and that of the marks
			t.Errorf("durability %d: %d syncs mark %d slices", d, n, parts)
		}
		marks := make([]filters.SliceMarks, parts)
		for i := range all {
			must(t, all[i].Err, "mark")
			if !slices.EqualFunc(all[i].Marks.Marks, hashes[i], func(m bigset.Mark, h bloomslice.Hash) bool { return m.Hash == h }) || all[i].Marks.Slice != uint32(i) || !all[i].Begun {
				t.Fatalf("slice %d: %+v", i, all[i])
			}
			marks[i] = filters.SliceMarks{Marks: all[i].Marks, Added: make([]bool, len(hashes[i]))}
		}
		stop = r[1].syncs()
		r[1].store.Filters().ApplyMarksOf(bg, marks)
		if n := stop(); n > most {
			t.Errorf("durability %d: %d syncs apply marks of %d slices", d, n, parts)
		}
		for i := range marks {
			must(t, marks[i].Err, "apply")
		}
		for _, r := range r {
			if d == bigset.FilterSync {
				r.crash(0)
				r.open(t)
			}
			for i := range hashes {
				spec.Slice = uint32(i)
				if n := r.has(t, spec, hashes[i]); n != len(hashes[i]) {
					t.Fatalf("durability %d: %s has %d of %d keys of slice %d", d, r.label, n, len(hashes[i]), i)
				}
			}
			r.verified(t, "at the end")
			r.close(t)
		}
	}
}

// TestSlicesMadeSideBySide: goroutines that make slices wait for the disk together, not one after the other, and so do those that
// find a slice that another goroutine has made and that is not on disk yet.
func TestSlicesMadeSideBySide(t *testing.T) {
	t.Parallel()
	const parts = 32
	spec, hashes := manySlices(parts, bigset.FilterSync)
	r := openOthers(t, 1)[0]
	before := r.store.own.Made()
	all := make(chan struct{})
	var waited atomic.Bool
	r.disk.SetHook("hold", func(op errorfs.Op) error {
		isSync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
		if isSync && strings.HasSuffix(op.Path, ".log") && !strings.Contains(op.Path, "filters-") && !waited.Swap(true) {
			select {
			case <-all:
			case <-time.After(time.Minute):
			}
		}
		return nil
	})
	var wg sync.WaitGroup
	var acked atomic.Int64
	for i := range parts {
		for range 2 {
			wg.Go(func() {
				spec := spec
				spec.Slice = uint32(i)
				_, err := r.store.Filters().MarkSlice(bg, spec, 0, hashes[i], make([]bool, len(hashes[i])))
				must(t, err, "mark")
				acked.Add(1)
			})
		}
	}
	for began := time.Now(); r.store.own.Made() < before+parts; time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Error("slices are made one after the other")
			break
		}
	}
	if n := acked.Load(); n > 0 {
		t.Errorf("%d requests were acknowledged before the first sync had ended", n)
	}
	close(all)
	wg.Wait()
	r.disk.SetHook("hold", nil)
	r.crash(0)
	r.open(t)
	for i := range hashes {
		spec.Slice = uint32(i)
		if n := r.has(t, spec, hashes[i]); n != len(hashes[i]) {
			t.Fatalf("%d of %d keys of slice %d", n, len(hashes[i]), i)
		}
	}
	r.close(t)
}

// TestEachSliceForItself: a problem with one of several slices is an error of that slice, and nothing of it is marked; the others
// are marked.
func TestEachSliceForItself(t *testing.T) {
	t.Parallel()
	spec, hashes := manySlices(4, bigset.FilterSync)
	named := func(name string, slice uint32, generation uint64) bigset.SliceSpec {
		s := spec
		s.Name, s.Slice, s.Generation = []byte(name), slice, generation
		return s
	}
	r := openReplicas(t, 1)[0]
	mark := func(ctx context.Context, specs ...bigset.SliceSpec) []filters.SliceMarking {
		var all []filters.SliceMarking
		for _, s := range specs {
			all = append(all, filters.SliceMarking{Spec: s, Hashes: hashes[s.Slice%4], Added: make([]bool, len(hashes[s.Slice%4]))})
		}
		r.store.Filters().MarkSlices(ctx, all)
		return all
	}
	other := named("b", 1, 3)
	other.Options.Probability /= 2
	all := mark(bg,
		named("a", 0, 2), named("a", 1, 2), named("a", 0, 2), // made, and gone again before their turn
		named("b", 0, 3), other, // other options in one slice: it stands for itself
		named("a2", 0, 2),                  // a generation of another filter
		named("a", 2, 5), named("a", 1, 5), // a later one takes its place
		named("a", 3, 2),                   // which was replaced by then
		named("d", 4, 9), named("d", 0, 9), // no such slice
		named("e", 0, 10), named("e", 0, 10), // twice
	)
	for i, want := range []error{bigset.ErrNoFilter, bigset.ErrNoFilter, bigset.ErrNoFilter, nil, nil, bigset.ErrRequest, nil, nil, bigset.ErrNoFilter, bigset.ErrRequest, nil, nil, nil} {
		if err := all[i].Err; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
		if all[i].Begun != (want == nil) {
			t.Errorf("%d: begun: %v", i, all[i].Begun)
		}
	}
	for range 2 {
		for _, s := range []bigset.SliceSpec{named("a", 2, 5), named("a", 1, 5), named("b", 0, 3), other, named("d", 0, 9), named("e", 0, 10)} {
			if n := r.has(t, s, hashes[s.Slice]); n != len(hashes[s.Slice]) {
				t.Errorf("%d of %d keys of slice %d of %s", n, len(hashes[s.Slice]), s.Slice, s.Name)
			}
		}
		r.verified(t, "marked")
		r.crash(0)
		r.open(t)
	}
	over, cancel := context.WithCancel(bg)
	cancel()
	for _, m := range mark(over, named("g", 0, 20), named("a", 2, 5)) {
		if !errors.Is(m.Err, context.Canceled) || m.Begun {
			t.Errorf("ended before: %v, begun: %v", m.Err, m.Begun)
		}
	}
	if _, err := r.store.Filters().Get([]byte("g")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("made for a request that had ended: %v", err)
	}
	midway := &ending{bg, 2}
	for i, m := range mark(midway, named("a", 2, 5), named("a", 1, 5)) {
		if ended := i == 1; m.Begun == ended || errors.Is(m.Err, context.Canceled) != ended {
			t.Errorf("ended before the second: %d: %v, begun: %v", i, m.Err, m.Begun)
		}
	}
	empty := []filters.SliceMarks{{Marks: bigset.Marks{SliceSpec: named("h", 0, 30)}}}
	r.store.Filters().ApplyMarksOf(bg, empty)
	if _, err := r.store.Filters().Get([]byte("h")); !errors.Is(err, bigset.ErrNoFilter) || empty[0].Err != nil || empty[0].Begun {
		t.Errorf("no marks: %v, %+v", err, empty[0])
	}
	r.close(t)
}

// ending is a context that ends after Err was called a number of times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}
