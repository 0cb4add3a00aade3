package comparator_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/clock"
	"bigset/comparator"
	"bigset/internal/testkit/mangle"
	"bigset/keyscheme"
)

func TestCompareIsTheReferenceOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKeys.Draw(t, "a"), anyKeys.Draw(t, "b")
		if got, want := comparator.Compare(a, b), refCompare(a, b); got != want {
			t.Fatalf("Compare(%s, %s) = %d, the reference says %d", comparator.Format(a), comparator.Format(b), got, want)
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

// checkTotal checks the laws of a total order on three keys, in which only equal bytes are equal.
func checkTotal(t failer, a, b, c []byte) {
	for _, k := range [][]byte{a, b, c} {
		if comparator.Compare(k, k) != 0 {
			t.Fatalf("%x is not equal to itself", k)
		}
	}
	ab, ba := comparator.Compare(a, b), comparator.Compare(b, a)
	if ab != -ba {
		t.Fatalf("Compare(%x, %x) = %d, the other way round %d", a, b, ab, ba)
	}
	if (ab == 0) != bytes.Equal(a, b) || comparator.Equal(a, b) != (ab == 0) {
		t.Fatalf("Compare(%x, %x) = %d", a, b, ab)
	}
	if bc := comparator.Compare(b, c); ab <= 0 && bc <= 0 && comparator.Compare(a, c) > min(ab, bc) {
		t.Fatalf("%x <= %x <= %x, but the first and the last compare %d", a, b, c, comparator.Compare(a, c))
	}
}

func TestCompareIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(anyKeys, 3, 12).Draw(t, "keys")
		slices.SortFunc(keys, comparator.Compare)
		for i := range keys {
			for j := i; j < len(keys); j++ {
				checkTotal(t, keys[i], keys[j], keys[len(keys)-1])
			}
		}
	})
}

// TestOrderOfOneSet lists, in order, what one store may hold, with the bounds between.
func TestOrderOfOneSet(t *testing.T) {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 7, []byte("ab")))
	shorter := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 7, []byte("z")))
	el := func(element, actor string, counter uint64, op keyscheme.Op) []byte {
		return p.AppendElement(nil, []byte(element), clock.Dot{Actor: clock.Actor(actor), Counter: counter}, op)
	}
	keys := [][]byte{
		{}, {0}, {0, 0, 0}, {0xFF}, {0xFF, 0xFF, 0xFF}, // store metadata
		keyscheme.AppendSlot(nil, 6),
		keyscheme.AppendSlot(nil, 7),
		shorter.AppendClock(nil), // shorter names first, whatever their bytes
		shorter.AppendEnd(nil),
		p,
		p.AppendClock(nil),
		p.AppendClockPage(nil, "a", 0),
		p.AppendClockPage(nil, "a", 255),
		p.AppendClockPage(nil, "a", 256),
		p.AppendClockPage(nil, "aa", 0),
		p.AppendClockPage(nil, "b", 0),
		p.AppendTombstone(nil),
		p.AppendTombstonePage(nil, "a", 1),
		p.AppendTombstonePage(nil, "a", 256),
		p.AppendTombstonePage(nil, "aa", 0),
		p.AppendTombstonePage(nil, "b", 0),
		append(bytes.Clone(p), 'e'),
		p.AppendElementBound(nil, nil),
		el("", "x", 1, keyscheme.OpAdd),
		p.AppendElementAfter(nil, nil),
		p.AppendElementBound(nil, []byte("a")),
		el("a", "x", 1, keyscheme.OpAdd),
		el("a", "x", 1, keyscheme.OpRemove),
		el("a", "x", 2, keyscheme.OpAdd),
		el("a", "x", 256, keyscheme.OpAdd), // numerically, though little-endian
		el("a", "xx", 1, keyscheme.OpAdd),
		el("a", "y", 1, keyscheme.OpAdd),
		p.AppendElementAfter(nil, []byte("a")),
		el("aaaa", "x", 1, keyscheme.OpAdd), // bytewise, not by length
		el("b", "x", 1, keyscheme.OpAdd),
		el("\xff\xff", "x", 1, keyscheme.OpAdd),
		p.AppendEnd(nil),
		keyscheme.AppendSlotKey(nil, 7, keyscheme.SlotBloom, nil),
		keyscheme.AppendSlotKey(nil, 7, keyscheme.SlotBloom, []byte{0}),
		keyscheme.AppendSlotKey(nil, 7, keyscheme.SlotMeta, nil),
		keyscheme.AppendSlot(nil, 8),
	}
	for i := range keys {
		for j := range keys {
			want := min(1, max(-1, i-j))
			if got := comparator.Compare(keys[i], keys[j]); got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", comparator.Format(keys[i]), comparator.Format(keys[j]), got, want)
			}
		}
	}
}

func FuzzCompare(f *testing.F) {
	p := keyscheme.NewPrefix([]byte("set"))
	one := p.AppendElement(nil, []byte("element"), clock.Dot{Actor: "actor", Counter: 1}, keyscheme.OpAdd)
	two := p.AppendElement(nil, []byte("elem"), clock.Dot{Actor: "actor", Counter: 258}, keyscheme.OpRemove)
	page := p.AppendTombstonePage(nil, "actor", 7)
	f.Add(one, two, page)
	f.Add(one[:20], two[:16], page[:18])
	f.Add(p.AppendClock(nil), p.AppendTombstone(nil), p.AppendEnd(nil))
	f.Add(p.AppendClock(nil), p.AppendClockPage(nil, "actor", 7), p.AppendTombstone(nil))
	f.Add([]byte{}, []byte{1, 2, 3}, keyscheme.AppendSlotKey(nil, keyscheme.SlotMax, keyscheme.SlotMeta, nil))
	f.Fuzz(func(t *testing.T, a, b, c []byte) { checkThree(t, a, b, c) })
}

func checkThree(t *testing.T, a, b, c []byte) {
	sorted := [][]byte{a, b, c}
	slices.SortFunc(sorted, comparator.Compare)
	checkTotal(t, sorted[0], sorted[1], sorted[2])
	checkTotal(t, a, b, c)
	if got, want := comparator.Compare(a, b), refCompare(a, b); got != want {
		t.Fatalf("Compare(%x, %x) = %d, the reference says %d", a, b, got, want)
	}
	checkSplit(t, a, b)
	checkSeparator(t, a, b)
	checkSuccessors(t, a, c)
	checkAbbreviated(t, a, b)
}

// TestCompareAtRandom compares what the fuzzer would, without its instruments: keys, changed a little.
func TestCompareAtRandom(t *testing.T) {
	n, changes := mangle.Times(200_000), mangle.New(t)
	p := keyscheme.NewPrefix([]byte("set"))
	keys := [][]byte{p.AppendClock(nil), p.AppendTombstone(nil), p.AppendEnd(nil), p.AppendTombstonePage(nil, "actor", 7),
		p.AppendElement(nil, []byte("element"), clock.Dot{Actor: "actor", Counter: 1}, keyscheme.OpAdd),
		p.AppendElement(nil, []byte("elem"), clock.Dot{Actor: "actor", Counter: 258}, keyscheme.OpRemove),
		keyscheme.AppendSlotKey(nil, keyscheme.SlotMax, keyscheme.SlotMeta, nil), {1, 2, 3}}
	for range n {
		checkThree(t, changes.Of(keys), changes.Of(keys), changes.Of(keys))
	}
	t.Logf("%d executions", n)
}
