// Single crashes need no race detector.

//go:build !race

package lsm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// crash is a disk as a crash has left it before some operation, and how many batches were known to be on it.
type crash struct {
	label string
	disk  *testkit.Disk
	acked int
}

// crashing takes crashes of a disk, from now on, before every operation that writes: one for each rate, which is the percentage of
// what was not synced that survives. known is called before the disk is looked at, so everything that it counts has happened. stop
// ends that.
func crashing(disk *testkit.Disk, share tier.Share, seed uint64, rates []int, known func() int) (stop func() []crash) {
	var mu sync.Mutex
	var list []crash
	operations := 0
	disk.SetHook("crashes", func(op errorfs.Op) error {
		if !testkit.IsWrite(op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if operations++; !share.Has(operations) {
			return nil
		}
		acked := known()
		for _, percent := range rates {
			label := fmt.Sprintf("operation %d, %v of %s, %d %% survive", operations, op.Kind, op.Path, percent)
			list = append(list, crash{label, disk.CrashClone(percent, seed+uint64(len(list))), acked})
		}
		return nil
	})
	return func() []crash {
		disk.SetHook("crashes", nil)
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// TestCrashWhileMade cuts the power before every operation by which a store is made, with many choices of what survives: each of them
// leaves a store that opens, empty, and can be written. A folder's entries survive by themselves, so that Pebble's marker may be there
// without the MANIFEST that it names.
func TestCrashWhileMade(t *testing.T) {
	t.Parallel()
	for seed := range tier.Pick[uint64](3, 6, 40) {
		r := newRig("made")
		stop := crashing(r.disk, tier.Share{Every: 1}, seed<<20, []int{20, 50}, func() int { return 0 })
		r.open(t)
		points := stop()
		r.close(t)
		for _, c := range points {
			q := r.on(fmt.Sprintf("seed %d, %s", seed, c.label), c.disk)
			q.open(t)
			q.check(t)
			q.add(t, "s", 0, 3, true)
			q.check(t)
			q.close(t)
		}
	}
}

// TestCrashes cuts the power before every operation of a store that writes, flushes, compacts, is closed and opened again. All that
// was acknowledged as synced, and all that the store counts as durable, is kept by the next open; the rest is a beginning of
// what was written; and the store goes on under a new actor if it had written.
func TestCrashes(t *testing.T) {
	t.Parallel()
	r := newRig("history")
	var acked, before atomic.Int64
	var db atomic.Pointer[DB]
	stop := crashing(r.disk, tier.ShareOf(t, 9, 3), 7, []int{0, 30, 100}, func() int {
		n := acked.Load()
		if d := db.Load(); d != nil {
			n = max(n, before.Load()+int64(d.Durable()))
		}
		return int(n)
	})
	step := func(do func()) {
		do()
		acked.Store(int64(r.acked))
	}
	for round := range 3 {
		step(func() { r.open(t) })
		before.Store(int64(len(r.log)))
		db.Store(r.db)
		for i := range 8 {
			step(func() { r.add(t, "s", round*30+i*10, round*30+i*10+30, i%3 == 0) })
			step(func() { r.remove(t, "s", round*20+i, round*20+i+5, i%4 == 1) })
		}
		step(func() { r.flush(t) })
		step(func() { r.add(t, "t", 0, 40, false) })
		step(func() { must(t, r.db.Compact(bg, keyscheme.SlotRange(0, keyscheme.SlotMax)), "compact") })
		step(func() { r.add(t, "t", 40, 45, false) })
		step(func() {
			must(t, r.db.SyncLog(), "sync")
			r.acked = len(r.log)
		})
		step(func() { r.remove(t, "t", 5, 9, false) })
		actor := r.db.Actor()
		db.Store(nil)
		step(func() { r.close(t) })
		if round > 0 {
			continue
		}
		q := r.on("closed in order", r.disk.CrashClone(0, 0))
		q.open(t)
		if q.db.Actor() != actor {
			t.Errorf("actor %x after a clean close of %x", string(q.db.Actor()), string(actor))
		}
		q.check(t)
		q.close(t)
	}
	points := stop()
	lost := 0
	for _, c := range points {
		q := r.on(c.label, c.disk)
		q.acked = c.acked
		q.open(t)
		if q.recovered(t) > 0 {
			lost++
		}
		q.add(t, "s", 0, 3, true)
		q.check(t)
		q.close(t)
	}
	tier.Count(t, "crashes", len(points))
	t.Logf("%d crashes, %d of them lost something that was not acknowledged as synced", len(points), lost)
	if !testing.Short() && (len(points) < 300 || lost == 0) {
		t.Errorf("%d crashes, %d with losses: the history is too short", len(points), lost)
	}
}

// TestSynced cuts the power as soon as a write has been acknowledged as synced.
func TestSynced(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	for i := range 100 {
		r.add(t, "s", i, i+2, i%2 == 0)
		q := r.on(fmt.Sprintf("write %d", i), r.disk.CrashClone(0, 0))
		q.open(t)
		q.recovered(t)
		q.close(t)
	}
	r.close(t)
}

// TestDurable: batches count as durable when they are on disk, and not before.
func TestDurable(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	for i := range 5 {
		r.add(t, "s", i, i+1, false)
	}
	if applied, durable := r.db.Applied(), r.db.Durable(); applied != 5 || durable != 0 {
		t.Errorf("%d batches applied and %d durable, want 5 and 0", applied, durable)
	}
	wait := r.db.WaitDurable(3)
	if wait == nil {
		t.Fatal("nothing to wait for")
	}
	must(t, wait(), "wait")
	if durable := r.db.Durable(); durable != 5 || r.db.WaitDurable(5) != nil {
		t.Errorf("%d batches durable after a sync of 5", durable)
	}
	r.acked = 5
	if lost := r.survivor(t, "after the sync", r.disk.CrashClone(0, 0)); lost != 0 {
		t.Errorf("%d batches are lost", lost)
	}
	r.close(t)
}

// TestIncarnation: a store that has crashed since it was written goes on under another actor; one that was only read keeps its
// actor, and so does one that was closed in order.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	first := r.db.Actor()
	left := r.disk.CrashClone(0, 0)
	r.close(t)
	q := r.on("never written", left)
	q.open(t)
	if q.db.Actor() != first || !q.db.FirstIncarnation() {
		t.Errorf("actor %x of a store that was never written, was %x", string(q.db.Actor()), string(first))
	}
	q.close(t)
	r.open(t)
	for _, sync := range []bool{true, false} {
		actor := r.db.Actor()
		r.add(t, "s", 0, 1, sync)
		left := r.disk.CrashClone(0, 0)
		r.close(t)
		q := r.on(fmt.Sprintf("crashed, synced %v", sync), left)
		q.acked = 0
		q.open(t)
		q.recovered(t)
		if q.db.Actor() == actor || q.db.FirstIncarnation() {
			t.Errorf("%s: actor %x again", q.label, string(actor))
		}
		q.close(t)
		r.open(t)
		if r.db.Actor() != actor {
			t.Errorf("actor %x after a clean close of %x", string(r.db.Actor()), string(actor))
		}
	}
	r.close(t)
}
