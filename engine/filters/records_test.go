package filters_test

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestFilterRecordsWhole: whatever is done to filters, none of their records is a merge operand. After an element of a set that the
// filter leaves out Pebble would panic (its issue 6168), and operands to pages would not be joined.
func TestFilterRecordsWhole(t *testing.T) {
	p := newRoom("whole")
	var operands atomic.Int64
	p.opt.Tune(func(po *pebble.Options) {
		testkit.SmallTables(po)
		merger, merge := *po.Merger, po.Merger.Merge
		merger.Merge = func(key, value []byte) (pebble.ValueMerger, error) {
			if k, err := keyscheme.Decode(key); err == nil && (k.Kind == keyscheme.KindSlotBloom || k.Kind == keyscheme.KindDirectory) {
				operands.Add(1)
			}
			return merge(key, value)
		}
		po.Merger = &merger
	})
	p.open(t)
	o := testkit.SmallFilter()
	o.Slices, o.Durability = 2, bigset.FilterLog
	f, err := p.store.Filters().Create(bg, []byte("f"), o)
	must(t, err, "create")
	for from := 0; from < 40_000; from += 20_000 { // layers and pages, new and again, in a batch and as a table
		keys := testkit.TaggedKeys("k", from, from+20_000)
		must(t, f.MarkAll(bg, keys[:1], make([]bool, 1)), "mark one")
		must(t, f.Flush(bg), "flush one")
		must(t, f.MarkAll(bg, keys, make([]bool, len(keys))), "mark")
		must(t, f.Flush(bg), "flush")
	}
	_, err = newElsewhere(t, 5000).importTo(p.store, "imported")
	must(t, err, "import")
	spec := sliceSpec(1, 7, bigset.FilterLog)
	spec.Name = []byte("replicated")
	hashes := sliceKeys(&spec, 0, 5000)
	marks, err := p.store.Filters().MarkSlice(bg, spec, 1, hashes, make([]bool, len(hashes)))
	must(t, err, "mark slice")
	for i := range marks.Layers {
		marks.Layers[i].ID.Owner = bloomslice.Seat(2).Owner()
	}
	must(t, p.store.Filters().ApplyMarks(bg, marks, make([]bool, len(hashes))), "apply marks")
	pages := bigset.SlicePages{SliceSpec: spec, Layers: marks.Layers}
	value, err := bloomslice.AppendPage(nil, []byte{1, 2, 3})
	must(t, err, "page")
	pages.Pages = []bigset.SlicePage{{PagePlace: bigset.PagePlace{Layer: marks.Layers[0].ID}, Value: value}}
	must(t, p.store.Filters().MergePages(bg, pages), "merge pages")
	must(t, p.store.Filters().FlushSlice(bg, spec), "flush slice")
	must(t, p.store.Filters().Drop(bg, []byte("imported")), "drop")
	p.close(t)
	p.open(t)
	it, err := p.store.db.Pebble().NewIter(nil)
	must(t, err, "read")
	records := 0
	for ok := it.First(); ok; ok = it.Next() {
		records++
	}
	must(t, it.Close(), "read all")
	if records < 50 {
		t.Errorf("%d records: too few to tell", records)
	}
	must(t, p.store.Flush(bg), "flush tables")
	if n := operands.Load(); n > 0 {
		t.Errorf("%d merge operands of filters", n)
	}
	p.close(t)
}
