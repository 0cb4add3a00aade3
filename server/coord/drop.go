package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

// Drop is a client's request to delete a whole set.
type Drop struct {
	Set []byte
	// Seen is what the client had seen: exactly that is deleted. Nil means what R replicas have seen together.
	Seen   *clock.Clock
	Quorum Quorum
	Later  bool // asks for Result.Later
}

// Drop deletes a whole set: what the client, or R replicas, had seen of it. Adds concurrent with it stay live. A drop has no dot of its
// own, so repeating it with the same clock changes nothing. It answers as Write does; the result's delta contains the clock. The error is
// bigset.ErrNotFound for a set that none of R replicas knows.
func (c *Coordinator) Drop(ctx context.Context, d Drop) (Result, error) {
	q, l, err := c.plan(d.Set, d.Quorum)
	if err != nil {
		return Result{}, err
	}
	if short, of := l.short(q.W); of > 0 {
		return Result{}, &QuorumError{Set: d.Set, Answered: short, Of: of}
	}
	d.Set = bytes.Clone(d.Set) // what is sent refers to it
	seen := d.Seen
	if seen == nil {
		if seen, err = c.seen(ctx, d.Set, q, l.read); err != nil {
			return Result{}, err
		}
	}
	o := &setOperation{operation: c.newOperation(d.Set, q, l.lists), at: l}
	o.later = d.Later
	return o.await(ctx, func(context.Context) {
		if !o.begin() {
			return
		}
		o.mu.Lock()
		o.result.Delta = bigset.Delta{Set: d.Set, Clear: seen.Clone()}
		o.mu.Unlock()
		o.spread(o.result.Delta, nil, nil)
		o.late.do()
	})
}

// Seen returns what R replicas have seen of a set together: the context of a client that has read the whole set. The error is
// bigset.ErrNotFound for a set that none of them knows.
func (c *Coordinator) Seen(ctx context.Context, set []byte, q Quorum) (*clock.Clock, error) {
	q, l, err := c.plan(set, q)
	if err != nil {
		return nil, err
	}
	return c.seen(ctx, set, q, l.read)
}

// State returns what R replicas know of a set together: the dots that at least one has seen, and the dots that at least one knows to be
// dead. A dot that is live in it is one that Read would show, with each replica asked at a moment of its own. The error is
// bigset.ErrNotFound for a set that none of them knows.
func (c *Coordinator) State(ctx context.Context, set []byte, q Quorum) (bigset.State, error) {
	q, l, err := c.plan(set, q)
	if err != nil {
		return bigset.State{}, err
	}
	states, err := c.states(ctx, set, q, l.read)
	if err != nil {
		return bigset.State{}, err
	}
	out := bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}
	for _, s := range states {
		out.Seen.Union(s.Seen)
		out.Dead.Union(s.Dead)
	}
	if out.Seen.Empty() {
		return bigset.State{}, fmt.Errorf("%w: %q", bigset.ErrNotFound, set)
	}
	return out, nil
}

// seen returns the union of what R replicas have seen of a set.
func (c *Coordinator) seen(ctx context.Context, set []byte, q Quorum, replicas []peer.Replica) (*clock.Clock, error) {
	states, err := c.states(ctx, set, q, replicas)
	if err != nil {
		return nil, err
	}
	union := &clock.Clock{}
	for _, s := range states {
		union.Union(s.Seen)
	}
	if union.Empty() {
		return nil, fmt.Errorf("%w: %q", bigset.ErrNotFound, set)
	}
	return union, nil
}

// states asks R replicas what they know of a set; the state of a replica that does not know it is empty.
func (c *Coordinator) states(ctx context.Context, set []byte, q Quorum, replicas []peer.Replica) ([]bigset.State, error) {
	return ask(ctx, c, set, q.R, replicas, func(ctx context.Context, rep peer.Replica) (bigset.State, error) {
		s, m, err := rep.State(ctx, set)
		switch {
		case m.State != peer.Normal:
			return bigset.State{}, fmt.Errorf("%w: %v", peer.ErrJoining, m)
		case errors.Is(err, bigset.ErrNotFound):
			return bigset.State{}, nil
		}
		return s, err
	})
}
