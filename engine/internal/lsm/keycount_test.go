package lsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"bigset/clock"
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

// TestKeyCount: the counts that a counter writes for a table are read back, and are the numbers of element keys in the table: of
// all sets, and of each set that has enough.
func TestKeyCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []pebble.InternalKey
		var want []SetKeys
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
				want = append(want, SetKeys{string(prefix), uint64(n)})
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

// TestKeyCountManySets: a table names a limited number of sets, but counts the keys of all.
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

// TestParseKeyCountRefuses: bytes of another version, and truncated bytes, are not taken for a count.
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
