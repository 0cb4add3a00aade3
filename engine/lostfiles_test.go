// Damage needs no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// What becomes of an open.
const (
	opens   = 'o' // with all that was written
	loses   = 'l' // with what a crash may leave: nothing on disk shows that there was more
	refused = 'R' // as damage, and nothing has changed
	absent  = '-' // there is no such file
)

// treatments are what happens to a file; the letters in lostFiles are about them, in this order.
var treatments = []string{"removed", "emptied", "halved", "folder"}

// lostFile is what is expected of one kind of file, after each treatment: in a store that was closed, in one that was closed before and
// has crashed since, and in one that has crashed before its first close.
type lostFile struct {
	what, name           string
	closed, crashed, new string
}

// lostFiles has all kinds of files in a store's folder. The first that fits a name counts; one that is not in use any more, for Pebble
// keeps some for a while, is of the kind "earlier".
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
	{"log of marks", `filters-\d+\.log`, "----", "lllR", "lllR"},
	{"earlier", `(MANIFEST-\d+|\d+\.log)`, "oooR", "oooR", "oooR"},
}

// leftOver are files that an open removes.
var leftOver = []string{"UNFINISHED", "999999.sst", "span-000001.tmp"}

// TestLostFiles removes, empties, cuts in half, and replaces by a folder, each file of three stores. The next open does what lostFiles
// says. What it opens is compared with what was written, in all sets and filters, verified, written to, and opened again.
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
			p := lostFilesStore(t, store.first, store.crash)
			names, err := p.disk.List("store")
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
					q := &pair{label: kind.what + " " + name + ", " + treatment, disk: p.disk.CrashClone(100, 0), opt: p.opt, model: p.model.Clone()}
					loseFile(t, q.disk, "store/"+name, treatment)
					q.openLost(t, store.want(*kind)[i], store.crash || name == "IDENTITY", kind.what == "log of marks")
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

// kindOfFile returns what the table has of a file among others.
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
func lostFilesStore(t *testing.T, first, crash bool) *pair {
	p := newPair("store")
	p.opt.BallastBytes = 4 << 10
	p.opt.Tune(func(po *pebble.Options) { // a compaction would leave tables that nothing needs any more
		testkit.SmallTables(po)
		po.DisableAutomaticCompactions = true
	})
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 60), bigset.Sync)
	_, err := p.store.Filters().Create(bg, []byte("filter"), bigset.FilterOptions{Durability: bigset.FilterSync})
	must(t, err, "filter")
	if !first {
		p.flush(t)
		p.all(t, "s", keyscheme.OpAdd, elementNames(60, 90), bigset.Sync)
		p.close(t)
		p.open(t)
		p.all(t, "s", keyscheme.OpRemove, elementNames(10, 30), bigset.Sync)
		p.flush(t)
	}
	for i := range 8 {
		p.all(t, "t", keyscheme.OpAdd, elementNames(i, i+3), bigset.Sync)
	}
	f, err := p.store.Filters().Get([]byte("filter"))
	must(t, err, "filter")
	must(t, f.MarkAll(bg, testkit.TaggedKeys("f", 0, 40), make([]bool, 40)), "mark")
	if !crash {
		p.close(t)
		return p
	}
	disk := p.disk.CrashClone(0, 0)
	p.close(t)
	p.disk = disk
	return p
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

// openLost opens a store that has lost a file. marks says that marks may be lost, and nothing else.
func (p *pair) openLost(t *testing.T, want byte, doubt, marks bool) {
	t.Helper()
	p.opt.FS = p.disk
	before := folder(t, p.disk)
	var err error
	if p.store, err = engine.Open("store", &p.opt); want == refused {
		p.isRefused(t, err)
		if after := folder(t, p.disk); after != before {
			t.Errorf("%s: the folder has %s, had %s", p.label, after, before)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", p.label, err)
		return
	}
	if p.store.InDoubt() != doubt {
		t.Errorf("%s: a new incarnation: %v", p.label, !doubt)
	}
	if want == loses {
		p.model.AcknowledgedOnly(0)
		if lost := p.recovered(t) > 0; lost == marks {
			t.Errorf("%s: batches were lost: %v", p.label, lost)
		}
	}
	p.check(t)
	p.verify(t)
	found := make([]bool, 40)
	f, err := p.store.Filters().Get([]byte("filter"))
	if want == loses && !marks && errors.Is(err, bigset.ErrNoFilter) {
		found = nil // it was made after what survived
	} else {
		must(t, err, p.label)
		must(t, f.CheckAll(testkit.TaggedKeys("f", 0, 40), found), p.label)
	}
	if lost := slices.Contains(found, false); lost != (marks && want == loses) {
		t.Errorf("%s: marks were lost: %v", p.label, lost)
	}
	p.writesRight(t, false)
	must(t, p.store.Close(), p.label)
	var again error
	p.store, again = engine.Open("store", &p.opt)
	must(t, again, p.label+", again")
	p.verify(t)
	must(t, p.store.Close(), p.label)
}

// folder lists the store's folder, with the sizes of its files.
func folder(t *testing.T, disk *testkit.Disk) (list string) {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	for _, name := range names {
		info, err := disk.Stat("store/" + name)
		must(t, err, "stat")
		list += fmt.Sprintf("%s:%d ", name, info.Size())
	}
	return list
}

// isRefused fails the test unless an open was refused as damage, and the error says what is wrong and what to do.
func (p *pair) isRefused(t *testing.T, err error) {
	t.Helper()
	var damage *engine.CorruptionError
	switch {
	case err == nil:
		t.Errorf("%s: it opens", p.label)
		closeWithin(t, p.store, p.label)
	case !errors.Is(err, bigset.ErrCorrupt) || !errors.As(err, &damage) || !strings.HasPrefix(damage.Path, "store"):
		t.Errorf("%s: no damage of a file: %v", p.label, err)
	case !strings.Contains(err.Error(), "restore the folder from a copy"):
		t.Errorf("%s: it is not said what to do: %v", p.label, err)
	default:
		t.Logf("%s: %v", p.label, err)
	}
}
