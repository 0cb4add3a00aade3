package faultdisk

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// write writes a file, and syncs it if that is said.
func write(t *testing.T, fs vfs.FS, name, text string, synced bool) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	if err == nil && synced {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func syncDir(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	dir, err := fs.OpenDir(name)
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// list returns all files of a folder with their contents.
func list(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var all []string
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.IsDir() {
			all = append(all, name+"/ "+list(t, fs, fs.PathJoin(dir, name)))
			continue
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s=%s", name, strings.ReplaceAll(string(b), "\x00", "0")))
	}
	return strings.Join(all, " ")
}

// TestCrashClone: a power cut leaves what was synced, and of the rest nothing or everything.
func TestCrashClone(t *testing.T) {
	disk := New()
	if err := disk.MkdirAll("db/old", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "removed", "renamed", "recycled", "replaced"} {
		write(t, disk, "db/"+name, name, true)
	}
	syncDir(t, disk, "")
	syncDir(t, disk, "/db/")
	write(t, disk, "db/unsynced", "unsynced", false)
	write(t, disk, "db/unlisted", "unlisted", true)
	write(t, disk, "db/new", "new", true)
	for _, err := range []error{disk.Remove("db/removed"), disk.Rename("db/renamed", "db/moved"), disk.Rename("db/new", "db/replaced"), disk.Link("db/kept", "db/linked"),
		disk.RemoveAll("db/none"), disk.MkdirAll("db/old/er", 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := disk.ReuseForWrite("db/recycled", "db/log", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte("lo"))
	}
	if err != nil {
		t.Fatal(err)
	}
	lock, err := disk.Lock("db/lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Lock("db/lock"); err == nil {
		t.Error("locked twice")
	}
	for percent, want := range map[int]string{
		0: "db/ kept=kept old/  recycled=recycled removed=removed renamed=renamed replaced=replaced",
		100: "db/ kept=kept linked=kept lock= log=locycled moved=renamed old/ er/  recycled=locycled removed=removed renamed=renamed replaced=new " +
			"unlisted=unlisted unsynced=unsynced",
	} {
		left := disk.CrashClone(percent, 1)
		if got := list(t, left, ""); got != want {
			t.Errorf("%d percent of the rest: %s", percent, got)
		}
		if got := list(t, left.CrashClone(0, 1), ""); got != want {
			t.Errorf("not all of it is durable: %s", got)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "db/kept", "written again", false)
	if got := list(t, disk.CrashClone(0, 1), "db"); !strings.Contains(got, "kept=kept ") {
		t.Errorf("a file that was written again and not synced: %s", got)
	}
}

// TestCrashCloneRepeats: the same seed leaves the same of two disks with the same content.
func TestCrashCloneRepeats(t *testing.T) {
	all := map[string]bool{}
	for seed := range uint64(20) {
		first := ""
		for try := range 4 {
			disk := New()
			if err := disk.MkdirAll("db", 0o755); err != nil {
				t.Fatal(err)
			}
			syncDir(t, disk, "")
			for i := range 8 {
				name := fmt.Sprintf("db/%d", i)
				write(t, disk, name, strings.Repeat("x", i*blockBytes/2), i%2 == 0)
			}
			left := list(t, disk.CrashClone(50, seed), "")
			if all[left] = true; try == 0 {
				first = left
			}
			if left != first {
				t.Fatalf("seed %d left\n%s\nand then\n%s", seed, first, left)
			}
		}
	}
	if len(all) < 10 {
		t.Errorf("20 seeds left %d disks", len(all))
	}
}
