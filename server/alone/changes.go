package alone

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/server/door"
	"bigset/server/follow"
)

// Changes implements door.Backend. A store with unresolved contexts is refused with bigset.ErrUnresolved: there an element can be removed while its dot is not dead.
func (b *Backend) Changes(ctx context.Context, q door.Changes) iter.Seq2[door.Changed, error] {
	err := replicas(q.R)
	if err == nil && b.store.Replica().KeepsContexts() {
		err = fmt.Errorf("%w: a store with unresolved contexts reports no changes of %.64q", bigset.ErrUnresolved, q.Set)
	}
	if err != nil {
		return func(yield func(door.Changed, error) bool) { yield(door.Changed{}, err) }
	}
	return func(yield func(door.Changed, error) bool) {
		for part, err := range b.kept.Changes(ctx, b.source(q.Set), b.store.Tokens(q.Set), q) {
			if err != nil {
				err = failure(err, 0)
			}
			if !yield(part, err) {
				return
			}
		}
	}
}

// StopFollowing ends the waits of Changes, also those that begin later: the answers end as if nothing had happened.
func (b *Backend) StopFollowing() { b.kept.Stop() }

// source is what this store knows of a set.
func (b *Backend) source(set []byte) follow.Source {
	state := func(ctx context.Context) (bigset.State, error) {
		s, err := b.store.Replica().State(ctx, set)
		if errors.Is(err, bigset.ErrNotFound) {
			err = nil
		}
		return s, err
	}
	return follow.Source{
		State: state,
		Whole: func(ctx context.Context) (bigset.State, bool, error) {
			s, err := state(ctx)
			return s, true, err
		},
		Locate: func(ctx context.Context, dots *clock.Clock, f func(bigset.Facts) error) error {
			for facts, err := range b.store.Replica().Locate(ctx, set, dots) {
				if err == nil {
					err = f(facts)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		Read: func(ctx context.Context, after []byte, f func([]fold.Element) error) error {
			for chunk, err := range b.store.Read(ctx, set, bigset.ReadOptions{After: after, BatchSize: door.BatchMax}) {
				if err == nil {
					err = f(chunk.Elements)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		Names: func(ctx context.Context, dots *clock.Clock) ([]fold.Element, error) {
			b.store.Replica().KeepRecent()
			return b.store.Replica().Removed(ctx, set, dots)
		},
		Changed: func(ctx context.Context, was *bigset.State) error { return b.store.Replica().Await(ctx, set, was) },
	}
}
