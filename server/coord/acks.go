package coord

import (
	"context"
	"sync"
)

// Acks counts the replicas that acknowledge a change after it was answered. What arrives by a hint or by another exchange between replicas does not count.
// It keeps nothing of the change in memory.
type Acks struct {
	run Runner

	mu    sync.Mutex
	acked int    // replicas that have acknowledged
	open  int    // replicas that have not answered yet
	next  Signal // set by the next answer; nil if nobody waits
}

// answered counts the answer of a replica.
func (a *Acks) answered(acked bool) {
	a.mu.Lock()
	if a.open--; acked {
		a.acked++
	}
	next := a.next
	a.next = nil
	a.mu.Unlock()
	if next != nil {
		next.Set()
	}
}

// Wait returns how many replicas have acknowledged, as soon as they are n, no other one can, or ctx has ended.
func (a *Acks) Wait(ctx context.Context, n int) (acked int) {
	acked, next := a.now(n)
	for next != nil {
		waited := next.Wait(ctx)
		if acked, next = a.now(n); waited != nil {
			break
		}
	}
	return acked
}

// now returns how many have acknowledged, and what to wait for if they are fewer than n and may become more.
func (a *Acks) now(n int) (acked int, next Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acked >= n || a.open == 0 {
		return a.acked, nil
	}
	if a.next == nil {
		a.next = a.run.NewSignal()
	}
	return a.acked, a.next
}
