package follow

import (
	"context"
	"sync"
	"time"

	"bigset"
	"bigset/server/door"
)

// Followers that wait for changes of the same set share what replicas know of it: each holds the same clocks in memory, and after a change one of
// them asks for all. A question is answered by an asking that began after it:
//
//	asks      ├── 1 ──┤├── 2 ──┤
//	A   ├─────────────┤                waits, and asks first
//	B, C         ├─────────────┤       came while A asked: one of them asks for both

// asking is what followers of a set that wait share.
type asking struct {
	followers int
	turn      chan struct{} // holds a value while somebody asks

	mu     sync.Mutex
	common bigset.State // what followers hold, as long as it is what they know
	begun  uint64       // how often replicas were asked
	ended  uint64       // the number of the last asking that has ended, and what it brought
	state  bigset.State
	err    error
}

// askingOf is what followers must have in common to share.
type askingOf struct {
	set string
	r   int
}

// Share returns a function that is state for a follower. While followers wait for changes of the same set, it makes one call of state at a time for all.
func (k *Kept) Share(q *door.Changes, state func(context.Context) (bigset.State, error)) func(context.Context) (bigset.State, error) {
	of := askingOf{string(q.Set), q.R}
	return func(ctx context.Context) (bigset.State, error) {
		k.mu.Lock()
		a := k.askings[of]
		k.mu.Unlock()
		if a == nil {
			return state(ctx)
		}
		return a.ask(ctx, state)
	}
}

// attend makes a follower that waits one of those that share, until leave is called. It is called with mu held, and so is leave.
func (k *Kept) attend(q *door.Changes) (a *asking, leave func()) {
	of := askingOf{string(q.Set), q.R}
	if a = k.askings[of]; a == nil {
		if k.askings == nil {
			k.askings = map[askingOf]*asking{}
		}
		a = &asking{turn: make(chan struct{}, 1)}
		k.askings[of] = a
	}
	a.followers++
	return a, func() {
		if a.followers--; a.followers == 0 {
			delete(k.askings, of)
		}
	}
}

// ask returns what an asking brings that begins after the call.
func (a *asking) ask(ctx context.Context, state func(context.Context) (bigset.State, error)) (bigset.State, error) {
	a.mu.Lock()
	want := a.begun + 1
	a.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return bigset.State{}, ctx.Err()
	}
	a.mu.Lock()
	if a.ended >= want {
		defer a.mu.Unlock()
		return a.state, a.err
	}
	a.begun++
	n := a.begun
	a.mu.Unlock()
	s, err := state(ctx)
	if err != nil && ended(ctx) {
		return s, err // this says nothing to the others
	}
	if err == nil {
		s = a.same(s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.state, a.err = n, s, err
	return s, err
}

// ended reports whether ctx has ended, or is about to: its timer may be late, and calls look at the clock.
func ended(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

// same returns the state that followers hold, if it equals s; otherwise they hold s from now on.
func (a *asking) same(s bigset.State) bigset.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.common.Seen.Equal(s.Seen) || !a.common.Dead.Equal(s.Dead) {
		a.common = s
	}
	return a.common
}
