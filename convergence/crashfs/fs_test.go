package crashfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"bigset/convergence"
	"bigset/convergence/crashfs"
	"bigset/internal/testkit/tier"
)

// TestSlips makes a log-structured replica forget one thing at a time.
func TestSlips(t *testing.T) {
	for _, slip := range []string{"", "sync", "truncate", "sync before rename", "directory sync", "torn write", "failed sync"} {
		t.Run(slip, func(t *testing.T) {
			r, err := convergence.Explore(t.Context(), logSets(slip), convergence.Options{Schedules: tier.Pick(400, 400, 2000)})
			if err != nil {
				t.Fatal(err)
			}
			if (r.Failure == nil) != (slip == "") {
				t.Fatalf("%d schedules, %v", r.Schedules, r.Failure)
			}
			if slip == "" && (r.Faults["crash-unsynced"] == 0 || r.Faults["disk-full"] == 0 || r.Faults["io-error"] == 0 || r.Faults["compaction"] == 0) {
				t.Errorf("too little was done: %v", r.Faults)
			}
			t.Logf("%d schedules, %v: %v", r.Schedules, r.Elapsed, r.Failure)
		})
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, f *crashfs.FS, name, text string, sync bool) *crashfs.File {
	t.Helper()
	h, err := f.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND)
	must(t, err)
	_, err = io.WriteString(h, text)
	must(t, err)
	if sync {
		must(t, h.Sync())
	}
	return h
}

// shows prints the files as name=text.
func shows(t *testing.T, f *crashfs.FS) string {
	t.Helper()
	var all []string
	must(t, fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(f, name)
		all = append(all, name+"="+string(b))
		return err
	}))
	return strings.Join(all, " ")
}

func cut(f *crashfs.FS, seed uint64, keep int) *crashfs.FS {
	return f.Cut(rand.New(rand.NewPCG(seed, 0)), keep)
}

func TestIsAFileSystem(t *testing.T) {
	f := crashfs.New(0)
	must(t, f.Mkdir("dir"), f.Mkdir("dir/sub"), f.Mkdir("empty"))
	put(t, f, "a", "alpha", true)
	put(t, f, "dir/b", strings.Repeat("beta", 1000), false)
	put(t, f, "dir/sub/c", "", false)
	must(t, fstest.TestFS(f, "a", "dir/b", "dir/sub/c", "empty"))
	must(t, fstest.TestFS(f.Clone(), "a", "dir/b", "dir/sub/c", "empty"))
	must(t, fstest.TestFS(cut(f, 1, 4), "a", "dir/b", "dir/sub/c", "empty"))
}

