package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/keyscheme"
)

// countKeys runs a table's keys through a counter.
func countKeys(t rapid.TB, written *atomic.Uint64, keys []pebble.InternalKey) []byte {
	t.Helper()
	c := &keyCounter{written: written}
	for _, k := range keys {
		key := k
		key.UserKey = bytes.Clone(k.UserKey)
		if err := c.AddPointKey(key, nil); err != nil {
			t.Fatal(err)
		}
		for i := range key.UserKey {
			key.UserKey[i] = 0xAA // the counter keeps nothing of it
		}
	}
	property, err := c.FinishTable([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	property, ok := bytes.CutPrefix(property, []byte("before"))
	if !ok {
		t.Fatalf("FinishTable does not append: %x", property)
	}
	return property
}

// tableKeys returns n element keys of a set.
func tableKeys(prefix keyscheme.Prefix, n int, kind pebble.InternalKeyKind) (keys []pebble.InternalKey) {
	for i := range n {
		key := prefix.AppendElement(nil, fmt.Appendf(nil, "%04d", i), clock.Dot{Actor: "n", Counter: uint64(i + 1)}, keyscheme.OpAdd)
		keys = append(keys, pebble.MakeInternalKey(key, pebble.SeqNum(i), kind))
	}
	return keys
}

// TestKeyCount: what a counter writes down for a table is read again, and is the element keys of the table: all of them, and
// of each set that has enough.
func TestKeyCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []pebble.InternalKey
		var want []setKeys
		var all, before uint64
		for i := range rapid.IntRange(0, 5).Draw(t, "sets") {
			var prefix keyscheme.Prefix = keyscheme.AppendPrefix(nil, keyscheme.Slot(i/2), []byte(strings.Repeat("s", i%2*200)))
			n := rapid.SampledFrom([]int{0, 1, countedKeysMin - 1, countedKeysMin, countedKeysMin + 1, 3 * countedKeysMin}).Draw(t, "keys")
			for _, other := range [][]byte{prefix.AppendClock(nil), prefix.AppendTombstone(nil), {'i'}, prefix.AppendElement(nil, nil, clock.Dot{}, 'x')} {
				keys = append(keys, pebble.MakeInternalKey(other, 1, pebble.InternalKeyKindSet))
			}
			keys = append(keys, tableKeys(prefix, n, rapid.SampledFrom([]pebble.InternalKeyKind{pebble.InternalKeyKindSet, pebble.InternalKeyKindMerge}).Draw(t, "kind"))...)
			keys = append(keys, tableKeys(prefix, 2, pebble.InternalKeyKindDelete)...)
			all += uint64(n)
			if n >= countedKeysMin {
				want = append(want, setKeys{string(prefix), uint64(n)})
			}
		}
		before = rapid.Uint64Range(0, 10).Draw(t, "before")
		var written atomic.Uint64
		written.Store(before)
		gotAll, got, ok := parseKeyCount(countKeys(t, &written, keys))
		if !ok || gotAll != all || !slices.Equal(got, want) {
			t.Errorf("%d keys, of sets %x, %v, want %d, of sets %x", gotAll, got, ok, all, want)
		}
		if got := written.Load(); got != before+all {
			t.Errorf("%d keys written, want %d", got, before+all)
		}
	})
}

// TestKeyCountManySets: a table names so many sets and no more, but counts the keys of all.
func TestKeyCountManySets(t *testing.T) {
	var keys []pebble.InternalKey
	for i := range countedSetsMax + 10 {
		keys = append(keys, tableKeys(keyscheme.AppendPrefix(nil, keyscheme.Slot(i), nil), countedKeysMin, pebble.InternalKeyKindMerge)...)
	}
	all, sets, ok := parseKeyCount(countKeys(t, nil, keys))
	if !ok || all != uint64(len(keys)) || len(sets) != countedSetsMax {
		t.Errorf("%d keys, %d sets, %v, want %d and %d", all, len(sets), ok, len(keys), countedSetsMax)
	}
}

