package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// openedAt returns a pair for a store in another folder, which is opened, with the model of the one that it was copied from.
func (p *pair) openedAt(t *testing.T, label, dir string, disk *testkit.Disk) *pair {
	t.Helper()
	q := &pair{label: label, disk: disk, opt: p.opt, model: p.model.Clone()}
	q.opt.FS, q.opt.MustExist = disk, true
	var err error
	q.store, err = engine.Open(dir, &q.opt)
	must(t, err, "open "+label)
	return q
}

// TestCheckpointIncarnation: whatever state a store is in, its checkpoints, opened in place, copied with all attributes, or
// restored, never go on under its actor, nor under each other's.
func TestCheckpointIncarnation(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cp"); err != nil {
		t.Skip("no cp")
	}
	quiet := &engine.Options{Logger: silent}
	for _, state := range []string{"fresh", "written", "clean", "clean and read", "crashed", "crashed and written"} {
		t.Run(state, func(t *testing.T) {
			top := t.TempDir()
			at := func(name string) string { return filepath.Join(top, name) }
			minted := map[clock.Dot]string{}
			add := func(s *engine.Store, element string) {
				t.Helper()
				r, err := s.Add(bg, []byte("s"), [][]byte{[]byte(element)}, bigset.WriteOptions{Policy: bigset.PolicyEmpty})
				must(t, err, "add")
				if was, ok := minted[r.Dots[0]]; ok {
					t.Errorf("dot %v issued for %q and for %q", r.Dots[0], was, element)
				}
				minted[r.Dots[0]] = element
			}
			s, err := engine.Open(at("store"), quiet)
			must(t, err, "open")
			if state != "fresh" {
				add(s, "before")
			}
			if strings.HasPrefix(state, "clean") {
				must(t, s.Close(), "close")
				s, err = engine.Open(at("store"), quiet)
				must(t, err, "reopen")
				if state == "clean and read" {
					_, err := s.Look(bg, []byte("s"), []byte("before"))
					must(t, err, "contains")
				}
			}
			if strings.HasPrefix(state, "crashed") {
				// A copy of an open folder is what a killed process leaves.
				if out, err := exec.Command("cp", "-a", at("store"), at("left")).CombinedOutput(); err != nil {
					t.Fatalf("cp: %v %s", err, out)
				}
				must(t, s.Close(), "close")
				s, err = engine.Open(at("left"), quiet)
				must(t, err, "reopen")
				if state == "crashed and written" {
					add(s, "again")
				}
			}
			must(t, s.Checkpoint(bg, at("one")), "checkpoint")
			must(t, s.Checkpoint(bg, at("two")), "checkpoint")
			add(s, "after")
			for _, from := range []string{"one", "two"} {
				copied, restored := at(from+"-copied"), at(from+"-restored")
				if out, err := exec.Command("cp", "-a", at(from), copied).CombinedOutput(); err != nil {
					t.Fatalf("cp: %v %s", err, out)
				}
				_, err := engine.Restore(bg, at(from), restored, nil)
				must(t, err, "restore")
				for _, dir := range []string{at(from), copied, restored} {
					for range 2 { // looked at without a write, it is still in doubt
						c, err := engine.Open(dir, quiet)
						must(t, err, "open "+dir)
						if !c.InDoubt() || c.Replica().Actor() == s.Replica().Actor() {
							t.Errorf("%s goes on as %x, the store is %x", dir, string(c.Replica().Actor()), string(s.Replica().Actor()))
						}
						must(t, c.Close(), "close")
					}
					c, err := engine.Open(dir, quiet)
					must(t, err, "open "+dir)
					add(c, "in "+dir)
					must(t, c.Close(), "close")
				}
			}
			must(t, s.Close(), "close")
		})
	}
}

// TestCheckpointWithoutPlaces is the same where the file system has no inodes by which a copied identity file shows: a checkpoint
// has none.
func TestCheckpointWithoutPlaces(t *testing.T) {
	p := newPair("store")
	for i, dir := range []string{"of a fresh store", "of one that was closed in order"} {
		p.open(t)
		if p.store.InDoubt() {
			t.Fatal("the store is in doubt itself: nothing is tested")
		}
		must(t, p.store.Checkpoint(bg, dir), "checkpoint "+dir)
		q := p.openedAt(t, dir, dir, p.disk)
		if !q.store.InDoubt() {
			t.Errorf("a checkpoint %s has kept its incarnation", dir)
		}
		q.close(t)
		p.all(t, "s", keyscheme.OpAdd, elementNames(10*i, 10*i+10), bigset.Sync)
		p.close(t)
	}
}

