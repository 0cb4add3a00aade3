package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// gate records what passes, and may be shut.
type gate struct {
	shut    func(c remote.Class, first, last keyscheme.Slot, epoch uint64) error
	classes []remote.Class
	ranges  []string
	inside  atomic.Int32
}

func (g *gate) Enter(_ context.Context, c remote.Class, first, last keyscheme.Slot, epoch uint64) (func(), error) {
	g.classes, g.ranges = append(g.classes, c), append(g.ranges, fmt.Sprint(first, last, epoch))
	if g.shut != nil {
		if err := g.shut(c, first, last, epoch); err != nil {
			return nil, err
		}
	}
	g.inside.Add(1)
	return func() { g.inside.Add(-1) }, nil
}

func (g *gate) EnterMany(ctx context.Context, c remote.Class, at []keyscheme.Slot, epoch uint64) (func(), []error) {
	errs, n := make([]error, len(at)), int32(0)
	for i := range at {
		if _, errs[i] = g.Enter(ctx, c, at[i], at[i], epoch); errs[i] == nil {
			n++
		}
	}
	return func() { g.inside.Add(-n) }, errs
}

// TestGate: each verb passes the gate with its class, its slots and the epoch of its map, and leaves it; where it is shut nothing happens, and that is
// said with the epoch that is in force.
func TestGate(t *testing.T) {
	g := &gate{}
	n := filled(t, g)
	before := n.digest(t)
	g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return &peer.EpochError{Epoch: 9} }
	for _, c := range calls(t) {
		_, err := c.do(n.far)
		var epoch *peer.EpochError
		if happened(err) != "nothing" || !errors.Is(err, peer.ErrNotMine) || !errors.As(err, &epoch) || epoch.Epoch != 9 {
			t.Errorf("%s at a gate that is shut: %v", c.name, err)
		}
	}
	g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return errors.New("of no name") }
	for _, c := range calls(t) {
		if _, err := c.do(n.far); happened(err) != "nothing" {
			t.Errorf("%s at a gate that is shut: %v", c.name, err)
		}
	}
	if after := n.digest(t); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
	g.shut = nil
	all := fmt.Sprint(keyscheme.Slot(0), keyscheme.SlotMax, 77)
	for _, c := range calls(t) {
		g.classes, g.ranges = nil, nil
		n.loop.before = func(wire.Call) error { return nil }
		far, err := remote.New(remote.Options{Member: n.far.Member(), Caller: n.loop, Self: func() peer.Member { return self }, Epoch: func() uint64 { return 77 }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.do(far); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range g.classes {
			ok := g.ranges[i] == all
			for _, s := range []keyscheme.Slot{keyscheme.SetSlot(set), at(1), at(2), at(3), at(4)} {
				ok = ok || g.ranges[i] == fmt.Sprint(s, s, 77)
			}
			if g.classes[i] != c.class || !ok {
				t.Errorf("%s passed as %d of %s, want %d", c.name, g.classes[i], g.ranges[i], c.class)
			}
		}
		if len(g.classes) == 0 || g.inside.Load() != 0 {
			t.Errorf("%s passed %d times, %d are inside", c.name, len(g.classes), g.inside.Load())
		}
	}
}

// TestGateOfManySlices: each slice passes the gate by itself, and those that are refused say so, while the others are done.
func TestGateOfManySlices(t *testing.T) {
	g := &gate{shut: func(_ remote.Class, first, _ keyscheme.Slot, _ uint64) error {
		if first == at(3) {
			return &peer.EpochError{Epoch: 9}
		}
		return nil
	}}
	n := newNode(t, g)
	groups := []peer.SliceKeys{{Slice: 1, Hashes: hashesOf(1, "a")}, {Slice: 3, Hashes: hashesOf(3, "a")}, {Slice: 4, Hashes: hashesOf(4, "a", "b")}}
	marked, _, err := n.far.MarkMany(ctx, spec(0), groups)
	if err != nil || marked[0].Err != nil || !errors.Is(marked[1].Err, peer.ErrNotMine) || marked[2].Err != nil || len(marked[2].Added) != 2 || !marked[2].Added[1] {
		t.Errorf("%+v, %v", marked, err)
	}
	g.shut = nil
	found, _, err := n.far.CheckMany(ctx, spec(0), groups)
	if err != nil || !found[0].Answers[0] || found[1].Answers[0] || !found[2].Answers[0] || !found[2].Answers[1] {
		t.Errorf("%+v, %v", found, err)
	}
	if n := g.inside.Load(); n != 0 {
		t.Errorf("%d are inside", n)
	}
}

// TestGateOfStreams: a stream passes the gate for each part; nobody is inside while the consumer has a part; and when the gate is shut in the
// middle, the stream ends there.
func TestGateOfStreams(t *testing.T) {
	g := &gate{}
	n := newNode(t, g)
	var elements [][]byte
	for i := range 20 {
		elements = append(elements, []byte{'a' + byte(i)})
	}
	if _, err := n.store.Add(ctx, set, elements, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	chunks, total := 0, 0
	for c, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		if n := g.inside.Load(); n != 0 {
			t.Errorf("chunk %d: %d are inside", chunks, n)
		}
		chunks++
		total += len(c.Elements)
		if chunks != n.loop.parts {
			t.Errorf("%d parts were sent for %d chunks", n.loop.parts, chunks)
		}
	}
	if total != 20 || chunks < 4 || len(g.classes) < chunks {
		t.Errorf("%d elements in %d chunks, the gate was passed %d times", total, chunks, len(g.classes))
	}
	chunks, total = 0, 0
	var failed error
	for c, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if failed = err; err != nil {
			break
		}
		if chunks++; chunks == 2 {
			g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return &peer.EpochError{Epoch: 9} }
		}
		total += len(c.Elements)
	}
	if chunks != 2 || total != 10 || !errors.Is(failed, peer.ErrNotMine) {
		t.Errorf("%d elements in %d chunks after the gate was shut, %v", total, chunks, failed)
	}
	g.shut = nil
	n.loop.parts = 0
	for _, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n.loop.parts != 1 || g.inside.Load() != 0 {
		t.Errorf("%d parts of a read that was stopped, %d are inside", n.loop.parts, g.inside.Load())
	}
}
