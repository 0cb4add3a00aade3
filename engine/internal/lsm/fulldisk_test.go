package lsm

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// These tests are about an open on a full disk. A running store without room is in noroom_test.go.

// nth returns the operations that a test fails one after the other: the first of them, and the step to the next.
func nth(t *testing.T) (first, step int64) {
	share := tier.ShareOf(t, 5, 3)
	return int64(share.First), int64(share.Every)
}

// openIn opens the store, and fails the test if that takes longer than allowed on a full disk.
func (r *rig) openIn(t *testing.T) (err error) {
	t.Helper()
	const limit = 30 * time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = r.tryOpen("store")
	}()
	select {
	case <-done:
		return err
	case <-time.After(limit):
		r.disk.Heal()
		<-done
		t.Fatalf("%s: the open has not ended in %v", r.label, limit)
		return nil
	}
}

// withLog returns a rig whose log has more than a small memtable, and that has tables: crashed, or closed.
func withLog(t *testing.T, label string, crashed bool) *rig {
	t.Helper()
	r := newRig(label)
	r.open(t)
	r.add(t, "s", 0, 300, true)
	r.flush(t)
	for i := range 40 {
		r.add(t, "s", i*20, i*20+50, true)
	}
	r.add(t, "t", 0, 300, true)
	r.remove(t, "t", 0, 100, true)
	if crashed {
		r.crashed(t)
	} else {
		r.close(t)
	}
	return r
}

// refusesWrites waits until all writes are refused for lack of room, and fails the test if that takes long.
func (r *rig) refusesWrites(t *testing.T) {
	t.Helper()
	for what, do := range map[string]func() error{
		"a synced write":    func() error { return r.try(r.elements("s", 0, 1), true) },
		"an unsynced write": func() error { return r.try(r.elements("s", 0, 1), false) },
		"mark":              r.db.Mark,
		"flush":             func() error { return r.db.FlushTables(bg) },
		"held":              r.db.Held,
		"stalled":           r.db.Stalled,
		"room":              r.db.Room,
	} {
		if err := do(); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: %s: %v, want a full disk", r.label, what, err)
		}
	}
	must(t, r.db.Writable(), r.label)
}

// worksAgain checks that everything in the store works, now and after a crash, and after another open.
func (r *rig) worksAgain(t *testing.T) {
	t.Helper()
	r.db.CheckSpace()
	must(t, r.db.Room(), r.label)
	r.check(t)
	r.add(t, "s", 900, 950, true)
	r.remove(t, "t", 100, 120, true)
	r.check(t)
	if lost := r.survivor(t, r.label+", crashed", r.disk.CrashClone(0, 0)); lost != 0 {
		t.Errorf("%s: a crash has taken %d batches", r.label, lost)
	}
	r.flush(t)
	r.add(t, "s", 950, 960, true)
	r.close(t)
	r.open(t)
	r.check(t)
	r.close(t)
}

// TestOpenOnFullDisk opens stores whose disk was full before. Reads are right, writes are refused, and the folder stays as it was,
// however often the store is opened; when there is room, writes go on without another open.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		r := withLog(t, fmt.Sprintf("crashed %v", crashed), crashed)
		actor := ""
		for round := range 3 {
			before := folder(t, r.disk)
			began, failed := time.Now(), r.disk.Fill(0)
			must(t, r.openIn(t), "open")
			r.check(t)
			if got := string(r.db.Actor()); got == actor && crashed {
				t.Errorf("%s: actor %x again", r.label, got)
			} else {
				actor = got
			}
			r.refusesWrites(t)
			if n, took := failed.Load(), time.Since(began); n > 60+20*int64(took/time.Second) {
				t.Errorf("%s: %d operations have failed in %v", r.label, n, took)
			}
			if after := folder(t, r.disk); before != after {
				t.Errorf("%s: the folder had\n%v, now it has\n%v", r.label, before, after)
			}
			r.survivor(t, r.label+", crashed on the full disk", r.disk.CrashClone(0, 0))
			if round < 2 {
				closed := time.Now()
				must(t, r.tryClose(), "close on a full disk")
				if took := time.Since(closed); took > 15*time.Second {
					t.Errorf("%s: closing took %v", r.label, took)
				}
				if after := folder(t, r.disk); before != after {
					t.Errorf("%s: the folder had\n%v, after the close it has\n%v", r.label, before, after)
				}
			}
			r.disk.Heal()
		}
		r.worksAgain(t)
	}
}