// TestCheckpointCrash cuts the power before every operation of a checkpoint, and of a restore from it: the folder holds the
// whole store or is refused, the next try takes it, and the store itself is not disturbed.
func TestCheckpointCrash(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
	p.flush(t)
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 50), bigset.Sync)
	synced := p.model.AcknowledgedCount()
	p.all(t, "t", keyscheme.OpAdd, elementNames(0, 10), bigset.NoSync)
	p.model.Acknowledged() // a checkpoint has that, too
	some := []int{0, 50 + 50*tier.ShareOf(t, 2, 2).First}
	percents := tier.Pick(some, some, []int{0, 50, 100})

	took := p.disk.CrashEverywhere(percents...)
	must(t, p.store.Checkpoint(bg, "a/checkpoint"), "checkpoint")
	checkpoint := func(disk *testkit.Disk, dir string) error {
		src := p.openedAt(t, "store", "store", disk)
		defer src.close(t)
		src.verify(t)
		return src.store.Checkpoint(bg, dir)
	}
	p.afterCrashes(t, took(), "a/checkpoint", synced, checkpoint)

	took = p.disk.CrashEverywhere(percents...)
	_, err := engine.Restore(bg, "a/checkpoint", "b/restored", &engine.RestoreOptions{FS: p.disk})
	must(t, err, "restore")
	p.afterCrashes(t, took(), "b/restored", p.model.AcknowledgedCount(), func(disk *testkit.Disk, dir string) error {
		_, err := engine.Restore(bg, "a/checkpoint", dir, &engine.RestoreOptions{FS: disk})
		return err
	})
	p.close(t)
}

// afterCrashes looks at what crashes have left of a copy of the store in dir, and has it made again where it is not whole:
// of a store in which that many batches must have survived.
func (p *pair) afterCrashes(t *testing.T, crashes []*testkit.Disk, dir string, synced int, again func(*testkit.Disk, string) error) {
	t.Helper()
	var none, unfinished, whole int
	for i, disk := range crashes {
		label, least := fmt.Sprintf("%s, crash %d", dir, i), synced
		s, err := engine.Open(dir, &engine.Options{FS: disk, Logger: silent, MustExist: true, BackgroundInterval: -1})
		switch {
		case err == nil:
			whole++
			least = p.model.AcknowledgedCount()
			must(t, s.Close(), "close")
		case errors.Is(err, engine.ErrNoStore):
			none++
			must(t, again(disk, dir), label+": again")
		case errors.Is(err, engine.ErrUnfinished):
			unfinished++
			if _, err := engine.Open(dir, &engine.Options{FS: disk, Logger: silent}); !errors.Is(err, engine.ErrUnfinished) {
				t.Fatalf("%s: it could be made a new store: %v", label, err)
			}
			must(t, again(disk, dir), label+": again")
		default:
			t.Fatalf("%s: %v", label, err)
		}
		q := p.openedAt(t, label, dir, disk)
		if !q.store.InDoubt() {
			t.Errorf("%s: it has kept its incarnation", label)
		}
		q.model.AcknowledgedOnly(least)
		q.recovered(t)
		q.check(t)
		q.verify(t)
		q.all(t, "s", keyscheme.OpAdd, []string{"afterwards"}, bigset.Sync)
		q.close(t)
	}
	t.Logf("%s: %d crashes left nothing, %d an unfinished copy, %d a whole store", dir, none, unfinished, whole)
	if none == 0 || unfinished == 0 || whole == 0 {
		t.Errorf("%s: not all outcomes were seen: nothing %d, unfinished %d, whole %d", dir, none, unfinished, whole)
	}
}

// TestCheckpointFails fails the operations of a checkpoint and of a restore one after the other: there is an error, the
// store goes on unless it was the log, and the folder is taken by the next try.
func TestCheckpointFails(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	p.flush(t)
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 50), bigset.Sync)
	in := func(dir string) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool { return strings.HasPrefix(op.Path, dir) }
	}
	restore := func(dir string) error {
		_, err := engine.Restore(bg, "checkpoint", dir, &engine.RestoreOptions{FS: p.disk})
		return err
	}
	for _, c := range []struct {
		dir string
		do  func(dir string) error
	}{{"checkpoint", func(dir string) error { return p.store.Checkpoint(bg, dir) }}, {"restored", restore}} {
		failures := 0
		for n := int64(0); ; n++ {
			hook, fired := testkit.Failing(n, true, syscall.EIO, in(c.dir))
			p.disk.SetHook("fail", hook)
			err := c.do(c.dir)
			p.disk.SetHook("fail", nil)
			if !fired.Load() {
				must(t, err, c.dir)
				break
			}
			if failures++; err != nil {
				if e := engine.CheckFolder(p.disk, c.dir); e == nil { // the store was whole already
					must(t, p.disk.RemoveAll(c.dir), "remove")
				}
			} else {
				q := p.openedAt(t, fmt.Sprintf("%s, failure %d", c.dir, n), c.dir, p.disk)
				q.check(t)
				q.close(t)
				must(t, p.disk.RemoveAll(c.dir), "remove")
			}
			p.all(t, "s", keyscheme.OpAdd, []string{fmt.Sprint("goes on ", n)}, bigset.Sync)
		}
		t.Logf("%s: %d failures", c.dir, failures)
		if failures < 20 {
			t.Errorf("%s: only %d operations failed", c.dir, failures)
		}
		q := p.openedAt(t, c.dir, c.dir, p.disk)
		q.verify(t)
		q.close(t)
	}
	p.verify(t)
	p.close(t)
}

