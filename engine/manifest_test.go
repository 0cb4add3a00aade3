// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// fileOn returns the name of the file on a disk's store that begins with the prefix; of several the last.
func fileOn(t *testing.T, disk vfs.FS, prefix string) string {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	found := ""
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("no %s among %v", prefix, names)
	}
	return "store/" + found
}

// manifestStore returns a disk with a store of several tables, and how long its MANIFEST was before its last record. Without
// a note of the close it is as after a crash.
func manifestStore(t *testing.T, noted bool) (p *pair, whole []byte, last int) {
	p = newPair("store")
	p.opt.Tune(func(po *pebble.Options) { po.DisableAutomaticCompactions = true }) // the last record is a flush's
	p.open(t)
	for i := range 2 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(i*30, i*30+30), bigset.Sync)
		if i == 1 {
			last = len(testkit.ReadFile(t, p.disk, fileOn(t, p.disk, "MANIFEST-")))
		}
		p.flush(t)
	}
	if noted {
		p.close(t)
	} else {
		crashed := p.disk.CrashClone(0, 0)
		p.close(t)
		p.disk = crashed
	}
	return p, testkit.ReadFile(t, p.disk, fileOn(t, p.disk, "MANIFEST-")), last
}

// TestManifestFlipped changes every byte of the MANIFEST, of a store that was closed and of one that has crashed: it is not
// opened, and nothing is deleted.
func TestManifestFlipped(t *testing.T) {
	for _, noted := range []bool{true, false} {
		p, whole, _ := manifestStore(t, noted)
		path := fileOn(t, p.disk, "MANIFEST-")
		before, err := p.disk.List("store")
		must(t, err, "list")
		for i := range whole {
			for _, mask := range []byte{1, 0x80, 0xff} {
				flipped := slices.Clone(whole)
				flipped[i] ^= mask
				testkit.WriteFile(t, p.disk, path, flipped)
				p.refused(t, path, "byte %d of %d, mask %x, closed %v", i, len(whole), mask, noted)
			}
		}
		after, err := p.disk.List("store")
		must(t, err, "list")
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Errorf("closed %v: files %v, were %v", noted, after, before)
		}
		testkit.WriteFile(t, p.disk, path, whole)
		p.open(t)
		p.check(t)
		p.close(t)
	}
}

// refused opens a store, which must fail with an error that names the damaged file.
func (p *pair) refused(t *testing.T, path, format string, args ...any) {
	t.Helper()
	p.opt.FS = p.disk
	s, err := engine.Open("store", &p.opt)
	if err == nil {
		_ = s.Close()
	}
	var damage *engine.CorruptionError
	if !errors.Is(err, bigset.ErrCorrupt) || !errors.As(err, &damage) || damage.Path != path {
		t.Fatalf(format+": %v", append(args, err)...)
	}
}

// TestManifestTorn cuts the MANIFEST of a crashed store within its last record, in the ways of a power cut: the store opens
// without that record, keeps every file, and is the same at the next open.
func TestManifestTorn(t *testing.T) {
	t.Parallel()
	p, whole, last := manifestStore(t, false)
	path := fileOn(t, p.disk, "MANIFEST-")
	zeros := func(from int) []byte {
		torn := slices.Clone(whole)
		clear(torn[from:])
		return torn
	}
	for cut := last; cut < len(whole); cut++ {
		for what, torn := range map[string][]byte{"cut": whole[:cut], "zeros": zeros(cut)} {
			if what == "cut" && cut == last || what == "zeros" && cut > last && cut%512 != 0 {
				continue // the first can't be told from a record never begun, the other is no power cut's
			}
			disk := p.disk.CrashClone(100, 0)
			testkit.WriteFile(t, disk, path, torn)
			tables := tablesOn(t, disk)
			orphan := tables[len(tables)-1] // the last record named it
			q := &pair{label: what, disk: disk, opt: p.opt, model: p.model.Clone()}
			for range 2 {
				q.open(t)
				if left := tablesOn(t, disk); !slices.Contains(left, orphan) {
					t.Fatalf("%s at %d: tables %v, want %s kept of %v", what, cut, left, orphan, tables)
				}
				must(t, q.store.Close(), "close")
			}
		}
	}
	// A cut before what was there at the last close is no power cut's.
	p, whole, _ = manifestStore(t, true)
	path = fileOn(t, p.disk, "MANIFEST-")
	for _, cut := range []int{len(whole) - 1, len(whole) / 2, 1, 0} {
		testkit.WriteFile(t, p.disk, path, whole[:cut])
		p.refused(t, path, "cut at %d", cut)
	}
}

