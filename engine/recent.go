package engine

import (
	"bytes"
	"encoding/binary"
	"iter"
	"sync/atomic"

	"bigset/engine/internal/lockorder"
)

// recentKeys holds in memory the element keys that were written last, of all sets, because Locate mostly looks for young keys. It holds
// between one and two times recentBytesMax bytes. Its bytes never change once they are written, so they are read without a lock. A store
// whose Locate was never called keeps none, which saves a twentieth to a tenth of the cost of an add.
type recentKeys struct {
	on         atomic.Bool
	mu         lockorder.Mutex[lockorder.RecentMu]
	young, old []byte // keys, each after its length as a uvarint
}

// recentBytesMax is the size of one of the two halves of the log of recent writes, in bytes.
const recentBytesMax = 4 << 20

// KeepRecent starts to keep in memory the keys that the store writes last, up to 8 MiB of them, so that Locate finds
// young keys without a scan. It is for a store that is one of several replicas; the first Locate calls it, too. It
// may be called at any time.
func (r Replica) KeepRecent() { r.s.recent.on.Store(true) }

// appendRecent appends a key to those to be added. It leaves out the rest of a batch larger than the log.
func appendRecent(dst, key []byte) []byte {
	if len(dst)+len(key) > recentBytesMax {
		return dst
	}
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

// reusable returns a buffer for the next batch, or nil if it is too large to be kept.
func reusable(b []byte) []byte {
	if cap(b) > 1<<20 {
		return nil
	}
	return b[:0]
}

// add adds keys. Their batch must have been applied: a dot that was never visible may be given to another element.
func (r *recentKeys) add(keys []byte) {
	if len(keys) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young)+len(keys) > recentBytesMax {
		r.old, r.young = r.young, make([]byte, 0, recentBytesMax)
	}
	r.young = append(r.young, keys...)
}

// of lists the keys of one set, given its prefix, from the oldest group of writers to the newest. They must not be changed.
func (r *recentKeys) of(prefix []byte) iter.Seq[[]byte] {
	r.mu.Lock()
	halves := [][]byte{r.old, r.young}
	r.mu.Unlock()
	return func(yield func([]byte) bool) {
		for _, b := range halves {
			for len(b) > 0 {
				n, size := binary.Uvarint(b)
				key := b[size : size+int(n)]
				b = b[size+int(n):]
				if bytes.HasPrefix(key, prefix) && !yield(key) {
					return
				}
			}
		}
	}
}
