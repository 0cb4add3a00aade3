package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/keyscheme"
)

// TestKeyCountVirtual: a table that a swap has cut has no count of its own any more; its keys are still known to be of their set.
func TestKeyCountVirtual(t *testing.T) {
	ctx, set := context.Background(), []byte("s")
	s, err := Open("store", &Options{FS: vfs.NewMem(), SpanBytes: 64 << 10, tune: func(po *pebble.Options) {
		po.DisableAutomaticCompactions = true
		for i := range po.TargetFileSizes {
			po.TargetFileSizes[i] = 64 << 20 // one table
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var elements [][]byte
	for i := range 20_000 {
		elements = append(elements, fmt.Appendf(nil, "%08d", i))
	}
	if _, err = s.Add(ctx, set, elements, bigset.WriteOptions{}); err == nil {
		err = s.db.Pebble().Flush()
	}
	if err == nil {
		err = s.db.Pebble().Compact(ctx, []byte{0}, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, false)
	}
	if err == nil {
		_, err = s.Remove(ctx, set, elements[9_000:10_000], bigset.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.sets.acquire(set)
	if err != nil {
		t.Fatal(err)
	}
	defer s.sets.release(st)
	b := st.prefix.Elements()
	b.Lower = st.prefix.AppendElement(nil, elements[9_000], clock.Dot{}, keyscheme.OpAdd)
	b.Upper = st.prefix.AppendElement(nil, elements[10_000], clock.Dot{}, keyscheme.OpAdd)
	b.Lower, b.Upper = b.Lower[:comparator.Split(b.Lower)], b.Upper[:comparator.Split(b.Upper)]
	res, err := s.rewriteSpan(ctx, st, b, func(compaction.Span) bool { return true })
	if err != nil || !res.Swapped || res.Dropped != 1000 {
		t.Fatalf("%+v, %v", res, err)
	}
	tables, err := s.db.ReadTables()
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, table := range tables {
		for _, sk := range table.Sets {
			n += sk.Keys
		}
	}
	if n < 8_000 || n > 11_000 { // the part before the cut also holds the store's own keys
		t.Errorf("%d keys after the cut are known, want about 10,000", n)
	}
}
