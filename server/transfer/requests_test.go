package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/handoff"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

var _ transfer.RequestReceiver = (*local.Replica)(nil)

// ask does an add with a request's id.
func (n *node) ask(t testing.TB, set, id, element string) bigset.Result {
	t.Helper()
	r, err := n.store.Write(bg, []byte(set), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(element)}}, bigset.WriteOptions{Request: []byte(id)})
	must(t, err, n.name+": write with an id")
	return r
}

func (n *node) knows(t testing.TB, set, id string) bool {
	t.Helper()
	known, err := n.store.Replica().KnowsRequest(bg, []byte(set), []byte(id))
	must(t, err, n.name+": knows")
	return known
}

// TestRequestsMove: what a copy has filled answers requests that its sender knew when it was made: those of sets that came now, that came by an earlier
// copy, and of one whose keys were all here. The same, made again, brings none of them again.
func TestRequestsMove(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "a"), newNode(t, "b")
	first := map[string]bigset.Result{}
	for i := range 30 {
		name := fmt.Sprintf("set %d", i%7)
		first[fmt.Sprint(name, " id ", i)] = a.ask(t, name, fmt.Sprint("id ", i), fmt.Sprint("e", i/2))
	}
	early := first["set 3 id 3"].Delta
	early.Request = nil
	must(t, b.store.Replica().ApplyDelta(bg, early, bigset.ApplyOptions{Durability: bigset.NoSync}), "delta") // its keys are here, by anti-entropy say
	c := start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	finish(t, c, func() {
		if r := c.Report(); r.Sets < 7 && r.Requests > 0 {
			t.Errorf("requests have come before the sets: %+v", r)
		}
	})
	if r := c.Report(); r.Requests != 30 {
		t.Errorf("%+v", r)
	}
	must(t, b.store.Close(), "close")
	b.open(t)
	for at, want := range first {
		name, id, _ := strings.Cut(at, " id ")
		got := b.ask(t, name, "id "+id, string(want.Delta.Items[0].Element))
		if err := testkit.SameDelta(got.Delta, want.Delta); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	c = start(t, a.local, b, transfer.Options{})
	finish(t, c, nil)
	if r := c.Report(); r.Requests != 0 || r.Restarts != 0 {
		t.Errorf("again: %+v", r)
	}
}

// odd is a sender whose list of requests is another.
type odd struct {
	peer.Replica
	list func(yield func(bigset.KeptRequest, error) bool)
}

func (o odd) Requests(context.Context, keyscheme.Slot, keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return o.list
}

// TestOddSenders: a sender of an older program, which knows no such question, and one that lists requests of another range.
func TestOddSenders(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "a"), newNode(t, "b")
	a.ask(t, "set", "id", "x")
	older := odd{a.local, func(yield func(bigset.KeptRequest, error) bool) {
		yield(bigset.KeptRequest{}, fmt.Errorf("a: %w: %w", peer.ErrUnavailable, peer.ErrFrameKind))
	}}
	finish(t, start(t, older, b, transfer.Options{}), nil)
	if b.knows(t, "set", "id") || !b.has(t, "x") {
		t.Error("an older sender")
	}
	silent := struct{ peer.Replica }{a.local} // it has no such method
	finish(t, start(t, silent, b, transfer.Options{}), nil)
	at := keyscheme.SetSlot([]byte("set"))
	m, err := transfer.New(b.local, transfer.Options{})
	must(t, err, "mover")
	strange := odd{a.local, func(yield func(bigset.KeptRequest, error) bool) {
		for r, err := range a.local.Requests(bg, 0, keyscheme.SlotMax) {
			yield(r, err)
		}
	}}
	if _, err := m.Copy(bg, strange, handoff.Range{First: at + 1, Last: keyscheme.SlotMax}); !errors.Is(err, handoff.ErrOrder) {
		t.Errorf("a request of another range: %v", err)
	}
	broken := odd{a.local, func(yield func(bigset.KeptRequest, error) bool) { yield(bigset.KeptRequest{}, peer.ErrUnavailable) }}
	if _, err := m.Copy(bg, broken, whole); !errors.Is(err, peer.ErrUnavailable) || b.knows(t, "set", "id") {
		t.Errorf("a list that breaks: %v", err)
	}
	rotten := odd{a.local, func(yield func(bigset.KeptRequest, error) bool) {
		for r, err := range a.local.Requests(bg, 0, keyscheme.SlotMax) {
			if !yield(r, err) {
				return
			}
		}
		yield(bigset.KeptRequest{}, fmt.Errorf("a: %w", bigset.ErrCorrupt))
	}}
	if _, err := m.Copy(bg, rotten, whole); err != nil || !b.knows(t, "set", "id") {
		t.Errorf("a list of which not all can be read: %v", err)
	}
}

// TestRequestsOfManySets: the receiver is given the requests of one set at a time, however many there are, and within the bound of bytes a second.
func TestRequestsOfManySets(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "a"), newNode(t, "b")
	n := 0
	for i := range 3 {
		var ops []bigset.Op
		for j := range 2000 {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: fmt.Append(nil, "e", j), Context: bigset.Saw()})
		}
		for j := range []int{1, 60, 3}[i] {
			_, err := a.store.Write(bg, fmt.Append(nil, "set ", i), ops, bigset.WriteOptions{Request: fmt.Append(nil, j)})
			must(t, err, "write")
			n++
		}
	}
	now := time.Unix(1000, 0)
	o := transfer.Options{BytesPerSecond: 1 << 20, Now: func() time.Time { return now }, Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }}
	c := start(t, a.local, b, o)
	finish(t, c, nil)
	r := c.Report()
	if r.Requests != uint64(n) || mbPerSecond(&r) > 1.2 {
		t.Errorf("%d requests of %d, %.1f MB/s of about 1: %+v", r.Requests, n, mbPerSecond(&r), r)
	}
	for i := range 60 {
		if !b.knows(t, "set 1", fmt.Sprint(i)) {
			t.Errorf("request %d is not known", i)
		}
	}
}

// TestRequestsAreForgottenAtOnce: what a copy has brought is forgotten when the sender forgets it.
func TestRequestsAreForgottenAtOnce(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000_000)
	var nodes []*node
	for _, name := range []string{"a", "b"} {
		n := &node{name: name, disk: testkit.NewDisk()}
		var err error
		n.store, err = engine.Open("db", &engine.Options{FS: n.disk, BackgroundInterval: -1, MemTableBytes: 1 << 20, Now: func() time.Time { return now }, RequestAge: time.Minute})
		must(t, err, "open")
		t.Cleanup(func() { _ = n.store.Close() })
		n.local, err = local.New(name, n.store, peer.Normal)
		must(t, err, "local")
		nodes = append(nodes, n)
	}
	a, b := nodes[0], nodes[1]
	a.ask(t, "set", "id", "x")
	now = now.Add(50 * time.Second)
	finish(t, start(t, a.local, b, transfer.Options{}), nil)
	for _, want := range []bool{true, false} {
		for _, n := range nodes {
			if got := n.knows(t, "set", "id"); got != want {
				t.Errorf("%s knows it: %v, want %v", n.name, got, want)
			}
		}
		now = now.Add(11 * time.Second)
	}
}
