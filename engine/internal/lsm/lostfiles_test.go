// Damage needs no race detector, and Pebble asserts other things under it.

//go:build !race

package lsm

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/internal/testkit"
)

// These are the outcomes of an open.
const (
	opens   = 'o' // with all that was written
	loses   = 'l' // with what a crash may leave: nothing on disk shows that there was more
	refused = 'R' // as damage, and nothing has changed
	absent  = '-' // there is no such file
)

// treatments are what happens to a file; the letters in lostFiles are about them, in this order.
var treatments = []string{"removed", "emptied", "halved", "folder"}

// lostFile is the expected outcome for one kind of file, after each treatment: in a store that was closed, in one that was closed
// before and has crashed since, and in one that has crashed before its first close.
type lostFile struct {
	what, name           string
	closed, crashed, new string
}

// lostFiles has all kinds of files in a store's folder. The first pattern that matches a name counts; a file that is not in use any
// more, since Pebble keeps some for a while, is of the kind "earlier".
var lostFiles = []lostFile{
	{"format", `BIGSET`, "RRRR", "RRRR", "RRRR"},
	{"note of the last close", `CLOSED`, "oRRR", "oRRR", "----"},
	{"identity", `IDENTITY`, "oRRR", "oRRR", "oRRR"}, // without it the store takes a new incarnation
	{"lock", `LOCK`, "oooR", "oooR", "oooR"},
	{"ballast", `BALLAST`, "oooR", "oooR", "oooR"},
	{"sign of a finished copy", `UNFINISHED`, "oooR", "oooR", "oooR"},
	{"MANIFEST", `MANIFEST-\d+`, "RRRR", "RRRR", "RRRR"},
	{"name of the MANIFEST", `marker\.manifest\..+`, "RooR", "RooR", "RooR"}, // markers are empty
	{"Pebble's format", `marker\.format-version\..+`, "RooR", "RooR", "RooR"},
	{"Pebble's options", `OPTIONS-\d+`, "oooR", "oooR", "oooR"},
	{"table that nothing names", `999999\.sst`, "oooo", "oooo", "oooo"},
	{"table", `\d+\.sst`, "RRRR", "RRRR", "RRRR"},
	{"what a pass has left", `span-.+\.tmp`, "oooR", "oooR", "oooR"},
	{"log", `\d+\.log`, "RRRR", "lllR", "RllR"}, // what crashed has begun another one since its first write
	{"file of the owner's", ownFile, "oooR", "oooR", "oooR"},
	{"earlier", `(MANIFEST-\d+|\d+\.log)`, "oooR", "oooR", "oooR"},
}

// ownFile is a file that the owner has in the folder.
const ownFile = "owned"

// leftOver are files that an open removes.
var leftOver = []string{"UNFINISHED", "999999.sst", "span-000001.tmp"}

// TestLostFiles removes, empties, cuts in half, and replaces by a folder, each file of three stores. The next open has the outcome
// in lostFiles. A store that opens is compared with what was written, written to, and opened again.
func TestLostFiles(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		what         string
		first, crash bool
		want         func(lostFile) string
	}{
		{"closed", false, false, func(f lostFile) string { return f.closed }},
		{"crashed", false, true, func(f lostFile) string { return f.crashed }},
		{"crashed before its first close", true, true, func(f lostFile) string { return f.new }},
	} {
		t.Run(store.what, func(t *testing.T) {
			t.Parallel()
			r := lostFilesStore(t, store.first, store.crash)
			names, err := r.disk.List("store")
			must(t, err, "list")
			slices.Sort(names)
			found := map[string]bool{}
			for _, name := range slices.Concat(names, leftOver) {
				kind := kindOfFile(name, names)
				if kind == nil {
					t.Errorf("file %s is of no kind in the table", name)
					continue
				}
				found[kind.what] = true
				for i, treatment := range treatments {
					q := r.on(kind.what+" "+name+", "+treatment, r.disk.CrashClone(100, 0))
					loseFile(t, q.disk, "store/"+name, treatment)
					q.openLost(t, store.want(*kind)[i], store.crash || name == identityFile)
				}
			}
			for _, kind := range lostFiles {
				if want := store.want(kind) != "----"; found[kind.what] != want {
					t.Errorf("there is a file of kind %q: %v, want %v", kind.what, found[kind.what], want)
				}
			}
		})
	}
}

