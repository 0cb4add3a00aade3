package engine

import (
	"context"
	"time"

	"bigset"
)

// awaitCheck is how often a goroutine in Await looks whether the store was closed.
const awaitCheck = time.Second

// Await returns nil as soon as Seen or Dead of a set is another one than in was, at once if it is already. It returns the error of the
// context after that has ended, and ErrClosed soon after the store was closed. Close does not wait for it. Until then the set stays in
// memory. The fields of was may be nil, for a set that the store does not know.
func (r Replica) Await(ctx context.Context, name []byte, was *bigset.State) error {
	return r.await(ctx, name, was, func() {})
}

// AwaitNext is Await for the first change after it has called ready, and needs no state. If it returns an error it may not have called ready.
func (r Replica) AwaitNext(ctx context.Context, name []byte, ready func()) error {
	return r.await(ctx, name, nil, ready)
}

// await waits until a set differs from was or, if that is nil, for the first change after it has called ready.
func (r Replica) await(ctx context.Context, name []byte, was *bigset.State, ready func()) error {
	var st *set
	if err := r.s.usingSet(ctx, name, func(used *set) error {
		st = used
		r.s.sets.pin(st)
		return nil
	}); err != nil {
		return err
	}
	defer r.s.sets.release(st)
	check := time.NewTicker(awaitCheck)
	defer check.Stop()
	changed := st.nextChange(was)
	ready()
	for changed != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			if was == nil {
				return nil
			}
			changed = st.nextChange(was)
		case <-check.C:
			if r.s.db.Closed() {
				return bigset.ErrClosed
			}
		}
	}
	return nil
}

// nextChange returns a channel that is closed by the next change of Seen or Dead, or nil if was is a state and they differ from it.
func (st *set) nextChange(was *bigset.State) <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	if was != nil && (!st.seen.Equal(was.Seen) || !st.dead.Equal(was.Dead)) {
		return nil
	}
	if st.awaited == nil {
		st.awaited = make(chan struct{})
	}
	return st.awaited
}

// changed wakes the goroutines that await a change. The caller holds mu, and has changed Seen or Dead.
func (st *set) changed() {
	if st.awaited != nil {
		close(st.awaited)
		st.awaited = nil
	}
}
