// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// Pebble takes an error of reading a table that it is about to cut for the end of that table. These tests have sets side by
// side in the same tables, swap spans of one and cut another out, and look at what lies after it.

var exciseSets = []string{"s", "t", "u", "v", "w"}

// exciseStore fills the sets of an open store and has them settle in tables of the bottommost level.
func (p *pair) exciseStore(t *testing.T) {
	t.Helper()
	for i, set := range exciseSets {
		p.all(t, set, keyscheme.OpAdd, elementNames(0, 20+20*i), bigset.Sync)
	}
	p.flush(t)
	must(t, p.store.CompactTables(bg), "settle")
}

// killForExcise makes something to take away for cutSome.
func (p *pair) killForExcise(t *testing.T) {
	t.Helper()
	p.all(t, "v", keyscheme.OpRemove, elementNames(20, 70), bigset.NoSync)
	p.drop(t, "u", nil, bigset.NoSync)
	p.flush(t)
}

// TestExciseOverDamage changes a byte here and there of the tables before they are cut. Whatever becomes of the cut, a read of a
// set gives the right answer or an error.
func TestExciseOverDamage(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt = exciseOptions()
	p.open(t)
	p.exciseStore(t)
	p.killForExcise(t)
	p.close(t)
	refused, done := 0, 0
	share, stride := tier.ShareOf(t, 4, 6), 47
	if *tier.Long {
		share, stride = tier.Share{Every: 1}, 1
	}
	for _, file := range tablesOn(t, p.disk) {
		file = p.disk.PathJoin("store", file)
		whole := testkit.ReadFile(t, p.disk, file)
		for at := 17 + share.First*stride; at < len(whole); at += share.Every * stride {
			q := &pair{label: fmt.Sprintf("%s at %d", file, at), disk: p.disk.CrashClone(0, 0), opt: p.opt, model: p.model.Clone()}
			data := slices.Clone(whole)
			data[at] ^= 0x10
			testkit.WriteFile(t, q.disk, file, data)
			q.opt.FS = q.disk
			s, err := engine.Open("store", &q.opt)
			if err != nil {
				if !errors.Is(err, bigset.ErrCorrupt) {
					t.Errorf("%s: open: %v", q.label, err)
				}
				continue
			}
			_, err = s.Drop(bg, []byte("u"), bigset.DropOptions{Durability: bigset.NoSync}) // once more, so that it is excised
			if excised := errors.Join(err, exciseSome(s)); excised == nil {
				done++
			} else if refused++; !errors.Is(excised, bigset.ErrCorrupt) {
				t.Errorf("%s: %v", q.label, excised)
			}
			for _, set := range exciseSets {
				got, err := readAll(s, set, bigset.ReadOptions{})
				if want := len(p.model.Set(set).Elements()); err == nil && len(got) != want {
					t.Errorf("%s: set %q has %d elements, want %d or an error", q.label, set, len(got), want)
				} else if err != nil && !errors.Is(err, bigset.ErrCorrupt) {
					t.Errorf("%s: read %q: %v", q.label, set, err)
				}
			}
			_ = s.Close()
		}
	}
	tier.Count(t, "cuts-over-damage", refused+done)
	t.Logf("%d cuts refused, %d done", refused, done)
	if refused < 10 || done == 0 {
		t.Errorf("%d cuts refused, %d done", refused, done)
	}
}

// TestExciseReadFails fails the reads of the tables that are cut, in the very moment: the process ends, and nothing is lost.
func TestExciseReadFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	p := newPair("afterwards")
	p.opt = exciseOptions()
	var err error
	p.store, err = engine.Open(dir, &p.opt)
	must(t, err, "open")
	p.exciseStore(t)
	p.killForExcise(t)
	p.close(t)
	out := child(t, "excise", dir)
	if !strings.Contains(out, "can't be read where it is to be cut") || strings.Contains(out, "went on") || strings.Contains(out, "timed out") {
		t.Errorf("the process did not end, or otherwise:\n%.2000s", out)
	}
	p.store, err = engine.Open(dir, &p.opt)
	must(t, err, "open")
	p.check(t)
	p.verify(t)
	must(t, exciseSome(p.store), "excise")
	p.check(t)
	p.verify(t)
	p.close(t)
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
