package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// Pebble takes an error of reading a table that it is about to cut for the end of that table. These tests have sets side by
// side in the same tables, swap spans of one and cut another out, and look at what lies behind.

var cutSets = []string{"s", "t", "u", "v", "w"}

// cutOptions are those of a store whose blocks are read from the disk again and again, and hold one key each: what lies on
// both sides of a cut is not in one block.
func cutOptions() engine.Options {
	p := newPair("")
	p.opt.Tune(func(po *pebble.Options) {
		engine.SmallTables(po)
		for i := range po.Levels {
			po.Levels[i].BlockSize = 1
		}
	})
	p.opt.Strategy, p.opt.SpanBytes, p.opt.BlockCacheBytes = eager(compaction.Default()), 2<<10, 1
	return p.opt
}

// cutStore fills the sets of an open store and has them settle in tables of the bottommost level.
func (p *pair) cutStore(t *testing.T) {
	t.Helper()
	for i, set := range cutSets {
		p.all(t, set, keyscheme.OpAdd, elementNames(0, 10+10*i), engine.Sync)
	}
	p.flush(t)
	must(t, p.store.CompactTables(bg), "settle")
}

// cutSome swaps spans of one set, and cuts one out.
func cutSome(s *engine.Store) (err error) {
	for from, spans := []byte(nil), 0; err == nil && (spans == 0 || from != nil); spans++ {
		var pass engine.Pass
		pass, err = s.RewriteSpan(bg, []byte("v"), from, 1)
		from = pass.Next
	}
	return errors.Join(err, s.RunnerTick(bg))
}

// killForCut makes something to take away for cutSome.
func (p *pair) killForCut(t *testing.T) {
	t.Helper()
	p.all(t, "v", keyscheme.OpRemove, elementNames(10, 35), engine.NoSync)
	p.drop(t, "u", nil, engine.NoSync)
	p.flush(t)
}

// TestCutOverDamage changes a byte here and there of the tables before they are cut. Whatever becomes of the cut, a read of a
// set gives the right answer or an error.
func TestCutOverDamage(t *testing.T) {
	p := newPair("store")
	p.opt = cutOptions()
	p.open(t)
	p.cutStore(t)
	p.killForCut(t)
	p.close(t)
	refused, done := 0, 0
	for _, file := range tablesOn(t, p.disk) {
		file = p.disk.PathJoin("store", file)
		whole := bytesOf(t, p.disk, file)
		for at := 17; at < len(whole); at += 23 * 4 / times(4) {
			q := &pair{label: fmt.Sprintf("%s at %d", file, at), disk: p.disk.CrashClone(0, 0), opt: p.opt, model: p.model.Clone()}
			data := slices.Clone(whole)
			data[at] ^= 0x10
			putBytes(t, q.disk, file, data)
			q.opt.FS = q.disk
			s, err := engine.Open("store", &q.opt)
			if err != nil {
				if !errors.Is(err, engine.ErrCorrupt) {
					t.Errorf("%s: open: %v", q.label, err)
				}
				continue
			}
			_, err = s.Drop(bg, []byte("u"), nil, engine.NoSync) // once more, so that it is cut out
			if cut := errors.Join(err, cutSome(s)); cut == nil {
				done++
			} else if refused++; !errors.Is(cut, engine.ErrCorrupt) {
				t.Errorf("%s: %v", q.label, cut)
			}
			for _, set := range cutSets {
				got, err := readAll(s, set, engine.ReadOptions{})
				if want := len(p.model.Set(set).Elements()); err == nil && len(got) != want {
					t.Errorf("%s: set %q has %d elements, want %d or an error", q.label, set, len(got), want)
				} else if err != nil && !errors.Is(err, engine.ErrCorrupt) {
					t.Errorf("%s: read %q: %v", q.label, set, err)
				}
			}
			_ = s.Close()
		}
	}
	t.Logf("%d cuts refused, %d done", refused, done)
	if refused < 10 || done == 0 {
		t.Errorf("%d cuts refused, %d done", refused, done)
	}
}

// TestCutReadFails fails the reads of the tables that are cut, in the very moment: the process ends, and nothing is lost.
func TestCutReadFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	p := newPair("afterwards")
	p.opt = cutOptions()
	var err error
	p.store, err = engine.Open(dir, &p.opt)
	must(t, err, "open")
	p.cutStore(t)
	p.killForCut(t)
	p.close(t)
	out := child(t, "cut", dir)
	if !strings.Contains(out, "can't be read where it is to be cut") || strings.Contains(out, "went on") || strings.Contains(out, "timed out") {
		t.Errorf("the process did not end, or otherwise:\n%.2000s", out)
	}
	p.store, err = engine.Open(dir, &p.opt)
	must(t, err, "open")
	p.check(t)
	p.verify(t)
	must(t, cutSome(p.store), "cut")
	p.check(t)
	p.verify(t)
	p.close(t)
}

// childCuts cuts tables of a store while they can't be read.
func childCuts(t *testing.T, dir string) {
	opt := cutOptions()
	opt.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && withinCut() {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	}))
	s, err := engine.Open(dir, &opt)
	must(t, err, "open")
	fmt.Println("went on:", cutSome(s))
}
