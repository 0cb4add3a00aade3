// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package filters_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// tagged is a filter as it was acknowledged: its keys are "tag-0", "tag-1" and so on, and no other filter of its name has them.
type tagged struct {
	tag     string
	flushed int
}

type filterStates map[string]tagged

// filterHistory is a script of filters. It reports each step before and after the step is done.
type filterHistory struct {
	p    *room
	tags int
	now  filterStates
	step func(before, after filterStates)
}

func (h *filterHistory) do(t *testing.T, name string, becomes tagged, f func() error) {
	t.Helper()
	before, after := maps.Clone(h.now), maps.Clone(h.now)
	if after[name] = becomes; becomes.tag == "" {
		delete(after, name)
	}
	h.step(before, after)
	must(t, f(), name)
	h.now = after
	h.step(after, after)
}

func (h *filterHistory) create(t *testing.T, name string, o bigset.FilterOptions) {
	h.tags++
	h.do(t, name, tagged{tag: fmt.Sprintf("t%d", h.tags)}, func() error {
		_, err := h.p.store.Filters().Create(bg, []byte(name), o)
		return err
	})
}

func (h *filterHistory) mark(t *testing.T, name string, from, to int) {
	f, err := h.p.store.Filters().Get([]byte(name))
	must(t, err, "filter")
	must(t, f.MarkAll(bg, testkit.TaggedKeys(h.now[name].tag, from, to), make([]bool, to-from)), "mark")
}

func (h *filterHistory) flush(t *testing.T, name string, n int) {
	h.do(t, name, tagged{h.now[name].tag, n}, func() error {
		f, err := h.p.store.Filters().Get([]byte(name))
		if err != nil {
			return err
		}
		return f.Flush(bg)
	})
}

func (h *filterHistory) drop(t *testing.T, name string) {
	h.do(t, name, tagged{}, func() error { return h.p.store.Filters().Drop(bg, []byte(name)) })
}

func (h *filterHistory) same(t *testing.T, f func() error) { h.do(t, "a", h.now["a"], f) }

func (h *filterHistory) run(t *testing.T) {
	h.create(t, "a", testkit.SmallFilter())
	for range tier.Times(3) {
		h.mark(t, "a", 0, 200)
		h.flush(t, "a", 200)
		h.mark(t, "a", 200, 300)
		h.drop(t, "a")
		h.create(t, "a", testkit.SmallFilter())
		h.mark(t, "a", 0, 300)
		h.flush(t, "a", 300)
		big := testkit.SmallFilter()
		big.Capacity, big.Slices = 500_000, 4
		h.create(t, "b", big)
		h.mark(t, "b", 0, 100)
		h.same(t, h.p.store.FlushTables)
		h.mark(t, "b", 100, 1000)
		h.flush(t, "b", 1000)
		h.mark(t, "a", 300, 400)
		h.same(t, func() error {
			f, err := h.p.store.Filters().Get([]byte("a"))
			if err == nil {
				_, err = f.Close(bg)
			}
			return err
		})
		h.drop(t, "b")
		h.same(t, func() error { h.p.store.own.Excised(); return nil })
		h.same(t, func() error { return h.p.store.CompactTables(bg) })
		h.same(t, func() error { return errors.Join(h.p.store.Close(), h.reopen()) })
	}
	must(t, h.p.store.Close(), "close")
}

func (h *filterHistory) reopen() (err error) {
	h.p.store, err = open("store", &h.p.opt)
	return err
}

// TestFilterCrashes cuts the power before every operation on the disk of a history of filters. A drop that returned stays done,
// nothing of a dropped filter is in a new one of its name, no flushed key is denied, and the keys of dropped filters leave the disk
// after the next open.
func TestFilterCrashes(t *testing.T) {
	t.Parallel()
	p := newRoom("history")
	p.open(t)
	type states struct{ before, after filterStates }
	var now atomic.Pointer[states]
	now.Store(&states{})
	stop := testkit.Crashing[*states]{Short: 7, Push: 9, Rates: []int{0, 60}, Known: now.Load}.On(t, p.disk)
	h := &filterHistory{p: p, now: filterStates{}, step: func(before, after filterStates) { now.Store(&states{before, after}) }}
	h.run(t)
	points, operations := stop()
	for _, c := range points {
		h.survives(t, c.Label, c.Disk, c.Known.before, c.Known.after)
	}
	tier.Count(t, "crashes", len(points))
	t.Logf("%d operations, %d crashes", operations, len(points))
	if !testing.Short() && operations < 150 {
		t.Error("the history is too short")
	}
}

