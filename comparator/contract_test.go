package comparator_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"bigset/bloomslice"
	"bigset/clock"
	"bigset/comparator"
	"bigset/keyscheme"
)

// The comparer as a store assembles it.
var comparer = &pebble.Comparer{
	Name:                 comparator.Name,
	Compare:              comparator.Compare,
	Equal:                comparator.Equal,
	ComparePointSuffixes: comparator.ComparePointSuffixes,
	CompareRangeSuffixes: comparator.CompareRangeSuffixes,
	Split:                comparator.Split,
	Separator:            comparator.Separator,
	Successor:            comparator.Successor,
	ImmediateSuccessor:   comparator.ImmediateSuccessor,
	AbbreviatedKey:       comparator.AbbreviatedKey,
	FormatKey:            comparator.Format,
}

// checkSplit checks the three laws that Pebble states for Split on two keys.
func checkSplit(t failer, a, b []byte) {
	n, m := comparator.Split(a), comparator.Split(b)
	if n < 0 || n > len(a) || m < 0 || m > len(b) {
		t.Fatalf("Split(%x) = %d, Split(%x) = %d", a, n, b, m)
	}
	if comparator.Split(a[:n]) != n {
		t.Fatalf("the prefix %x of %x is no prefix of itself", a[:n], a)
	}
	if n < len(a) && comparator.Compare(a[:n], a) >= 0 {
		t.Fatalf("the prefix %x does not sort before %x", a[:n], a)
	}
	prefixes, keys := comparator.Compare(a[:n], b[:m]), comparator.Compare(a, b)
	if prefixes != 0 && keys != prefixes {
		t.Fatalf("Compare(%x, %x) = %d, of their prefixes %d", a, b, keys, prefixes)
	}
	if prefixes == 0 && comparator.ComparePointSuffixes(a[n:], b[m:]) != keys {
		t.Fatalf("Compare(%x, %x) = %d, not as their suffixes", a, b, keys)
	}
	if comparator.CompareRangeSuffixes(a[n:], b[m:]) != comparator.ComparePointSuffixes(a[n:], b[m:]) {
		t.Fatalf("the suffixes of %x and %x compare in two ways", a, b)
	}
}

// checkSeparator requires a <= k < b, and k a whole prefix or a itself.
func checkSeparator(t failer, a, b []byte) {
	if comparator.Compare(a, b) > 0 {
		a, b = b, a
	}
	if bytes.Equal(a, b) {
		return
	}
	k := comparator.Separator([]byte("dst"), a, b)
	if !bytes.HasPrefix(k, []byte("dst")) {
		t.Fatalf("Separator(%x, %x) does not append: %x", a, b, k)
	}
	k = k[3:]
	if comparator.Compare(a, k) > 0 || comparator.Compare(k, b) >= 0 {
		t.Fatalf("Separator(%x, %x) = %x, not between", a, b, k)
	}
	if !bytes.Equal(k, a) && (comparator.Split(k) != len(k) || len(k) >= len(a)) {
		t.Fatalf("Separator(%x, %x) = %x, neither a nor a shorter whole prefix", a, b, k)
	}
}

// checkSuccessors requires keys above a (or a's prefix), and c not between the prefix and its immediate successor.
func checkSuccessors(t failer, a, c []byte) {
	if k := comparator.Successor(nil, a); comparator.Compare(a, k) > 0 || len(k) > len(a) {
		t.Fatalf("Successor(%x) = %x", a, k)
	}
	a, c = a[:comparator.Split(a)], c[:comparator.Split(c)]
	k := comparator.ImmediateSuccessor(nil, a)
	if comparator.Split(k) != len(k) || comparator.Compare(a, k) >= 0 {
		t.Fatalf("ImmediateSuccessor(%x) = %x, no prefix above it", a, k)
	}
	if comparator.Compare(a, c) < 0 && comparator.Compare(c, k) < 0 {
		t.Fatalf("ImmediateSuccessor(%x) = %x, but %x is between", a, k, c)
	}
}

func checkAbbreviated(t failer, a, b []byte) {
	x, y := comparator.AbbreviatedKey(a), comparator.AbbreviatedKey(b)
	if c := comparator.Compare(a, b); x < y && c >= 0 || x > y && c <= 0 {
		t.Fatalf("abbreviated, %x is %x and %x is %x, but the keys compare %d", a, x, b, y, c)
	}
}

func TestContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKeys.Draw(t, "a"), anyKeys.Draw(t, "b")
		checkSplit(t, a, b)
		checkSeparator(t, a, b)
		checkSuccessors(t, a, b)
		checkAbbreviated(t, a, b)
	})
}

// TestImmediateSuccessor looks for a prefix in between, where one would be: close to the key, and close to its successor.
func TestImmediateSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyKeys.Draw(t, "a")
		a = a[:comparator.Split(a)]
		k := comparator.ImmediateSuccessor(nil, a)
		for _, near := range [][]byte{a, k} {
			for cut := range len(near) + 1 {
				for _, tail := range []string{"", "\x00", "\x01", "\xfe", "\xff", "\x00\x00", "\x00\x00\x00\x00", "\x00\x00\x00\x01"} {
					checkSuccessors(t, a, append(bytes.Clone(near[:cut]), tail...))
				}
				if cut < len(near) {
					for _, by := range []byte{1, 0xFF} {
						beside := bytes.Clone(near)
						beside[cut] += by
						checkSuccessors(t, a, beside)
						checkSuccessors(t, a, beside[:cut+1])
					}
				}
			}
		}
	})
}

func TestSeparatorShortens(t *testing.T) {
	key := func(set, element string) []byte {
		p := keyscheme.AppendPrefix(nil, 7, []byte(set))
		return keyscheme.Prefix(p).AppendElement(nil, []byte(element), clock.Dot{Actor: "actor", Counter: 9}, keyscheme.OpAdd)
	}
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 7, []byte("set")))
	for _, c := range []struct {
		name    string
		a, b, k []byte
	}{
		{"element", key("set", "black cat"), key("set", "blue dog"), p.AppendElementBound(nil, []byte("blu"))},
		{"longer element", key("set", "bl"), key("set", "black"), p.AppendElementBound(nil, []byte("bla"))},
		{"same element", key("set", "bl"), append(key("set", "bl"), 0), key("set", "bl")},
		{"designator", p.AppendTombstonePage(nil, "actor", 7), key("set", "x"), append(bytes.Clone(p), 'e')},
		{"set", key("sea", "x"), key("set", "x"), p},
		{"length", key("se", "x"), key("set", "x"), p[:8]},
		{"slot", key("set", "x"), keyscheme.AppendSlotKey(nil, 9, keyscheme.SlotMeta, nil), keyscheme.AppendSlot(nil, 9)},
	} {
		if got := comparator.Separator(nil, c.a, c.b); !bytes.Equal(got, c.k) {
			t.Errorf("%s: Separator(%s, %s) = %s, want %s", c.name, comparator.Format(c.a), comparator.Format(c.b),
				comparator.Format(got), comparator.Format(c.k))
		}
	}
}

func exampleParts() (prefixes, suffixes [][]byte) {
	for _, set := range []string{"", "a", "set"} {
		p := keyscheme.NewPrefix([]byte(set))
		for _, element := range []string{"", "a", "b", "aa", "element", "\xff"} {
			prefixes = append(prefixes, p.AppendElementBound(nil, []byte(element)))
		}
	}
	whole := prefixes[0]
	for _, dot := range []clock.Dot{{Actor: "a", Counter: 1}, {Actor: "a", Counter: 256}, {Actor: "aa", Counter: 2}, {Actor: "b", Counter: 1}} {
		p := keyscheme.NewPrefix(nil)
		suffixes = append(suffixes, p.AppendElement(nil, nil, dot, keyscheme.OpAdd)[len(whole):],
			p.AppendElement(nil, nil, dot, keyscheme.OpRemove)[len(whole):])
	}
	return prefixes, suffixes
}

// TestCheckComparer runs all tests of pebble.CheckComparer except the two requirements that this order cannot meet: prefixes in
// bytewise order, and prefixes that are still prefixes without their first bytes.
func TestCheckComparer(t *testing.T) {
	prefixes, suffixes := exampleParts()
	suffixes = append(suffixes, nil)
	slices.SortFunc(suffixes, comparer.CompareRangeSuffixes)
	if !slices.IsSortedFunc(suffixes, comparer.ComparePointSuffixes) || len(suffixes[0]) != 0 {
		t.Fatal("the orders of suffixes do not agree, or the empty one is not the least")
	}
	for _, ap := range prefixes {
		for _, as := range suffixes {
			a := slices.Concat(ap, as)
			if n := comparer.Split(a); n != len(ap) {
				t.Fatalf("Split(%s) = %d, want %d", comparer.FormatKey(a), n, len(ap))
			}
			for _, bp := range prefixes {
				for _, bs := range suffixes {
					checkPair(t, ap, as, bp, bs)
				}
			}
		}
	}
}

