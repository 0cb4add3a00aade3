package local

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"bigset/server/peer"
)

// A request that was sent again is done again if no replica knows it. By then its first try may still be on the way here, in a slow network or at
// a process that was stopped. If it were done after this replica has said that it does not know the request, the request would be two events. So a
// question makes its try the only one that may do the request here.

// triesMax is how many questions are remembered: as many as a store keeps records of requests. They take some 5 MiB.
const triesMax = 1 << 16

// tries tells the tries of requests with ids from each other. It is kept in memory: what was sent to a process that has ended does not reach the
// next one.
type tries struct {
	seeds [2]maphash.Seed

	mu    sync.Mutex
	under map[request]int           // how many writes of a request are under way
	ended map[request]chan struct{} // closed when none is any more; for those that somebody waits for
	last  map[request]uint64        // the try that has asked last
	asked []question                // a ring: the latest
	next  int                       // the place of the next question in a full ring
}

// request is the hashes of a set and of the id of a request to it. If those of two requests are the same, a try of one may be refused for one of the
// other. Then it asks all replicas, and is done.
type request [2]uint64

type question struct {
	request request
	try     uint64
}

func newTries() tries {
	return tries{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, under: map[request]int{}, ended: map[request]chan struct{}{}, last: map[request]uint64{}}
}

func (t *tries) request(set, id []byte) request {
	return request{maphash.Bytes(t.seeds[0], set), maphash.Bytes(t.seeds[1], id)}
}

// begin begins a write of a request, until end is called. It reports false if another try has asked for the request since.
func (t *tries) begin(r request, try uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try != 0 && len(t.last) > 0 {
		if last, ok := t.last[r]; ok && last != try {
			return false
		}
	}
	t.under[r]++
	return true
}

// end ends a write that begin has begun.
func (t *tries) end(r request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under[r]--; t.under[r] > 0 {
		return
	}
	delete(t.under, r)
	if ended := t.ended[r]; ended != nil {
		close(ended)
		delete(t.ended, r)
	}
}

// ask makes a try the only one that may begin a request, and waits for the writes of it that have begun.
func (t *tries) ask(ctx context.Context, r request, try uint64) error {
	for ended := t.took(r, try); ended != nil; ended = t.running(r) {
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: the request is being done: %w", peer.ErrUnavailable, context.Cause(ctx))
		}
	}
	return nil
}

// took makes a try the only one that may begin a request. It returns what running returns.
func (t *tries) took(r request, try uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := question{r, try}
	if len(t.asked) < triesMax {
		t.asked = append(t.asked, q)
	} else {
		if old := t.asked[t.next]; t.last[old.request] == old.try {
			delete(t.last, old.request)
		}
		t.asked[t.next], t.next = q, (t.next+1)%triesMax
	}
	t.last[r] = try
	return t.waiting(r)
}

// running returns a channel that is closed when the writes of a request have ended, or nil if none is under way.
func (t *tries) running(r request) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting(r)
}

// waiting is running with the lock held.
func (t *tries) waiting(r request) <-chan struct{} {
	if t.under[r] == 0 {
		return nil
	}
	if t.ended[r] == nil {
		t.ended[r] = make(chan struct{})
	}
	return t.ended[r]
}
