package coord

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"bigset/bloomslice"
)

// FilterBatches does requests of one kind on one filter, checks or marks, and combines concurrent ones into batches. A batch takes fewer
// frames, and a replica does all its keys of a slice together. The methods may be called by any number of goroutines.
//
// A request begins at once if no batch is in progress, or fewer than half as many as there are processors. Otherwise it waits until one of
// them ends, and then all waiting requests form a batch. So a request alone waits for no other, and a batch has only requests that arrived
// before it began: its answers are as good for them as their own would be.
//
// A batch reads pages from disk one after the other, and waits for a replica that hangs, while separate requests do so in parallel. So when
// a batch is slow, the waiting requests begin separately, and so do all later ones for some time.
type FilterBatches struct {
	c      *Coordinator
	filter Filter
	marks  bool
	do     func(context.Context, FilterKeys) ([]bool, error)
	most   int // the maximum number of batches in progress

	mu      sync.Mutex
	going   int             // batches in progress
	waiting []*batchRequest // oldest first
	apart   time.Time       // until then, requests are done separately
	factor  time.Duration   // multiplied by the duration of a slow batch; doubled by each further slow one
}

const (
	batchKeysMax = 4096 // for a batch of several requests
	factorMax    = 64
)

// batchSlow is how long a batch of keys may take. A single request may take as long as a hanging replica delays it, until another is asked.
func batchSlow(keys int, alone bool) time.Duration {
	if alone {
		return 100 * time.Millisecond
	}
	return 10*time.Millisecond + time.Duration(keys)*50*time.Microsecond
}

// CheckBatches returns the FilterBatches that checks keys of a filter.
func (c *Coordinator) CheckBatches(f Filter) *FilterBatches { return c.newBatches(f, c.CheckFilter) }

// MarkBatches returns the FilterBatches that marks keys of a filter.
func (c *Coordinator) MarkBatches(f Filter) *FilterBatches {
	b := c.newBatches(f, c.MarkFilter)
	b.marks = true
	return b
}

func (c *Coordinator) newBatches(f Filter, do func(context.Context, FilterKeys) ([]bool, error)) *FilterBatches {
	b := &FilterBatches{c: c, filter: f, do: do, most: 1}
	if c.run == (Goroutines{}) { // another Runner must behave the same on every machine
		b.most = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return b
}

// batchRequest is a request that waits for a batch.
type batchRequest struct {
	hashes *[]bloomslice.Hash // owned by the goroutine that does the request, which gives them back
	over   Signal

	// Guarded by mu until over is set or done is true.
	answers []bool
	err     error
	done    bool
}

// Do does what CheckFilter or MarkFilter does, with the coordinator's default quorum. It does not keep the keys.
func (b *FilterBatches) Do(ctx context.Context, keys [][]byte) ([]bool, error) {
	b.mu.Lock()
	switch {
	case len(keys) > batchKeysMax || b.c.run.Now().Before(b.apart):
		b.mu.Unlock()
		return b.do(ctx, FilterKeys{Filter: b.filter, Keys: keys})
	case b.going < b.most:
		b.going++
		b.mu.Unlock()
		return b.timed(ctx, FilterKeys{Filter: b.filter, Keys: keys}, true)
	}
	b.mu.Unlock()
	r := &batchRequest{hashes: takeHashes(len(keys)), over: b.c.run.NewSignal()}
	for i, key := range keys {
		(*r.hashes)[i] = bloomslice.Sum(key)
	}
	b.join(r)
	if err := r.over.Wait(ctx); err != nil {
		b.leave(r, err)
	}
	return r.answers, r.err
}

// hashesRoom holds memory for the hashes of requests. A coordinator keeps none of them after a request has ended.
var hashesRoom = sync.Pool{New: func() any { return new([]bloomslice.Hash) }}

// takeHashes returns memory for n hashes.
func takeHashes(n int) *[]bloomslice.Hash {
	h := hashesRoom.Get().(*[]bloomslice.Hash)
	*h = slices.Grow((*h)[:0], n)[:n]
	return h
}

// giveHashes returns the memory.
func giveHashes(h *[]bloomslice.Hash) { hashesRoom.Put(h) }

// timed does one of the batches in progress, and then begins the next one.
func (b *FilterBatches) timed(ctx context.Context, r FilterKeys, alone bool) ([]bool, error) {
	began := b.c.run.Now()
	slow := batchSlow(r.count(), alone)
	stop := b.c.run.After(slow, func() { b.slow(b.c.opt.Timeout) })
	answers, err := b.do(ctx, r)
	stop()
	took := b.c.run.Now().Sub(began)
	b.mu.Lock()
	switch {
	case took >= slow:
		b.factor = min(max(1, 2*b.factor), factorMax)
	case !alone:
		b.factor = 0
	}
	factor := b.factor
	b.mu.Unlock()
	if took >= slow {
		b.slow(factor * took)
	}
	b.next()
	return answers, err
}

// slow makes all waiting requests, and those that arrive within d, run separately.
func (b *FilterBatches) slow(d time.Duration) {
	b.mu.Lock()
	b.apart = b.c.run.Now().Add(d)
	list := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, r := range list {
		b.c.run.Go(func() { b.alone(r) })
	}
}

// alone does a waiting request separately.
func (b *FilterBatches) alone(r *batchRequest) {
	answers, err := b.do(b.c.life, FilterKeys{Filter: b.filter, hashes: *r.hashes})
	giveHashes(r.hashes)
	b.answer(r, answers, err)
}

// answer gives a request its result, unless its caller has stopped waiting.
func (b *FilterBatches) answer(r *batchRequest, answers []bool, err error) {
	b.mu.Lock()
	if !r.done {
		r.answers, r.err, r.done = answers, err, true
	}
	b.mu.Unlock()
	r.over.Set()
}

// join adds a request to the waiting ones, or begins it if batches are slow or fewer than most are in progress by now.
func (b *FilterBatches) join(r *batchRequest) {
	b.mu.Lock()
	if b.c.run.Now().Before(b.apart) {
		b.mu.Unlock()
		b.c.run.Go(func() { b.alone(r) })
		return
	}
	b.waiting = append(b.waiting, r)
	begin := b.going < b.most
	if begin {
		b.going++
	}
	b.mu.Unlock()
	if begin {
		b.next()
	}
}

// next ends one of the batches in progress, and begins one with waiting requests, if any.
func (b *FilterBatches) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, keys := 0, 0
	for n < len(b.waiting) && (n == 0 || keys+len(*b.waiting[n].hashes) <= batchKeysMax) {
		keys += len(*b.waiting[n].hashes)
		n++
	}
	if n == 0 {
		b.going--
		return
	}
	list := slices.Clone(b.waiting[:n])
	b.waiting = append(b.waiting[:0], b.waiting[n:]...)
	clear(b.waiting[len(b.waiting):cap(b.waiting)])
	b.c.run.Go(func() { b.batch(list, keys) })
}

