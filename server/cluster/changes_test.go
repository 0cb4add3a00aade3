package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/wire"
)

// changes asks a member what has happened since a follower's last answer, and applies the new one. It returns the resets and the names of what was removed.
func (p *process) changes(t testing.TB, f *door.Followed, q door.Changes) (resets, removed []string, last door.Changed) {
	t.Helper()
	q.Set, q.Since = []byte("followed"), f.Since()
	for c, err := range p.member.Backend().Changes(context.Background(), q) {
		if err != nil {
			t.Fatalf("node %d: %v", p.i, err)
		}
		if c.Reset != "" {
			resets = append(resets, c.Reset)
		}
		for _, e := range c.Removed {
			removed = append(removed, string(e.Name))
		}
		f.Apply(&c, nil)
		last = c
	}
	return resets, removed, last
}

func (p *process) write(t testing.TB, kind keyscheme.Op, elements ...string) {
	t.Helper()
	w := door.Write{Set: []byte("followed")}
	for _, e := range elements {
		w.Ops = append(w.Ops, door.Op{Kind: kind, Element: []byte(e)})
	}
	_, err := p.member.Backend().Write(context.Background(), w)
	must(t, err)
}

// holds waits until a member's own replica has that many elements of a set: an add may be done before it has come there, and a remove removes
// what the replica knows that does it.
func (p *process) holds(t testing.TB, set string, n int) {
	t.Helper()
	until(t, "a member has all elements itself", func() bool {
		c, err := p.store.Count(context.Background(), []byte(set), engine.CountOptions{})
		return err == nil && int(c.Elements) == n
	})
}

// same fails unless a follower has what a member reads.
func (p *process) same(t testing.TB, f *door.Followed) {
	t.Helper()
	got, want := strings.Join(slices.Sorted(f.Elements()), " "), strings.Join(p.read(t, "followed"), " ")
	if got != want {
		t.Fatalf("node %d reads %q, and the follower has %q", p.i, want, got)
	}
}

// TestChangesOfThree: a follower goes from member to member with its token: it learns what changed, by name as long as that is known, once, also after a member is gone, and after a disk is lost.
func TestChangesOfThree(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	var f door.Followed
	if resets, _, last := w.procs[0].changes(t, &f, door.Changes{}); f.Len() > 0 || fmt.Sprint(resets) != "[begin]" || last.Expires != 0 {
		t.Fatalf("of nothing: %v, %+v", resets, last)
	}
	for i := range 3 { // from now on each remembers names
		w.procs[i].changes(t, &f, door.Changes{})
	}
	for i := range 30 {
		w.procs[i%3].write(t, keyscheme.OpAdd, fmt.Sprintf("e%02d", i))
	}
	w.procs[1].changes(t, &f, door.Changes{})
	w.procs[1].same(t, &f)
	w.procs[0].holds(t, "followed", 30)
	w.procs[0].write(t, keyscheme.OpRemove, "e03", "e04")
	w.procs[2].write(t, keyscheme.OpAdd, "e05", "e30")
	resets, removed, _ := w.procs[0].changes(t, &f, door.Changes{Limit: 100})
	slices.Sort(removed)
	// The dot of e05 was replaced. Node 0 names it if it has the write of node 2 already, which is done when two of the three have it.
	if removed := fmt.Sprint(removed); len(resets) > 0 || removed != "[e03 e04 e05]" && removed != "[e03 e04]" {
		t.Errorf("resets %v, removed %q", resets, removed)
	}
	w.procs[2].same(t, &f)
	for more, n := true, 0; more; n++ {
		_, _, last := w.procs[n%3].changes(t, &f, door.Changes{Limit: 1})
		more = last.More
	}

	w.procs[2].stop()
	w.procs[0].write(t, keyscheme.OpRemove, "e10")
	if resets, removed, last := w.procs[1].changes(t, &f, door.Changes{}); len(resets) > 0 || fmt.Sprint(removed) != "[e10]" || last.Unconfirmed > 0 {
		t.Errorf("with a member away: resets %v, removed %q, %+v", resets, removed, last)
	}
	w.procs[1].same(t, &f)

	_, err := w.procs[0].member.Backend().Drop(context.Background(), door.Drop{Set: []byte("followed")})
	must(t, err)
	w.procs[0].write(t, keyscheme.OpAdd, "after")
	if resets, _, _ := w.procs[1].changes(t, &f, door.Changes{}); len(resets) > 0 || fmt.Sprint(slices.Collect(f.Elements())) != "[after]" {
		t.Errorf("after a drop: resets %v, %q", resets, slices.Collect(f.Elements()))
	}
	w.start(2)
	until(t, "a member that was away", w.whole)
	w.procs[2].changes(t, &f, door.Changes{})
	w.procs[2].same(t, &f)
}