// TestOpenFillsDisk fills the disk in the middle of an open, at each operation that needs room.
func TestOpenFillsDisk(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	n, step := nth(t)
	held := 0
	for ; ; n += step {
		r := base.on(fmt.Sprintf("full from operation %d on", n), base.disk.CrashClone(100, uint64(n)))
		failed := r.disk.FillFor(n, testkit.NotCompacting)
		must(t, r.openIn(t), r.label)
		if !r.db.Holds() { // later operations are not part of the open
			r.disk.Heal()
		}
		r.check(t)
		for _, percent := range []int{0, 50, 100} {
			q := r.disk.CrashClone(percent, uint64(n))
			if lost := r.survivor(t, r.label+", crashed", q); lost != 0 {
				t.Errorf("%s: a crash on the full disk has taken %d batches", r.label, lost)
			}
		}
		if failed.Load() == 0 {
			r.disk.Heal()
			r.close(t)
			break
		}
		if r.db.Holds() {
			held++
			r.refusesWrites(t)
		}
		r.disk.Heal()
		r.worksAgain(t)
	}
	t.Logf("%d operations, %d of them left the store open for reading", n, held)
	if held == 0 {
		t.Error("no open found the disk full")
	}
}

// TestFullAfterOpen fills the disk at each operation of the first write after an open. What the store acknowledges then is on the
// disk, not in the memory that is meant for the open only.
func TestFullAfterOpen(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", false)
	refused := 0
	n, step := nth(t)
	for ; ; n += step {
		r := base.on(fmt.Sprintf("full from operation %d on", n), base.disk.CrashClone(100, 0))
		r.open(t)
		failed := r.disk.FillFor(n, testkit.NotCompacting)
		if err := r.try(r.elements("s", 0, 10), true); err != nil {
			refused++
			if !errors.Is(err, bigset.ErrDiskFull) && !errors.Is(err, bigset.ErrFailed) && !errors.Is(DiskError(err), bigset.ErrDiskFull) {
				t.Errorf("%s: %v", r.label, err)
			}
		}
		if r.db.Holds() {
			t.Errorf("%s: a write is in memory only", r.label)
		}
		r.survivor(t, r.label+", crashed", r.disk.CrashClone(0, 0))
		done := failed.Load() == 0
		r.disk.Heal()
		r.closeSoon(t)
		if done {
			break
		}
	}
	if refused == 0 {
		t.Error("no write found the disk full")
	}
}

// TestRoomAgain fails each operation by which a store that was opened on a full disk goes on when there is room, and crashes before
// each of them. Nothing is lost, and the next try works, unless the store had to fail.
func TestRoomAgain(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	held := func(label string) *rig {
		r := base.on(label, base.disk.CrashClone(100, 0))
		r.disk.Fill(0)
		must(t, r.openIn(t), label)
		r.disk.Heal()
		return r
	}
	first, step := nth(t)
	r := held("crashes")
	crashes := r.disk.CrashEverywhere(0, 50, 100)
	r.db.CheckSpace()
	left := crashes()
	if r.db.Holds() || len(left) < 30 {
		t.Errorf("held %v, %d crashes", r.db.Holds(), len(left))
	}
	for i, disk := range left {
		if int64(i)%step != first {
			continue
		}
		if lost := r.survivor(t, fmt.Sprintf("crash %d", i), disk); lost != 0 {
			t.Errorf("crash %d has taken %d batches", i, lost)
		}
	}
	r.worksAgain(t)
	again, over := 0, 0
	for n := first; ; n += step {
		r := held(fmt.Sprintf("full again from operation %d on", n))
		failed := r.disk.FillFor(n, testkit.NotCompacting)
		r.db.CheckSpace()
		if failed.Load() == 0 {
			r.disk.Heal()
			r.close(t)
			break
		}
		r.check(t)
		if lost := r.survivor(t, r.label, r.disk.CrashClone(50, uint64(n))); lost != 0 {
			t.Errorf("%s: a crash has taken %d batches", r.label, lost)
		}
		if r.db.Writable() != nil {
			over++
			r.closeSoon(t)
			r.disk.Heal()
			r.open(t)
		} else {
			again++
			r.refusesWrites(t)
			r.disk.Heal()
		}
		r.worksAgain(t)
	}
	t.Logf("%d crashes; %d failures after which it was tried again, %d that the store failed by", len(left), again, over)
	if again == 0 {
		t.Error("nothing was tried again")
	}
}

