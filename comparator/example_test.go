package comparator_test

import (
	"fmt"
	"slices"

	"bigset/clock"
	"bigset/comparator"
	"bigset/keyscheme"
)

// Elements are in bytewise order, counters in numeric order, and the set's clock comes before all of them.
func ExampleCompare() {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 0, []byte("s")))
	add := func(element string, counter uint64) []byte {
		return p.AppendElement(nil, []byte(element), clock.Dot{Actor: "n", Counter: counter}, keyscheme.OpAdd)
	}
	keys := [][]byte{add("b", 1), add("aa", 256), add("aa", 2), p.AppendTombstone(nil), add("a", 3), p.AppendClock(nil)}
	slices.SortFunc(keys, comparator.Compare)
	for _, key := range keys {
		fmt.Println(comparator.Format(key))
	}
	// Output:
	// 00000000/"s"/c
	// 00000000/"s"/d
	// 00000000/"s"/e/"a"/"n":3/a
	// 00000000/"s"/e/"aa"/"n":2/a
	// 00000000/"s"/e/"aa"/"n":256/a
	// 00000000/"s"/e/"b"/"n":1/a
}

// A table's index needs only as much of a key as distinguishes it from the next table's.
func ExampleSeparator() {
	p := keyscheme.Prefix(keyscheme.AppendPrefix(nil, 0, []byte("s")))
	dot := clock.Dot{Actor: "n", Counter: 1}
	a := p.AppendElement(nil, []byte("black cat"), dot, keyscheme.OpAdd)
	b := p.AppendElement(nil, []byte("blue dog"), dot, keyscheme.OpAdd)
	fmt.Println(comparator.Format(comparator.Separator(nil, a, b)))
	// Output: 00000000/"s"/e/"blu"
}
