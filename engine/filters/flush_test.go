package filters_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/bloomslice"
	"bigset/internal/testkit"
)

// TestMarkNothing: marking no keys succeeds, also in a filter from which nothing was read yet.
func TestMarkNothing(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	_, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
	must(t, err, "create")
	p.close(t)
	p.open(t)
	f, err := p.store.Filters().Get([]byte("f"))
	must(t, err, "filter")
	must(t, f.MarkAll(bg, nil, nil), "mark nothing")
	must(t, f.CheckAll(nil, nil), "check nothing")
	p.close(t)
}

// TestIngestedPagesCrash cuts the power before every operation on the disk of a flush whose pages, of a layer that was not stored before,
// go in as a table: there is no page without its layer, and once the flush has returned no key is denied and none is uncounted.
func TestIngestedPagesCrash(t *testing.T) {
	t.Parallel()
	p := newRoom("store")
	p.open(t)
	o := testkit.SmallFilter()
	o.Capacity, o.Probability = 150_000, 1e-4
	shape, err := o.Shape(0)
	must(t, err, "shape")
	full := []bloomslice.Layer{{Shape: shape, Count: shape.Capacity}}
	f, err := p.store.Filters().Import(bg, []byte("f"), o, full, pagesThen(nil, nil))
	must(t, err, "import")
	keys := testkit.TaggedKeys("k", 0, 1000)
	added := make([]bool, len(keys))
	must(t, f.MarkAll(bg, keys, added), "mark")
	var returned atomic.Bool
	var tables atomic.Int64
	p.disk.SetHook("tables", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") {
			tables.Add(1)
		}
		return nil
	})
	stop := testkit.Crashing[bool]{Known: returned.Load}.On(t, p.disk)
	must(t, f.Flush(bg), "flush")
	returned.Store(true)
	must(t, p.store.FlushTables(), "flush tables")
	info, err := f.Info()
	must(t, err, "info")
	p.close(t)
	points, _ := stop()
	p.disk.SetHook("tables", nil)
	if tables.Load() == 0 {
		t.Fatal("no pages went in as a table")
	}
	for _, c := range points {
		p.disk = c.Disk
		p.open(t)
		rep, err := p.store.Verify()
		if must(t, err, c.Label); !rep.OK() {
			t.Fatalf("%s: %v", c.Label, rep.Problems)
		}
		f, err := p.store.Filters().Get([]byte("f"))
		must(t, err, c.Label)
		got, err := f.Info()
		must(t, err, c.Label)
		present := make([]bool, len(keys))
		must(t, f.CheckAll(keys, present), c.Label)
		for i, yes := range present {
			if !yes && c.Known {
				t.Fatalf("%s: %q is denied", c.Label, keys[i])
			}
			if yes && got.Size < info.Size && i == 0 {
				t.Fatalf("%s: it contains keys, and counts %d of %d", c.Label, got.Size, info.Size)
			}
		}
		must(t, p.store.Close(), c.Label)
	}
	t.Logf("%d crashes", len(points))
}

// TestMarksOutlast: what was marked and never flushed is in a checkpoint, and in the store after a close.
func TestMarksOutlast(t *testing.T) {
	p := newRoom("store")
	p.open(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), testkit.SmallFilter())
	must(t, err, "create")
	keys := testkit.TaggedKeys("k", 0, 200)
	has := func(s *store, n int, what string) {
		t.Helper()
		f, err := s.Filters().Get([]byte("f"))
		must(t, err, what)
		present := make([]bool, n)
		must(t, f.CheckAll(keys[:n], present), what)
		if i := slices.Index(present, false); i >= 0 {
			t.Errorf("%s denies key %d of %d", what, i, n)
		}
	}
	must(t, f.MarkAll(bg, keys[:100], make([]bool, 100)), "mark")
	must(t, p.store.Checkpoint(bg, "checkpoint"), "checkpoint")
	must(t, f.MarkAll(bg, keys[100:], make([]bool, 100)), "mark more")
	p.close(t)
	p.open(t)
	has(p.store, 200, "the store")
	p.close(t)
	q := p.openedAt(t, "checkpoint", "checkpoint", p.disk)
	has(q.store, 100, "the checkpoint")
	must(t, q.store.Close(), "close")
}
