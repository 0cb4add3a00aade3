package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/wire"
)

// TestCountSetsElsewhere: a member that is being filled, unknown to the others, does not count. Members that do not know
// the question have their sets listed.
func TestCountSetsElsewhere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w, older := newTrio(t, 3), &atomic.Bool{}
	w.around = func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if r.Verb == verbCountSets && older.Load() {
				r.Verb = 239 // which no version knows
			}
			return h(ctx, r, send)
		}
	}
	w.birth()
	until(t, "each member serves", w.whole)
	m := w.procs[2].member
	b := m.Backend()
	for i := range 10 {
		_, err := b.Write(ctx, door.Write{Set: fmt.Appendf(nil, "s%d", i), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}, Quorum: door.Quorum{W: 3}})
		must(t, err)
	}
	_, err := b.Drop(ctx, door.Drop{Set: []byte("s9"), Quorum: door.Quorum{W: 3}})
	must(t, err)
	l := m.live.Load()
	defer m.live.Store(l)
	apart, err := newOwnership(m.membership.conf.ids(), m.membership.conf.Settings)
	must(t, err)
	odd := newLive(l.view, apart, l.replicas, func(member int) int { return member }, time.Now) // the first is the nearest
	for i := range odd.owners {
		odd.owners[i] = []int{0, 1}
	}
	m.live.Store(odd)
	m.conf.CountApart = func(name []byte) bool { return name[1] < '3' }
	check := func(what string, want bigset.SetCount, cause error) {
		t.Helper()
		if n, err := m.countAt(ctx, odd, 0, odd.ranges()); !errors.Is(err, cause) {
			t.Errorf("%s: the nearest counts %+v, %v, want %v", what, n, err, cause)
		}
		if n, err := b.CountSets(ctx); n != want || (err != nil) != (want.Sets == 0) {
			t.Errorf("%s: %+v, %v, want %+v", what, n, err, want)
		}
	}
	check("all count", bigset.SetCount{Sets: 9}, nil)
	for i := range 2 {
		w.procs[i].member.local.SetStates(peer.Joining, peer.Normal)
		check(fmt.Sprint("joining to ", i), bigset.SetCount{Sets: 9 * uint64(1-i)}, peer.ErrJoining)
	}
	for i := range 2 {
		w.procs[i].member.local.SetStates(peer.Normal, peer.Normal)
	}
	older.Store(true)
	check("older", bigset.SetCount{Sets: 9, Apart: 3}, peer.ErrFrame)
}