// unread is a replica that, from a moment on, can't read the clock of a set.
type unread struct {
	Local
	now *atomic.Bool
}

func (u *unread) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	if u.now.Load() {
		return bigset.State{}, u.Member(), fmt.Errorf("%w: the clock of %q", bigset.ErrCorrupt, set)
	}
	return u.Local.State(ctx, set)
}

// TestChangesWait: an answer waits for something to report, and no longer than asked, also at a member that can't read the set itself.
func TestChangesWait(t *testing.T) {
	t.Parallel()
	w, damaged := newTrio(t, 3), &atomic.Bool{}
	w.local = func(l Local) Local { return &unread{l, damaged} }
	w.start(0)
	w.local = nil
	w.start(1)
	w.start(2)
	until(t, "birth", func() bool { return w.listed() && w.whole() })
	var f door.Followed
	w.procs[0].write(t, keyscheme.OpAdd, "a")
	w.procs[0].changes(t, &f, door.Changes{})
	begin := time.Now()
	w.procs[0].changes(t, &f, door.Changes{Wait: 300 * time.Millisecond})
	if took := time.Since(begin); took < 250*time.Millisecond {
		t.Errorf("an answer came after %v, of nothing", took)
	}
	b, other := w.procs[0].member.Backend(), w.procs[1]
	holds := func() bool { return b.awaitHere(t.Context(), []byte("followed")) != nil }
	for _, name := range []string{"b", "c"} {
		if damaged.Store(name == "c"); holds() == damaged.Load() {
			t.Errorf("damaged: %v, and waits for what comes to its replica: %v", damaged.Load(), holds())
		}
		go func() {
			time.Sleep(200 * time.Millisecond)
			_ = other.add(t, "followed", name)
		}()
		begin = time.Now()
		w.procs[0].changes(t, &f, door.Changes{Wait: time.Minute})
		if took := time.Since(begin); took > 40*time.Second || !f.Contains(name) {
			t.Errorf("%v, %q", took, slices.Collect(f.Elements()))
		}
	}
	damaged.Store(false)
	if w.procs[0].member.local.SetStates(peer.Joining, peer.Normal); holds() {
		t.Error("each step of a fill ends a wait")
	}
	w.procs[0].member.local.SetStates(peer.Normal, peer.Normal)
	w.procs[1].stop()
	w.procs[2].stop()
	for _, err := range w.procs[0].member.Backend().Changes(context.Background(), door.Changes{Set: []byte("followed"), Since: f.Since(), Wait: time.Second}) {
		if !errors.Is(err, door.ErrUnavailable) {
			t.Errorf("without the others: %v", err)
		}
	}
	for _, err := range w.procs[0].member.Backend().Changes(context.Background(), door.Changes{Set: []byte("followed"), R: 4}) {
		if !errors.Is(err, door.ErrQuorum) {
			t.Errorf("of four: %v", err)
		}
	}
}