func checkPair(t *testing.T, ap, as, bp, bs []byte) {
	t.Helper()
	a, b := slices.Concat(ap, as), slices.Concat(bp, bs)
	want := refCompare(ap, bp) // Pebble uses bytes.Compare here
	if want == 0 {
		want = comparer.ComparePointSuffixes(as, bs)
		if comparer.CompareRangeSuffixes(as, bs) != want {
			t.Fatalf("range suffixes %x and %x compare otherwise than point suffixes", as, bs)
		}
	}
	if got := comparer.Compare(a, b); got != want || comparer.Equal(a, b) != (got == 0) {
		t.Fatalf("Compare(%s, %s) = %d, want %d", comparer.FormatKey(a), comparer.FormatKey(b), got, want)
	}
}

// TestPebbleCheckComparer records the result of Pebble's own check, so that an upgrade that requires more or less is noticed.
func TestPebbleCheckComparer(t *testing.T) {
	// Store metadata is bytewise and has no suffixes: the whole check passes.
	if err := pebble.CheckComparer(comparer, [][]byte{{}, []byte("a"), []byte("abc"), []byte("b"), {0xFF}}, nil); err != nil {
		t.Errorf("store metadata: %v", err)
	}
	// The tail of an element's prefix is not a prefix: the check stops there.
	prefixes, suffixes := exampleParts()
	if err := pebble.CheckComparer(comparer, prefixes, suffixes); err == nil || !strings.Contains(err.Error(), "incorrect Split") {
		t.Errorf("tails of prefixes: got %v, want a complaint about Split", err)
	}
	// Without suffixes Split always holds, and what is left is that prefixes are not in bytewise order.
	if err := pebble.CheckComparer(comparer, prefixes, nil); err == nil || !strings.HasPrefix(err.Error(), "Compare(") {
		t.Errorf("order of prefixes: got %v, want a complaint about Compare", err)
	}
}

func TestFormat(t *testing.T) {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 0x9e3779b9, []byte("s/t")))
	whole := p.AppendElement(nil, []byte("el"), clock.Dot{Actor: "n\x01", Counter: 7}, keyscheme.OpRemove)
	for _, c := range []struct {
		key  []byte
		want string
	}{
		{nil, `store/""`},
		{[]byte("id"), `store/"id"`},
		{p[:4], `9e3779b9`},
		{p[:6], `9e3779b9~"\x03\x00"`},
		{p, `9e3779b9/"s/t"`},
		{p.AppendClock(nil), `9e3779b9/"s/t"/c`},
		{p.AppendClockPage(nil, "n", 3), `9e3779b9/"s/t"/c/"n"/page 3`},
		{p.AppendTombstone(nil), `9e3779b9/"s/t"/d`},
		{p.AppendTombstonePage(nil, "n", 3), `9e3779b9/"s/t"/d/"n"/page 3`},
		{p.AppendElementBound(nil, []byte("el")), `9e3779b9/"s/t"/e/"el"`},
		{whole, `9e3779b9/"s/t"/e/"el"/"n\x01":7/r`},
		{append(bytes.Clone(whole), 1), `9e3779b9/"s/t"/e/"el"/"n\x01":7/r~"\x01"`},
		{whole[:14], `9e3779b9/"s/t"/e~"\x02\x00"`},
		{append(bytes.Clone(p), 0xFF, 'x'), `9e3779b9/"s/t"/"\xff"~"x"`},
		{p.AppendEnd(nil), `9e3779b9/"s/t"/z`},
		{keyscheme.AppendSlotKey(nil, 1, keyscheme.SlotBloom, []byte("f")), `00000001/slot/b/"f"`},
		{keyscheme.NewFilterPrefix([]byte("set"), 0).AppendHead(nil, 7), `37b9a8d4/slot/b/"set"/generation 7/h`},
		{keyscheme.NewFilterPrefix([]byte("set"), 0).AppendPage(nil, 7, bloomslice.LayerID{Index: 1, Owner: "o"}, 2), `37b9a8d4/slot/b/"set"/generation 7/p/layer 1 of "o"/page 2`},
	} {
		if got := fmt.Sprint(comparator.Format(c.key)); got != c.want {
			t.Errorf("Format(%x) = %s, want %s", c.key, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { _ = fmt.Sprint(comparator.Format(anyKeys.Draw(t, "key"))) })
}
