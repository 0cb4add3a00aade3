// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
)

const healSet = "s"

// loses takes keys of elements away behind the store's back, as a point delete over each: what it covers is in the store still. It
// returns the facts that another replica would tell of them.
func (p *pair) loses(t *testing.T, names ...string) (f engine.Facts) {
	t.Helper()
	keys, err := p.store.StoredKeys([]byte(healSet))
	must(t, err, "keys")
	dead := p.known(t, healSet).Dead.Clone()
	p.close(t)
	po := engine.BaselineOptions(1 << 20)
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

func (p *pair) heals(t *testing.T, f engine.Facts, want engine.HealResult) {
	t.Helper()
	got, err := p.store.Heal(bg, f)
	must(t, err, p.label+": heal")
	if got != want {
		t.Fatalf("%s: %+v, want %+v", p.label, got, want)
	}
}

// healable is a store of 300 elements of which the first 50 were removed, and 12 others are lost.
func healable(t *testing.T, record compaction.Record, strategy compaction.Strategy, settled bool) (p *pair, lost engine.Facts) {
	p = newPair(fmt.Sprintf("%v, %s, settled %v", record, strategy.Name(), settled))
	p.opt.Record, p.opt.Strategy = record, eager(strategy)
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 300), engine.Sync)
	if p.flush(t); settled {
		must(t, p.store.CompactTables(bg), "settle")
	}
	p.all(t, healSet, keyscheme.OpRemove, elementNames(0, 50), engine.Sync)
	return p, p.loses(t, append(elementNames(100, 110), bulkName(200), bulkName(299))...)
}

// TestHeal: what is lost comes back, nothing else changes, and compactions of all kinds go through over it afterwards, also when it
// is dead then.
func TestHeal(t *testing.T) {
	for _, settled := range []bool{false, true} {
		for _, c := range []struct {
			record   compaction.Record
			strategy compaction.Strategy
		}{
			{compaction.Merge, compaction.Default()}, {compaction.Merge, compaction.Filter()},
			{compaction.Set, compaction.Rewriter()}, {compaction.Set, compaction.PointDeletes()}, {compaction.Set, compaction.None()},
		} {
			p, lost := healable(t, c.record, c.strategy, settled)
			before := p.known(t, healSet)
			if rep, err := p.store.Verify(bg, engine.VerifyOptions{}); err != nil || rep.OK() {
				t.Errorf("%s: damage is not found: %v", p.label, err)
			}
			judged, err := p.store.Judge(bg, lost.Set, lost.Keys[0].Name, lost.Keys[0].Dots)
			if must(t, err, "judge"); judged.Verdicts[0] != engine.Lost {
				t.Errorf("%s: a lost dot is %v", p.label, judged.Verdicts[0])
			}
			if r, err := p.store.ApplyFacts(bg, lost, engine.Sync); err != nil || r != (engine.FactsResult{}) {
				t.Errorf("%s: facts changed %+v, %v", p.label, r, err)
			}
			all := lost
			dead := before.Dead.Clone()
			for run := range dead.Runs() {
				all.Keys = append(slices.Clone(all.Keys), element("gone", clock.Dot{Actor: run.Actor, Counter: run.First}))
				break
			}
			all.Keys = append(all.Keys, element("new", clock.Dot{Actor: "elsewhere", Counter: 7}))
			keys, err := p.store.StoredKeys([]byte(healSet))
			must(t, err, "keys")
			for dot, name := range keys {
				if name == bulkName(60) || name == bulkName(298) {
					all.Keys = append(all.Keys, element(name, dot))
				}
			}
			p.heals(t, all, engine.HealResult{Healed: 12, Present: 2, Dead: 1, NotSeen: 1})
			p.check(t)
			p.verify(t)
			if after := p.known(t, healSet); !after.Seen.Equal(before.Seen) || !after.Dead.Equal(before.Dead) {
				t.Errorf("%s: Seen or Dead has changed", p.label)
			}
			p.heals(t, lost, engine.HealResult{Present: 12})
			for _, part := range [][]string{elementNames(95, 105), {bulkName(200)}, elementNames(90, 300)} {
				p.all(t, healSet, keyscheme.OpRemove, part, engine.Sync)
				p.heals(t, engine.Facts{Set: lost.Set, Keys: lost.Keys}, engine.HealResult{Dead: deadOfFacts(p, t, lost), Present: 12 - deadOfFacts(p, t, lost)})
				publish(t, p)
				must(t, p.store.FlushTables(), "flush")
				must(t, p.store.CompactElements(bg, lost.Set), "compact elements")
				must(t, p.store.CompactTables(bg), "compact tables")
				_, err = p.store.Compact(bg, engine.CompactOptions{})
				must(t, err, "compact")
				p.check(t)
				p.verify(t)
			}
			p.close(t)
		}
	}
}

func deadOfFacts(p *pair, t *testing.T, f engine.Facts) (n int) {
	dead := p.known(t, healSet).Dead
	for i := range f.Keys {
		if dead.Contains(f.Keys[i].Dots[0]) {
			n++
		}
	}
	return n
}

