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
//
// Two tries may ask at the same time, and reach the replicas in different orders. So their numbers are an order: a question is refused here if one
// with the same number or a larger one came before. A try does the request only after all replicas have answered its question. Of two such tries the one with the
// smaller number was first at every replica. If its write began there before the question of the other one came, that question waits for it and
// finds the request known. If not, the write is refused.

// triesMax is how many questions are remembered: as many as a store keeps records of requests. They take some 5 MiB.
const triesMax = 1 << 16

// tries tells the tries of requests with ids from each other. It is kept in memory: what was sent to a process that has ended does not reach the
// next one.
type tries struct {
	seeds [2]maphash.Seed

	mu    sync.Mutex
	under map[request]int           // how many writes of a request are under way
	ended map[request]chan struct{} // closed when none is any more; for those that somebody waits for
	last  map[request]uint64        // the largest try that has asked
	asked []question                // a ring: the latest that were not refused
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

// begin begins a write of a request, until end is called. If another try has asked for the request, it begins nothing, and returns the number of that.
func (t *tries) begin(r request, try uint64) (held uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if try != 0 && len(t.last) > 0 {
		if last, asked := t.last[r]; asked && last != try {
			return last, false
		}
	}
	t.under[r]++
	return 0, true
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

// ask makes a try the only one that may begin a request, unless one with the same number or a larger one has asked before: then it returns that number.
// In any case it waits for the writes of the request that have begun.
func (t *tries) ask(ctx context.Context, r request, try uint64) (held uint64, err error) {
	held = t.took(r, try)
	for ended := t.running(r); ended != nil; ended = t.running(r) {
		select {
		case <-ended:
		case <-ctx.Done():
			return held, fmt.Errorf("%w: the request is being done: %w", peer.ErrUnavailable, context.Cause(ctx))
		}
	}
	return held, nil
}

// took makes a try the only one that may begin a request, unless one with the same number or a larger one has asked before: then it returns that number.
func (t *tries) took(r request, try uint64) (held uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last[r]; last >= try {
		return last
	}
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
	return 0
}

// running returns a channel that is closed when the writes of a request have ended, or nil if none is under way.
func (t *tries) running(r request) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under[r] == 0 {
		return nil
	}
	if t.ended[r] == nil {
		t.ended[r] = make(chan struct{})
	}
	return t.ended[r]
}
