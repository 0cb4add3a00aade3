package lsm

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
)

// These tests are about a running store without room. An open on a full disk is in fulldisk_test.go.

// TestFlushFindsNoRoom: a running store whose flushes find no room tries them again with pauses, refuses writes before they would
// have to wait, and can be closed; when there is room it goes on.
func TestFlushFindsNoRoom(t *testing.T) {
	t.Parallel()
	for _, lifts := range []bool{true, false} {
		r := newRig(fmt.Sprintf("lifts %v", lifts))
		r.open(t)
		r.add(t, "s", 0, 100, true)
		var tables atomic.Int64
		var full atomic.Bool
		full.Store(true)
		r.disk.SetHook("full", func(op errorfs.Op) error {
			if !full.Load() || !strings.HasSuffix(op.Path, ".sst") || !testkit.NeedsRoom(op) {
				return nil
			}
			if op.Kind == errorfs.OpCreate {
				tables.Add(1)
			}
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		})
		began := time.Now()
		if err := r.db.FlushTables(bg); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("flush: %v", err)
		}
		if err := r.db.Room(); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("adds: %v", err)
		}
		refused := false
		for i := 0; i < 2000 && !refused; i++ {
			if err := r.try(r.elements("t", i*50, i*50+50), false); err != nil {
				if refused = errors.Is(err, bigset.ErrDiskFull); !refused {
					t.Fatalf("write: %v", err)
				}
			}
		}
		if !refused {
			t.Error("writes are not refused")
		}
		must(t, r.db.Writable(), "failed")
		took := time.Since(began)
		if most := int64(24 + 2*took/time.Second); tables.Load() > 2*most {
			t.Errorf("%d tables were begun in %v", tables.Load(), took)
		}
		r.check(t)
		if !lifts {
			began = time.Now()
			_ = r.tryClose()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("closing took %v", took)
			}
			full.Store(false)
			r.open(t)
			r.check(t)
			r.close(t)
			continue
		}
		full.Store(false)
		r.flush(t)
		r.db.CheckSpace()
		must(t, r.db.Room(), "room again")
		r.add(t, "s", 100, 101, true)
		r.check(t)
		r.close(t)
	}
}

// TestCompactionsFindNoRoom: while flushes find room and compactions don't, level 0 grows until Pebble would stop all writes,
// forever if nobody makes room. Writes and flushes are refused before that, reads go on, and writes do so when there is room again.
func TestCompactionsFindNoRoom(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	r.add(t, "s", 0, 200, true)
	var full atomic.Bool
	full.Store(true)
	r.disk.SetHook("full", func(op errorfs.Op) error {
		if !full.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") || !strings.Contains(string(debug.Stack()), ").compact1(") {
			return nil
		}
		return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
	})
	write := func(i int) error {
		if err := r.try(r.elements("s", i, i+1), true); err != nil {
			return err
		}
		return r.db.FlushTables(bg)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 60 && err == nil; i++ {
			err = write(i)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("writes with a growing level 0: %v", err)
		}
	case <-time.After(time.Minute):
		full.Store(false)
		t.Fatalf("a write waits; then %v", <-done)
	}
	must(t, r.db.Writable(), "failed")
	r.check(t)
	full.Store(false)
	err := write(100)
	for began := time.Now(); errors.Is(err, bigset.ErrDiskFull) && time.Since(began) < time.Minute; err = write(100) {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, err, "a write when there is room")
	r.check(t)
	r.close(t)
}

// TestBallast: a write that finds the disk full has room again when the ballast is gone, once: nothing fails, adds are
// refused from then on, and a later open makes the ballast again.
func TestBallast(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.opt.BallastBytes = 3 << 20 / 2
	var told atomic.Int64
	r.hooks.Event = func(e Event) {
		if e.Kind == EventDiskSpace {
			told.Add(1)
		}
	}
	r.open(t)
	ballast := func() int64 {
		info, err := r.disk.Stat("store/BALLAST")
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if ballast() != r.opt.BallastBytes {
		t.Fatalf("ballast of %d bytes", ballast())
	}
	r.add(t, "s", 0, 100, true)
	var met atomic.Int64
	r.disk.SetHook("full", func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) && !strings.Contains(op.Path, "BALLAST") && ballast() > 0 {
			met.Add(1)
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})
	r.remove(t, "s", 0, 10, true)
	r.flush(t)
	if met.Load() == 0 || ballast() != 0 || told.Load() != 1 {
		t.Errorf("disk found full %d times, ballast of %d bytes, told %d times", met.Load(), ballast(), told.Load())
	}
	r.disk.SetUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 100 << 20})
	r.db.CheckSpace()
	if err := r.db.Room(); !errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("adds on a full disk: %v", err)
	}
	must(t, r.db.Writable(), "the store has failed")
	r.check(t)
	r.survivor(t, "after", r.disk.CrashClone(0, 0))
	r.close(t)
	r.disk.SetHook("full", nil)
	r.disk.SetUsage(vfs.DiskUsage{AvailBytes: 7 << 20, TotalBytes: 100 << 20}) // too little for it
	r.open(t)
	if ballast() != 0 {
		t.Error("a ballast on a full disk")
	}
	r.close(t)
	r.disk.SetUsage(vfs.DiskUsage{AvailBytes: 90 << 20, TotalBytes: 100 << 20})
	r.open(t)
	if ballast() != r.opt.BallastBytes {
		t.Errorf("ballast of %d bytes after there was room", ballast())
	}
	r.add(t, "s", 0, 10, true)
	r.check(t)
	r.close(t)
	must(t, r.restore("store", "restored"), "restore")
	if _, err := r.disk.Stat("restored/BALLAST"); err == nil {
		t.Error("the ballast is copied")
	}
	r.opt.BallastBytes = 0
	r.open(t)
	if ballast() != 0 {
		t.Error("a ballast that was not asked for")
	}
	r.close(t)
}
