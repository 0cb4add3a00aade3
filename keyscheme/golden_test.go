package keyscheme_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bigset/bloomslice"
	"bigset/clock"
	"bigset/keyscheme"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the vectors in testdata: a change of format")

// vector is a name and the bytes that it must have forever.
type vector struct {
	name  string
	bytes []byte
}

func checkVectors(t *testing.T, file string, vectors []vector) {
	t.Helper()
	path := filepath.Join("testdata", file)
	var got strings.Builder
	for _, v := range vectors {
		if strings.HasSuffix(v.name, "-text") {
			fmt.Fprintf(&got, "%s %s\n", v.name, v.bytes)
			continue
		}
		fmt.Fprintf(&got, "%s %x\n", v.name, v.bytes)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s has %d lines, the vectors are %d", path, len(wantLines), len(gotLines))
	}
	for i := range gotLines {
		if gotLines[i] != wantLines[i] {
			t.Errorf("%s:%d\n got %s\nwant %s", path, i+1, gotLines[i], wantLines[i])
		}
	}
}

func TestGoldenSlots(t *testing.T) {
	for _, c := range []struct {
		kind  keyscheme.PartitionKind
		name  string
		slice uint32
		want  keyscheme.Slot
	}{
		{keyscheme.PartitionSet, "", 0, 0xb8243328},
		{keyscheme.PartitionSet, "set", 0, 0x849f6cf3},
		{keyscheme.PartitionSet, "set", 1, 0x049f6cf3},
		{keyscheme.PartitionFilter, "set", 0, 0x37b9a8d4},
		{keyscheme.PartitionSet, strings.Repeat("long", 100), 0, 0x625a27ac},
	} {
		if got := keyscheme.SlotOf(c.kind, []byte(c.name), c.slice); got != c.want {
			t.Errorf("SlotOf(%c, %.10q, %d) = %#08x, want %#08x", c.kind, c.name, c.slice, uint32(got), uint32(c.want))
		}
	}
	if keyscheme.SetSlot([]byte("set")) != keyscheme.SlotOf(keyscheme.PartitionSet, []byte("set"), 0) {
		t.Error("SetSlot is not the slot of slice 0")
	}
}

func TestGoldenKeys(t *testing.T) {
	p := keyscheme.NewPrefix([]byte("set"))
	dot := clock.Dot{Actor: "actor", Counter: 0x0102030405060708}
	f, layer := keyscheme.NewFilterPrefix([]byte("set"), 0), bloomslice.LayerID{Index: 0x0102, Owner: "actor"}
	checkVectors(t, "keys.txt", []vector{
		{"prefix", p},
		{"prefix-of-empty-name", keyscheme.NewPrefix(nil)},
		{"clock", p.AppendClock(nil)},
		{"tombstone", p.AppendTombstone(nil)},
		{"clock-page", p.AppendClockPage(nil, "actor", 0x0102030405060708)},
		{"tombstone-page", p.AppendTombstonePage(nil, "actor", 0x0102030405060708)},
		{"element-add", p.AppendElement(nil, []byte("element"), dot, keyscheme.OpAdd)},
		{"element-remove", p.AppendElement(nil, []byte("element"), dot, keyscheme.OpRemove)},
		{"element-empty", p.AppendElement(nil, nil, clock.Dot{Actor: "a", Counter: 1}, keyscheme.OpAdd)},
		{"end", p.AppendEnd(nil)},
		{"slot-bloom", keyscheme.AppendSlotKey(nil, 0x01020304, keyscheme.SlotBloom, []byte("rest"))},
		{"slot-meta", keyscheme.AppendSlotKey(nil, 0x01020304, keyscheme.SlotMeta, []byte("rest"))},
		{"filter-head", f.AppendHead(nil, 0x0102030405060708)},
		{"filter-layer", f.AppendLayer(nil, 0x0102030405060708, layer)},
		{"filter-page", f.AppendPage(nil, 0x0102030405060708, layer, 0x0A0B0C0D)},
		{"filter-slice", keyscheme.NewFilterPrefix([]byte("set"), 1)},
		{"directory-present", keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryPresent, Name: []byte("set"), Slice: 0x01020304, Generation: 6})},
		{"directory-dropped", keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryLeft, Name: []byte("set"), Slice: 1, Generation: 7})},
		{"directory-forgotten", keyscheme.AppendDirectoryKey(nil, keyscheme.DirectoryEntry{Kind: keyscheme.EntryDropped, Name: []byte("set"), Slice: 2, Generation: 8})},
		{"store-meta", []byte("id")},
		{"bound-slot", keyscheme.AppendSlot(nil, 0x01020304)},
		{"bound-tombstone-pages-lower", p.TombstonePages().Lower},
		{"bound-element", p.AppendElementBound(nil, []byte("element"))},
		{"bound-after-element", p.AppendElementAfter(nil, []byte("element"))},
		{"bound-elements-upper", p.Elements().Upper},
		{"bound-elements-lower", p.Elements().Lower},
		{"bound-starting-upper", p.Starting([]byte("ele\xff")).Upper},
		{"bound-last-slot-upper", keyscheme.SlotRange(0, keyscheme.SlotMax).Upper},
	})
}

