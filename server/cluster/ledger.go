package cluster

import (
	"encoding/json"
	"fmt"

	"bigset/internal/ring"
)

// ledger contains the records that one member holds. It is a value: each change returns another one, which is made durable before anyone learns of
// it. These rules make one record of each epoch:
//
//   - A proposer asks all members, itself first, and commits when all have agreed.
//   - A member that has agreed to a record agrees to no other, unless the same proposer makes it or has withdrawn the former one.
//   - A proposer that meets another proposer that comes before it in the list withdraws its own proposal.
//   - Only its proposer commits a record; the others learn it as committed.
//   - A record whose epoch is far after that of the folder is not learned: one member with a wrong epoch must not raise all others to an
//     epoch that no record can follow.
//
// So every member has agreed to any committed record, and the one slot of each member excludes every other record of its epoch.
type ledger struct {
	Committed *Record `json:"committed,omitempty"`
	Prepared  *Record `json:"prepared,omitempty"`
	// Restore says that this folder is to join the cluster's next generation: its contents count, whichever member wrote them, and what only
	// other folders contained is given up.
	Restore bool `json:"restore,omitempty"`
}

func (l ledger) encode() []byte {
	b, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("cluster: a ledger that can't be encoded: %v", err))
	}
	return b
}

func decodeLedger(b []byte) (l ledger, err error) {
	if len(b) == 0 {
		return l, nil
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return ledger{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	for _, r := range []*Record{l.Committed, l.Prepared} {
		if r != nil {
			if err := r.check(); err != nil {
				return ledger{}, err
			}
		}
	}
	return l, nil
}

// epoch returns the epoch of the committed record, or 0.
func (l ledger) epoch() uint64 {
	if l.Committed == nil {
		return 0
	}
	return l.Committed.Epoch
}

// propose agrees to a record, or returns why not.
func (l ledger) propose(r *Record) (ledger, error) {
	if err := r.check(); err != nil {
		return l, err
	}
	switch c := l.Committed; {
	case c == nil && r.Epoch == 1 && r.Proposer != r.Members[0].ID:
		return l, fmt.Errorf("%w: %q proposes the birth of a cluster, which only %q may", ErrRecord, r.Proposer, r.Members[0].ID)
	case c == nil: // an empty disk holds nothing that could contradict
	case l.Restore:
		if err := r.restores(c); err != nil {
			return l, err
		}
	case r.Epoch <= c.Epoch:
		return l, fmt.Errorf("%w: epoch %d is proposed, and %d is held", ErrRecord, r.Epoch, c.Epoch)
	default:
		if err := r.follows(c); err != nil {
			return l, err
		}
	}
	if p := l.Prepared; p != nil && p.Proposer != r.Proposer {
		return l, fmt.Errorf("%w: %q has proposed epoch %d before", ErrRecord, p.Proposer, p.Epoch)
	}
	l.Prepared = r
	return l, nil
}

// withdraw forgets the proposal of a proposer.
func (l ledger) withdraw(proposer string) ledger {
	if l.Prepared != nil && l.Prepared.Proposer == proposer {
		l.Prepared = nil
	}
	return l
}

// commit takes a record that was committed elsewhere, or that all members have agreed to and its proposer commits.
func (l ledger) commit(r *Record) (ledger, error) {
	if err := r.check(); err != nil {
		return l, err
	}
	c := l.Committed
	switch {
	case c == nil:
		l.Committed = r
	case string(r.Cluster) != string(c.Cluster):
		return l, fmt.Errorf("%w: this folder is of cluster %x, and the record of cluster %x", ErrForeign, []byte(c.Cluster), []byte(r.Cluster))
	case l.Restore && r.Generation <= c.Generation: // a record from before the restore has no effect
	case l.Restore:
		if err := r.near(c, restoreMost); err != nil {
			return l, err
		}
		l.Committed, l.Restore = r, false
	case r.Generation > c.Generation:
		return l, newerGeneration(c, r)
	case r.Generation < c.Generation: // from a member that has not heard of the restore
	case r.Restored != c.Restored:
		return l, fmt.Errorf("%w: this folder and the record are of two restores of the cluster: start this node with an empty folder, or restore all again", ErrForeign)
	case r.Epoch > c.Epoch:
		if err := r.near(c, ring.EpochsAhead); err != nil {
			return l, err
		}
		l.Committed = r
	case r.Epoch == c.Epoch && !r.same(c):
		return l, fmt.Errorf("%w: two records of epoch %d", ErrRecord, r.Epoch)
	}
	if l.Prepared != nil && l.Prepared.Epoch <= l.Committed.Epoch {
		l.Prepared = nil
	}
	return l, nil
}

// newerGeneration is the error of a folder with the record was that meets a record of a later generation.
func newerGeneration(was, r *Record) error {
	return fmt.Errorf("%w: this folder is of generation %d of the cluster, which was restored as generation %d without it: start this node with an empty folder",
		ErrForeign, was.Generation, r.Generation)
}
