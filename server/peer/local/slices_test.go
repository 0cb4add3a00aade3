package local_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// cut is what filters here are made with: they have slices.
var sliced = bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1e6, Probability: 0.01, Scale: 2, Reduction: 0.5, Slices: 8, Owners: 3}, Durability: bigset.FilterSync}

func slice(i uint32) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte("f"), Slice: i, Generation: 9, Options: sliced}
}

// sliceCalls does, under its name, each call on a slice that returns one answer.
func sliceCalls(l *local.Replica, spec bigset.SliceSpec, m bigset.Marks) map[string]func() (peer.Member, error) {
	hashes := []bloomslice.Hash{bloomslice.Sum([]byte("x"))}
	return map[string]func() (peer.Member, error){
		"mark":  func() (peer.Member, error) { _, _, m, err := l.Mark(ctx, spec, hashes); return m, err },
		"check": func() (peer.Member, error) { _, m, err := l.Check(ctx, spec, hashes); return m, err },
		"apply": func() (peer.Member, error) { _, m, err := l.ApplyMarks(ctx, m); return m, err },
		"merge": func() (peer.Member, error) { return l.MergePages(ctx, bigset.SlicePages{SliceSpec: spec}) },
		"flush": func() (peer.Member, error) { return l.FlushSlice(ctx, spec) },
		"sums":  func() (peer.Member, error) { _, m, err := l.PageSums(ctx, spec, nil, 0); return m, err },
		"pages": func() (peer.Member, error) { _, m, err := l.Pages(ctx, spec, nil); return m, err },
		"drop": func() (peer.Member, error) {
			return l.DropGeneration(ctx, spec.Name, spec.Options.Slices, spec.Generation-1)
		},
	}
}

// TestJoiningSlices asks a replica that may lack marks: it takes what others have, and neither decides nor answers checks.
func TestJoiningSlices(t *testing.T) {
	store, _ := open(t, engine.Options{})
	l := newReplica(t, store)
	l.SetState(peer.Joining)
	spec := slice(1)
	for what, call := range sliceCalls(l, spec, bigset.Marks{SliceSpec: spec}) {
		m, err := call()
		if refused := errors.Is(err, peer.ErrJoining) && errors.Is(err, peer.ErrUnavailable); refused != (what == "mark" || what == "check") {
			t.Errorf("%s: %v", what, err)
		}
		if l.CheckManyNow(spec, nil, nil) {
			t.Error("it answers at once")
		}
		if m != l.Member() || m.State != peer.Joining {
			t.Errorf("%s: from %v", what, m)
		}
	}
}

// turning is a context that makes a replica Joining when the store looks at it: after the replica's own look at its state.
type turning struct {
	context.Context
	l *local.Replica
}

func (c turning) Err() error {
	c.l.SetState(peer.Joining)
	return nil
}

// TestSlicesBeginJoining: a replica that comes to lack marks while it is asked does not answer, and does not say either that it has marked
// nothing.
func TestSlicesBeginJoining(t *testing.T) {
	store, _ := open(t, engine.Options{})
	l := newReplica(t, store)
	spec, hash := slice(0), bloomslice.Sum([]byte("x"))
	spec.Slice = hash.Slice(sliced.Slices)
	hashes := []bloomslice.Hash{hash}
	if present, _, err := l.Check(turning{ctx, l}, spec, hashes); !errors.Is(err, peer.ErrJoining) || present != nil {
		t.Errorf("check: %v, %v", present, err)
	}
	l.SetState(peer.Normal)
	m, _, by, err := l.Mark(turning{ctx, l}, spec, hashes)
	if err == nil || errors.Is(err, peer.ErrUnavailable) || peer.Refused(err) || len(m.Marks) > 0 || by.State != peer.Joining {
		t.Errorf("mark: %v, %v, by %v", m, err, by)
	}
	l.SetState(peer.Normal)
	if present, _, err := l.Check(ctx, spec, hashes); err != nil || !present[0] {
		t.Errorf("it was marked: %v, %v", present, err)
	}
}