// kindOfFile returns the entry of the table for a file.
func kindOfFile(name string, names []string) *lostFile {
	i := slices.IndexFunc(lostFiles, func(kind lostFile) bool { return kind.fits(name) })
	if i < 0 {
		return nil
	}
	earlier := &lostFiles[len(lostFiles)-1]
	if earlier.fits(name) && slices.ContainsFunc(names, func(other string) bool { return other > name && lostFiles[i].fits(other) }) {
		return earlier
	}
	return &lostFiles[i]
}

func (f *lostFile) fits(name string) bool {
	return regexp.MustCompile("^" + f.name + "$").MatchString(name)
}

// lostFilesStore returns a disk with a store that has files of all kinds: it has crashed or was closed, in its first session or not.
func lostFilesStore(t *testing.T, first, crash bool) *rig {
	r := newRig("store")
	r.opt.BallastBytes = 4 << 10
	r.opt.Tune = func(po *pebble.Options) { // a compaction would leave tables that nothing needs any more
		testkit.SmallTables(po)
		po.DisableAutomaticCompactions = true
	}
	r.hooks.IsFile = func(name string) bool { return name == ownFile }
	r.open(t)
	testkit.WriteFile(t, r.disk, "store/"+ownFile, []byte("of the owner"))
	must(t, SyncFolder(r.disk, "store"), "sync")
	r.add(t, "s", 0, 60, true)
	if !first {
		for i := range 6 { // that many tables make half of the next MANIFEST smaller than its first record
			r.flush(t)
			r.add(t, "s", 60+i, 90, true)
		}
		r.close(t)
		r.open(t)
		r.remove(t, "s", 10, 30, true)
		r.flush(t)
	}
	for i := range 8 {
		r.add(t, "t", i, i+3, true)
	}
	if crash {
		r.crashed(t)
	} else {
		r.close(t)
	}
	return r
}

// loseFile treats a file. One that is left over is made first.
func loseFile(t *testing.T, disk *testkit.Disk, path, treatment string) {
	t.Helper()
	if slices.Contains(leftOver, strings.TrimPrefix(path, "store/")) {
		testkit.WriteFile(t, disk, path, []byte("left over"))
	}
	whole := testkit.ReadFile(t, disk, path)
	switch treatment {
	case "emptied":
		whole = nil
	case "halved":
		whole = whole[:len(whole)/2]
	}
	must(t, disk.Remove(path), "remove")
	switch treatment {
	case "removed":
	case "folder":
		must(t, disk.MkdirAll(path, 0o755), "folder")
		testkit.WriteFile(t, disk, path+"/inside", []byte("x"))
	default:
		testkit.WriteFile(t, disk, path, whole)
	}
}

