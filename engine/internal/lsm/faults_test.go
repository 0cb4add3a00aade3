package lsm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
)

func onLog(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileFlush:
		return strings.HasSuffix(op.Path, ".log")
	}
	return false
}

// TestLogFails fails the log at its first, second, … write or sync: the writer gets an error, the store takes no more
// writes, reads go on, and whatever was acknowledged as synced is kept by the next open.
func TestLogFails(t *testing.T) {
	t.Parallel()
	for _, once := range []bool{false, true} {
		for n := range int64(12) {
			r := newRig(fmt.Sprintf("EIO at %d, once %v", n, once))
			r.open(t)
			r.add(t, "s", 0, 20, true)
			hook, fired := testkit.Failing(n, once, syscall.EIO, onLog)
			r.disk.SetHook("fail", hook)
			var err error
			for i := 0; err == nil && i < 200; i++ {
				err = r.try(r.elements("s", i, i+1), i%3 == 0)
			}
			if !fired.Load() {
				t.Fatalf("%s: the log never failed", r.label)
			}
			if !errors.Is(err, bigset.ErrFailed) || !errors.Is(err, syscall.EIO) || !errors.Is(r.db.Writable(), bigset.ErrFailed) {
				t.Fatalf("%s: error %v, the store says %v", r.label, err, r.db.Writable())
			}
			if err := r.try(r.elements("s", 0, 1), true); !errors.Is(err, bigset.ErrFailed) {
				t.Errorf("%s: the next write: %v", r.label, err)
			}
			if err := r.db.SyncLog(); !errors.Is(err, bigset.ErrFailed) {
				t.Errorf("%s: the next sync: %v", r.label, err)
			}
			if _, ok, err := r.db.Get([]byte(keyCount)); err != nil || !ok {
				t.Errorf("%s: a read after the failure: %v, %v", r.label, ok, err)
			}
			left := []*testkit.Disk{r.disk.CrashClone(0, 0), r.disk.CrashClone(50, uint64(n)), r.disk.CrashClone(100, 0)}
			r.disk.SetHook("fail", nil)
			for _, disk := range left {
				r.survivor(t, r.label, disk)
			}
			r.closeSoon(t)
		}
	}
}

// TestCopyFails fails each operation of a copy and of a restore: either there is an error and no incomplete store, or all is well;
// and the next try can use the folder.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	r.add(t, "s", 0, 100, true)
	r.flush(t)
	r.remove(t, "s", 0, 50, true)
	must(t, r.db.Copy(bg, "source", func() error { return nil }), "what is restored")
	whole := func(label, dir string) {
		t.Helper()
		q := r.on(label, r.disk.CrashClone(100, 0))
		must(t, q.tryOpen(dir), label)
		q.check(t)
		if !q.db.id.doubt {
			t.Errorf("%s: it has kept its incarnation", label)
		}
		q.close(t)
		must(t, r.disk.RemoveAll(dir), "remove")
	}
	for _, c := range []struct {
		dir string
		do  func(dir string) error
	}{
		{"copy", func(dir string) error { return r.db.Copy(bg, dir, func() error { return nil }) }},
		{"restored", func(dir string) error { return r.restore("source", dir) }},
	} {
		failures := 0
		for n := int64(0); ; n++ {
			label := fmt.Sprintf("%s, failure %d", c.dir, n)
			hook, fired := testkit.Failing(n, true, syscall.EIO, func(op errorfs.Op) bool { return strings.HasPrefix(op.Path, c.dir) })
			r.disk.SetHook("fail", hook)
			err := c.do(c.dir)
			r.disk.SetHook("fail", nil)
			if !fired.Load() {
				must(t, err, c.dir)
				break
			}
			failures++
			if err == nil || CheckFolder(r.disk, c.dir) == nil { // the store was whole already
				whole(label, c.dir)
				continue
			}
			must(t, c.do(c.dir), label+": again")
			whole(label+", again", c.dir)
		}
		t.Logf("%s: %d failures", c.dir, failures)
		if failures < 20 {
			t.Errorf("%s: only %d operations failed", c.dir, failures)
		}
		whole(c.dir, c.dir)
		must(t, r.db.Writable(), "the store has failed")
	}
	r.check(t)
	r.close(t)
}