// TestLongPositions: a position that a member keeps, because it is long, is good at the others. When the member that keeps it is gone, the
// follower gets everything, and the answer says so.
func TestLongPositions(t *testing.T) {
	t.Parallel()
	w, hangs := newTrio(t, 3), &atomic.Bool{}
	w.start(0)
	w.start(1)
	w.around = func(h wire.Handler) wire.Handler {
		return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
			if r.Verb == verbPosition && hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return h(ctx, r, send)
		}
	}
	w.start(2)
	until(t, "birth", w.listed)
	for i := range 3 {
		w.procs[i].member.followers.TokenBytes = 1
	}
	var f door.Followed
	w.procs[0].write(t, keyscheme.OpAdd, "a", "b", "c")
	if _, _, last := w.procs[0].changes(t, &f, door.Changes{}); last.Expires == 0 {
		t.Fatalf("it is not kept: %+v", last)
	}
	again := f // its answer was lost
	w.procs[1].holds(t, "followed", 3)
	w.procs[1].write(t, keyscheme.OpRemove, "a")
	for _, i := range []int{1, 2, 2, 0} {
		resets, _, last := w.procs[i].changes(t, &f, door.Changes{Limit: 10})
		if len(resets) > 0 || last.Expires == 0 || len(last.Added) > 0 {
			t.Errorf("node %d: resets %v, %+v", i, resets, last)
		}
		w.procs[i].same(t, &f)
	}
	hangs.Store(true)
	at := f
	for end := time.Now().Add(time.Minute); ; { // this machine may be too busy to say
		f = at
		begin := time.Now()
		w.procs[1].changes(t, &f, door.Changes{})
		if took := time.Since(begin); took <= roundTime*3/4 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the member that keeps the position has answered, and the answer came after %v", took)
		}
	}
	hangs.Store(false)
	if resets, _, _ := w.procs[2].changes(t, &again, door.Changes{}); len(resets) > 0 {
		t.Errorf("the answer was lost, and the member asked the others: resets %v", resets)
	}
	if other := w.procs[0].member.positionElsewhere(t.Context(), []byte("another"), make([]byte, keyscheme.PositionIDBytes)); other != nil {
		t.Errorf("of another set: %+v", other)
	}
	w.procs[1].stop()
	if resets, _, _ := w.procs[2].changes(t, &f, door.Changes{}); fmt.Sprint(resets) != "[expired]" {
		t.Errorf("resets %v", resets)
	}
	w.procs[2].same(t, &f)
}

// TestChangesOfLostEvents: what no member knows any more, a follower has to forget when all answer; as long as one does not, the answer says how much is in doubt.
func TestChangesOfLostEvents(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	var f door.Followed
	w.procs[0].write(t, keyscheme.OpAdd, "a", "b")
	w.procs[0].changes(t, &f, door.Changes{})
	var ahead door.Token // of a follower that has seen an event which nobody has
	at, err := w.procs[0].member.live.Load().tokens([]byte("followed")).Position(f.Since())
	must(t, err)
	at.Seen.AddRange("nobody", 1, 3)
	ahead, err = w.procs[0].member.live.Load().tokens([]byte("followed")).Follower(at)
	must(t, err)
	ask := func(i int) (last door.Changed, resets string) {
		for c, err := range w.procs[i].member.Backend().Changes(context.Background(), door.Changes{Set: []byte("followed"), Since: ahead}) {
			must(t, err)
			resets += c.Reset
			last = c
		}
		return last, resets
	}
	if last, resets := ask(1); resets != door.ResetLost || len(last.Added) != 2 || last.Unconfirmed > 0 {
		t.Errorf("%q, %+v", resets, last)
	}
	w.procs[2].stop()
	last, resets := ask(1)
	if resets != "" || last.Unconfirmed != 3 {
		t.Errorf("with a member away: %q, %+v", resets, last)
	}
	ahead = last.Next
	w.start(2)
	until(t, "a member that was away", w.whole)
	until(t, "an answer of all members", func() bool { // this one may not have connected to it again yet
		_, resets := ask(1)
		return resets == door.ResetLost
	})
	for _, err := range w.procs[0].member.Backend().Changes(context.Background(), door.Changes{Set: []byte("another"), Since: ahead}) {
		if !errors.Is(err, keyscheme.ErrTokenSet) {
			t.Errorf("the token of another set: %v", err)
		}
	}
	for _, err := range w.procs[0].member.Backend().Changes(context.Background(), door.Changes{Set: []byte("followed"), Limit: -1}) {
		if !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("a limit below 0: %v", err)
		}
	}
}

// TestStopFollowing: a member that is about to stop ends the waits of its followers.
func TestStopFollowing(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	var f door.Followed
	p := w.procs[0]
	p.write(t, keyscheme.OpAdd, "a")
	p.changes(t, &f, door.Changes{})
	begin := time.Now()
	time.AfterFunc(100*time.Millisecond, p.member.StopFollowing)
	if _, _, last := p.changes(t, &f, door.Changes{Wait: time.Minute}); !last.Done || time.Since(begin) > 40*time.Second {
		t.Errorf("after %v: %+v", time.Since(begin), last)
	}
	p.same(t, &f)
}