// TestSlicesOfFailedStore asks a store for changes that it can't make any more: nothing has happened, and others may be asked.
func TestSlicesOfFailedStore(t *testing.T) {
	store, disk := open(t, engine.Options{})
	l := newReplica(t, store)
	if _, _, err := l.Write(ctx, []byte("set"), addOps("x"), bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	disk.SetHook("fail", func(op errorfs.Op) error {
		if testkit.IsWrite(op) {
			return syscall.EIO
		}
		return nil
	})
	if _, _, err := l.Write(ctx, []byte("set"), addOps("y"), bigset.WriteOptions{}); err == nil {
		t.Fatal("a write to a disk that fails")
	}
	spec := slice(1)
	calls := sliceCalls(l, spec, bigset.Marks{SliceSpec: spec})
	for _, what := range []string{"mark", "apply", "merge", "flush", "drop"} {
		if _, err := calls[what](); !errors.Is(err, peer.ErrUnavailable) || !errors.Is(err, bigset.ErrFailed) || peer.Refused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	disk.SetHook("fail", nil)
}

// TestSeats: a replica decides from the seat that it has in the slot of a slice. Where it has none nothing happens and another may be asked; a seat that
// the filter was not made for is refused.
func TestSeats(t *testing.T) {
	store, _ := open(t, engine.Options{})
	l, err := local.New("alice", store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	var groups []peer.SliceKeys
	for i := range uint32(sliced.Slices) {
		for k := byte(0); len(groups) == int(i); k++ {
			if h := bloomslice.Sum([]byte{k}); h.Slice(sliced.Slices) == i {
				groups = append(groups, peer.SliceKeys{Slice: i, Hashes: []bloomslice.Hash{h}})
			}
		}
	}
	if _, _, _, err := l.Mark(ctx, slice(0), groups[0].Hashes); !errors.Is(err, peer.ErrUnavailable) || peer.Refused(err) {
		t.Errorf("without seats: %v", err)
	}
	if _, err := store.Filters().Get(slice(0).Name); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("without seats a slice is made: %v", err)
	}
	seatOf := func(i uint32) bloomslice.Seat { return bloomslice.Seat(i % 4) } // the filter is made for 3
	l.SetSeats(func(slot keyscheme.Slot) (bloomslice.Seat, bool) {
		i := keyscheme.SliceAt(keyscheme.PartitionFilter, slice(0).Name, slot)
		return seatOf(i), i != 5
	})
	marked, _, err := l.MarkMany(ctx, slice(0), groups)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range marked {
		seat := seatOf(uint32(i))
		switch {
		case i == 5:
			if !errors.Is(m.Err, peer.ErrUnavailable) || peer.Refused(m.Err) {
				t.Errorf("slice %d, without a seat: %v", i, m.Err)
			}
		case seat == 3:
			if !errors.Is(m.Err, bigset.ErrRequest) {
				t.Errorf("slice %d, seat %d: %v", i, seat, m.Err)
			}
		case m.Err != nil || len(m.Layers) != 1 || m.Layers[0].ID.Owner != seat.Owner():
			t.Errorf("slice %d, seat %d: %+v", i, seat, m)
		}
	}
}

// TestManyOutcomes asks for marks of many slices: each has its own answer or error, and one that was not begun has not happened.
func TestManyOutcomes(t *testing.T) {
	store, _ := open(t, engine.Options{})
	l := newReplica(t, store)
	var groups []peer.SliceKeys
	for i := range 40 {
		h := bloomslice.Sum([]byte{byte(i)})
		groups = append(groups, peer.SliceKeys{Slice: h.Slice(sliced.Slices), Hashes: []bloomslice.Hash{h}})
	}
	slices.SortFunc(groups, func(a, b peer.SliceKeys) int { return cmp.Compare(a.Slice, b.Slice) })
	groups = slices.CompactFunc(groups, func(a, b peer.SliceKeys) bool { return a.Slice == b.Slice })
	ended, cancel := context.WithCancel(ctx)
	cancel()
	marked, _, err := l.MarkMany(ended, slice(0), groups)
	if err != nil || len(marked) != len(groups) {
		t.Fatalf("%d answers, %v", len(marked), err)
	}
	for _, m := range marked {
		if !errors.Is(m.Err, peer.ErrUnavailable) || !errors.Is(m.Err, context.Canceled) || m.Added != nil {
			t.Errorf("a request that had ended: %+v", m)
		}
	}
	groups[1].Slice ^= 1 // whose key it is not
	marked, by, err := l.MarkMany(ctx, slice(0), groups)
	if err != nil || by != l.Member() {
		t.Fatalf("by %v, %v", by, err)
	}
	var marks []peer.SliceMarks
	for i, m := range marked {
		if i == 1 {
			if !peer.Refused(m.Err) || m.Marks != nil || m.Added != nil {
				t.Errorf("a key of another slice: %+v", m)
			}
		} else if m.Err != nil || m.Slice != groups[i].Slice || len(m.Marks) != 1 || !m.Added[0] {
			t.Errorf("slice %d: %+v", groups[i].Slice, m)
		} else {
			marks = append(marks, m.SliceMarks)
		}
	}
	other, _ := open(t, engine.Options{})
	to := newReplica(t, other)
	marks[1].Layers[0].Shape.Bytes++
	applied, _, err := to.ApplyMarksMany(ctx, slice(0), marks)
	if err != nil || len(applied) != len(marks) {
		t.Fatalf("%d answers, %v", len(applied), err)
	}
	for i, a := range applied {
		if refused := a.Err != nil; refused != (i == 1) || refused && (!peer.Refused(a.Err) || a.Answers != nil) || !refused && !a.Answers[0] {
			t.Errorf("slice %d: %+v", marks[i].Slice, a)
		}
	}
	to.SetState(peer.Joining)
	if refused, _, err := to.MarkMany(ctx, slice(0), groups); err != nil || !errors.Is(refused[0].Err, peer.ErrJoining) {
		t.Errorf("a joining replica decides: %+v, %v", refused, err)
	}
}

// TestMarksEndInTheirMiddle: where the last of some keys is refused, no answer says that none of them was marked; where the first is, the request was.
func TestMarksEndInTheirMiddle(t *testing.T) {
	t.Parallel()
	store, _ := open(t, engine.Options{})
	l := newReplica(t, store)
	full := bigset.SliceSpec{Name: []byte("f"), Generation: 9, Options: bigset.FilterOptions{Durability: bigset.FilterLog,
		// A second layer would need a probability that no float64 has.
		Options: bloomslice.Options{Capacity: 3 * 4000, Probability: 3 * math.SmallestNonzeroFloat64, Scale: 2, Reduction: 0.4, Slices: 1, Owners: 3}}}
	var hashes []bloomslice.Hash
	for i := range 4000 + 1 {
		hashes = append(hashes, bloomslice.Sum(fmt.Append(nil, i)))
	}
	last := len(hashes) - 1
	if _, _, _, err := l.Mark(ctx, full, hashes); err == nil || peer.Refused(err) || errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("keys, the last of which has no place: %v", err)
	}
	if present, _, err := l.Check(ctx, full, hashes[:last]); err != nil || slices.Contains(present, false) {
		t.Errorf("those before: %v", err)
	}
	if _, _, _, err := l.Mark(ctx, full, hashes[last:]); !errors.Is(err, bloomslice.ErrOptions) {
		t.Errorf("the last one alone: %v", err)
	}
}

// TestManyAdded: of keys of many slices each is called new by itself.
func TestManyAdded(t *testing.T) {
	t.Parallel()
	store, _ := open(t, engine.Options{})
	other, _ := open(t, engine.Options{})
	l, to := newReplica(t, store), newReplica(t, other)
	var groups []peer.SliceKeys
	for i := range 40 {
		h := bloomslice.Sum(fmt.Append(nil, i))
		at, found := slices.BinarySearchFunc(groups, h.Slice(sliced.Slices), func(g peer.SliceKeys, s uint32) int { return cmp.Compare(g.Slice, s) })
		if !found {
			groups = slices.Insert(groups, at, peer.SliceKeys{Slice: h.Slice(sliced.Slices)})
		}
		groups[at].Hashes = append(groups[at].Hashes, h)
	}
	for i, g := range groups { // some keys are marked before
		if _, _, _, err := l.Mark(ctx, slice(g.Slice), g.Hashes[:i%2]); err != nil {
			t.Fatal(err)
		}
	}
	wrong := func(i int, added []bool) bool {
		before := i % 2
		return len(added) != len(groups[i].Hashes) || slices.Contains(added[:before], true) || slices.Contains(added[before:], false)
	}
	marked, _, err := l.MarkMany(ctx, slice(0), groups)
	if err != nil || len(marked) != len(groups) {
		t.Fatalf("%d answers, %v", len(marked), err)
	}
	var marks []peer.SliceMarks
	for i, m := range marked {
		if wrong(i, m.Added) {
			t.Errorf("slice %d: marked %v", m.Slice, m.Added)
		}
		marks = append(marks, m.SliceMarks)
		if _, _, err := to.ApplyMarks(ctx, bigset.Marks{SliceSpec: slice(m.Slice), Layers: m.Layers, Marks: m.Marks[:i%2]}); err != nil {
			t.Fatal(err)
		}
	}
	applied, _, err := to.ApplyMarksMany(ctx, slice(0), marks)
	if err != nil || len(applied) != len(marks) {
		t.Fatalf("%d answers, %v", len(applied), err)
	}
	for i, a := range applied {
		if wrong(i, a.Answers) {
			t.Errorf("slice %d: applied %v", marks[i].Slice, a.Answers)
		}
	}
}