// TestOnlyTheSyncedIsLeft cuts the power so that nothing unsynced survives.
func TestOnlyTheSyncedIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(f *crashfs.FS)
		want string
	}{
		"nothing synced":       {func(f *crashfs.FS) { put(t, f, "a", "x", false) }, ""},
		"bytes, not the name":  {func(f *crashfs.FS) { put(t, f, "a", "x", true) }, ""},
		"the name, not bytes":  {func(f *crashfs.FS) { put(t, f, "a", "x", false); must(t, f.SyncDir(".")) }, "a="},
		"both":                 {func(f *crashfs.FS) { put(t, f, "a", "x", true); must(t, f.SyncDir(".")) }, "a=x"},
		"the name by a handle": {func(f *crashfs.FS) { put(t, f, "a", "x", true); d, _ := f.OpenFile(".", 0); must(t, d.Sync()) }, "a=x"},
		"a write after the sync": {func(f *crashfs.FS) {
			put(t, f, "a", "x", true)
			put(t, f, "a", "y", false)
			must(t, f.SyncDir("."))
		}, "a=x"},
		"a sync by another handle": {func(f *crashfs.FS) {
			put(t, f, "a", "x", false)
			put(t, f, "a", "y", true)
			must(t, f.SyncDir("."))
		}, "a=xy"},
		"a truncation": {func(f *crashfs.FS) {
			h := put(t, f, "a", "xyz", true)
			must(t, f.SyncDir("."), h.Truncate(1))
		}, "a=xyz"},
		"a truncation that is synced": {func(f *crashfs.FS) {
			h := put(t, f, "a", "xyz", true)
			must(t, f.SyncDir("."), h.Truncate(1), h.Truncate(2), h.Sync())
		}, "a=x\x00"},
		"creation in place": {func(f *crashfs.FS) {
			put(t, f, "a", "xyz", true)
			must(t, f.SyncDir("."))
			_, err := f.Create("a")
			must(t, err)
		}, "a=xyz"},
		"a removal": {func(f *crashfs.FS) {
			put(t, f, "a", "x", true)
			must(t, f.SyncDir("."), f.Remove("a"))
		}, "a=x"},
		"a removal that is synced": {func(f *crashfs.FS) {
			put(t, f, "a", "x", true)
			must(t, f.SyncDir("."), f.Remove("a"), f.SyncDir("."))
		}, ""},
		"a rename": {func(f *crashfs.FS) {
			put(t, f, "a", "x", true)
			put(t, f, "b", "y", true)
			must(t, f.SyncDir("."), f.Rename("b", "a"))
		}, "a=x b=y"},
		"a rename that is synced": {func(f *crashfs.FS) {
			put(t, f, "a", "x", true)
			put(t, f, "b", "y", true)
			must(t, f.SyncDir("."), f.Rename("b", "a"), f.SyncDir("."))
		}, "a=y"},
		"a rename to another directory, synced there": {func(f *crashfs.FS) {
			must(t, f.Mkdir("d"))
			put(t, f, "a", "x", true)
			must(t, f.SyncDir("."), f.Rename("a", "d/a"), f.SyncDir("d"))
		}, "a=x d/a=x"},
		"a rename to another directory, synced here": {func(f *crashfs.FS) {
			must(t, f.Mkdir("d"))
			put(t, f, "a", "x", true)
			must(t, f.SyncDir("."), f.Rename("a", "d/a"), f.SyncDir("."))
		}, ""},
		"a directory without its name": {func(f *crashfs.FS) {
			must(t, f.Mkdir("d"))
			put(t, f, "d/a", "x", true)
			must(t, f.SyncDir("d"))
		}, ""},
		"a failed sync": {func(f *crashfs.FS) {
			h := put(t, f, "a", "x", true)
			must(t, f.SyncDir("."))
			put(t, f, "a", "y", false)
			f.Fail(crashfs.ErrIO)
			if err := h.Sync(); !errors.Is(err, crashfs.ErrIO) {
				t.Error(err)
			}
			f.Fail(nil)
			put(t, f, "a", "z", true)
			if got := shows(t, f); got != "a=xyz" {
				t.Error(got)
			}
		}, "a=x\x00z"},
	} {
		f := crashfs.New(0)
		c.do(f)
		if got := shows(t, cut(f, 1, 0)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatChanceLeaves cuts the power during a write of four blocks and a rename, with many seeds.
func TestWhatChanceLeaves(t *testing.T) {
	got := map[string]int{}
	for seed := range uint64(2000) {
		f := crashfs.New(2)
		put(t, f, "a", "1", true)
		put(t, f, "b", "2", true)
		must(t, f.SyncDir("."))
		put(t, f, "a", "wwxxyyz", false) // 1w wx xy yz
		must(t, f.Rename("b", "c"))
		after := cut(f, seed, 2)
		got[shows(t, after)]++
		if again := shows(t, cut(after, seed+1, 0)); again != shows(t, after.Clone()) && again != "" {
			t.Fatalf("what survived a crash did not survive the next: %q", again)
		}
	}
	for _, want := range []string{"a=1 b=2", "a=1 c=2", "a=1wwxxyyz b=2", "a=1wwxxyyz c=2", "a=1w b=2", "a=1\x00\x00\x00xyyz c=2", "a=1w\x00\x00 b=2"} {
		if got[want] == 0 {
			t.Errorf("never %q", want)
		}
	}
	for text := range got {
		if strings.Contains(text, "b=") == strings.Contains(text, "c=") || !strings.HasPrefix(text, "a=1") {
			t.Errorf("left %q", text)
		}
	}
	f := crashfs.New(2)
	put(t, f, "a", "wwxxyyz", false)
	if got := shows(t, cut(f, 1, 4)); got != "a=wwxxyyz" {
		t.Errorf("with all luck %q is left", got)
	}
}

// TestChangesBuildOnOthers creates, renames and removes files: the result must be that of some prefix of the changes of each name.
func TestChangesBuildOnOthers(t *testing.T) {
	got := map[string]int{}
	for seed := range uint64(500) {
		f := crashfs.New(0)
		put(t, f, "a", "x", true)
		must(t, f.Rename("a", "b"), f.Rename("b", "c"))
		put(t, f, "d", "y", true)
		got[shows(t, cut(f, seed, 2))]++
	}
	for _, want := range []string{"", "a=x", "b=x", "c=x", "d=y", "a=x d=y", "b=x d=y", "c=x d=y"} {
		if got[want] == 0 {
			t.Errorf("never %q", want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("also %v", got)
	}
}

// TestIsAFunctionOfItsSeed does the same twice.
func TestIsAFunctionOfItsSeed(t *testing.T) {
	run := func(seed uint64) string {
		f := crashfs.New(1)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			put(t, f, name, "0123456789", false)
		}
		return shows(t, cut(f, seed, 2))
	}
	for seed := range uint64(50) {
		if a, b := run(seed), run(seed); a != b {
			t.Fatalf("%q, then %q", a, b)
		}
	}
	if run(1) == run(2) {
		t.Error("two seeds leave the same")
	}
}

func TestFaults(t *testing.T) {
	f := crashfs.New(0)
	h := put(t, f, "a", "x", true)
	must(t, f.Mkdir("d"))
	f.Fail(crashfs.ErrFull)
	n, err := io.WriteString(h, "yyyy")
	if n != 2 || !errors.Is(err, crashfs.ErrFull) || shows(t, f) != "a=xyy" {
		t.Errorf("a full disk took %d bytes, %v: %s", n, err, shows(t, f))
	}
	if _, err := f.Create("b"); !errors.Is(err, crashfs.ErrFull) {
		t.Errorf("a full disk takes a file: %v", err)
	}
	if err := h.Truncate(100); !errors.Is(err, crashfs.ErrFull) {
		t.Errorf("a full disk makes a file longer: %v", err)
	}
	must(t, h.Truncate(1), h.Sync(), f.SyncDir("."), f.Rename("a", "b"), f.Remove("b"))
	f.Fail(crashfs.ErrIO)
	_, werr := io.WriteString(h, "y")
	_, cerr := f.Create("c")
	for i, err := range []error{werr, cerr, h.Truncate(0), h.Sync(), f.SyncDir("."), f.Rename("d", "e"), f.Remove("d"), f.Mkdir("e")} {
		if !errors.Is(err, crashfs.ErrIO) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if b, err := io.ReadAll(io.NewSectionReader(h, 0, 10)); string(b) != "x" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestErrors(t *testing.T) {
	f := crashfs.New(0)
	must(t, f.Mkdir("d"), f.Mkdir("d/e"))
	h := put(t, f, "a", "x", true)
	open := func(name string, flag int) error { _, err := f.OpenFile(name, flag); return err }
	read, err := f.OpenFile("a", os.O_RDONLY)
	must(t, err)
	_, write := read.Write([]byte("y"))
	_, at := h.WriteAt([]byte("y"), 0)
	_, list := h.ReadDir(0)
	_, seek := h.Seek(-1, io.SeekStart)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no file":               {open("b", os.O_RDWR), "open b: file does not exist"},
		"no directory":          {open("b/c", os.O_CREATE), "open b/c: file does not exist"},
		"a file is no parent":   {open("a/c", os.O_CREATE), "not a directory"},
		"exclusive":             {open("a", os.O_CREATE|os.O_EXCL), "file already exists"},
		"writing a directory":   {open("d", os.O_RDWR), "is a directory"},
		"a bad name":            {open("/a", os.O_RDONLY), "invalid"},
		"flags":                 {open("a", os.O_SYNC), "invalid"},
		"mkdir":                 {f.Mkdir("a"), "file already exists"},
		"remove":                {f.Remove("b"), "file does not exist"},
		"remove the root":       {f.Remove("."), "invalid"},
		"remove what is full":   {f.Remove("d"), "not empty"},
		"rename nothing":        {f.Rename("b", "c"), "file does not exist"},
		"rename the root":       {f.Rename(".", "c"), "invalid"},
		"rename onto":           {f.Rename("a", "d"), "file already exists"},
		"move a directory":      {f.Rename("d/e", "e"), "does not move"},
		"rename to no where":    {f.Rename("a", "b/c"), "file does not exist"},
		"sync nothing":          {f.SyncDir("b"), "file does not exist"},
		"sync a file by name":   {f.SyncDir("a"), "not a directory"},
		"write without leave":   {write, "permission"},
		"write at, and append":  {at, "invalid"},
		"truncate, read only":   {read.Truncate(0), "permission"},
		"negative length":       {h.Truncate(-1), "invalid"},
		"list a file":           {list, "not a directory"},
		"seek before the begin": {seek, "invalid"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, c.err, c.want)
		}
	}
	must(t, f.Rename("a", "a"), f.Rename("d", "dd"), read.Close())
	if err := read.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	cut(f, 1, 4)
	if _, err := h.Write([]byte("y")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("written after the power was cut: %v", err)
	}
	if _, err := f.Open("a"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("opened after the power was cut: %v", err)
	}
}

// TestHandles reads, seeks and writes by several handles, one of a file that has gone.
func TestHandles(t *testing.T) {
	f := crashfs.New(0)
	h, err := f.Create("a")
	must(t, err)
	_, err = h.WriteAt([]byte("world"), 6)
	must(t, err)
	_, err = h.Write([]byte("hello"))
	must(t, err)
	if at, err := h.Seek(-5, io.SeekEnd); at != 6 || err != nil {
		t.Error(at, err)
	}
	b, err := io.ReadAll(h)
	if string(b) != "world" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	must(t, f.Remove("a"), h.Truncate(3), h.Truncate(6))
	if b, err := io.ReadAll(io.NewSectionReader(h, 0, 100)); !bytes.Equal(b, []byte("hel\x00\x00\x00")) || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := h.Stat(); err != nil || info.Size() != 6 || info.Name() != "a" || shows(t, f) != "" {
		t.Errorf("%v, %v", info, err)
	}
}

// TestDisk: the lives of a replica share a disk, and a backup does not.
func TestDisk(t *testing.T) {
	env := convergence.Env{Rand: rand.New(rand.NewPCG(1, 1))}
	d, err := crashfs.Open(env)
	must(t, err)
	put(t, d.FS, "a", "x", true)
	must(t, d.SyncDir("."))
	saved, err := d.Backup()
	must(t, err)
	put(t, d.FS, "a", "y", false)
	left, err := d.Crash(0)
	must(t, err)
	env.Disk = left
	again, err := crashfs.Open(env)
	must(t, err)
	if got := shows(t, again.FS); got != "a=x" {
		t.Error(got)
	}
	env.Disk, env.Moved = saved, true
	for range 2 {
		d, err := crashfs.Open(env)
		must(t, err)
		if got := shows(t, d.FS); got != "a=x" {
			t.Error(got)
		}
		put(t, d.FS, "a", "z", true)
	}
	must(t, again.DiskFault("disk-full"), again.DiskFault("io-error"), again.DiskFault(""))
	if err := again.DiskFault("flood"); err == nil {
		t.Error("a flood is no fault")
	}
	env.Disk = 7
	if _, err := crashfs.Open(env); err == nil {
		t.Error("7 is no disk")
	}
}