// TestRoomTooLate: if the disk is full again while a hold is being ended, the store fails. What is on the disk by then stays,
// however often the disk is looked at: tables that the open had written before it began the hold, and the MANIFEST.
func TestRoomTooLate(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	over, tried := 0, 0
	share := tier.ShareOf(t, 25, 9)
	for k := 0; ; k++ { // when the open finds the disk full
		n, found := int64(2*k), int64(0)
		for m := int64(0); ; m++ { // and when the end of the hold does
			if !share.Has(k + int(m)) {
				continue
			}
			tried++
			r := base.on(fmt.Sprintf("full from operation %d on, full again from %d on", n, m), base.disk.CrashClone(100, 0))
			first := r.disk.FillFor(n, testkit.NotCompacting)
			must(t, r.openIn(t), r.label)
			r.disk.Heal()
			again := new(atomic.Int64)
			if found = first.Load(); r.db.Holds() {
				again = r.disk.FillFor(m, testkit.NotCompacting)
				r.db.CheckSpace()
			}
			if r.db.Writable() == nil {
				r.disk.Heal()
				r.close(t)
				if again.Load() == 0 {
					break
				}
				continue
			}
			over++
			r.db.CheckSpace()
			r.check(t)
			r.closeSoon(t)
			r.disk.Heal()
			r.open(t)
			r.check(t)
			r.close(t)
		}
		if found == 0 {
			break
		}
	}
	tier.Count(t, "opens", tried)
	t.Logf("%d stores failed", over)
	if over == 0 && share.Every == 1 { // a share may have none
		t.Error("no store failed")
	}
}

// TestLogTooLarge: a log that fits neither on the disk a second time nor in memory is an error that says how much room it takes.
func TestLogTooLarge(t *testing.T) {
	t.Parallel()
	r := withLog(t, "store", false)
	f, err := r.disk.Create("store/000001.log", vfs.WriteCategoryUnspecified) // of before what the MANIFEST names: it is not replayed
	must(t, err, "create")
	must(t, f.Preallocate(0, 1<<20), "preallocate")
	_, err = f.Write(make([]byte, 2<<20))
	must(t, errors.Join(err, f.Close()), "write")
	r.disk.SetUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 100 << 20})
	r.disk.Fill(0)
	var space *DiskSpaceError
	err = r.openIn(t)
	if !errors.Is(err, bigset.ErrDiskFull) || !errors.As(err, &space) || space.Need < 2<<20 || !strings.Contains(err.Error(), fmt.Sprint(space.Need)) {
		t.Errorf("got %v", err)
	}
	r.disk.Heal()
	r.disk.SetUsage(vfs.DiskUsage{AvailBytes: 90 << 20, TotalBytes: 100 << 20})
	r.open(t)
	r.check(t)
	r.close(t)
}

// TestNewOnFullDisk makes stores while the disk becomes full: that is an error, soon, and succeeds later when there is room. If
// Pebble can't write its MANIFEST or end its first log the process ends, see testkit.FatalElsewhere.
func TestNewOnFullDisk(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		r := newRig(fmt.Sprintf("full from operation %d on", n))
		failed := r.disk.FillFor(n, func(op errorfs.Op) bool { return testkit.NotCompacting(op) && !testkit.FatalElsewhere(op) })
		err := r.openIn(t)
		if failed.Load() == 0 {
			r.disk.Heal()
			must(t, err, r.label)
			r.close(t)
			break
		}
		if err != nil && !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: %v", r.label, err)
		}
		if err == nil {
			r.closeSoon(t)
		}
		r.disk.Heal()
		r.disk = r.disk.CrashClone(100, 0)
		r.open(t)
		r.add(t, "s", 0, 10, true)
		r.check(t)
		r.close(t)
	}
}
