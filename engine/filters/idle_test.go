package filters_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// slicedFilter makes a filter of 16 slices with keys in all of them.
func slicedFilter(t *testing.T, r *room, name string, d bigset.FilterDurability) (f *filters.Filter, keys [][]byte) {
	t.Helper()
	f, err := r.store.Filters().Create(bg, []byte(name), bigset.FilterOptions{Options: bloomslice.Options{Capacity: 20_000, Slices: 16}, Durability: d})
	must(t, err, "create")
	keys = markKeys(0, 2000)
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	return f, keys
}

// reopened closes the store of a room and opens it again.
func (r *room) reopened(t *testing.T) *filters.Filters {
	t.Helper()
	r.close(t)
	r.open(t)
	return r.store.Filters()
}

// is checks how many slices are awake.
func (r *room) awake(t *testing.T, want int, what string) {
	t.Helper()
	if n := r.store.own.Awake(); n != want {
		t.Errorf("%s: %d slices are awake, want %d", what, n, want)
	}
}

// TestIdleSlices: an open, a list and a flush leave slices idle, and report of them what they reported when they were in memory; an
// operation on a slice wakes that slice only.
func TestIdleSlices(t *testing.T) {
	t.Parallel()
	r := newRoom("idle")
	r.open(t)
	f, keys := slicedFilter(t, r, "f", bigset.FilterInterval)
	must(t, f.Flush(bg), "flush")
	want, err := f.Info()
	must(t, err, "info")
	fs := r.reopened(t)
	r.awake(t, 0, "opened")
	same := func(what string) {
		t.Helper()
		for range 2 {
			infos, err := fs.List(nil)
			must(t, err, what)
			if len(infos) != 1 || infos[0].Figures != want.Figures || infos[0].Pages != want.Pages || infos[0].SlicesHere != 16 || infos[0].Options != want.Options {
				t.Fatalf("%s: %+v, want %+v", what, infos, want)
			}
		}
	}
	same("listed")
	must(t, fs.Flush(bg), "flush")
	if n, err := fs.CloseCold(bg); n > 0 || err != nil {
		t.Errorf("%d filters were closed, %v", n, err)
	}
	if st, err := r.store.Stats(); st.Filters != 1 || st.FiltersOpen != 0 || err != nil {
		t.Errorf("%+v, %v", st, err)
	}
	r.awake(t, 0, "listed and flushed")
	f, err = fs.Get([]byte("f"))
	must(t, err, "get")
	for i, key := range keys[:200] {
		if yes, err := f.Check(key); !yes || err != nil {
			t.Fatalf("%s: %v, %v", key, yes, err)
		}
		woken := map[uint32]bool{}
		for _, key := range keys[:i+1] {
			h := bloomslice.Sum(key)
			woken[h.Slice(16)] = true
		}
		r.awake(t, len(woken), "checked")
		if i < 5 || i == 199 {
			same(fmt.Sprintf("%d keys were checked", i+1))
		}
	}
	added := make([]bool, len(keys))
	must(t, f.MarkAll(bg, keys, added), "mark")
	if slices.Contains(added, true) {
		t.Error("a key is new again")
	}
	if closed, err := f.Close(bg); !closed || err != nil {
		t.Errorf("close: %v, %v", closed, err)
	}
	same("closed")
	if rep, err := r.store.Verify(); err != nil || !rep.OK() || rep.FilterSlices != 16 {
		t.Errorf("%+v, %v", rep, err)
	}
	r.close(t)
}

// TestIdleSlicesGo: idle slices are removed with their filter, or with the range that they lie in, and with nothing else.
func TestIdleSlicesGo(t *testing.T) {
	t.Parallel()
	name := []byte("f")
	for _, how := range []string{"drop", "drop generation", "ranges", "clear", "cleared ranges"} {
		r := newRoom(how)
		r.open(t)
		_, keys := slicedFilter(t, r, "f", bigset.FilterSync)
		slicedFilter(t, r, "g", bigset.FilterSync)
		fs := r.reopened(t)
		f, err := fs.Get(name)
		must(t, err, how)
		info, err := f.Info()
		must(t, err, how)
		left := 0
		ranges := func() {
			for i := range uint32(16) {
				if i%5 == 0 {
					left++
					continue
				}
				slot := keyscheme.SlotOf(keyscheme.PartitionFilter, name, i)
				must(t, r.store.DropRange(bg, slot, slot), how)
			}
		}
		switch how {
		case "drop":
			must(t, fs.Drop(bg, name), how)
		case "drop generation":
			must(t, fs.DropGeneration(bg, name, 16, info.Generation), how)
		case "ranges":
			ranges()
			r.awake(t, 0, "of which ranges were dropped")
		case "clear":
			must(t, fs.Clear(name), how)
			f, err := fs.Create(bg, name, testkit.SmallFilter())
			must(t, err, how)
			present := make([]bool, len(keys))
			if err := f.CheckAll(keys, present); err != nil || slices.Contains(present, false) {
				t.Errorf("%s: a key is denied, or %v", how, err)
			}
			left = 16
		case "cleared ranges":
			must(t, fs.Clear(name), how)
			ranges()
		}
		r.store.own.Excised()
		for range 2 {
			if present, dropped, err := r.store.Directory(); present != 16+left || dropped != 0 || err != nil {
				t.Errorf("%s: the directory has %d and %d entries, %v", how, present, dropped, err)
			}
			for i := range uint32(16) {
				n := 0
				must(t, r.store.EachKey(keyscheme.NewFilterPrefix(name, i).All(), func(*keyscheme.Key) { n++ }), how)
				if there := left == 16 || left > 0 && i%5 == 0; n > 0 != there {
					t.Errorf("%s: slice %d has %d keys", how, i, n)
				}
			}
			g, err := r.store.Filters().Get([]byte("g"))
			must(t, err, how)
			present := make([]bool, len(keys))
			if err := g.CheckAll(keys, present); err != nil || slices.Contains(present, false) {
				t.Errorf("%s: the other filter denies a key, or %v", how, err)
			}
			if rep, err := r.store.Verify(); err != nil || !rep.OK() {
				t.Errorf("%s: %+v, %v", how, rep.Problems, err)
			}
			fs = r.reopened(t)
		}
		_, err = fs.Get(name)
		if errors.Is(err, bigset.ErrNoFilter) != (left == 0) {
			t.Errorf("%s: %v", how, err)
		}
		r.close(t)
	}
}

