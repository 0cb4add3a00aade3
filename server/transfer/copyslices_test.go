package transfer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/handoff"
	"bigset/internal/testkit/tier"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

// ofSets is the part of a replica that has sets.
type ofSets struct{ *local.Replica }

// end is a replica of sets and, over a line, of slices.
type end struct {
	*line
	ofSets
	node *node
}

func newEnd(t testing.TB, name string) *end {
	n := newNode(t, name)
	return &end{&line{SliceReplica: n.local}, ofSets{n.local}, n}
}

// newSource returns a replica with a set, filters, and one that was dropped.
func newSource(t testing.TB) *end {
	a := newFilters(t)
	a.node.add(t, "x", "y")
	return a
}

func newFilters(t testing.TB) *end {
	a := newEnd(t, "a")
	for slice := range uint32(2) {
		markKeys(t, a.SliceReplica, specOf("small", slice, 5, smallFilter), 0, 250)
		markKeys(t, a.SliceReplica, specOf("gone", slice, 7, smallFilter), 0, 10)
	}
	fillSlice(t, a.SliceReplica, specOf("large", 0, 6, mediumFilter), "\x01", 1)
	_, err := a.SliceReplica.DropGeneration(bg, []byte("gone"), 2, 7)
	must(t, err, "drop")
	return a
}

func copyAll(from transfer.Sender, to transfer.Receiver, o transfer.Options) (transfer.Report, error) {
	m, err := transfer.New(to, o)
	if err != nil {
		return transfer.Report{}, err
	}
	return m.Copy(bg, from, whole)
}

// TestCopySlices copies sets and slices, over an older filter and over one that is dropped at the sender; and then once more.
func TestCopySlices(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	markKeys(t, b.SliceReplica, specOf("gone", 1, 7, smallFilter), 0, 10)
	markKeys(t, b.SliceReplica, specOf("large", 0, 3, smallFilter), 0, 10)
	r, err := copyAll(a, b, transfer.Options{})
	must(t, err, "copy")
	if !b.node.has(t, "y") || r.Sets != 1 || r.Slices != 3 || r.Dropped != 2 || b.drops != 1 || r.Pages < 70 || r.Bytes < 290_000 || string(r.Filter) == "" {
		t.Errorf("%+v", r)
	}
	sameSlices(t, a.SliceReplica, b.SliceReplica, "copied")
	disk := b.node.disk.CrashClone(0, 1) // what was not synced is lost
	must(t, b.node.store.Close(), "close")
	b.node.disk = disk
	b.node.open(t)
	b = &end{&line{SliceReplica: b.node.local}, ofSets{b.node.local}, b.node}
	sameSlices(t, a.SliceReplica, b.SliceReplica, "copied, and after a crash")
	r, err = copyAll(a, b, transfer.Options{})
	if err != nil || r.Slices != 3 || r.Pages != 0 {
		t.Errorf("once more: %+v, %v", r, err)
	}
	markKeys(t, b.SliceReplica, specOf("small", 1, 5, smallFilter), 200, 250) // under its own name: nothing is taken away
	r, err = copyAll(b, a, transfer.Options{ChunkBytes: 1})
	if err != nil || r.Pages == 0 {
		t.Errorf("back: %+v, %v", r, err)
	}
	sameSlices(t, a.SliceReplica, b.SliceReplica, "copied back")
}

// TestCopySlicesBrokenOff lets each call fail, at either end: the copy reports it, and another one brings what is missing and nothing else.
func TestCopySlicesBrokenOff(t *testing.T) {
	a := newSource(t)
	undisturbed, err := copyAll(a, newEnd(t, "b"), transfer.Options{})
	must(t, err, "copy")
	share := tier.ShareOf(t, 3, 3)
	for i := range 2 {
		for call := 1; ; call++ {
			if !share.Has(call) {
				continue
			}
			b := newEnd(t, "b")
			markKeys(t, b.SliceReplica, specOf("gone", 1, 7, smallFilter), 0, 10)
			a.calls, a.fails = 0, 0
			if i == 0 {
				a.fails = call
			} else {
				b.fails = call
			}
			first, err := copyAll(a, b, transfer.Options{ChunkBytes: 30 * bloomslice.PageBytes})
			if err == nil {
				if call < 12 {
					t.Errorf("only %d calls", call)
				}
				break
			}
			if !errors.Is(err, errDown) {
				t.Fatal(err)
			}
			second, err := copyAll(a, b, transfer.Options{})
			must(t, err, "again")
			if first.Pages+second.Pages != undisturbed.Pages {
				t.Errorf("end %d, call %d: %d pages, then %d, of %d", i, call, first.Pages, second.Pages, undisturbed.Pages)
			}
			sameSlices(t, a.SliceReplica, b.SliceReplica, "copied again")
		}
	}
}