// tablesOn lists the tables of a store, those that were put aside too.
func tablesOn(t *testing.T, disk *testkit.Disk) (tables []string) {
	t.Helper()
	for _, dir := range []string{"store", "store/archive"} {
		names, err := disk.List(dir)
		if err != nil {
			continue // nothing was put aside
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".sst") {
				tables = append(tables, name)
			}
		}
	}
	slices.Sort(tables)
	return tables
}

// TestManifestLost: a store whose MANIFEST, or the marker that names it, is gone is not taken for a new one.
func TestManifestLost(t *testing.T) {
	for _, prefix := range []string{"MANIFEST-", "marker.manifest"} {
		p, _, _ := manifestStore(t, true)
		manifest, path := fileOn(t, p.disk, "MANIFEST-"), fileOn(t, p.disk, prefix)
		must(t, p.disk.Remove(path), "remove")
		if prefix != "MANIFEST-" {
			manifest = "store"
		}
		p.refused(t, manifest, "without %s", path)
	}
}

// TestClosedNote: a note of the close that is damaged is refused. One that is gone, or of an older or a later form, is no evidence
// against the store.
func TestClosedNote(t *testing.T) {
	t.Parallel()
	p, _, _ := manifestStore(t, true)
	path := fileOn(t, p.disk, "CLOSED")
	note := testkit.ReadFile(t, p.disk, path)
	for i := range note {
		for what, bad := range map[string][]byte{"flipped": slices.Clone(note), "cut": note[:i]} {
			if what == "flipped" {
				bad[i] ^= 1
			}
			testkit.WriteFile(t, p.disk, path, bad)
			p.refused(t, path, "%s at %d", what, i)
		}
	}
	manifest, log := fileOn(t, p.disk, "MANIFEST-"), lastLog(t, p.disk)
	data := testkit.ReadFile(t, p.disk, manifest)
	first := fmt.Sprintf("%s %d %08x", strings.TrimPrefix(manifest, "store/"), len(data), checksum(data))
	if want := summed(first + " " + strings.TrimPrefix(log, "store/")); string(note) != want {
		t.Errorf("the note is %q, want %q", note, want)
	}
	for what, other := range map[string]string{
		"without logs":  summed(first),
		"of two logs":   summed(first + " 000001.log " + strings.TrimPrefix(log, "store/")), // the first is long in tables
		"of later form": summed("2 " + first),
	} {
		q := &pair{label: what, disk: p.disk.CrashClone(100, 0), opt: p.opt, model: p.model.Clone()}
		testkit.WriteFile(t, q.disk, path, []byte(other))
		q.open(t)
		q.check(t)
		q.close(t)
		if again := string(testkit.ReadFile(t, q.disk, path)); again == other {
			t.Errorf("%s: no new note after a close", what)
		}
	}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// summed returns a line as the file CLOSED has it.
func summed(line string) string { return fmt.Sprintf("%s\n%08x\n", line, checksum([]byte(line+"\n"))) }

// TestManifestEmpty: a MANIFEST of a crashed store that ends before the first flush is not opened. Pebble would take the store for a new
// one.
func TestManifestEmpty(t *testing.T) {
	t.Parallel()
	p, whole, _ := manifestStore(t, false)
	path := fileOn(t, p.disk, "MANIFEST-")
	for cut := 0; engine.LeastLog(whole[:cut]) == 0; cut++ {
		testkit.WriteFile(t, p.disk, path, whole[:cut])
		p.opt.FS = p.disk
		if s, err := engine.Open("store", &p.opt); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("cut at %d: %v", cut, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	testkit.WriteFile(t, p.disk, "store/IDENTITY", []byte(strings.Repeat("0", 32)+"\n")) // as older programs wrote it
	for cut := range 20 {                                                                // the first record is longer
		testkit.WriteFile(t, p.disk, path, whole[:cut])
		p.refused(t, path, "older program, cut at %d", cut)
	}
}
