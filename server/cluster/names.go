package cluster

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// Names implements door.Backend. Each range is listed by one member that holds it. If that member does not answer, or if the epoch changes,
// the list continues after its last set. Sets that only other members know, for some seconds, are not in the list.
func (b *Backend) Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		s := &listing{b: b, all: all, yield: func(n bigset.SetInfo) bool { return yield(n, nil) }}
		if len(after) > 0 {
			s.after(after)
		}
		_, err := again(ctx, b, always, func(l *live) (struct{}, error) {
			for _, r := range l.ranges() {
				if err := s.list(ctx, l, r); err != nil || s.stopped {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		})
		if err != nil && !s.stopped {
			yield(bigset.SetInfo{}, err)
		}
	}
}

// listing is a list of sets in progress.
type listing struct {
	b       *Backend
	all     bool             // with sets that have no elements
	last    bigset.SetDigest // the list continues after this set, if it has a name
	yield   func(bigset.SetInfo) bool
	stopped bool // the consumer wants no more
}

// after makes the list continue after a set.
func (s *listing) after(name []byte) {
	s.last = bigset.SetDigest{Slot: keyscheme.SetSlot(name), Name: name}
}

// listPatience is how long a list waits for the next set of a member before another member continues it: as long as a read waits for its
// next chunk.
const listPatience = 5 * time.Second

// list lists the rest of a range, by the nearest member that answers.
func (s *listing) list(ctx context.Context, l *live, r run) error {
	if r.last < s.last.Slot {
		return nil
	}
	var errs []error
	for _, i := range l.readers(r.owners) {
		if l.replicas[i].Member().State != peer.Normal {
			continue
		}
		from := &patient{l.replicas[i], s.b.m.run, cmp.Or(s.b.m.conf.Patience, listPatience)}
		var failed error
		var some []bigset.SetInfo
		for d, err := range from.Digests(ctx, max(r.first, s.last.Slot), r.last) {
			if failed = err; err != nil {
				break
			}
			if len(s.last.Name) > 0 && compareSets(&d, &s.last) <= 0 { // already listed by another member
				continue
			}
			if some = append(some, bigset.SetInfo{Name: slices.Clone(d.Name)}); len(some) < namesAtOnce {
				continue
			}
			if err := s.show(ctx, some); err != nil || s.stopped {
				return err
			}
			some = some[:0]
		}
		if err := s.show(ctx, some); err != nil || s.stopped || failed == nil {
			return err
		}
		errs = append(errs, failed)
	}
	return &coord.QuorumError{Of: 1, Err: errors.Join(errs...)}
}

// namesAtOnce is how many sets of a list are asked about at once.
const namesAtOnce = 16

// show asks about some sets at once and yields those that have elements, or all.
func (s *listing) show(ctx context.Context, some []bigset.SetInfo) error {
	errs := make([]error, len(some))
	asked := tasks{run: s.b.m.run}
	for i := range some {
		asked.Go(func() {
			var is bigset.State
			if is, errs[i] = s.b.state(ctx, some[i].Name); errs[i] == nil && !is.Seen.Empty() {
				some[i].Live, some[i].Seen = is.Seen.Len()-is.Dead.Len(), is.Seen.Len()
			}
		})
	}
	asked.Wait()
	for i, n := range some {
		if errs[i] != nil {
			return errs[i]
		}
		if s.after(n.Name); (s.all || n.Live > 0) && !s.yield(n) {
			s.stopped = true
			return nil
		}
	}
	return nil
}

// compareSets orders sets as a store lists them: by slot, then by the length of the name, then by the name.
func compareSets(a, b *bigset.SetDigest) int {
	switch {
	case a.Slot != b.Slot:
		if a.Slot < b.Slot {
			return -1
		}
		return 1
	case len(a.Name) != len(b.Name):
		return len(a.Name) - len(b.Name)
	}
	return slices.Compare(a.Name, b.Name)
}
