package coord

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"bigset/bloomslice"
)

// TestBatchHashes: the hashes of a batch are its own until it ends, whatever takes memory for hashes at the same time.
func TestBatchHashes(t *testing.T) {
	for _, requests := range []int{1, 5} { // that wait
		const each = 3
		of := map[bloomslice.Hash]bool{}
		for i := range requests * each {
			of[bloomslice.Sum(fmt.Append(nil, i))] = i%2 == 0
		}
		hold := make(chan struct{})
		b := &FilterBatches{c: &Coordinator{run: Goroutines{}, life: t.Context(), opt: Options{Timeout: time.Minute}}, most: 1}
		b.do = func(_ context.Context, r FilterKeys) ([]bool, error) {
			if r.hashes == nil && string(r.Keys[0]) == "first" {
				<-hold
				return nil, nil
			}
			for _, key := range r.Keys { // of a request by itself, where the first one is slow
				r.hashes = append(r.hashes, bloomslice.Sum(key))
			}
			other := takeHashes(len(r.hashes))
			clear(*other)
			giveHashes(other)
			answers := make([]bool, len(r.hashes))
			for i, h := range r.hashes {
				has, known := of[h]
				if answers[i] = has; !known {
					t.Errorf("%d requests: the hash of no key", requests)
				}
			}
			return answers, nil
		}
		var all sync.WaitGroup
		all.Go(func() { _, _ = b.Do(t.Context(), [][]byte{[]byte("first")}) })
		waitUntil(b, func() bool { return b.going == 1 })
		for n := range requests {
			all.Go(func() {
				var keys [][]byte
				for i := range each {
					keys = append(keys, fmt.Append(nil, n*each+i))
				}
				answers, err := b.Do(t.Context(), keys)
				for i, has := range answers {
					if want := (n*each+i)%2 == 0; has != want {
						t.Errorf("%d requests: key %d of request %d: %v", requests, i, n, has)
					}
				}
				if err != nil || len(answers) != each {
					t.Errorf("%d answers, %v", len(answers), err)
				}
			})
		}
		waitUntil(b, func() bool { return len(b.waiting) == requests || !b.apart.IsZero() }) // or the first one is slow by now
		close(hold)
		all.Wait()
	}
}

// waitUntil returns when something is so.
func waitUntil(b *FilterBatches, so func() bool) {
	for {
		b.mu.Lock()
		done := so()
		b.mu.Unlock()
		if done {
			return
		}
		runtime.Gosched()
	}
}
