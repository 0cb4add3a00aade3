package local_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

var ctx = context.Background()

func open(t *testing.T, o engine.Options) (*engine.Store, *testkit.Disk) {
	t.Helper()
	disk := testkit.NewDisk()
	o.FS, o.BackgroundInterval, o.MemTableBytes = disk, -1, 1<<20
	store, err := engine.Open("db", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, disk
}

func newReplica(t *testing.T, store *engine.Store) *local.Replica {
	t.Helper()
	l, err := local.New("alice", store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	l.SetSeat(1)
	return l
}

func addOps(element string) []bigset.Op {
	return []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(element)}}
}

func TestNew(t *testing.T) {
	keeping, _ := open(t, engine.Options{KeepContexts: true})
	if _, err := local.New("alice", keeping, peer.Normal); !errors.Is(err, peer.ErrUnresolvedContexts) {
		t.Error(err)
	}
	store, _ := open(t, engine.Options{})
	for name, state := range map[string]peer.MemberState{"": peer.Normal, "alice": 0} {
		if _, err := local.New(name, store, state); !errors.Is(err, peer.ErrMember) {
			t.Errorf("%q, %v: %v", name, state, err)
		}
	}
	if m := newReplica(t, store).Member(); m.Node != "alice" || m.Incarnation != store.Replica().Actor() || m.State != peer.Normal {
		t.Error(m)
	}
}

