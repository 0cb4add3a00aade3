package cluster

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/follow"
	"bigset/server/peer"
)

// Changes implements door.Backend: what R replicas know together. Names of what was removed are those that the replica of this member knows.
func (b *Backend) Changes(ctx context.Context, q door.Changes) iter.Seq2[door.Changed, error] {
	return func(yield func(door.Changed, error) bool) {
		l, err := b.ready()
		var r coord.Quorum
		if err == nil {
			r, err = b.quorum(l, door.Quorum{}, q.R)
		}
		if err != nil {
			yield(door.Changed{}, err)
			return
		}
		for part, err := range b.m.followers.Changes(ctx, b.source(&q, r), l.tokens(q.Set), q) {
			if !yield(part, failure(err)) {
				return
			}
		}
	}
}

// StopFollowing ends the waits of Changes, also those that begin later: the answers end as if nothing had happened.
func (m *Member) StopFollowing() { m.followers.Stop() }

// The times between two looks of a waiting follower at whether a set has changed: the first, which doubles, and the last. Where this member
// holds the set, a change that comes to its replica ends the wait at once, and the looks, for what comes to others only, are rare.
const (
	pollLeast   = 50 * time.Millisecond
	pollMost    = 400 * time.Millisecond
	pollHolding = time.Second
)

// waitersMax is how many followers may wait at a member: each of them asks other members now and then.
const waitersMax = 2000

// source is what replicas know of a set, whatever the epoch.
func (b *Backend) source(asked *door.Changes, q coord.Quorum) follow.Source {
	set := asked.Set
	state := b.m.followers.Share(asked, func(ctx context.Context) (bigset.State, error) {
		return again(ctx, b, always, func(*live) (bigset.State, error) {
			s, err := b.m.co.State(ctx, set, q)
			if errors.Is(err, bigset.ErrNotFound) {
				return bigset.State{}, nil
			}
			return s, err
		})
	})
	return follow.Source{
		State: state,
		Whole: func(ctx context.Context) (bigset.State, bool, error) {
			type whole struct {
				bigset.State
				all bool
			}
			w, err := again(ctx, b, always, func(*live) (w whole, err error) {
				w.State, w.all, err = b.m.co.Whole(ctx, set)
				return w, err
			})
			return w.State, w.all, err
		},
		Locate: func(ctx context.Context, dots *clock.Clock, f func(bigset.Facts) error) error {
			_, err := again(ctx, b, always, func(*live) (struct{}, error) { return struct{}{}, b.m.co.Locate(ctx, set, dots, f) })
			return err
		},
		Read: func(ctx context.Context, after []byte, f func([]fold.Element) error) error {
			_, err := again(ctx, b, always, func(*live) (struct{}, error) {
				for part, err := range b.m.co.Read(ctx, coord.Read{Set: set, Quorum: q, Options: bigset.ReadOptions{After: after}}) {
					if err == nil {
						err = f(part.Elements)
					}
					if err != nil {
						return struct{}{}, err
					}
					if n := len(part.Elements); n > 0 {
						after = part.Elements[n-1].Name
					}
				}
				return struct{}{}, nil
			})
			return err
		},
		Names: func(ctx context.Context, dots *clock.Clock) ([]fold.Element, error) {
			return b.m.local.Removed(ctx, set, dots)
		},
		Changed: func(ctx context.Context, was *bigset.State) error { return b.changed(ctx, set, q, was, state) },
	}
}

// changed waits until replicas say another sum of a set than that of a state, or another state.
func (b *Backend) changed(ctx context.Context, set []byte, q coord.Quorum, was *bigset.State, state func(context.Context) (bigset.State, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sum := func() ([]byte, error) {
		return again(ctx, b, always, func(*live) ([]byte, error) { return b.m.co.Sum(ctx, set, q) })
	}
	here := b.awaitHere(ctx, set) // what comes after this ends the wait
	first, err := sum()
	if err != nil {
		return err
	}
	s, err := state(ctx) // it is not older than the sum: what comes after it changes that
	if err != nil || !s.Seen.Equal(was.Seen) || !s.Dead.Equal(was.Dead) {
		return err
	}
	pause, most := pollLeast, pollMost
	if here != nil {
		pause, most = pollHolding, pollHolding
	}
	for ; ; pause = min(2*pause, most) {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-here:
			t.Stop()
			return nil
		case <-t.C:
		}
		if now, err := sum(); err != nil || !bytes.Equal(now, first) {
			return err
		}
	}
}

// awaitHere returns a channel that is closed when the replica of this member knows something new of a set. It returns nil if this member
// does not hold the set, is being filled, since each step of that is something new, or can't read the set, which the others may. The wait
// ends with ctx.
func (b *Backend) awaitHere(ctx context.Context, set []byte) <-chan struct{} {
	l := b.m.live.Load()
	if l == nil || !slices.Contains(l.holders(keyscheme.SetSlot(set)), l.self) || b.m.local.Member().State != peer.Normal {
		return nil
	}
	if _, _, err := b.m.local.State(ctx, set); err != nil && !errors.Is(err, bigset.ErrNotFound) {
		return nil
	}
	here, ready, failed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		if b.m.local.AwaitNext(ctx, set, func() { close(ready) }) == nil {
			close(here)
		} else {
			close(failed)
		}
	}()
	select {
	case <-ready:
		return here
	case <-failed:
		return nil
	case <-ctx.Done():
		return nil
	}
}