// TestIdleReplay: after a crash the open wakes the slices that have keys in the log of marks, and no others.
func TestIdleReplay(t *testing.T) {
	t.Parallel()
	r := &sliceReplica{room: newRoom("replay")}
	r.open(t)
	_, keys := slicedFilter(t, r.room, "f", bigset.FilterSync)
	r.reopened(t)
	f, err := r.store.Filters().Get([]byte("f"))
	must(t, err, "get")
	more := markKeys(5000, 5003)
	must(t, f.MarkAll(bg, more, make([]bool, 3)), "mark")
	woken := map[uint32]bool{}
	for _, key := range more {
		h := bloomslice.Sum(key)
		woken[h.Slice(16)] = true
	}
	r.crash(0)
	r.open(t)
	r.awake(t, len(woken), "after a crash")
	f, err = r.store.Filters().Get([]byte("f"))
	must(t, err, "get")
	all := append(keys, more...)
	present := make([]bool, len(all))
	if err := f.CheckAll(all, present); err != nil || slices.Contains(present, false) {
		t.Errorf("a key is denied, or %v", err)
	}
	if info, err := f.Info(); info.PageIns != 16 || err != nil {
		t.Errorf("%d slices were opened since, %v", info.PageIns, err)
	}
	r.close(t)
}

// TestIdleSlicesCount: with a limit on the bytes of all filters an open reads one slice of each, and the others count as if they
// were as large until they are opened.
func TestIdleSlicesCount(t *testing.T) {
	t.Parallel()
	r := newRoom("counted")
	r.opt.FilterLimits = filters.Limits{TotalBytes: 1 << 40}
	r.open(t)
	_, keys := slicedFilter(t, r, "f", bigset.FilterInterval)
	slicedFilter(t, r, "g", bigset.FilterInterval)
	total := r.store.own.LayerBytes()
	fs := r.reopened(t)
	r.awake(t, 2, "opened")
	if n := r.store.own.LayerBytes(); n != total {
		t.Errorf("%d bytes are counted, there were %d", n, total)
	}
	f, err := fs.Get([]byte("f"))
	must(t, err, "get")
	more := markKeys(10_000, 60_000) // the slices grow
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	must(t, f.MarkAll(bg, more, make([]bool, len(more))), "mark")
	total = r.store.own.LayerBytes()
	fs = r.reopened(t)
	f, err = fs.Get([]byte("f"))
	must(t, err, "get")
	must(t, f.CheckAll(more, make([]bool, len(more))), "check")
	if n := r.store.own.LayerBytes(); n != total {
		t.Errorf("opened, %d bytes are counted, there were %d", n, total)
	}
	must(t, fs.Drop(bg, []byte("f")), "drop")
	must(t, fs.Drop(bg, []byte("g")), "drop")
	if n := r.store.own.LayerBytes(); n != 0 {
		t.Errorf("without filters %d bytes are counted", n)
	}
	r.close(t)
}

// TestWakeOnce: if several goroutines have found a slice idle, one of them brings it into memory, and all get that slice.
func TestWakeOnce(t *testing.T) {
	t.Parallel()
	r := newRoom("woken")
	r.open(t)
	slicedFilter(t, r, "f", bigset.FilterInterval)
	fs := r.reopened(t)
	f, err := fs.Get([]byte("f"))
	must(t, err, "get")
	for slice := range uint32(16) {
		if first := f.Wake(slice); f.Wake(slice) != first || f.Part(slice) != first {
			t.Fatalf("slice %d is in memory twice", slice)
		}
	}
	r.close(t)
}

// TestDigestMidway: a mark that comes while a digest is worked out is in the next one.
func TestDigestMidway(t *testing.T) {
	t.Parallel()
	r := &sliceReplica{room: newRoom("digested")}
	r.open(t)
	spec := sliceSpec(0, 7, bigset.FilterInterval)
	hashes := sliceKeys(&spec, 0, 400)
	r.acked = hashes
	mark := func(some []bloomslice.Hash) {
		_, err := r.store.Filters().MarkSlice(bg, spec, 0, some, make([]bool, len(some)))
		must(t, err, "mark")
	}
	mark(hashes[:10])
	f, err := r.store.Filters().Get(spec.Name)
	must(t, err, "get")
	for i := 10; i < 14; i++ {
		during := f.DigestDuring(0, func() { mark(hashes[i : i+1]) })
		after := r.digestOf(t, spec).Sum
		if during == after {
			t.Fatalf("mark %d is not in the digest that was asked for after it", i)
		}
		if again := r.digestOf(t, spec).Sum; again != after {
			t.Errorf("the digest changes by itself")
		}
	}
	r.close(t)
}