// batch does requests as one batch.
func (b *FilterBatches) batch(list []*batchRequest, keys int) {
	hashes, ends := list[0].hashes, make([]int, len(list))
	if ends[0] = keys; len(list) > 1 {
		hashes = takeHashes(keys)
		n := 0
		for i, r := range list {
			n += copy((*hashes)[n:], *r.hashes)
			ends[i] = n
			giveHashes(r.hashes)
		}
	}
	answers, err := b.timed(b.c.life, FilterKeys{Filter: b.filter, hashes: *hashes}, len(list) == 1)
	giveHashes(hashes)
	from := 0
	for i, r := range list {
		to := ends[i]
		var part []bool
		if answers != nil {
			part = answers[from:to:to]
		}
		b.answer(r, part, splitError(err, from, to))
		from = to
	}
}

// splitError returns the part of a batch's error that concerns the request with keys from to to. If some keys of the batch may be marked,
// the request's keys without an answer may be.
func splitError(err error, from, to int) error {
	var f *FilterError
	if !errors.As(err, &f) {
		return err
	}
	first, _ := slices.BinarySearch(f.Keys, from)
	last, _ := slices.BinarySearch(f.Keys, to)
	if first == last {
		return nil
	}
	part := *f
	part.Of, part.Keys = to-from, slices.Clone(f.Keys[first:last])
	for i := range part.Keys {
		part.Keys[i] -= from
	}
	if f.Unknown > 0 {
		part.Unknown = len(part.Keys)
	}
	return &part
}

// leave ends a request whose caller has stopped waiting. A request that is not part of a batch yet has not happened.
func (b *FilterBatches) leave(r *batchRequest, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	q := b.c.opt.Quorum
	if at := slices.Index(b.waiting, r); at >= 0 {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	} else if b.marks {
		r.err = &UnknownError{Set: b.filter.Name, W: q.W, Unanswered: q.N, Err: cause}
		return
	}
	r.err = &QuorumError{Set: b.filter.Name, Of: q.W, Err: cause}
}
