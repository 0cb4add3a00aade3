// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// crashPoint is how many batches had been acknowledged as synced before a crash, and at all.
type crashPoint struct{ acked, written int }

// crashHistory is a script that does everything a store does to its disk, and steps through it one call at a time. It begins with a
// round, which decides the elements.
func crashHistory(t *testing.T, p *pair, first int, step func()) {
	do := func(f func()) { f(); step() }
	add := func(set string, from, to int, d bigset.Durability) {
		do(func() { p.all(t, set, keyscheme.OpAdd, elementNames(from, to), d) })
	}
	remove := func(set string, from, to int, d bigset.Durability) {
		do(func() { p.all(t, set, keyscheme.OpRemove, elementNames(from, to), d) })
	}
	do(func() { p.open(t) })
	for round := first; round < first+tier.Pick(1, crashRounds, crashRounds); round++ {
		add("s", round*20, round*20+60, bigset.Sync)
		add("t", 0, 20, bigset.NoSync)
		do(func() { p.flush(t) })
		remove("s", round*20, round*20+15, bigset.NoSync)
		add("s", 10, 25, bigset.NoSync)
		do(func() { publish(t, p) })
		do(func() { must(t, p.store.FlushTables(), "flush through the drop filter") })
		remove("s", round*20+30, round*20+50, bigset.NoSync)
		do(func() { must(t, p.store.CompactTables(bg), "compact") })
		do(func() { rewriteAll(t, p) })
		for i := range 6 { // small sets, one of them new in each round
			add(smallName(round+i), round, round+4, bigset.NoSync)
			remove(smallName(round+i), round+1, round+3, bigset.NoSync)
		}
		do(func() {
			_, err := p.store.Compact(bg, engine.CompactOptions{})
			must(t, err, "compact")
			p.model.Acknowledged()
		})
		do(func() { p.drop(t, "t", nil, bigset.NoSync) })
		do(func() { tick(t, p) })
		add("t", 5, 9, bigset.Sync)
		do(func() { p.close(t) })
		do(func() { p.open(t) })
	}
	do(func() { p.close(t) })
}

// crashRounds is how many rounds a history has.
const crashRounds = 6

// TestCrashAtEveryOperation cuts the power before every operation on the disk of a scripted history, from the making of the
// store to its last close, three times each. What was acknowledged as synced is kept by the next open, the rest is a
// prefix of what was done, the store proves itself right, and it goes on under a new actor. A long run has eighty histories, which
// differ in their elements, and in what survives.
func TestCrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	histories := 1
	if *tier.Long {
		histories = 80
	}
	for i := range histories {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			crashAtEveryOperation(t, i)
		})
	}
}

func crashAtEveryOperation(t *testing.T, history int) {
	p := newPair("history")
	p.opt.Strategy = eager(compaction.Default())
	p.opt.HotBytes = []int64{512 << 10, -1}[history%2]
	var acked, written atomic.Int64
	known := func() crashPoint { return crashPoint{int(acked.Load()), int(written.Load())} }
	stop := testkit.Crashing[crashPoint]{Short: 9, Push: 9, Seed: uint64(history) << 20, Known: known}.On(t, p.disk)
	crashHistory(t, p, history*crashRounds, func() {
		acked.Store(int64(p.model.AcknowledgedCount()))
		written.Store(int64(p.batches()))
	})
	points, operations := stop()
	lost := 0
	for _, c := range points {
		if p.goesOn(t, c) < c.Known.written {
			lost++
		}
	}
	tier.Count(t, "crashes", len(points))
	t.Logf("%d operations, %d crashes, %d of them lost something that was not acknowledged as synced", operations, len(points), lost)
	if !testing.Short() && (operations < 700 || lost == 0) {
		t.Errorf("%d operations, %d crashes with losses: the history is too short", operations, lost)
	}
}

// batches returns how many batches were written.
func (p *pair) batches() int {
	all := p.model.Clone()
	all.Acknowledged()
	return all.AcknowledgedCount()
}

// goesOn opens what a crash has left, checks and uses it, and returns how many batches have survived.
func (p *pair) goesOn(t *testing.T, c testkit.Crash[crashPoint]) int {
	t.Helper()
	q := &pair{label: c.Label, disk: c.Disk, opt: p.opt, model: p.model.Clone()}
	q.model.AcknowledgedOnly(c.Known.acked)
	q.open(t)
	defer q.close(t)
	survived := p.batches() - q.recovered(t)
	if survived > c.Known.written+1 { // one more was under way
		t.Fatalf("%s: %d batches, of %d that were written", c.Label, survived, c.Known.written)
	}
	q.check(t)
	q.verify(t)
	q.all(t, "s", keyscheme.OpAdd, elementNames(0, 3), bigset.Sync) // its dots are those that the model expects
	q.check(t)
	return survived
}