// TestCopySlicesStep tries a step again that has failed.
func TestCopySlicesStep(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	m, err := transfer.New(b, transfer.Options{})
	must(t, err, "mover")
	c, err := m.Start(bg, a, whole)
	must(t, err, "start")
	failed := 0
	for done := false; !done; {
		a.fails, b.fails = a.calls+2, b.calls+2
		if done, err = c.Step(bg); err != nil {
			if failed++; !errors.Is(err, errDown) || failed > 100 {
				t.Fatal(err)
			}
			a.fails, b.fails = 0, 0
			done, err = c.Step(bg)
			must(t, err, "again")
		}
	}
	if failed == 0 {
		t.Error("no step has failed")
	}
	sameSlices(t, a.SliceReplica, b.SliceReplica, "copied")
}

// TestCopySlicesRestart: a sender that comes back in another incarnation is copied again, whenever that is.
func TestCopySlicesRestart(t *testing.T) {
	for call := 1; ; call++ {
		a, b := newFilters(t), newEnd(t, "b")
		a.by = func(m peer.Member) peer.Member {
			if a.calls >= call {
				m.Incarnation = clock.Actor("later")
			}
			return m
		}
		m, err := transfer.New(b, transfer.Options{})
		must(t, err, "mover")
		c, err := m.Start(bg, a, whole)
		must(t, err, "start")
		done, before := false, uint64(0)
		for !done {
			done, err = c.Step(bg)
			must(t, err, "step")
			if c.Report().Restarts == 0 {
				before = c.Report().Slices
			}
		}
		sameSlices(t, a.SliceReplica, b.SliceReplica, "restarted")
		if a.calls < call {
			break
		}
		if r := c.Report(); r.Restarts != 1 || r.Slices != before+3 || string(r.From.Incarnation) != "later" {
			t.Errorf("call %d: %d slices, then %+v", call, before, r)
		}
	}
}

// TestCopySlicesAfterDrop copies into a receiver that has had the range before.
func TestCopySlicesAfterDrop(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	for range 2 {
		_, err := copyAll(a, b, transfer.Options{})
		must(t, err, "copy")
		sameSlices(t, a.SliceReplica, b.SliceReplica, "copied")
		must(t, b.node.store.Replica().DropRange(bg, whole.First, whole.Last), "drop")
	}
}

// TestCopySlicesDamaged: a page that can't be read is reported, and stops nothing else.
func TestCopySlicesDamaged(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	a.bad = map[bigset.PagePlace]bool{{Layer: bloomslice.LayerID{Owner: "\x01"}, Page: 20}: true}
	for range 2 {
		r, err := copyAll(a, b, transfer.Options{})
		if !errors.Is(err, handoff.ErrIncomplete) || !errors.Is(err, bigset.ErrCorrupt) || r.Sets != 1 || r.Slices != 2 || r.Dropped != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if !strings.Contains(err.Error(), `slice 0 of filter "large": page 20 of layer 0 of seat 1`) || strings.Contains(err.Error(), "small") {
			t.Errorf("%v", err)
		}
	}
	a.bad = nil
	r, err := copyAll(a, b, transfer.Options{})
	if err != nil || r.Pages != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	sameSlices(t, a.SliceReplica, b.SliceReplica, "repaired")
}

// TestCopyNoSlices: a receiver without slices does not take them silently.
func TestCopyNoSlices(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	if _, err := copyAll(a, struct{ transfer.Receiver }{b}, transfer.Options{}); !errors.Is(err, transfer.ErrNoSlices) || !b.node.has(t, "x") {
		t.Error(err)
	}
	if _, err := copyAll(newEnd(t, "c"), struct{ transfer.Receiver }{b}, transfer.Options{}); err != nil {
		t.Errorf("from a sender that has none: %v", err)
	}
	if _, err := copyAll(struct{ transfer.Sender }{a}, b, transfer.Options{}); err != nil {
		t.Errorf("from a sender without slices: %v", err)
	}
}

// TestCopySlicesRate counts the time that a copy of slices waits, and goes by the range.
func TestCopySlicesRate(t *testing.T) {
	a, b := newSource(t), newEnd(t, "b")
	now := time.Unix(0, 0)
	m, err := transfer.New(b, transfer.Options{
		ChunkBytes: 8 * bloomslice.PageBytes, BytesPerSecond: 1000, Now: func() time.Time { return now },
		Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
	})
	must(t, err, "mover")
	slot := (&bigset.SliceSpec{Name: []byte("large")}).Slot()
	r, err := m.Copy(bg, a, handoff.Range{First: slot, Last: slot})
	must(t, err, "copy")
	if rate := mbPerSecond(&r); r.Slices != 1 || r.Sets != 0 || rate > 1.15e-3 || rate < 0.85e-3 {
		t.Errorf("%+v, %v MB/s", r, rate)
	}
}
