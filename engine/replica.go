package engine

import (
	"context"
	"fmt"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Replica is a store in its other role: one of the replicas of its sets, and the disk on which a server keeps its own
// records. Its methods apply what other replicas did, report what this one knows, compare, copy, repair and drop
// ranges, and keep what a server must not lose. A program that uses one store needs none of them. A Replica is a cheap
// value that lives as long as its store; its methods may be called by any number of goroutines.
type Replica struct{ s *Store }

// Replica returns the store as a replica.
func (s *Store) Replica() Replica { return Replica{s} }

// Below is what replicas ask each other: what has been seen, and the state of single dots. Nothing here changes the store.

// State returns what this store knows of a set, or bigset.ErrNotFound if it does not know the set.
func (r Replica) State(ctx context.Context, name []byte) (state bigset.State, err error) {
	err = r.s.withSet(ctx, name, func(st *set) error {
		_, state = st.state()
		return nil
	})
	return state, err
}

// state returns a view, and what the store knows at its moment.
func (st *set) state() (*view, bigset.State) {
	st.mu.Lock()
	defer st.mu.Unlock()
	v := st.viewLocked()
	return v, bigset.State{Seen: v.seen, Dead: v.dead, Unresolved: uint64(max(0, st.unresolved))}
}

// DotStatus returns the status of each given dot of an element, and the dots by which the element is present, all of
// one moment. In a set that the store does not know, every dot is NotSeen. An element with an unresolved key is
// refused with bigset.ErrUnresolved.
func (r Replica) DotStatus(ctx context.Context, name, element []byte, dots []clock.Dot) (bigset.DotStatuses, error) {
	if err := bigset.CheckElement(element); err != nil {
		return bigset.DotStatuses{}, err
	}
	if err := bigset.CheckDots(dots); err != nil {
		return bigset.DotStatuses{}, err
	}
	found := bigset.DotStatuses{Statuses: make([]bigset.DotStatus, len(dots))}
	err := r.s.usingSet(ctx, name, func(st *set) error {
		for try := 1; ; try++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			var same bool
			look := func() (err error) {
				same, err = r.s.dotStatus(st, element, dots, &found)
				return err
			}
			hold := try > lookUpTries // in the last try nobody writes the set
			var err error
			if hold {
				err = r.s.holding(st, look)
			} else {
				err = look()
			}
			if err != nil {
				return fmt.Errorf("engine: look up dots of %q in %q: %w", element, name, lsm.DiskError(err))
			}
			if same || hold {
				return nil
			}
		}
	})
	if err != nil {
		return bigset.DotStatuses{}, err
	}
	return found, nil
}

// dotStatus looks up dots in a view and in the keys of an iterator that was opened after it. It reports false if the
// set has changed in between: the key of a dot that has died since may be missing, because it was dropped or the drop
// filter hides it.
func (s *Store) dotStatus(st *set, element []byte, dots []clock.Dot, j *bigset.DotStatuses) (same bool, err error) {
	st.viewing.RLock()
	defer st.viewing.RUnlock()
	v := st.view()
	keys, err := s.keysOf(st, element)
	if err != nil {
		return false, err
	}
	j.Live = slices.DeleteFunc(keys, func(d clock.Dot) bool { return !v.seen.Contains(d) || v.dead.Contains(d) })
	slices.SortFunc(j.Live, clock.Dot.Compare)
	for i, d := range dots {
		switch {
		case !v.seen.Contains(d):
			j.Statuses[i] = bigset.NotSeen
		case v.dead.Contains(d):
			j.Statuses[i] = bigset.Dead
		case slices.Contains(j.Live, d):
			j.Statuses[i] = bigset.Live
		default:
			j.Statuses[i] = bigset.Lost
		}
	}
	return st.view().version == v.version, nil
}

// keysOf returns the dots of an element's keys, dead or not.
func (s *Store) keysOf(st *set, element []byte) (dots []clock.Dot, err error) {
	it, err := s.elementIter(st)
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	for ok := it.SeekPrefixGE(st.prefix.AppendElementBound(nil, element)); ok; ok = it.Next() {
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if keyscheme.IsUnresolved(value) {
			return nil, fmt.Errorf("%w: dot %v of element %.64q", bigset.ErrUnresolved, key.Dot(), element)
		}
		dots = append(dots, key.Dot())
	}
	return dots, it.Error()
}
