// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package lsm

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
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// manifestStore returns a disk with a store of several tables, and how long its MANIFEST was before its last record. Without
// a note of the close it is as after a crash.
func manifestStore(t *testing.T, noted bool) (r *rig, whole []byte, last int) {
	r = newRig("store")
	r.opt.Tune = func(po *pebble.Options) { po.DisableAutomaticCompactions = true } // the last record is a flush's
	r.open(t)
	const flushes = 8
	for i := range flushes {
		r.add(t, "s", i*30, i*30+30, true)
		if i == flushes-1 {
			last = len(testkit.ReadFile(t, r.disk, fileOn(t, r.disk, "MANIFEST-", "")))
		}
		r.flush(t)
	}
	if noted {
		r.close(t)
	} else {
		r.crashed(t)
	}
	return r, testkit.ReadFile(t, r.disk, fileOn(t, r.disk, "MANIFEST-", "")), last
}

// TestManifestFlipped changes every byte of the MANIFEST, of a store that was closed and of one that has crashed: it is not
// opened, and nothing is deleted.
func TestManifestFlipped(t *testing.T) {
	flips := 0
	for _, noted := range []bool{true, false} {
		r, whole, _ := manifestStore(t, noted)
		path := fileOn(t, r.disk, "MANIFEST-", "")
		before, err := r.disk.List("store")
		must(t, err, "list")
		for i := range whole {
			for _, mask := range []byte{1, 0x80, 0xff} {
				flipped := slices.Clone(whole)
				flipped[i] ^= mask
				testkit.WriteFile(t, r.disk, path, flipped)
				flips++
				r.damagedAt(t, path, "byte %d of %d, mask %x, closed %v", i, len(whole), mask, noted)
			}
		}
		after, err := r.disk.List("store")
		must(t, err, "list")
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Errorf("closed %v: files %v, were %v", noted, after, before)
		}
		testkit.WriteFile(t, r.disk, path, whole)
		r.open(t)
		r.check(t)
		r.close(t)
	}
	tier.Count(t, "flips", flips)
}

// TestManifestTorn cuts the MANIFEST of a crashed store within its last record, as power cuts do: the store opens without that
// record, keeps every file, and is the same at the next open.
func TestManifestTorn(t *testing.T) {
	t.Parallel()
	r, whole, last := manifestStore(t, false)
	path := fileOn(t, r.disk, "MANIFEST-", "")
	zeros := func(from int) []byte {
		torn := slices.Clone(whole)
		clear(torn[from:])
		return torn
	}
	for cut := last; cut < len(whole); cut++ {
		for what, torn := range map[string][]byte{"cut": whole[:cut], "zeros": zeros(cut)} {
			if what == "cut" && cut == last || what == "zeros" && cut > last && cut%512 != 0 {
				continue // the first looks like a record never begun, the other is no power cut's
			}
			disk := r.disk.CrashClone(100, 0)
			testkit.WriteFile(t, disk, path, torn)
			tables := tablesOn(t, disk)
			orphan := tables[len(tables)-1] // the last record named it
			q := r.on(what, disk)
			for range 2 {
				q.open(t)
				if left := tablesOn(t, disk); !slices.Contains(left, orphan) {
					t.Fatalf("%s at %d: tables %v, want %s kept of %v", what, cut, left, orphan, tables)
				}
				must(t, q.tryClose(), "close")
			}
		}
	}
	// A cut before what existed at the last close is no power cut's.
	r, whole, _ = manifestStore(t, true)
	path = fileOn(t, r.disk, "MANIFEST-", "")
	for _, cut := range []int{len(whole) - 1, len(whole) / 2, 1, 0} {
		testkit.WriteFile(t, r.disk, path, whole[:cut])
		r.damagedAt(t, path, "cut at %d", cut)
	}
}

// tablesOn lists the tables of a store, also those that were put aside.
func tablesOn(t *testing.T, disk vfs.FS) (tables []string) {
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
		r, _, _ := manifestStore(t, true)
		manifest, path := fileOn(t, r.disk, "MANIFEST-", ""), fileOn(t, r.disk, prefix, "")
		must(t, r.disk.Remove(path), "remove")
		if prefix != "MANIFEST-" {
			manifest = "store"
		}
		r.damagedAt(t, manifest, "without %s", path)
	}
}

// TestCloseRecord: a damaged record of the close is refused. One that is missing, or of an older or a later form, is no evidence
// against the store.
func TestCloseRecord(t *testing.T) {
	t.Parallel()
	r, _, _ := manifestStore(t, true)
	path := fileOn(t, r.disk, "CLOSED", "")
	record := testkit.ReadFile(t, r.disk, path)
	for i := range record {
		for what, bad := range map[string][]byte{"flipped": slices.Clone(record), "cut": record[:i]} {
			if what == "flipped" {
				bad[i] ^= 1
			}
			testkit.WriteFile(t, r.disk, path, bad)
			r.damagedAt(t, path, "%s at %d", what, i)
		}
	}
	manifest, log := fileOn(t, r.disk, "MANIFEST-", ""), fileOn(t, r.disk, "", logSuffix)
	data := testkit.ReadFile(t, r.disk, manifest)
	first := fmt.Sprintf("%s %d %08x", strings.TrimPrefix(manifest, "store/"), len(data), checksum(data))
	if want := summed(first + " " + strings.TrimPrefix(log, "store/")); string(record) != want {
		t.Errorf("the note is %q, want %q", record, want)
	}
	for what, other := range map[string]string{
		"without logs":  summed(first),
		"of two logs":   summed(first + " 000001.log " + strings.TrimPrefix(log, "store/")), // the first is long in tables
		"of later form": summed("2 " + first),
	} {
		q := r.on(what, r.disk.CrashClone(100, 0))
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
	r, whole, _ := manifestStore(t, false)
	path := fileOn(t, r.disk, "MANIFEST-", "")
	for cut := 0; leastLog(whole[:cut]) == 0; cut++ {
		testkit.WriteFile(t, r.disk, path, whole[:cut])
		if err := r.tryOpen("store"); !errors.Is(err, bigset.ErrCorrupt) {
			t.Errorf("cut at %d: %v", cut, err)
			if err == nil {
				_ = r.tryClose()
			}
		}
	}
	testkit.WriteFile(t, r.disk, "store/IDENTITY", []byte(strings.Repeat("0", 32)+"\n")) // as older programs wrote it
	for cut := range 20 {                                                                // the first record is longer
		testkit.WriteFile(t, r.disk, path, whole[:cut])
		r.damagedAt(t, path, "older program, cut at %d", cut)
	}
}
