package lsm

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/compaction"
)

// hooks are those of an owner that does nothing in them.
func hooks() Hooks {
	registry := &atomic.Pointer[compaction.Registry]{}
	registry.Store(&compaction.Registry{})
	return Hooks{
		Registry: registry,
		Fits:     func(compaction.Record) error { return nil },
		Moved:    func(*pebble.Batch) error { return nil },
		Owes:     func() bool { return false },
		IsFile:   func(string) bool { return false },
		Event:    func(Event) {},
	}
}

// open opens a store in the folder "store".
func open(fs vfs.FS, h Hooks) (*DB, error) {
	o := Options{FS: fs, MemTableBytes: 1 << 20, BlockCacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
	d, err := Open("store", o, h)
	if err != nil {
		return nil, err
	}
	if err := d.Ready(); err != nil {
		d.Abandon()
		return nil, err
	}
	return d, nil
}

// write writes one key.
func write(d *DB, key string) error {
	b := d.NewBatch()
	if err := b.Set([]byte(key), nil, nil); err != nil {
		return err
	}
	wait, err := d.Commit(b, true)
	if err == nil {
		err = wait()
	}
	return err
}

// TestUnfit opens a store whose owner can't work with its records: nothing is written that would be taken for a store.
func TestUnfit(t *testing.T) {
	fs, h, unfit := vfs.NewMem(), hooks(), errors.New("unfit")
	h.Fits = func(compaction.Record) error { return unfit }
	if _, err := open(fs, h); !errors.Is(err, unfit) {
		t.Fatalf("opened: %v", err)
	}
	if names, err := fs.List("store"); err != nil || slices.ContainsFunc(names, func(n string) bool { return n != lockFile }) {
		t.Errorf("it left %q, %v", names, err)
	}
}

// TestMoved copies a store that was closed: the owner of the copy is called with the first write, the owner of the original never.
// Both stores keep what was written; the copy has another actor.
func TestMoved(t *testing.T) {
	fs, h, moved := vfs.NewMem(), hooks(), 0
	h.Moved = func(b *pebble.Batch) error {
		moved++
		return b.Set([]byte{'n', 1}, []byte("moved"), nil)
	}
	names := map[string]int{}
	for round := range 3 {
		d, err := open(fs, h)
		if err != nil {
			t.Fatal(err)
		}
		names[string(d.Actor())]++
		before := moved
		if err := errors.Join(write(d, "nx"), write(d, "ny")); err != nil {
			t.Fatal(err)
		}
		value, ok, err := d.Get([]byte{'n', 1})
		if want := round == 2; moved-before > 0 != want || ok != want || err != nil || moved > 1 {
			t.Errorf("round %d: heard of a move %d times, %q, %v", round, moved-before, value, err)
		}
		if err := d.Close(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // another file of the same name is another place
			if err := WriteFile(fs, "store", identityFile, strings.Repeat("0", 2*identityBytes)+"\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(names) != 2 {
		t.Errorf("%d actors in two stores", len(names))
	}
}

// TestClose: Close waits for calls in progress, then the owner does its last writes, and after that nothing is written.
func TestClose(t *testing.T) {
	d, err := open(vfs.NewMem(), hooks())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Enter(); err != nil {
		t.Fatal(err)
	}
	var left atomic.Bool
	go func() {
		for !d.Closed() {
			runtime.Gosched()
		}
		left.Store(true)
		d.Leave()
	}()
	last := false
	if err := d.Close(func() error {
		last = left.Load()
		return write(d, "nx")
	}); err != nil || !last {
		t.Errorf("close: %v; after the call under way: %v", err, last)
	}
	if err := d.Enter(); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
	if err := d.Close(nil); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestFail: a store that has failed refuses writes, says why, reads what it has, and notifies its owner once.
func TestFail(t *testing.T) {
	h, cause, told := hooks(), errors.New("the log"), 0
	h.Event = func(e Event) {
		if e.Kind == EventFailed {
			told++
		}
	}
	d, err := open(vfs.NewMem(), h)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(d, "nx"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Fail(cause); !errors.Is(err, bigset.ErrFailed) || !errors.Is(err, cause) {
			t.Errorf("fail: %v", err)
		}
	}
	if err := write(d, "ny"); !errors.Is(err, bigset.ErrFailed) || !errors.Is(err, cause) {
		t.Errorf("a write: %v", err)
	}
	if _, ok, err := d.Get([]byte("nx")); !ok || err != nil {
		t.Errorf("a read: %v, %v", ok, err)
	}
	if err := d.Close(func() error { return nil }); err != nil || told != 1 {
		t.Errorf("close: %v; told %d times", err, told)
	}
}