// TestCheckpointRefused: folders that must not be written to are left as they are.
func TestCheckpointRefused(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
	must(t, p.disk.MkdirAll("mine", 0o755), "folder")
	f, err := p.disk.Create("mine/letter", vfs.WriteCategoryUnspecified)
	must(t, err, "create")
	must(t, f.Close(), "close")
	must(t, p.disk.MkdirAll("empty", 0o755), "folder")
	must(t, p.store.Checkpoint(bg, "empty"), "checkpoint in an empty folder")
	for _, dir := range []string{"mine", "empty", "store"} {
		if err := p.store.Checkpoint(bg, dir); !errors.Is(err, engine.ErrNotEmpty) {
			t.Errorf("checkpoint in %s: %v", dir, err)
		}
	}
	o := &engine.RestoreOptions{FS: p.disk}
	done, cancel := context.WithCancel(bg)
	cancel()
	if err := p.store.Checkpoint(done, "late"); !errors.Is(err, context.Canceled) {
		t.Errorf("checkpoint of a caller who is gone: %v", err)
	}
	for _, c := range []struct {
		what, src, dest string
		ctx             context.Context
		want            error
	}{
		{"of a store that is open", "store", "new", bg, engine.ErrLocked},
		{"of no store", "mine", "new", bg, engine.ErrNoStore},
		{"of nothing", "nowhere", "new", bg, engine.ErrNoStore},
		{"over a store", "empty", "store", bg, engine.ErrNotEmpty},
		{"over itself", "empty", "empty", bg, engine.ErrNotEmpty},
		{"over a letter", "empty", "mine", bg, engine.ErrNotEmpty},
		{"interrupted", "empty", "new", done, context.Canceled},
	} {
		if _, err := engine.Restore(c.ctx, c.src, c.dest, o); !errors.Is(err, c.want) {
			t.Errorf("restore %s: %v, want %v", c.what, err, c.want)
		}
	}
	if names, _ := p.disk.List("mine"); len(names) != 1 {
		t.Errorf("the folder with a letter has %q", names)
	}
	if names, _ := p.disk.List("new"); len(names) > 1 { // the lock
		t.Errorf("what was interrupted has left %q", names)
	}
	p.close(t)
	var last engine.RestoreReport
	o.Progress = func(r engine.RestoreReport) { last = r }
	rep, err := engine.Restore(bg, "store", "new", o)
	must(t, err, "restore of a store that is closed")
	if rep != last || rep.Files == 0 || rep.FilesDone != rep.Files || rep.BytesDone != rep.Bytes || rep.Bytes == 0 {
		t.Errorf("report %+v, last progress %+v", rep, last)
	}
	q := p.openedAt(t, "restored", "new", p.disk)
	if !q.store.InDoubt() {
		t.Error("a store restored from one that was closed in order has kept its incarnation")
	}
	q.check(t)
	q.close(t)
	f, err = p.disk.Create("empty/BIGSET", vfs.WriteCategoryUnspecified)
	must(t, err, "create")
	_, err = io.WriteString(f, "bigset store\nformat 99\nrecord merge\n")
	must(t, errors.Join(err, f.Close()), "write")
	if _, err := engine.Restore(bg, "empty", "newer", o); !errors.Is(err, engine.ErrFormat) {
		t.Errorf("restore of a newer format: %v", err)
	}
	must(t, p.disk.Remove("store/"+manifest(t, p.disk, "store")), "remove")
	if _, err := engine.Restore(bg, "store", "newer", o); !errors.Is(err, bigset.ErrCorrupt) {
		t.Errorf("restore without a MANIFEST: %v", err)
	}
}

// manifest returns the name of the marker that names the MANIFEST.
func manifest(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err, "list")
	for _, name := range names {
		if strings.HasPrefix(name, "marker.manifest.") {
			return name
		}
	}
	t.Fatal("no marker")
	return ""
}