// TestVerbs sends what one replica has to another by every verb.
func TestVerbs(t *testing.T) {
	set := []byte("set")
	sa, _ := open(t, engine.Options{})
	sb, _ := open(t, engine.Options{})
	a, b := newReplica(t, sa), newReplica(t, sb)
	r, m, err := a.Write(ctx, set, addOps("x"), bigset.WriteOptions{Request: []byte("r1")})
	if err != nil || m != a.Member() || len(r.Dots) != 1 {
		t.Fatalf("%+v, %v, %v", r, m, err)
	}
	for _, l := range []*local.Replica{a, b} {
		if known, _, err := l.Knows(ctx, set, []byte("r1"), 0); known != (l == a) || err != nil {
			t.Errorf("knows: %v, %v", known, err)
		}
	}
	if _, err := b.Apply(ctx, r.Delta, bigset.Sync); err != nil {
		t.Fatal(err)
	}
	if known, _, err := b.Knows(ctx, set, []byte("r1"), 0); !known || err != nil {
		t.Errorf("knows: %v, %v", known, err)
	}
	if known, _, err := b.Knows(ctx, nil, []byte("r1"), 0); known || !errors.Is(err, bigset.ErrRequest) { // refused is not known
		t.Errorf("knows a request to no set: %v, %v", known, err)
	}
	r2, _, err := a.Write(ctx, set, addOps("y"), bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v, _, err := b.DotStatus(ctx, set, []byte("y"), r2.Dots); err != nil || v.Statuses[0] != bigset.NotSeen || len(v.Live) > 0 {
		t.Errorf("%v, %v", v, err)
	}
	for f, err := range a.Locate(ctx, set, clock.Of(r2.Dots...)) {
		if err != nil {
			t.Fatal(err)
		}
		if done, _, err := b.ApplyFacts(ctx, f, bigset.Sync); err != nil || done.Keys != 1 {
			t.Errorf("%+v, %v", done, err)
		}
	}
	var elements []fold.Element
	for c, err := range b.Read(ctx, set, bigset.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		elements = append(elements, c.Elements...)
	}
	found, _, err := b.Lookup(ctx, set, [][]byte{[]byte("y"), []byte("z")})
	if err != nil || len(elements) != 2 || !found[0].Present() || found[1].Present() {
		t.Errorf("%v, %v, %v", elements, found, err)
	}
	sums, ranges := map[[16]byte]int{}, map[[16]byte]int{}
	for _, l := range []*local.Replica{a, b} {
		for d, err := range l.Digests(ctx, 0, keyscheme.SlotMax) {
			if err != nil {
				t.Fatal(err)
			}
			sums[d.Sum]++
		}
		r, _, err := l.RangeDigests(ctx, 0, keyscheme.SlotMax, 1)
		if err != nil || len(r) != 1 || r[0].Sets != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		ranges[r[0].Sum]++
		if s, _, err := l.State(ctx, set); err != nil || s.Seen.Len() != 2 {
			t.Errorf("%v, %v", s.Seen, err)
		}
	}
	if len(sums) != 1 || len(ranges) != 1 {
		t.Errorf("digests differ: %v, %v", sums, ranges)
	}
}

func TestJoining(t *testing.T) {
	set := []byte("set")
	store, _ := open(t, engine.Options{})
	l := newReplica(t, store)
	r, _, err := l.Write(ctx, set, addOps("x"), bigset.WriteOptions{Request: []byte("r1")})
	if err != nil {
		t.Fatal(err)
	}
	stopped := 0
	_, m, count := l.CountParts(turning{ctx, l}, set, bigset.CountRange{Mean: 1})
	if !errors.Is(count, peer.ErrJoining) || m.State != peer.Joining {
		t.Errorf("a count while the replica has begun to join: %v, %v", m, count)
	}
	l.SetState(peer.Normal)
	if found, _, err := l.Lookup(turning{ctx, l}, set, [][]byte{[]byte("x"), []byte("never")}); !errors.Is(err, peer.ErrJoining) || found != nil {
		t.Errorf("a look-up while the replica has begun to join: %v, %v", found, err)
	}
	l.SetState(peer.Normal)
	if _, _, err := l.DotStatus(turning{ctx, l}, set, []byte("x"), r.Dots); !errors.Is(err, peer.ErrJoining) {
		t.Errorf("statuses while the replica has begun to join: %v", err)
	}
	l.SetState(peer.Normal)
	if n, err := l.CountSets(turning{ctx, l}, 0, keyscheme.SlotMax); !errors.Is(err, peer.ErrJoining) {
		t.Errorf("a count of sets while the replica has begun to join: %+v, %v", n, err)
	}
	l.SetState(peer.Normal)
	for _, err := range l.Read(ctx, set, bigset.ReadOptions{BatchSize: 1}) {
		if l.SetState(peer.Joining); errors.Is(err, peer.ErrJoining) {
			stopped++
		}
	}
	_, _, lookup := l.Lookup(ctx, set, [][]byte{[]byte("x")})
	_, _, statuses := l.DotStatus(ctx, set, []byte("x"), r.Dots)
	_, _, write := l.Write(ctx, set, addOps("y"), bigset.WriteOptions{})
	_, _, count = l.CountParts(ctx, set, bigset.CountRange{Mean: 1})
	_, sets := l.CountSets(ctx, 0, keyscheme.SlotMax)
	for what, err := range map[string]error{"lookup": lookup, "status": statuses, "write": write, "count": count, "count of sets": sets} {
		if !errors.Is(err, peer.ErrJoining) || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, err := range l.Read(ctx, set, bigset.ReadOptions{}) {
		if errors.Is(err, peer.ErrJoining) {
			stopped++
		}
	}
	if stopped == 0 {
		t.Error("a replica that is joining was read")
	}
	again, _, err := l.Write(ctx, set, addOps("x"), bigset.WriteOptions{Request: []byte("r1")})
	if err != nil || again.Dots[0] != r.Dots[0] {
		t.Errorf("a request that it knows: %+v, %v", again, err)
	}
	if m, err := l.Apply(ctx, r.Delta, bigset.Sync); err != nil || m.State != peer.Joining {
		t.Errorf("%v, %v", m, err)
	}
	if _, m, err := l.State(ctx, set); err != nil || m.State != peer.Joining {
		t.Errorf("%v, %v", m, err)
	}
}

// TestWhatHappened distinguishes refusals, what has not happened, and what may have.
func TestWhatHappened(t *testing.T) {
	set := []byte("set")
	store, disk := open(t, engine.Options{})
	l := newReplica(t, store)
	r, _, err := l.Write(ctx, set, addOps("x"), bigset.WriteOptions{Request: []byte("r1")})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = l.Write(ctx, set, addOps(string(make([]byte, bigset.ElementBytesMax+1))), bigset.WriteOptions{})
	if !peer.Refused(err) || errors.Is(err, peer.ErrUnavailable) {
		t.Error(err)
	}
	future := bigset.Facts{Set: set, Dead: clock.Of(clock.Dot{Actor: store.Replica().Actor(), Counter: 99})}
	if _, _, err = l.ApplyFacts(ctx, future, bigset.Sync); !peer.Refused(err) {
		t.Error(err)
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Apply(late, r.Delta, bigset.Sync); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	disk.SetHook("fail", func(op errorfs.Op) error {
		if testkit.IsWrite(op) {
			return syscall.EIO
		}
		return nil
	})
	if _, _, err := l.Write(ctx, set, addOps("y"), bigset.WriteOptions{}); err == nil || errors.Is(err, peer.ErrUnavailable) || peer.Refused(err) {
		t.Errorf("the log fails: %v", err)
	}
	if _, _, err := l.Write(ctx, set, addOps("z"), bigset.WriteOptions{}); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("the log has failed: %v", err)
	}
	_, _, err = l.Write(ctx, set, addOps("z"), bigset.WriteOptions{Request: []byte("r1")})
	if known, _, unknown := l.Knows(ctx, set, []byte("r1"), 0); known || !errors.Is(unknown, bigset.ErrFailed) || !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("the log has failed: knows %v, %v; %v", known, unknown, err)
	}
	disk.SetHook("fail", nil)
	_ = store.Close()
	if _, err := l.Apply(ctx, r.Delta, bigset.Sync); !errors.Is(err, peer.ErrUnavailable) {
		t.Error(err)
	}
}
