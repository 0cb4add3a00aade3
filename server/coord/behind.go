package coord

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/server/peer"
)

// catchUp sends a replica what it has not seen of the wide contexts of operations: the keys or deaths of those dots, from replicas that
// know them. A death carries all keys that are live at its source. The error is bigset.ErrBehind when no replica knows a dot. The facts
// need no sync of their own: the operation itself is written after them in the log, and synced.
func (o *setOperation) catchUp(ctx context.Context, rep peer.Replica, ops []bigset.Op) error {
	missing, sent := &clock.Clock{}, &clock.Clock{}
	for i := range ops {
		missing.Union(ops[i].Context.Wide)
	}
	lacks, _, err := stateOf(ctx, o.name, rep)
	if err != nil {
		return err
	}
	missing.Subtract(lacks.Seen)
	var errs []error
	for _, other := range o.at.write {
		if other == rep || missing.Empty() {
			continue
		}
		t := &sending{set: o.name, from: other, to: rep, has: unknownSet(), lacks: lacks, sent: sent}
		if err := t.run(ctx, missing); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", other.Member().Node, err))
		}
		missing.Subtract(sent)
	}
	if !missing.Empty() {
		return fmt.Errorf("%w: %v got no answer about %d dots of %q: %w", bigset.ErrBehind, rep.Member(), missing.Len(), o.name, errors.Join(errs...))
	}
	return nil
}
