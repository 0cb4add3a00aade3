package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/fold"
	"bigset/keyscheme"
)

const healSet = "s"

// loses takes keys of elements away without the store's knowledge, by a point delete over each: what it covers is in the store still. It
// returns the facts that another replica would send about them.
func (p *pair) loses(t *testing.T, names ...string) (f bigset.Facts) {
	t.Helper()
	keys, err := p.store.StoredKeys([]byte(healSet))
	must(t, err, "keys")
	dead := p.known(t, healSet).Dead.Clone()
	p.close(t)
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = p.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	f.Set = []byte(healSet)
	for dot, name := range keys {
		if slices.Contains(names, name) && !dead.Contains(dot) {
			must(t, db.Delete(keyscheme.NewPrefix(f.Set).AppendElement(nil, []byte(name), dot, keyscheme.OpAdd), pebble.Sync), "delete")
			f.Keys = append(f.Keys, fold.Element{Name: []byte(name), Dots: []clock.Dot{dot}})
		}
	}
	must(t, db.Close(), "close Pebble")
	slices.SortFunc(f.Keys, func(a, b fold.Element) int { return strings.Compare(string(a.Name), string(b.Name)) })
	if len(f.Keys) != len(names) {
		t.Fatalf("%d keys of %d lost", len(f.Keys), len(names))
	}
	p.open(t)
	return f
}

// swaps gives a dot's key to another element, without the store's knowledge, or to none.
func (p *pair) swaps(t *testing.T, from, to string, dot clock.Dot) {
	t.Helper()
	p.close(t)
	po := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	po.FS, po.Logger = p.disk, pebbleSilent{}
	db, err := pebble.Open("store", po)
	must(t, err, "open with Pebble")
	prefix := keyscheme.NewPrefix([]byte(healSet))
	must(t, db.Delete(prefix.AppendElement(nil, []byte(from), dot, keyscheme.OpAdd), pebble.Sync), "delete")
	if to != "" {
		must(t, db.Set(prefix.AppendElement(nil, []byte(to), dot, keyscheme.OpAdd), keyscheme.ResolvedValue, pebble.Sync), "set")
	}
	must(t, db.Close(), "close Pebble")
	p.open(t)
}

// TestHealSplitsDeadRuns: a key that is put back into what readers remember as a run of dead keys is shown.
func TestHealSplitsDeadRuns(t *testing.T) {
	p := newPair("dead runs")
	p.opt.Strategy = compaction.None()
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 600), bigset.Sync)
	p.all(t, healSet, keyscheme.OpRemove, append(elementNames(1, 300), elementNames(301, 599)...), bigset.Sync)
	lost := p.loses(t, bulkName(300))
	for range 3 {
		if all := p.read(t, healSet, bigset.ReadOptions{}); len(all) != 2 {
			t.Fatalf("%d elements are shown", len(all))
		}
	}
	if runs, _ := p.store.DeadRuns(lost.Set); len(runs) != 1 {
		t.Fatalf("runs %v: the lost key is in none", runs)
	}
	res, err := p.store.Replica().Heal(bg, lost, nil)
	if must(t, err, "heal"); res.Healed != 1 {
		t.Fatalf("%+v", res)
	}
	if all := p.read(t, healSet, bigset.ReadOptions{}); len(all) != 3 {
		t.Errorf("%d elements are shown", len(all))
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// calling is a context that calls something when it is asked, for the n-th time, whether it has ended.
type calling struct {
	context.Context
	n    *int
	call func()
}

func (c calling) Err() error {
	if *c.n--; *c.n == 0 {
		c.call()
	}
	return c.Context.Err()
}

// TestDropRangeDuringHeal drops the range of a set that is being healed, before a span is copied and while it is: nothing of the set is
// left, or comes back, and what is copied again is whole.
func TestDropRangeDuringHeal(t *testing.T) {
	slot := keyscheme.SetSlot([]byte(healSet))
	for when := range 5 {
		p := newPair("dropped while it is healed")
		p.opt.Strategy = compaction.None()
		p.open(t)
		p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
		p.all(t, healSet, keyscheme.OpRemove, elementNames(10, 20), bigset.Sync)
		lost := p.loses(t, append(elementNames(40, 45), bulkName(90))...)
		dropped := make(chan error, 1)
		drop := func() { dropped <- p.store.Replica().DropRange(bg, slot, slot) }
		ctx, left := context.Context(bg), 0
		if when < 3 { // asked for each use of a set, and before each span
			left = when + 1
			ctx = calling{bg, &left, drop}
		} else {
			files := when - 2
			p.disk.SetHook("drop", func(op errorfs.Op) error {
				if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") {
					if files--; files == 0 {
						go drop()
					}
				}
				return nil
			})
		}
		res, err := p.store.Replica().Heal(ctx, lost, nil)
		must(t, err, "heal")
		p.disk.SetHook("drop", nil)
		if when == 2 && left > 0 || when == 4 && len(dropped) == 0 && res.NotSeen == 0 { // there was one span
			go drop()
		}
		must(t, <-dropped, "drop range")
		if n := res.Healed + res.NotSeen; n != 6 || when < 2 && res.NotSeen != 6 {
			t.Errorf("%d: %+v", when, res)
		}
		delete(p.model.Sets, healSet)
		if rep, err := p.store.Verify(bg, engine.VerifyOptions{}); err != nil || !rep.OK() || rep.Keys != 0 || rep.Sets != 0 {
			t.Errorf("%d: %+v, %v", when, rep, err)
		}
		p.model.Acknowledged()
		facts := bigset.Facts{Set: lost.Set, Keys: []fold.Element{lost.Keys[0]}}
		p.facts(t, facts, bigset.Sync)
		p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
		p.check(t)
		p.verify(t)
		p.close(t)
	}
}