// TestHealCrashes cuts the power before every operation of a Heal: each stretch is healed or not, nothing else is lost, and it can be
// done again. When it has returned it is durable.
func TestHealCrashes(t *testing.T) {
	for _, settled := range []bool{false, true} {
		p, lost := healable(t, compaction.Merge, compaction.Default(), settled)
		crashes := p.disk.CrashEverywhere(0, 50)
		p.heals(t, lost, engine.HealResult{Healed: 12})
		left, half := crashes(), 0
		for i, disk := range left {
			q := &pair{label: fmt.Sprintf("crash %d of %d", i, len(left)), disk: disk, opt: p.opt, model: p.model.Clone()}
			q.open(t)
			if n := q.recovered(t); n != 0 {
				t.Errorf("%s: %d batches lost", q.label, n)
			}
			res, err := q.store.Heal(bg, lost)
			if must(t, err, "heal again"); res.Healed+res.Present != 12 {
				t.Errorf("%s: %+v", q.label, res)
			}
			if res.Healed > 0 && res.Healed < 12 {
				half++
			}
			if i >= len(left)-2 && res.Healed > 0 {
				t.Errorf("%s: %d were healed and not durable", q.label, res.Healed)
			}
			q.check(t)
			q.verify(t)
			q.close(t)
		}
		if len(left) < 10 || half == 0 {
			t.Errorf("%d crashes, %d of them with a part healed", len(left), half)
		}
		p.close(t)
	}
}

// TestHealAmidWrites: what is written while a span is copied stays, and a lost dot that dies meanwhile is dead.
func TestHealAmidWrites(t *testing.T) {
	p, lost := healable(t, compaction.Merge, compaction.Default(), true)
	stop := p.whileCopied(func() {
		p.all(t, healSet, keyscheme.OpRemove, elementNames(111, 115), engine.NoSync)
		p.all(t, healSet, keyscheme.OpAdd, elementNames(113, 118), engine.NoSync)
		p.all(t, healSet, keyscheme.OpAdd, []string{bulkName(104) + "+"}, engine.NoSync)
		p.facts(t, engine.Facts{Set: lost.Set, Dead: clock.Of(lost.Keys[0].Dots...)}, engine.NoSync)
	})
	res, err := p.store.Heal(bg, lost)
	if must(t, err, "heal"); !stop() || res.Healed+res.Dead != 12 || res.Healed < 11 {
		t.Errorf("%+v", res)
	}
	p.check(t)
	p.verify(t)
	dead := engine.Facts{Set: lost.Set, Keys: lost.Keys, Dead: clock.Of(lost.Keys[1].Dots...)} // another replica knows a death
	p.model.ApplyFacts(engine.Facts{Set: lost.Set, Dead: dead.Dead})
	p.heals(t, dead, engine.HealResult{Dead: 2, Present: 10})
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestHealFarApart: what lies between lost keys is not read when it is much.
func TestHealFarApart(t *testing.T) {
	p := newPair("far apart")
	p.opt.SpanBytes = 1 << 20
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 4000), engine.Sync)
	lost := p.loses(t, bulkName(10), bulkName(900), bulkName(3990))
	before, err := p.store.Stats()
	must(t, err, "stats")
	p.heals(t, lost, engine.HealResult{Healed: 3})
	after, err := p.store.Stats()
	must(t, err, "stats")
	if n := after.RewriteKeys - before.RewriteKeys; n > 2000 || after.Rewrites-before.Rewrites != 2 {
		t.Errorf("%d keys read by %d passes", n, after.Rewrites-before.Rewrites)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestHealOverDamage: where blocks can't be read nothing is put in their place, and what is elsewhere is healed.
func TestHealOverDamage(t *testing.T) {
	p, lost := healable(t, compaction.Merge, compaction.None(), true)
	keys, err := p.store.StoredKeys(lost.Set)
	must(t, err, "keys")
	for dot, name := range keys {
		if name == bulkName(20) {
			lost.Keys = append(lost.Keys, element(name, dot))
		}
	}
	for dot, name := range keys {
		if name == bulkName(55) {
			lost.Keys = append(lost.Keys, element(name, dot))
		}
	}
	p.close(t)
	sst := p.spoil(t, bulkName(55))
	res, err := p.store.Heal(bg, lost)
	var damage *engine.CorruptionError
	if !errors.Is(err, engine.ErrCorrupt) || !errors.As(err, &damage) || damage.Path != sst {
		t.Errorf("%v", err)
	}
	if res != (engine.HealResult{Healed: 12, Dead: 1, Left: 1}) {
		t.Errorf("%+v", res)
	}
	p.close(t)
	must(t, p.store.Failed(), "it goes on")
}

// spoil changes one byte of a table, so that an element can't be read, opens the store, and returns the table.
func (p *pair) spoil(t *testing.T, name string) string {
	for _, table := range tablesOn(t, p.disk) {
		table = "store/" + table
		whole := bytesOf(t, p.disk, table)
		for i := 20; i < len(whole)*2/3; i += 60 {
			data := slices.Clone(whole)
			data[i] ^= 4
			putBytes(t, p.disk, table, data)
			store, err := engine.Open("store", &p.opt)
			if err != nil { // it was the store's own block
				continue
			}
			if p.store = store; p.unreadable(name) {
				return table
			}
			p.close(t)
		}
		putBytes(t, p.disk, table, whole)
	}
	t.Fatal("the element is in no table")
	return ""
}

func (p *pair) unreadable(name string) bool {
	_, err := p.store.Contains(bg, []byte(healSet), []byte(name))
	return errors.Is(err, engine.ErrCorrupt)
}

func TestHealRefuses(t *testing.T) {
	p := newPair("store")
	p.open(t)
	if _, err := p.store.Heal(bg, engine.Facts{Set: []byte("s"), Keys: []fold.Element{{Name: []byte("x")}}}); !errors.Is(err, engine.ErrFacts) {
		t.Errorf("no dot: %v", err)
	}
	p.heals(t, engine.Facts{Set: []byte("unknown"), Keys: []fold.Element{element("x", clock.Dot{Actor: "a", Counter: 1})}}, engine.HealResult{NotSeen: 1})
	if _, err := p.store.State(bg, []byte("unknown")); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the set is known: %v", err)
	}
	p.close(t)
	if _, err := p.store.Heal(bg, engine.Facts{Set: []byte("s")}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
