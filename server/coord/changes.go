package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// Whole returns what all replicas of a set that answer know together, nothing of a set that they have never heard of, and whether all that read or
// write it have answered. Replicas that are joining do not count as such.
func (c *Coordinator) Whole(ctx context.Context, set []byte) (s bigset.State, all bool, err error) {
	_, l, err := c.plan(set, Quorum{})
	if err != nil {
		return s, false, err
	}
	s, all = unknownSet(), true
	var errs []error
	replicas := l.all()
	for _, rep := range replicas {
		has, err := c.states(ctx, set, Quorum{R: 1}, []peer.Replica{rep})
		if err != nil {
			errs, all = append(errs, err), false
			continue
		}
		s.Seen.Union(has[0].Seen)
		s.Dead.Union(has[0].Dead)
	}
	if len(errs) > 0 && len(errs) == len(replicas) {
		return s, false, &QuorumError{Set: set, Of: 1, Err: errors.Join(errs...)}
	}
	return s, all, nil
}

// all returns the replicas that read and those that write, each once.
func (l *placed[R]) all() []R {
	all := slices.Clone(l.read)
	for _, rep := range l.write {
		if !slices.ContainsFunc(all, func(r R) bool { return r.Member().Node == rep.Member().Node }) {
			all = append(all, rep)
		}
	}
	return all
}

// Locate calls f with what replicas know of dots: keys of those that are live, and deaths. It asks one replica after the other, the nearest first, about those that
// are still unknown. One that takes more than ChunkTimeout for a part of its answer may hang, or search a large set for long: it is asked again after the others, with
// more time, at last with ExchangeTimeout. Dots that no replica knows are left out; that is a *QuorumError where a replica did not answer. An error of f ends it.
func (c *Coordinator) Locate(ctx context.Context, set []byte, dots *clock.Clock, f func(bigset.Facts) error) error {
	if err := c.beginRead(ctx); err != nil {
		return err
	}
	defer c.endRead()
	_, l, err := c.plan(set, Quorum{})
	if err != nil {
		return err
	}
	left := dots.Clone()
	told := func(facts bigset.Facts) error {
		found := &clock.Clock{}
		for i := range facts.Keys {
			for _, d := range facts.Keys[i].Dots {
				found.Add(d)
			}
		}
		if err := f(facts); err != nil {
			return err
		}
		left.Subtract(found)
		left.Subtract(facts.Dead)
		return nil
	}
	var errs []error
	replicas := l.all()
	asked := replicas
	for patience := c.opt.ChunkTimeout; len(asked) > 0; patience = min(6*patience, c.opt.ExchangeTimeout) {
		var late []peer.Replica
		for _, rep := range asked {
			if left.Empty() {
				return nil
			}
			unanswered, err := c.locate(ctx, rep, set, left.Clone(), patience, told)
			switch {
			case err != nil:
				return err
			case unanswered == nil, errors.Is(unanswered, bigset.ErrNotFound):
			case errors.Is(unanswered, errLate) && patience < c.opt.ExchangeTimeout:
				late = append(late, rep)
			default:
				errs = append(errs, fmt.Errorf("%s: %w", rep.Member().Node, unanswered))
			}
		}
		asked = late
	}
	if left.Empty() || len(errs) == 0 {
		return nil
	}
	return &QuorumError{Set: set, Answered: len(replicas) - len(errs), Of: len(replicas), Err: errors.Join(errs...)}
}

// errLate is the error of a replica that has taken too long for a part of its answer.
var errLate = fmt.Errorf("coord: it sent nothing for too long: %w", context.DeadlineExceeded)

// locate calls f with what one replica knows of dots, and waits for each part for as long as patience lasts. unanswered is the replica's error, err that of f.
func (c *Coordinator) locate(ctx context.Context, rep peer.Replica, set []byte, dots *clock.Clock, patience time.Duration, f func(bigset.Facts) error) (unanswered, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	expect := func() (stop func()) {
		return c.run.After(patience, func() { cancel(errLate) })
	}
	stop := expect()
	defer func() { stop() }()
	for facts, err := range rep.Locate(ctx, set, dots) {
		stop() // the caller of f may take longer
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err, nil
		}
		if err := f(facts); err != nil {
			return nil, err
		}
		stop = expect()
	}
	return nil, nil
}

// Sum returns bytes that are others when R replicas know something else of a set, and perhaps when others answer. It asks for digests, not for clocks.
func (c *Coordinator) Sum(ctx context.Context, set []byte, q Quorum) ([]byte, error) {
	q, l, err := c.plan(set, q)
	if err != nil {
		return nil, err
	}
	slot := keyscheme.SetSlot(set)
	sums, err := ask(ctx, c, set, q.R, l.read, func(ctx context.Context, rep peer.Replica) ([]byte, error) {
		if m := rep.Member(); m.State != peer.Normal {
			return nil, fmt.Errorf("%w: %v", peer.ErrJoining, m)
		}
		sum := []byte(rep.Member().Node + "\x00")
		for d, err := range rep.Digests(ctx, slot, slot) {
			if err != nil {
				return nil, err
			}
			if bytes.Equal(d.Name, set) {
				return append(sum, d.Sum[:]...), nil
			}
		}
		return sum, nil
	})
	slices.SortFunc(sums, bytes.Compare)
	return bytes.Join(sums, nil), err
}
