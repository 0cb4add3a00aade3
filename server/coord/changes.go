package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

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
// are still unknown. A replica that takes more than ChunkTimeout for a part of its answer has not answered. Dots that no replica knows are left out; that is a
// *QuorumError where a replica did not answer. An error of f ends it.
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
	var errs []error
	replicas := l.all()
	for _, rep := range replicas {
		if left.Empty() {
			return nil
		}
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
		unanswered, err := c.locate(ctx, rep, set, left.Clone(), told)
		if err != nil {
			return err
		}
		if unanswered != nil && !errors.Is(unanswered, bigset.ErrNotFound) {
			errs = append(errs, fmt.Errorf("%s: %w", rep.Member().Node, unanswered))
		}
	}
	if left.Empty() || len(errs) == 0 {
		return nil
	}
	return &QuorumError{Set: set, Answered: len(replicas) - len(errs), Of: len(replicas), Err: errors.Join(errs...)}
}

// locate calls f with what one replica knows of dots. unanswered is its error: it may take ChunkTimeout for each part. err is that of f.
func (c *Coordinator) locate(ctx context.Context, rep peer.Replica, set []byte, dots *clock.Clock, f func(bigset.Facts) error) (unanswered, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	expect := func() (stop func()) {
		return c.run.After(c.opt.ChunkTimeout, func() { cancel(context.DeadlineExceeded) })
	}
	stop := expect()
	defer func() { stop() }()
	for facts, err := range rep.Locate(ctx, set, dots) {
		stop() // the caller of f may take longer
		if err != nil {
			if late := context.Cause(ctx); late != nil {
				err = late
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
