package local

import (
	"container/list"
	"context"
	"math/bits"
	"sync"

	"bigset"
)

const (
	// roomBytes is the memory for batches that are made at one time, of those that are counted: it has room for the largest one.
	roomBytes = bigset.BatchKeysBytesMax
	// namesFew bytes of the names of sets in a batch, or fewer, are not counted: the request then bounds the batch.
	namesFew = 64 << 10
)

// room is memory for batches in which the name of a set stands so often that they are much longer than their requests. Who finds too little
// waits, the first one first. Who has room waits for nothing but the store, so all waiting ends.
type room struct {
	mu      sync.Mutex
	left    int
	waiting list.List // of *guest
}

// guest waits for room.
type guest struct {
	bytes int
	has   chan struct{} // closed when it has its room
}

// take takes room, at most roomBytes, or waits for it until the context ends. give returns it.
func (r *room) take(ctx context.Context, bytes int) error {
	r.mu.Lock()
	g := &guest{bytes, make(chan struct{})}
	at := r.waiting.PushBack(g)
	r.admitLocked()
	r.mu.Unlock()
	select {
	case <-g.has:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-g.has: // just now
		return nil
	default:
	}
	r.waiting.Remove(at)
	r.admitLocked() // those after it may need less
	return ctx.Err()
}

func (r *room) give(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += bytes
	r.admitLocked()
}

// admitLocked gives room to those who waited longest.
func (r *room) admitLocked() {
	for at := r.waiting.Front(); at != nil && at.Value.(*guest).bytes <= r.left; at = r.waiting.Front() {
		g := r.waiting.Remove(at).(*guest)
		r.left -= g.bytes
		close(g.has)
	}
}

// takeRoom takes room for the batch of operations on a set. It returns how much give must return: 0 for most batches.
func (l *Replica) takeRoom(ctx context.Context, set []byte, ops int) (taken int, err error) {
	n := ops * len(set)
	if n <= namesFew {
		return 0, nil
	}
	n += ops * bigset.BatchKeyBytes
	taken = min(1<<bits.Len(uint(n-1)), roomBytes) // the buffer of a batch is doubled until it is large enough
	return taken, l.outcome(l.room.take(ctx, taken))
}
