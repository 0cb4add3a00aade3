//go:build !race

package bloomslice

// orWord sets bits of a word that others may be reading, and returns what it was. Only one at a time does: the word needs no lock, which
// keeps the processor from fetching the next one meanwhile. Here an aligned word is stored whole, and stores are seen in their order.
func orWord(word *uint64, bits uint64) (old uint64) {
	old = *word
	*word = old | bits
	return old
}