func (h *filterHistory) survives(t *testing.T, label string, disk *testkit.Disk, before, after filterStates) {
	t.Helper()
	q := &room{label: label, disk: disk, opt: h.p.opt}
	q.open(t)
	q.store.own.Excised()
	listed, entries := 0, 0
	for _, name := range []string{"a", "b"} {
		was, wasThere := before[name]
		is, isThere := after[name]
		f, err := q.store.Filters().Get([]byte(name))
		keys, e := q.store.FilterKeys([]byte(name))
		must(t, e, "keys")
		if err != nil && (wasThere && isThere && was.tag == is.tag || len(keys) > 0) {
			t.Fatalf("%s: filter %q: %v, and %v on disk", label, name, err, keys)
		}
		if err != nil {
			continue
		}
		if listed++; !wasThere && !isThere || len(keys) != 1 {
			t.Fatalf("%s: filter %q exists, with %v", label, name, keys)
		}
		for i := range h.tags + 1 {
			tag := fmt.Sprintf("t%d", i)
			sure := 0
			if wasThere && was.tag == tag {
				sure = was.flushed
			}
			may := wasThere && was.tag == tag || isThere && is.tag == tag
			asked := testkit.TaggedKeys(tag, 0, max(sure, 60))
			present := make([]bool, len(asked))
			must(t, f.CheckAll(asked, present), label)
			for n, yes := range present {
				if !yes && n < sure || yes && !may {
					t.Fatalf("%s: filter %q: key %q: %v", label, name, asked[n], yes)
				}
			}
		}
		must(t, f.MarkAll(bg, testkit.TaggedKeys("more", 0, 10), make([]bool, 10)), label)
		info, err := f.Info()
		must(t, err, label)
		entries += int(info.Options.Slices)
	}
	present, dropped, err := q.store.Directory()
	must(t, err, "directory")
	rep, err := q.store.Verify()
	must(t, err, "verify")
	if present != entries || dropped != 0 || !rep.OK() || rep.Filters != listed {
		t.Fatalf("%s: %d filters, directory of %d and %d, %+v", label, listed, present, dropped, rep)
	}
	must(t, q.store.Close(), "close")
}

// TestCreateFilterFails fails every operation on the disk of a create, once: the create leaves a filter or nothing. A compaction
// that runs at the same time is left alone, because the process ends if a compaction can't write the MANIFEST.
func TestCreateFilterFails(t *testing.T) {
	for n := int64(0); ; n++ {
		p := newRoom(fmt.Sprintf("operation %d", n))
		p.open(t)
		hook, fired := testkit.Failing(n, true, syscall.EIO, func(op errorfs.Op) bool {
			return testkit.IsWrite(op) && !testkit.WithinCompaction()
		})
		p.disk.SetHook("fail", hook)
		_, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
		p.disk.SetHook("fail", nil)
		_, found := p.store.Filters().Get([]byte("f"))
		if (err == nil) != (found == nil) {
			t.Errorf("%s: created %v, found %v", p.label, err, found)
		}
		if err != nil && p.store.Failed() == nil {
			_, again := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
			must(t, again, p.label+": again")
		}
		q := &room{label: p.label, disk: p.disk.CrashClone(100, 1), opt: p.opt}
		closeWithin(t, p.store, p.label)
		q.open(t)
		if _, found := q.store.Filters().Get([]byte("f")); err == nil && found != nil {
			t.Errorf("%s: %v after a crash", p.label, found)
		}
		rep, e := q.store.Verify()
		if must(t, e, "verify"); !rep.OK() {
			t.Errorf("%s: %+v", p.label, rep)
		}
		must(t, q.store.Close(), "close")
		if !fired.Load() {
			break
		}
	}
}

// TestFilterFlushAgain: what one flush could not store is stored by the next.
func TestFilterFlushAgain(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.Capacity = 500_000 // its pages go in as a table
	f, err := p.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	keys := testkit.TaggedKeys("k", 0, 2000)
	must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
	p.disk.SetHook("fail", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasPrefix(path.Base(op.Path), "span-") {
			return errors.New("no table")
		}
		return nil
	})
	if err := f.Flush(bg); err == nil {
		t.Error("a flush without a table did not fail")
	}
	p.disk.SetHook("fail", nil)
	must(t, f.Flush(bg), "flush again")
	q := &room{label: "after a crash", disk: p.disk.CrashClone(0, 0), opt: p.opt}
	q.open(t)
	f, err = q.store.Filters().Get([]byte("f"))
	must(t, err, "filter")
	present := make([]bool, len(keys))
	must(t, f.CheckAll(keys, present), "check")
	if slices.Contains(present, false) {
		t.Error("a flushed key is denied")
	}
	must(t, errors.Join(q.store.Close(), p.store.Close()), "close")
}

// TestFilterLayerFirst ends the process before every operation on the disk of a flush that stores a new layer and its pages as a
// table: no page exists without the layer.
func TestFilterLayerFirst(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.Probability = 1e-200 // a key has bits in most pages
	f, err := p.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	keys := testkit.TaggedKeys("k", 0, 10_101)
	must(t, f.MarkAll(bg, keys[:10_001], make([]bool, 10_001)), "mark")
	must(t, f.Flush(bg), "flush")
	must(t, f.MarkAll(bg, keys[10_001:], make([]bool, 100)), "mark more")
	stop := p.disk.CrashEverywhere(100)
	must(t, f.Flush(bg), "flush")
	crashes := stop()
	if info, err := f.Info(); err != nil || info.Size != 10_101 || info.Capacity != 5*10_001 {
		t.Errorf("%+v, %v", info, err)
	}
	must(t, p.store.Close(), "close")
	for i, disk := range crashes {
		q := &room{label: fmt.Sprint("crash ", i), disk: disk, opt: p.opt}
		q.open(t)
		rep, err := q.store.Verify()
		if must(t, err, "verify"); !rep.OK() {
			t.Errorf("crash %d: %+v", i, rep)
		}
		must(t, q.store.Close(), "close")
	}
	t.Logf("%d crashes", len(crashes))
}
