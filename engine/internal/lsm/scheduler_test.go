package lsm

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/keyscheme"
)

// waitingDB is Pebble with compactions that wait.
type waitingDB struct{ allowed, waiting, started atomic.Int64 }

func (d *waitingDB) GetAllowedWithoutPermission() int { return int(d.allowed.Load()) }
func (d *waitingDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return d.waiting.Load() > 0, pebble.WaitingCompaction{}
}
func (d *waitingDB) Schedule(pebble.CompactionGrantHandle) bool {
	d.waiting.Add(-1)
	d.started.Add(1)
	return true
}

// TestScheduler counts the compactions that run: none at rest, then as many as are allowed, one more for each that ends.
func TestScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &waitingDB{}
		db.allowed.Store(2)
		db.waiting.Store(10)
		c := newScheduler(time.Second)
		c.Register(2, db)
		started := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := db.started.Load(); got != want {
				t.Errorf("%s: %d compactions were started, want %d", when, got, want)
			}
		}
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction may run at rest")
		}
		time.Sleep(999 * time.Millisecond)
		started("at rest", 0)
		time.Sleep(time.Millisecond)
		started("after the rest", 2)
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a third compaction may run of two")
		}
		c.Done()
		started("after one is done", 3)
		db.allowed.Store(4)
		time.Sleep(schedulerPeriod)
		started("with more allowed", 5)
		db.waiting.Store(0)
		c.Done()
		started("with none waiting", 5)
		if ok, _ := c.TrySchedule(); !ok {
			t.Error("the fourth compaction of four may not run")
		}
		c.Unregister()
		db.waiting.Store(10)
		c.Done()
		started("after the end", 5)
	})
}

// TestOpenFailsLate: an open that fails after Pebble knows its scheduler leaves no goroutine that starts compactions.
func TestOpenFailsLate(t *testing.T) {
	fs, met := vfs.NewMem(), false
	failing := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpRename || !strings.Contains(op.Path, "dbtmp") {
			return nil
		}
		met = true // the file OPTIONS, among the last that an open makes
		return errorfs.ErrInjected
	}))
	if _, err := open(failing, hooks()); !errors.Is(err, errorfs.ErrInjected) || !met {
		t.Fatalf("open: %v", err)
	}
	loops := func() int {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".(*scheduler).loop(")
	}
	for deadline := time.Now().Add(time.Minute); loops() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a scheduler goes on")
		}
	}
}

// TestRest opens a store again: it rests until a second flush, or EndRest. A new store does not rest, nor does one with a full
// level 0.
func TestRest(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.opt.Tune = func(po *pebble.Options) { po.DisableAutomaticCompactions = true }
	resting := func() bool {
		r.db.scheduler.mu.Lock()
		defer r.db.scheduler.mu.Unlock()
		return r.db.scheduler.resting
	}
	flush := func(n int) {
		for i := range n {
			r.add(t, "s", i, i+1, true)
			r.flush(t)
		}
	}
	for _, c := range []struct {
		name  string
		act   func()
		rests bool // after it was opened
	}{
		{"a new store", func() {}, false},
		{"flushes", func() { flush(2) }, true},
		{"a compaction that was asked for", func() {
			r.db.EndRest()
			must(t, r.db.Compact(bg, keyscheme.SlotRange(0, keyscheme.SlotMax)), "compact")
		}, true},
		{"a level 0 that is filling up", func() { flush(4); r.db.EndRest() }, true},
		{"a full level 0", func() {}, false},
	} {
		r.open(t)
		if got := resting(); got != c.rests {
			t.Errorf("%s: rests %v after the open, want %v", c.name, got, c.rests)
		}
		c.act()
		if resting() {
			t.Errorf("%s: still rests", c.name)
		}
		r.close(t)
	}
}