// TestParseKeyCountRefuses: bytes of another version, and bytes that were cut, are not taken for a count.
func TestParseKeyCountRefuses(t *testing.T) {
	whole := countKeys(t, nil, tableKeys(keyscheme.NewPrefix([]byte("s")), 300, pebble.InternalKeyKindMerge))
	const head = 3 // version and the count of all: a whole property too
	for n := range whole {
		if _, _, ok := parseKeyCount(whole[:n]); ok != (n == head) {
			t.Errorf("the first %d of %x: %v", n, whole, ok)
		}
	}
	for _, version := range []byte{0, 2, 0xFF} {
		if _, _, ok := parseKeyCount(append([]byte{version}, whole[1:]...)); ok {
			t.Errorf("version %d is taken", version)
		}
	}
	if _, _, ok := parseKeyCount(binary.AppendUvarint([]byte{1, 5}, 1<<63)); ok {
		t.Error("a prefix that is longer than the rest is taken")
	}
}

func FuzzParseKeyCount(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0})
	f.Add(countKeys(f, nil, tableKeys(keyscheme.NewPrefix([]byte("s")), countedKeysMin, pebble.InternalKeyKindSet)))
	f.Add(binary.AppendUvarint([]byte{1, 5}, 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, sets, ok := parseKeyCount(b)
		if !ok {
			return
		}
		// What was read is written again, by a counter that has counted just that.
		c := &keyCounter{all: all, sets: sets}
		again, err := c.FinishTable(nil)
		if err != nil || len(again) > len(b) {
			t.Fatalf("%x again: %x, %v", b, again, err)
		}
		if all2, sets2, ok := parseKeyCount(again); !ok || all2 != all || !slices.Equal(sets2, sets) {
			t.Errorf("%d %x, again: %d %x, %v", all, sets, all2, sets2, ok)
		}
	})
}

func FuzzParseFormat(f *testing.F) {
	for _, text := range []string{
		"", "bigset store\n", "bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 1\nrecord set\n",
		"bigset store\nformat 2\nrecord merge\n", "bigset store\nformat 99999999999999999999\nrecord merge\n",
		"bigset store\nformat 2\nrecord delete\n", "bigset store\r\nformat 1\r\nrecord merge\r\n", "bigset store\nformat %d\nrecord %s\n",
	} {
		for _, want := range []byte{0, byte(compaction.Merge), byte(compaction.Set), 'x'} {
			f.Add(text, want)
		}
	}
	f.Fuzz(func(t *testing.T, text string, want byte) {
		record, err := parseFormat("BIGSET", text, compaction.Record(want))
		if err != nil {
			if record != 0 || !errors.Is(err, ErrFormat) && !errors.Is(err, bigset.ErrCorrupt) {
				t.Errorf("parseFormat(%q, %d) = %v, %v", text, want, record, err)
			}
			return
		}
		if record != compaction.Merge && record != compaction.Set || want != 0 && record != compaction.Record(want) {
			t.Errorf("parseFormat(%q, %d) = %v", text, want, record)
		}
		if !strings.Contains(text, record.String()) {
			t.Errorf("parseFormat(%q, %d) = %v, which it does not name", text, want, record)
		}
	})
}

// TestKeyCountCut: a table that a swap has cut has no count of its own any more; its keys are still known to be of their set.
func TestKeyCountCut(t *testing.T) {
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
		err = s.db.Flush()
	}
	if err == nil {
		err = s.db.Compact(ctx, []byte{0}, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, false)
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
	tables, err := s.readTables()
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, table := range tables {
		for _, sk := range table.sets {
			n += sk.keys
		}
	}
	if n < 8_000 || n > 11_000 { // the part before the cut also holds the store's own keys
		t.Errorf("%d keys behind the cut are known of, want about 10,000", n)
	}
}