func TestGoldenValues(t *testing.T) {
	seen := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "a", Counter: 2}, clock.Dot{Actor: "b", Counter: 9})
	one := clock.Of(clock.Dot{Actor: "a", Counter: 3})
	large := &clock.Clock{} // base, a page, an extent of two
	large.AddRange("a", 1, 9)
	large.AddRange("a", 3<<16|1, 3<<16|5)
	large.AddRange("a", 5<<16, 7<<16-1)
	paged := keyscheme.ClockValue{Flags: keyscheme.FlagSiblings | keyscheme.FlagClockPages | keyscheme.FlagTombstonePages}
	checkVectors(t, "values.txt", []vector{
		{"element-closed", keyscheme.AppendElementValue(nil, nil)},
		{"element-open", keyscheme.AppendElementValue(nil, seen)},
		{"clock", keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: seen, Unresolved: 300, Flags: keyscheme.FlagSiblings})},
		{"clock-operand", keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: one, Unresolved: -1})},
		{"clock-empty", keyscheme.AppendClockValue(nil, keyscheme.ClockValue{})},
		{"clock-with-pages", keyscheme.AppendClockValue(nil, paged)},
		{"clock-with-tombstone", keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: one, Flags: keyscheme.FlagTombstone})},
		{"page-rest", keyscheme.AppendPageValue(nil, large.Counters("a"), 0)},
		{"page", keyscheme.AppendPageValue(nil, large.Counters("a"), 3)},
		{"tombstone", keyscheme.AppendTombstoneValue(nil, seen)},
		{"tombstone-operand", keyscheme.AppendTombstoneValue(nil, one)},
		{"bundle", keyscheme.MergeTombstoneValues(nil, [][]byte{{}, {9, 9}, keyscheme.AppendTombstoneValue(nil, one)})},
	})
}

func TestGoldenTokens(t *testing.T) {
	seen := clock.Of(clock.Dot{Actor: "a", Counter: 1}, clock.Dot{Actor: "a", Counter: 2}, clock.Dot{Actor: "b", Counter: 9})
	var vectors []vector
	for _, c := range []struct {
		name string
		ctx  keyscheme.TokenContent
	}{
		{"narrow", keyscheme.TokenContent{Form: keyscheme.Narrow, Set: []byte("set"), Element: []byte("element"), Dots: seen}},
		{"narrow-empty", keyscheme.TokenContent{Form: keyscheme.Narrow}},
		{"wide", keyscheme.TokenContent{Form: keyscheme.Wide, Set: []byte("set"), Dots: seen}},
		{"cursor", keyscheme.TokenContent{Form: keyscheme.Cursor, Set: []byte("set"), Element: []byte("element")}},
		{"cursor-reverse", keyscheme.TokenContent{Form: keyscheme.Cursor, Set: []byte("set"), Element: nil, Reverse: true}},
	} {
		token, err := ring.Seal(nil, c.ctx)
		if err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, vector{c.name, token}, vector{c.name + "-text", []byte(keyscheme.EncodeText(token))})
	}
	checkVectors(t, "tokens.txt", vectors)
}

// TestGoldenDecodes reads the vectors back from the file, as a later program will.
func TestGoldenDecodes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "keys.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		name, hexed, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		key, err := hex.DecodeString(hexed)
		if err != nil {
			t.Fatal(err)
		}
		k, err := keyscheme.Decode(key)
		switch bound := strings.HasPrefix(name, "bound") && name != "bound-elements-upper" || strings.HasPrefix(name, "prefix"); {
		case bound && err == nil:
			t.Errorf("%s: decodes as %v, but is a bound", name, k.Kind)
		case !bound && err != nil:
			t.Errorf("%s: %v", name, err)
		case !bound && !bytes.Equal(encode(k), key):
			t.Errorf("%s: %x encodes as %x", name, key, encode(k))
		}
	}
}
