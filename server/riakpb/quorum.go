package riakpb

import (
	"fmt"

	"bigset/server/door"
)

// The words that Riak's clients send as numbers of replicas.
const (
	quorumOne     = 0xffffffff - 1
	quorumMost    = 0xffffffff - 2
	quorumAll     = 0xffffffff - 3
	quorumDefault = 0xffffffff - 4
)

// quorum is a number of replicas, or a word for one.
type quorum struct {
	n     uint32
	given bool
}

// of returns the number for sets with that many replicas; 0 means the default.
func (q quorum) of(replicas int) (int, error) {
	switch {
	case !q.given || q.n == quorumDefault:
		return 0, nil
	case replicas == 0:
		return 0, fmt.Errorf("%w: the cluster has not been born", door.ErrUnavailable)
	case q.n == quorumOne:
		return 1, nil
	case q.n == quorumMost:
		return replicas/2 + 1, nil
	case q.n == quorumAll:
		return replicas, nil
	case int64(q.n) > int64(replicas):
		return 0, refusal(fmt.Sprintf("{n_val_violation,%d}", replicas)) // as in Riak
	}
	return int(q.n), nil
}

// atLeast returns the number for sets with that many replicas that q and primary ask for together; usual is the default of q. A primary
// quorum is a normal quorum here, because every replica is primary.
func (q quorum) atLeast(primary quorum, replicas, usual int) (int, error) {
	n, err := q.of(replicas)
	if err != nil {
		return 0, err
	}
	least, err := primary.of(replicas)
	return door.AtLeast(least, n, usual), err
}

// reads returns how many replicas a read asks.
func reads(has door.Replicas, r, pr quorum) (int, error) { return r.atLeast(pr, has.N, has.R) }

// writes returns the quorum of a change. A dw of 0 means that no disk is waited for.
func writes(has door.Replicas, w, pw, dw quorum) (q door.Quorum, err error) {
	if q.W, err = w.atLeast(pw, has.N, has.W); err != nil {
		return q, err
	}
	if q.DW, err = dw.of(has.N); err != nil {
		return q, err
	}
	if dw.given && dw.n == 0 {
		q.DW = door.NotDurable
	}
	return q, nil
}
