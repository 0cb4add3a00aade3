package comparator_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"bigset/comparator"
)

// nearKeys draws variants of one key, each cut, lengthened or changed in its own place. So two of them differ in a late field, in a
// tail, or in where they end.
var nearKeys = rapid.Custom(func(t *rapid.T) [][]byte {
	base := anyKeys.Draw(t, "base")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []byte {
		key := bytes.Clone(base)
		if len(key) > 0 && rapid.Bool().Draw(t, "flip") {
			key[rapid.IntRange(0, len(key)-1).Draw(t, "at")] = rapid.SampledFrom([]byte{0, 1, 2, 5, 'a', 0xFF}).Draw(t, "byte")
		}
		if rapid.Bool().Draw(t, "cut") {
			key = key[:rapid.IntRange(0, len(key)).Draw(t, "len")]
		}
		return append(key, smallBytes(0, 2).Draw(t, "tail")...)
	}), 2, 8).Draw(t, "keys")
})

// TestNearKeys checks all laws on keys that differ only a little.
func TestNearKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := nearKeys.Draw(t, "keys")
		for i, a := range keys {
			for _, b := range keys[i:] {
				if got, want := comparator.Compare(a, b), refCompare(a, b); got != want {
					t.Fatalf("Compare(%x, %x) = %d, the reference says %d", a, b, got, want)
				}
				checkTotal(t, a, b, keys[0])
				checkSplit(t, a, b)
				checkSeparator(t, a, b)
				checkSuccessors(t, a, b)
				checkAbbreviated(t, a, b)
			}
		}
	})
}