// TestCheckpointTornLog writes to the log while it is copied, so that the copy has, after bytes of the log whose file is
// used again, bytes of the new one. Such a copy would be taken for damaged.
func TestCheckpointTornLog(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	for i := 0; i < 12 || i < 200 && !p.reusesLog(t); i++ { // Pebble keeps old logs for that in a goroutine of its own
		p.all(t, "s", keyscheme.OpAdd, elementNames(1000*i, 1000*i+200), bigset.Sync)
		p.flush(t)
	}
	reads, torn := 0, false
	p.disk.SetHook("tear", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileRead && strings.HasPrefix(op.Path, "store/") && strings.HasSuffix(op.Path, ".log") && !torn {
			if reads++; reads == 2 { // the first block is copied as it was, the others will be new
				torn = true
				for i := range 300 {
					p.all(t, "s", keyscheme.OpAdd, elementNames(50_000+10*i, 50_000+10*i+1), bigset.Sync)
				}
			}
		}
		return nil
	})
	must(t, p.store.Checkpoint(bg, "checkpoint"), "checkpoint")
	p.disk.SetHook("tear", nil)
	if !torn {
		t.Fatal("nothing was written while the log was copied: nothing was tested")
	}
	q := p.openedAt(t, "checkpoint", "checkpoint", p.disk)
	q.check(t)
	q.verify(t)
	q.close(t)
	p.close(t)
}

// reusesLog reports whether the log that was just begun is in the file of an older one, and so is long before it is written.
func (p *pair) reusesLog(t *testing.T) bool {
	t.Helper()
	names, err := p.disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	newest := int64(0)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			info, err := p.disk.Stat("store/" + name)
			must(t, err, "stat")
			newest = info.Size()
		}
	}
	return newest > 0
}

// TestCheckpointLogRefusedByOpen damages the first copy of the log where Pebble's own reader sees no damage: it takes a bad record
// for the end of the log if the proof that the record was on disk lies in the same block. An open reads more closely, so the
// checkpoint has to be made again.
func TestCheckpointLogRefusedByOpen(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	for i := range 20 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(10*i, 10*i+3), bigset.Sync)
	}
	copies, damaged := map[string]bool{}, false
	p.disk.SetHook("damage", func(op errorfs.Op) error {
		if !strings.HasPrefix(op.Path, "checkpoint/") || !strings.HasSuffix(op.Path, ".log") || damaged {
			return nil
		}
		switch op.Kind {
		case errorfs.OpCreate:
			copies[op.Path] = true
		case errorfs.OpOpen: // the copy is whole, and about to be read
			if copies[op.Path] {
				damaged = true
				data := testkit.ReadFile(t, p.disk, op.Path)
				data[len(data)/2] ^= 1
				testkit.WriteFile(t, p.disk, op.Path, data)
			}
		}
		return nil
	})
	must(t, p.store.Checkpoint(bg, "checkpoint"), "checkpoint")
	p.disk.SetHook("damage", nil)
	if !damaged {
		t.Fatal("no copy of the log was damaged: nothing was tested")
	}
	q := p.openedAt(t, "checkpoint", "checkpoint", p.disk)
	q.check(t)
	q.verify(t)
	q.close(t)
	p.close(t)
}

// TestCheckpointUnderWriters takes checkpoints one after the other while eight goroutines write several sets, synced and
// not, with the drop filter and the rewriter running beside them. Each has everything that was acknowledged before it began,
// nothing that began after it ended, and whole operations only.
func TestCheckpointUnderWriters(t *testing.T) {
	t.Parallel()
	r := tier.Random(t)
	for round := range tier.Times(6) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { checkpointUnderWriters(t, r) })
	}
}

func checkpointUnderWriters(t *testing.T, r *rand.Rand) {
	sets := []string{"s", "t"}
	p := newPair("store")
	busy(p)
	p.open(t)
	h := &testkit.History{}
	stop := underWriters(t, p, r, h, sets)
	const checkpoints = 8
	var from, to [checkpoints]int
	for i := range checkpoints {
		for began := h.Now(); h.Now() < began+200 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		from[i] = h.Now()
		must(t, p.store.Checkpoint(bg, fmt.Sprint("checkpoint-", i)), "checkpoint")
		to[i] = h.Now()
	}
	stop()
	st, err := p.store.Stats()
	must(t, err, "stats")
	t.Logf("%d operations, filtered %d, %d spans swapped, %d flushes", len(h.Operations("")), st.Filtered, st.Rewrites, st.Flushes)
	p.verify(t)
	first := p.store.Replica().Actor()
	must(t, p.store.Close(), "close")
	for _, op := range h.Operations("") {
		op.Durable = true // a checkpoint has also what was not synced
	}
	for i := range checkpoints {
		dir := fmt.Sprint("checkpoint-", i)
		q := p.openedAt(t, dir, dir, p.disk)
		if q.store.Replica().Actor() == first {
			t.Errorf("%s: actor %x again", dir, string(first))
		}
		left := map[string]*testkit.Set{}
		for _, set := range sets {
			left[set] = q.state(t, set)
		}
		if err := h.Survived(from[i], to[i], left); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		q.verify(t)
		must(t, q.store.Close(), "close")
	}
}