// openLost opens a store that has lost a file.
func (r *rig) openLost(t *testing.T, want byte, doubt bool) {
	t.Helper()
	before := folder(t, r.disk)
	err := r.tryOpen("store")
	if want == refused {
		r.isRefused(t, err)
		if after := folder(t, r.disk); after != before {
			t.Errorf("%s: the folder has %s, had %s", r.label, after, before)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", r.label, err)
		return
	}
	if r.db.id.doubt != doubt {
		t.Errorf("%s: a new incarnation: %v", r.label, !doubt)
	}
	if want == loses {
		r.acked = 0
		if r.recovered(t) == 0 {
			t.Errorf("%s: nothing was lost", r.label)
		}
	}
	r.check(t)
	r.add(t, "s", 200, 210, true)
	must(t, r.tryClose(), r.label)
	must(t, r.tryOpen("store"), r.label+", again")
	r.check(t)
	must(t, r.tryClose(), r.label)
}

// isRefused fails the test unless an open was refused as damage, and the error says what is wrong and what to do.
func (r *rig) isRefused(t *testing.T, err error) {
	t.Helper()
	var damage *CorruptionError
	switch {
	case err == nil:
		t.Errorf("%s: it opens", r.label)
		r.closeSoon(t)
	case !errors.Is(err, bigset.ErrCorrupt) || !errors.As(err, &damage) || !strings.HasPrefix(damage.Path, "store"):
		t.Errorf("%s: no damage of a file: %v", r.label, err)
	case !strings.Contains(err.Error(), "restore the folder from a copy"):
		t.Errorf("%s: it is not said what to do: %v", r.label, err)
	default:
		t.Logf("%s: %v", r.label, err)
	}
}

// TestClosedLogs closes a store that has several logs whose keys are in no table. Each of them is needed: lost, emptied or cut it is
// damage.
func TestClosedLogs(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	r.disk.FailWrites(".sst", 0, syscall.EIO) // flushes fail
	for i := range 30 {
		r.add(t, "s", i*50, i*50+50, true)
	}
	r.close(t)
	r.disk.Heal()
	note := strings.Fields(string(testkit.ReadFile(t, r.disk, "store/CLOSED")))
	logs := note[3 : len(note)-1]
	if len(logs) < 2 {
		t.Fatalf("the note of the close names the logs %q, want several", logs)
	}
	for _, log := range logs {
		for _, treatment := range treatments {
			q := r.on(log+" "+treatment, r.disk.CrashClone(100, 0))
			loseFile(t, q.disk, "store/"+log, treatment)
			q.openLost(t, refused, false)
		}
	}
	r.open(t)
	r.check(t)
	r.close(t)
}

// TestReopenCrashes cuts the power before every operation of an open after a clean close, of the first write after it, and of the
// next close. The open flushes the logs of the close into tables and deletes them: a store that has lost its logs in this way opens
// again, with everything that was written.
func TestReopenCrashes(t *testing.T) {
	t.Parallel()
	r := newRig("store")
	r.open(t)
	r.add(t, "s", 0, 40, true)
	r.close(t)
	note := strings.Fields(string(testkit.ReadFile(t, r.disk, "store/CLOSED")))
	log := "store/" + note[3]
	stop := r.disk.CrashEverywhere(0, 40, 100)
	r.open(t)
	for { // Pebble deletes files in the background; the next sync of the folder makes that last
		if _, err := r.disk.Stat(log); err != nil {
			break
		}
		runtime.Gosched()
	}
	r.add(t, "s", 40, 50, true)
	r.close(t)
	deleted := 0
	crashes := stop()
	for i, disk := range crashes {
		if _, err := disk.Stat(log); err != nil && slices.Equal(strings.Fields(string(testkit.ReadFile(t, disk, "store/CLOSED"))), note) {
			deleted++
		}
		q := r.on(fmt.Sprintf("crash %d", i), disk)
		q.acked = 1
		q.open(t)
		q.recovered(t)
		q.close(t)
	}
	t.Logf("%d crashes, %d of them without the log that the note of the close names", len(crashes), deleted)
	if deleted == 0 {
		t.Error("no crash came when the log of the last close was deleted: nothing was tested")
	}
}

// TestReadOnly: a store on a file system that can't be written is not opened, and the error names restore. Restore reads from there.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		r := lostFilesStore(t, false, crashed)
		r.disk.SetHook("read-only", func(op errorfs.Op) error {
			if testkit.IsWrite(op) && op.Kind != errorfs.OpFileClose && strings.HasPrefix(op.Path, "store") {
				return syscall.EROFS
			}
			return nil
		})
		before := folder(t, r.disk)
		err := r.tryOpen("store")
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "restore") {
			t.Errorf("crashed %v: open: %v", crashed, err)
		}
		if err == nil {
			must(t, r.tryClose(), "close")
		}
		must(t, r.restore("store", "elsewhere"), "restore")
		if after := folder(t, r.disk); after != before {
			t.Errorf("crashed %v: the folder has %s, had %s", crashed, after, before)
		}
		must(t, r.tryOpen("elsewhere"), "open what was restored")
		r.check(t)
		r.close(t)
	}
}
