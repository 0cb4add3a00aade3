//go:build !amd64 || race

package bloomslice

import "sync/atomic"

// orWord sets bits of a word that others may be reading, and returns what it was. Only one at a time does.
func orWord(word *uint64, bits uint64) (old uint64) { return atomic.OrUint64(word, bits) }
