package local

import (
	"context"
	"math/bits"

	"bigset"
)

const (
	// roomBytes is the memory for batches that are made at one time, of those that are counted: it has room for the largest one.
	roomBytes = bigset.BatchKeysBytesMax
	// namesFew bytes of the names of sets in a batch, or fewer, are not counted: the request then bounds the batch.
	namesFew = 64 << 10
)

// takeRoom takes memory for the batch of operations on a set, in which the name of the set may stand so often that the batch is much longer than
// its request. It waits for that memory until the context ends. It returns how much room.Release must return: 0 for most batches. Who has room
// waits for nothing but the store, so all waiting ends.
func (l *Replica) takeRoom(ctx context.Context, set []byte, ops int) (taken int64, err error) {
	n := ops * len(set)
	if n <= namesFew {
		return 0, nil
	}
	n += ops * bigset.BatchKeyBytes
	taken = min(int64(1)<<bits.Len(uint(n-1)), roomBytes) // the buffer of a batch is doubled until it is large enough
	return taken, l.outcome(l.room.Acquire(ctx, taken))
}
