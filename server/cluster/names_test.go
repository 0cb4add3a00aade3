package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/peer"
)

// fewOwners returns routes of a view on which some members hold everything, the first of them the nearest.
func fewOwners(t *testing.T, m *Member, v View, replicas []replica, owners ...int) *live {
	t.Helper()
	apart, err := newOwnership(m.membership.conf.ids(), m.membership.conf.Settings)
	must(t, err)
	l := newLive(v, apart, replicas, func(member int) int { return slices.Index(owners, member) }, time.Now)
	for i := range l.owners {
		l.owners[i] = owners
	}
	return l
}

// addEverywhere adds sets that all members have.
func addEverywhere(t *testing.T, b *Backend, sets int) {
	t.Helper()
	for i := range sets {
		_, err := b.Write(t.Context(), door.Write{Set: fmt.Appendf(nil, "s%02d", i), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}, Quorum: door.Quorum{W: 3}})
		must(t, err)
	}
}

// names lists the sets, and calls shown after each.
func names(t *testing.T, b *Backend, shown func(n int)) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for n, err := range b.Names(ctx, false, nil) {
		if err != nil {
			t.Fatalf("after %d sets: %v", len(all), err)
		}
		all = append(all, fmt.Sprintf("%s %d", n.Name, n.Live))
		shown(len(all))
	}
	return all
}

// mute is a replica whose disk hangs after some parts of a list of sets.
type mute struct {
	replica
	parts int
}

func (m *mute) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		parts := 0
		for d, err := range m.replica.Digests(ctx, first, last) {
			if parts++; parts > m.parts {
				break
			}
			if !yield(d, err) {
				return
			}
		}
		<-ctx.Done()
		yield(bigset.SetDigest{}, ctx.Err())
	}
}

func (m *mute) State(ctx context.Context, _ []byte) (bigset.State, peer.Member, error) {
	<-ctx.Done()
	return bigset.State{}, m.Member(), ctx.Err()
}

// TestNamesFromAnother: another member continues a list of sets if the one that has begun it sends nothing more, and says how much is in the sets.
func TestNamesFromAnother(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	w.patience = 3 * time.Second
	w.birth()
	m := w.procs[2].member
	b := m.Backend()
	addEverywhere(t, b, namesAtOnce+10)
	want := names(t, b, func(int) {})
	if len(want) != namesAtOnce+10 {
		t.Fatalf("%q are listed", want)
	}
	l := m.live.Load()
	defer m.live.Store(l)
	for _, parts := range []int{0, namesAtOnce + 5} {
		replicas := slices.Clone(l.replicas)
		replicas[0] = &mute{replicas[0], parts}
		m.live.Store(fewOwners(t, m, l.view, replicas, 0, 1))
		if got := names(t, b, func(int) {}); !slices.Equal(got, want) {
			t.Errorf("of one that sends %d sets: %q, want %q", parts, got, want)
		}
	}
}

// refuser is a replica that calls a function when it refuses an epoch.
type refuser struct {
	replica
	refused func()
}

func (r *refuser) noticed(err error) error {
	if errors.Is(err, peer.ErrNotMine) {
		r.refused()
	}
	return err
}

func (r *refuser) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	return func(yield func(bigset.SetDigest, error) bool) {
		for d, err := range r.replica.Digests(ctx, first, last) {
			if !yield(d, r.noticed(err)) {
				return
			}
		}
	}
}

func (r *refuser) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	s, by, err := r.replica.State(ctx, set)
	return s, by, r.noticed(err)
}

// TestNamesNextEpoch: a list of sets continues after its last set if the epoch changes, whether this member holds the sets or others do.
func TestNamesNextEpoch(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	m := w.procs[2].member
	b := m.Backend()
	addEverywhere(t, b, namesAtOnce+10)
	want := names(t, b, func(int) {})
	if len(want) != namesAtOnce+10 {
		t.Fatalf("%q are listed", want)
	}
	l := m.live.Load()
	turn := func(epoch uint64) {
		for _, p := range w.procs {
			p.member.gate.turn(epoch)
		}
	}
	later := l.view
	later.Record = l.view.Record.clone()
	later.Record.Epoch++
	for _, owners := range [][]int{{0, 1}, {2, 0, 1}} {
		next := fewOwners(t, m, later, m.replicas(later), owners...)
		var refused atomic.Bool
		replicas := slices.Clone(l.replicas)
		for i := range replicas {
			replicas[i] = &refuser{replicas[i], func() {
				refused.Store(true)
				m.live.Store(next)
			}}
		}
		m.live.Store(fewOwners(t, m, l.view, replicas, owners...))
		got := names(t, b, func(n int) {
			if n == 1 {
				turn(later.Record.Epoch)
			}
		})
		if !slices.Equal(got, want) || !refused.Load() {
			t.Errorf("of members %v, of which one has refused the former epoch: %v: %q, want %q", owners, refused.Load(), got, want)
		}
		turn(l.epoch)
		m.live.Store(l)
	}
}
