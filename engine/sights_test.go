package engine_test

import (
	"cmp"
	"sync/atomic"
	"testing"
)

// sights counts what a run has met, so that a test that no longer reaches the interesting states is noticed.
type sights struct{ m [sightCount]atomic.Int64 }

type sight int

const (
	sawCrash sight = iota
	sawLoss
	sawMidCrash
	sawSwap
	sawLateWrites
	sawFiltered
	sawFlushDrop
	sawIncarnation
	sawExcise
	sawStreamOverChange
	sawStaleKill
	sawDuplicate
	sawUnseenContext
	sawTwoDots
	sawOldDelta
	sawEviction
	sawResolved
	sawCountUnscanned
	sawDeadRun
	sawLateSweep
	sawFactKeys
	sawFactDeaths
	sawIngest
	sawUnread
	sawHot
	sightCount
)

var sightNames = [sightCount]string{"crash", "batches lost", "crash within an operation", "swap", "late writes in a swap",
	"records filtered", "records dropped by a flush", "incarnation changed", "excise", "stream over a change", "stale context",
	"duplicate delta", "context before its dot", "element with two dots", "delta of a lost batch", "eviction",
	"unresolved key closed", "count without a scan", "dead run seeked over", "late writes in a sweep",
	"keys by facts", "deaths by facts", "spans by tables", "blocks unread by a scan for dots", "look-ups answered by remembered dots"}

// machinesFor is how many machines meet a sight with certainty: fewer than one run in 100,000 misses it. The sights that are not
// listed need rareMachines.
var machinesFor = map[sight]int{
	sawCrash: 40, sawMidCrash: 40, sawSwap: 40, sawFiltered: 40, sawIncarnation: 40,
	sawStaleKill: 40, sawDuplicate: 40, sawEviction: 40, sawCountUnscanned: 40,
	sawHot: 40, sawLoss: 100, sawLateWrites: 100, sawFlushDrop: 100, sawStreamOverChange: 100,
	sawUnseenContext: 100, sawOldDelta: 100, sawDeadRun: 100,
}

const rareMachines = 200

func (s *sights) saw(w sight) { s.m[w].Add(1) }
func (s *sights) sawIf(c bool, w sight) {
	if c {
		s.saw(w)
	}
}

// check fails a test that has not met everything: it would prove less than it says. A test with few machines may miss what is rare.
func (s *sights) check(t *testing.T, machines int) {
	t.Helper()
	if t.Failed() || testing.Short() {
		return
	}
	for w, name := range sightNames {
		n := s.m[w].Load()
		t.Logf("%6d %s", n, name)
		if n == 0 && machines >= cmp.Or(machinesFor[sight(w)], rareMachines) {
			t.Errorf("never met by %d machines: %s", machines, name)
		}
	}
}
