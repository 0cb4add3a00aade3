package coord

import (
	"context"
	"errors"
	"fmt"

	"bigset/clock"
	"bigset/engine"
	"bigset/server/peer"
)

// catchUp brings to a replica what it has not seen of the wide contexts of operations: the keys or deaths of those dots, from
// replicas that know them. Its error is engine.ErrBehind when nobody does.
func (o *operation) catchUp(ctx context.Context, rep peer.Replica, ops []engine.Op) error {
	missing := &clock.Clock{}
	for i := range ops {
		missing.Union(ops[i].Context.Wide)
	}
	state, m, err := rep.State(ctx, o.set)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("%s: %w", m.Node, err)
	}
	missing.Subtract(state.Seen)
	var errs []error
	for _, other := range o.replicas {
		if other == rep || missing.Empty() {
			continue
		}
		if err := bring(ctx, o.set, missing, other, rep); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", other.Member().Node, err))
		}
	}
	if !missing.Empty() {
		return fmt.Errorf("%w: nobody told %v about %d dots of %q: %w", engine.ErrBehind, m, missing.Len(), o.set, errors.Join(errs...))
	}
	return nil
}

// bring tells one replica what another knows of missing dots of a set. Those that it told are no longer missing. The facts need
// not be durable for themselves: what is written after them, synced, is behind them in the log.
func bring(ctx context.Context, set []byte, missing *clock.Clock, from, to peer.Replica) error {
	told := &clock.Clock{}
	defer func() { missing.Subtract(told) }()
	for f, err := range from.Locate(ctx, set, missing.Clone()) {
		if err != nil {
			return err
		}
		if _, _, err := to.ApplyFacts(ctx, f, engine.NoSync); err != nil {
			return err
		}
		told.Union(f.Dead)
		for i := range f.Keys {
			for _, d := range f.Keys[i].Dots {
				told.Add(d)
			}
		}
	}
	return nil
}
