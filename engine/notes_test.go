package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// TestNotes keeps notes over crashes, closes and drops of ranges: one about any part of a dropped range goes, the others stay.
func TestNotes(t *testing.T) {
	disk := testkit.NewDisk()
	open := func() *engine.Store {
		t.Helper()
		s, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
		must(t, err, "open")
		return s
	}
	s := open()
	want := map[string]string{}
	check := func() {
		t.Helper()
		for _, name := range []string{"low", "middle", "high", "wide", "gone", "never"} {
			value, err := s.Replica().Note(bg, name)
			must(t, err, name)
			if has, ok := want[name]; string(value) != has || (value != nil) != ok {
				t.Fatalf("note %s is %q, want %q, %v", name, value, has, ok)
			}
		}
	}
	set := func(name string, first, last keyscheme.Slot, value string, d bigset.Durability) {
		t.Helper()
		must(t, s.Replica().SetNote(bg, name, first, last, []byte(value), d), name)
		want[name] = value
	}
	check()
	set("low", 0, 99, "one", bigset.Sync)
	set("middle", 100, 199, "", bigset.Sync)
	set("high", 200, keyscheme.SlotMax, "three", bigset.Sync)
	set("gone", 0, 0, "four", bigset.Sync)
	set("low", 0, 99, "two", bigset.Sync)
	must(t, s.Replica().SetNote(bg, "gone", 0, 0, nil, bigset.Sync), "take away")
	must(t, s.Replica().SetNote(bg, "never", 0, 0, nil, bigset.Sync), "take away what was not there")
	delete(want, "gone")
	check()

	// What was not synced is lost in a crash. What was is not.
	must(t, s.Replica().SetNote(bg, "middle", 100, 199, []byte("lost"), bigset.NoSync), "unsynced")
	crashed := disk.CrashClone(0, 1)
	must(t, s.Close(), "close")
	disk = crashed
	s = open()
	check()
	set("wide", 50, 250, "five", bigset.Sync)
	must(t, s.Close(), "close")
	s = open()
	check()

	must(t, s.Replica().DropRange(bg, 120, 130), "drop")
	delete(want, "middle")
	delete(want, "wide")
	check()
	must(t, s.Close(), "close")
	s = open()
	check()
	set("wide", 0, 0, "six", bigset.Sync)
	check()
	defer s.Close()

	for name, err := range map[string]error{
		"no name":  s.Replica().SetNote(bg, "", 0, 1, nil, bigset.Sync),
		"no range": s.Replica().SetNote(bg, "x", 2, 1, nil, bigset.Sync),
	} {
		if !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := 0; ; i++ {
		if err := s.Replica().SetNote(bg, fmt.Sprint("many", i), 0, 1, []byte{1}, bigset.NoSync); err != nil {
			if !errors.Is(err, bigset.ErrLimit) || i+3 != engine.NotesMax {
				t.Fatalf("after %d: %v", i, err)
			}
			break
		}
	}
}

// TestNotesOfACopy: a store that is a copy of another, or an older state of it, knows no notes, neither before its first write nor
// after. A crash alone takes none away.
func TestNotesOfACopy(t *testing.T) {
	disk := testkit.NewDisk()
	open := func(d *testkit.Disk, dir string) *engine.Store {
		s, err := engine.Open(dir, &engine.Options{FS: d, BackgroundInterval: -1})
		must(t, err, "open")
		return s
	}
	note := func(s *engine.Store, want string) {
		t.Helper()
		if got, err := s.Replica().Note(bg, "n"); err != nil || string(got) != want {
			t.Errorf("note %q, %v, want %q", got, err, want)
		}
	}
	s := open(disk, "db")
	must(t, s.Replica().SetNote(bg, "n", 0, keyscheme.SlotMax, []byte("up to here"), bigset.Sync), "note")
	must(t, s.Checkpoint(bg, "checkpoint"), "checkpoint")
	crashed := open(disk.CrashClone(0, 1), "db")
	note(crashed, "up to here")
	must(t, crashed.Close(), "close")
	must(t, s.Close(), "close")
	_, err := engine.Restore(bg, "checkpoint", "restored", &engine.RestoreOptions{FS: disk})
	must(t, err, "restore")
	for _, dir := range []string{"checkpoint", "restored"} {
		s := open(disk, dir)
		note(s, "")
		must(t, s.Replica().SetNote(bg, "other", 0, 1, []byte("new"), bigset.Sync), "note")
		note(s, "")
		must(t, s.Close(), "close")
		s = open(disk, dir)
		note(s, "")
		if got, err := s.Replica().Note(bg, "other"); err != nil || string(got) != "new" {
			t.Errorf("%s: the new note is %q, %v", dir, got, err)
		}
		must(t, s.Close(), "close")
	}
}

// TestNoteWhileRangeIsDropped keeps a note and drops a range at the same time, each the first write since the store was opened: neither
// waits for the other for ever.
func TestNoteWhileRangeIsDropped(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	for i := range 3 {
		s, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
		must(t, err, "open")
		done := make(chan error, 2)
		var marking atomic.Bool
		disk.SetHook("marking", func(op errorfs.Op) error {
			if testkit.IsWrite(op) && strings.Contains(op.Path, "IDENTITY") && marking.CompareAndSwap(false, true) {
				go func() { done <- s.Replica().SetNote(bg, "n", 0, 1, []byte{1}, bigset.Sync) }()
				time.Sleep(10 * time.Millisecond) // it gets as far as it can
			}
			return nil
		})
		go func() { done <- s.Replica().DropRange(bg, 5, 6) }()
		for range 2 {
			select {
			case err := <-done:
				must(t, err, "note, or drop")
			case <-time.After(time.Minute):
				t.Fatalf("round %d: they wait for each other", i)
			}
		}
		if disk.SetHook("marking", nil); !marking.Load() {
			t.Fatal("the store was not marked")
		}
		must(t, s.Close(), "close")
	}
}

// TestNotesGoBeforeTheRange crashes a drop at each of its writes: a note is never there without its range.
func TestNotesGoBeforeTheRange(t *testing.T) {
	disk := testkit.NewDisk()
	s, err := engine.Open("db", &engine.Options{FS: disk, BackgroundInterval: -1})
	must(t, err, "open")
	_, err = s.Write(bg, []byte("s"), []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, bigset.WriteOptions{Durability: bigset.Sync})
	must(t, err, "write")
	must(t, s.Replica().SetNote(bg, "n", 0, keyscheme.SlotMax, []byte("s is here"), bigset.Sync), "note")
	taken := disk.CrashEverywhere(0, 100)
	must(t, s.Replica().DropRange(bg, 0, keyscheme.SlotMax), "drop")
	with, without := 0, 0
	for i, d := range taken() {
		s2, err := engine.Open("db", &engine.Options{FS: d, BackgroundInterval: -1})
		must(t, err, "open a crash clone")
		note, err := s2.Replica().Note(bg, "n")
		must(t, err, "note")
		_, err = s2.Replica().State(bg, []byte("s"))
		if note != nil && err != nil {
			t.Errorf("clone %d: a note, and the range is gone: %v", i, err)
		}
		if note != nil {
			with++
		} else {
			without++
		}
		must(t, s2.Close(), "close")
	}
	must(t, s.Close(), "close")
	if with == 0 || without == 0 {
		t.Errorf("%d clones with the note, %d without", with, without)
	}
}
