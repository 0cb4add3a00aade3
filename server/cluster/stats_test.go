package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/handoff"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/transfer"
	"bigset/server/wire"
)

// TestStatsOfOlderMember: a call that an older version does not know is not made. So it has not failed, and says nothing about how near the member is.
func TestStatsOfOlderMember(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := &counted{s: &PeerStats{}, now: func() time.Time { return now }}
	began := now
	now = now.Add(time.Second)
	c.observe(1, began, nil)
	average := c.s.average.Load()
	c.observe(1, now, fmt.Errorf("%w: %w", wire.ErrNotSent, peer.ErrOneByOne))
	v := &c.s.Verbs[1]
	if calls, failed := v.Calls.Load(), v.Failed.Load(); calls != 1 || failed != 0 || average == 0 || c.s.average.Load() != average {
		t.Errorf("%d calls, %d failed, average %d, want 1, 0, %d", calls, failed, c.s.average.Load(), average)
	}
	c.observe(1, now, wire.ErrNotSent)
	if v.Calls.Load() != 2 || v.Failed.Load() != 1 {
		t.Errorf("%d calls, %d failed after a failure", v.Calls.Load(), v.Failed.Load())
	}
}

// TestVerbCounts: calls are counted by verb, with the time of those that were answered. A change counts as one verb, whatever its durability.
func TestVerbCounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := &counted{s: &PeerStats{}, now: func() time.Time { return now }}
	call := func(v wire.Verb, err error) {
		began := now
		now = now.Add(time.Second / 4)
		c.observe(v, began, err)
	}
	call(remote.VerbApply, nil)
	call(remote.VerbApply+wire.Verb(bigset.Sync), nil)
	call(remote.VerbApply+wire.Verb(bigset.Sync), wire.ErrBusy)
	call(remote.VerbRead, wire.ErrLost)
	call(remote.VerbRead, fmt.Errorf("%w: %w", wire.ErrLost, context.Canceled))
	call(verbState, nil)
	call(7, nil)
	want := []VerbCount{{"verb_7", 1, 0, 0, 0.25}, {"apply", 3, 0, 1, 0.5}, {"read", 2, 1, 0, 0}, {"member_state", 1, 0, 0, 0.25}}
	if got := c.s.counts(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	named := map[string]int{}
	own := []wire.Verb{verbState, verbPropose, verbWithdraw, verbCommit, verbEntries, verbReady, verbDecide, verbChanged, verbOrder, verbFigures, verbTokens, verbCountSets, verbPosition}
	for _, v := range append(remote.Verbs(), own...) {
		named[verbName(v)]++
	}
	for name, n := range named {
		if most := map[string]int{"apply": 3, "apply_facts": 3, "apply_many": 3}[name]; strings.HasPrefix(name, "verb_") || n != max(1, most) {
			t.Errorf("%d verbs are called %s", n, name)
		}
	}
	var s peerStats
	s.event(coord.Event{Kind: coord.EventRepaired, Count: 3})
	s.event(coord.Event{Kind: coord.EventRepaired})
	if got := fmt.Sprint(s.counted()); got != "map[repaired:4]" {
		t.Errorf("events: %s", got)
	}
}

// TestFillingProgress: a fill copies each range from as many members as it takes, sets before filters, in the order of slots.
func TestFillingProgress(t *testing.T) {
	t.Parallel()
	var shown atomic.Pointer[Copied]
	f := filling{show: &shown, all: 2*100 + 2*300, now: map[keyscheme.Slot]transfer.Report{}}
	low, high := handoff.Range{First: 100, Last: 199}, handoff.Range{First: 200, Last: 499}
	at := func(bytes uint64, portion float64) {
		t.Helper()
		if got := *shown.Load(); got != (Copied{bytes, portion}) {
			t.Errorf("%+v, want %d bytes, %v", got, bytes, portion)
		}
	}
	f.report(transfer.Report{Slots: low})
	at(0, 0)
	f.report(transfer.Report{Slots: low, Slot: 120, Bytes: 1000})
	at(1000, 10./800)
	f.report(transfer.Report{Slots: high, Slot: 240, Bytes: 100}) // at the same time
	at(1100, 30./800)
	f.report(transfer.Report{Slots: low, Slot: 180, Filter: []byte("f"), Bytes: 1500})
	at(1600, 110./800)
	f.copied(low, transfer.Report{Bytes: 2000}, true)
	f.copied(high, transfer.Report{Bytes: 110}, false) // from a member that went away
	f.report(transfer.Report{Slots: high, Slot: 200, Bytes: 5})
	at(2115, 100./800)
}

// TestHalves: the halves of a range have all its slots, once.
func TestHalves(t *testing.T) {
	t.Parallel()
	last := keyscheme.Slot(keyscheme.SlotMax)
	for _, r := range []run{{first: 0, last: last}, {first: 0, last: 1}, {first: 7, last: 7}, {first: 10, last: 12}, {first: last - 1, last: last}, {first: last, last: last}} {
		next := r.first
		for _, half := range r.halves() {
			if half.first != next || half.last < half.first {
				t.Errorf("%x to %x: a half from %x to %x, want it from %x", r.first, r.last, half.first, half.last, next)
			}
			next = half.last + 1
		}
		if next != r.last+1 {
			t.Errorf("%x to %x: the halves end at %x", r.first, r.last, next-1)
		}
	}
}
