// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

func (p *pair) heals(t *testing.T, f bigset.Facts, want bigset.HealResult) {
	t.Helper()
	got, err := p.store.Replica().Heal(bg, f, nil)
	must(t, err, p.label+": heal")
	if got != want {
		t.Fatalf("%s: %+v, want %+v", p.label, got, want)
	}
}

// healable is a store of 300 elements; the first 50 were removed, and 12 others are lost.
func healable(t *testing.T, record compaction.Record, strategy compaction.Strategy, settled bool) (p *pair, lost bigset.Facts) {
	p = newPair(fmt.Sprintf("%v, %s, settled %v", record, strategy.Name(), settled))
	p.opt.Record, p.opt.Strategy = record, eager(strategy)
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	if p.flush(t); settled {
		must(t, p.store.CompactTables(bg), "settle")
	}
	p.all(t, healSet, keyscheme.OpRemove, elementNames(0, 50), bigset.Sync)
	return p, p.loses(t, append(elementNames(100, 110), bulkName(200), bulkName(299))...)
}

// TestHeal: what is lost comes back, nothing else changes, and compactions of all kinds go through over it afterwards, also when it
// is dead then.
func TestHeal(t *testing.T) {
	t.Parallel()
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
			found, err := p.store.Replica().DotStatus(bg, lost.Set, lost.Keys[0].Name, lost.Keys[0].Dots)
			if must(t, err, "status of a dot"); found.Statuses[0] != bigset.Lost {
				t.Errorf("%s: a lost dot is %v", p.label, found.Statuses[0])
			}
			if r, err := p.store.Replica().ApplyFacts(bg, lost, bigset.ApplyOptions{Durability: bigset.Sync}); err != nil || r != (bigset.FactsResult{}) {
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
			p.heals(t, all, bigset.HealResult{Healed: 12, Present: 2, Dead: 1, NotSeen: 1})
			p.check(t)
			p.verify(t)
			if after := p.known(t, healSet); !after.Seen.Equal(before.Seen) || !after.Dead.Equal(before.Dead) {
				t.Errorf("%s: Seen or Dead has changed", p.label)
			}
			p.heals(t, lost, bigset.HealResult{Present: 12})
			for _, part := range [][]string{elementNames(95, 105), {bulkName(200)}, elementNames(90, 300)} {
				p.all(t, healSet, keyscheme.OpRemove, part, bigset.Sync)
				p.heals(t, bigset.Facts{Set: lost.Set, Keys: lost.Keys}, bigset.HealResult{Dead: deadOfFacts(p, t, lost), Present: 12 - deadOfFacts(p, t, lost)})
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

func deadOfFacts(p *pair, t *testing.T, f bigset.Facts) (n int) {
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
	t.Parallel()
	for _, settled := range []bool{false, true} {
		p, lost := healable(t, compaction.Merge, compaction.Default(), settled)
		crashes := p.disk.CrashEverywhere(0, 50)
		p.heals(t, lost, bigset.HealResult{Healed: 12})
		left, half := crashes(), 0
		for i, disk := range left {
			q := &pair{label: fmt.Sprintf("crash %d of %d", i, len(left)), disk: disk, opt: p.opt, model: p.model.Clone()}
			q.open(t)
			if n := q.recovered(t); n != 0 {
				t.Errorf("%s: %d batches lost", q.label, n)
			}
			res, err := q.store.Replica().Heal(bg, lost, nil)
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

// TestHealAmidWrites: what is written while a span is copied stays, and a lost dot that dies during the copy is dead.
func TestHealAmidWrites(t *testing.T) {
	p, lost := healable(t, compaction.Merge, compaction.Default(), true)
	stop := p.whileCopied(func() {
		p.all(t, healSet, keyscheme.OpRemove, elementNames(111, 115), bigset.NoSync)
		p.all(t, healSet, keyscheme.OpAdd, elementNames(113, 118), bigset.NoSync)
		p.all(t, healSet, keyscheme.OpAdd, []string{bulkName(104) + "+"}, bigset.NoSync)
		p.facts(t, bigset.Facts{Set: lost.Set, Dead: clock.Of(lost.Keys[0].Dots...)}, bigset.NoSync)
	})
	res, err := p.store.Replica().Heal(bg, lost, nil)
	if must(t, err, "heal"); !stop() || res.Healed+res.Dead != 12 || res.Healed < 11 {
		t.Errorf("%+v", res)
	}
	p.check(t)
	p.verify(t)
	dead := bigset.Facts{Set: lost.Set, Keys: lost.Keys, Dead: clock.Of(lost.Keys[1].Dots...)} // another replica knows a death
	p.model.ApplyFacts(bigset.Facts{Set: lost.Set, Dead: dead.Dead})
	p.heals(t, dead, bigset.HealResult{Dead: 2, Present: 10})
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestHealFarApart: what lies between lost keys is not read when it is much.
func TestHealFarApart(t *testing.T) {
	p := newPair("far apart")
	p.opt.SpanBytes = 1 << 20
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 4000), bigset.Sync)
	lost := p.loses(t, bulkName(10), bulkName(900), bulkName(3990))
	before, err := p.store.Stats()
	must(t, err, "stats")
	p.heals(t, lost, bigset.HealResult{Healed: 3})
	after, err := p.store.Stats()
	must(t, err, "stats")
	if n := after.RewriteKeys - before.RewriteKeys; n > 2000 || after.Rewrites-before.Rewrites != 2 {
		t.Errorf("%d keys read by %d passes", n, after.Rewrites-before.Rewrites)
	}
	p.check(t)
	p.verify(t)
	p.close(t)
}

// TestHealOverDamage: where blocks can't be read the facts must name all that may be in there; else nothing is put in their place, and
// what is elsewhere is healed. Nor is it while much is written in there. The facts may name more than what is lost.
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
	res, err := p.store.Replica().Heal(bg, lost, nil)
	var damage *engine.CorruptionError
	if !errors.Is(err, bigset.ErrCorrupt) || !errors.As(err, &damage) || damage.Path != sst {
		t.Errorf("%v", err)
	}
	if res != (bigset.HealResult{Healed: 12, Dead: 1, Left: 1}) {
		t.Errorf("%+v", res)
	}
	must(t, p.store.Failed(), "it goes on")
	all, dots := p.holed(t)
	part := all
	part.Keys = all.Keys[1:]
	if res, err := p.store.Replica().Heal(bg, part, nil); !errors.Is(err, bigset.ErrCorrupt) || res.Healed > 0 || res.Left == 0 || res.Left+res.Present != len(part.Keys) {
		t.Errorf("a key was left out: %+v, %v", res, err)
	}
	if again, err := p.store.Replica().Lost(bg, lost.Set); err != nil || !again.Equal(dots) {
		t.Errorf("lost %v, then %v, %v", dots, again, err)
	}
	var late []fold.Element
	for i := range engine.LateKeysMax + 1 {
		late = append(late, element(fmt.Sprintf("%s+%d", bulkName(55), i), clock.Dot{Actor: "x", Counter: uint64(i + 1)}))
	}
	stop := p.whileCopied(func() { p.facts(t, bigset.Facts{Set: lost.Set, Keys: late}, bigset.NoSync) })
	if res, err := p.store.Replica().Heal(bg, all, nil); !stop() || !errors.Is(err, bigset.ErrCorrupt) || res.Healed > 0 {
		t.Errorf("much was written into the hole: %+v, %v", res, err)
	}
	every := bigset.Facts{Set: lost.Set} // also what can be read, in the hole's ends and elsewhere
	for dot, name := range p.model.Set(healSet).Keys {
		every.Keys = append(every.Keys, element(name, dot))
	}
	res, err = p.store.Replica().Heal(bg, every, nil)
	if must(t, err, "heal"); res.Healed <= len(late) || res.Healed+res.Present != len(every.Keys) {
		t.Errorf("%+v of %d", res, len(every.Keys))
	}
	p.whole(t)
	p.close(t)
}

// holed returns the facts that another replica would send about all that is lost, and the dots.
func (p *pair) holed(t *testing.T) (f bigset.Facts, lost *clock.Clock) {
	t.Helper()
	f.Set = []byte(healSet)
	lost, err := p.store.Replica().Lost(bg, f.Set)
	must(t, err, "lost")
	for dot, name := range p.model.Set(healSet).Keys {
		if lost.Contains(dot) {
			f.Keys = append(f.Keys, element(name, dot))
		}
	}
	slices.SortFunc(f.Keys, func(a, b fold.Element) int { return strings.Compare(string(a.Name), string(b.Name)) })
	if len(f.Keys) == 0 || uint64(len(f.Keys)) != lost.Len() {
		t.Fatalf("%s: %d keys of %d dots are lost", p.label, len(f.Keys), lost.Len())
	}
	return f, lost
}

// whole fails unless all of the set can be read again, is right, and goes through compactions.
func (p *pair) whole(t *testing.T) {
	t.Helper()
	if lost, err := p.store.Replica().Lost(bg, []byte(healSet)); err != nil || !lost.Empty() {
		t.Fatalf("%s: %v is lost, %v", p.label, lost, err)
	}
	p.check(t)
	p.verify(t)
	must(t, p.store.FlushTables(), "flush")
	must(t, p.store.CompactElements(bg, []byte(healSet)), "compact elements")
	must(t, p.store.CompactTables(bg), "compact tables")
	p.check(t)
	p.verify(t)
	must(t, p.store.Failed(), p.label)
}

// TestHoles: whichever block of elements can't be read, and with more of them damaged, the stretch is filled, also amid writes and
// crashes, and the set is as before.
func TestHoles(t *testing.T) {
	t.Parallel()
	share, place := tier.ShareOf(t, 9, 9), 0
	for _, several := range []bool{false, true} {
		for at := 62; at < 300; at += 26 {
			if place++; !share.Has(place) {
				continue
			}
			p, lost := healable(t, compaction.Merge, compaction.None(), true)
			p.heals(t, lost, bigset.HealResult{Healed: 12})
			must(t, p.store.CompactTables(bg), "settle")
			newer := bigset.Facts{Set: lost.Set, Keys: []fold.Element{element(bulkName(at)+"!", clock.Dot{Actor: "x", Counter: 1})}}
			p.facts(t, newer, bigset.Sync) // than what is damaged, and in the middle of it
			p.close(t)
			p.label = fmt.Sprintf("element %d, several %v", at, several)
			p.spoil(t, bulkName(at))
			if several && at+80 < 300 {
				p.close(t)
				p.spoil(t, bulkName(at+80))
			}
			all, _ := p.holed(t)
			late := []fold.Element{element(bulkName(at)+"+", clock.Dot{Actor: "x", Counter: 2}),
				element(bulkName(at-30)+"+", clock.Dot{Actor: "x", Counter: 3}), element(bulkName(299)+"+", clock.Dot{Actor: "x", Counter: 5})}
			stop := p.whileCopied(func() {
				p.facts(t, bigset.Facts{Set: all.Set, Dead: clock.Of(all.Keys[0].Dots...), Keys: late}, bigset.NoSync)
			})
			crashes := p.disk.CrashEverywhere(0, 50)
			res, err := p.store.Replica().Heal(bg, all, nil)
			disks, wrote := crashes(), stop()
			if must(t, err, p.label+": heal"); !wrote || res.Healed+res.Dead+res.Present != len(all.Keys) || res.Healed == 0 {
				t.Errorf("%s: %+v of %d", p.label, res, len(all.Keys))
			}
			p.whole(t)
			for i, disk := range disks {
				if i%7 != 0 {
					continue
				}
				q := &pair{label: fmt.Sprintf("%s, crash %d of %d", p.label, i, len(disks)), disk: disk, opt: p.opt, model: p.model.Clone()}
				q.open(t)
				more := all // what was written into the hole can't be read either while the hole exists
				more.Keys = append(slices.Clone(all.Keys), late...)
				_, err := q.store.Replica().Heal(bg, more, nil)
				must(t, err, q.label+": heal again")
				if lost, err := q.store.Replica().Lost(bg, all.Set); err != nil || !lost.Empty() {
					t.Errorf("%s: %v is lost, %v", q.label, lost, err)
				}
				q.verify(t)
				q.close(t)
			}
			p.close(t)
		}
	}
}

// TestHealWrong: a key under an element that is not its dot's goes when the right one is stored, and only then.
func TestHealWrong(t *testing.T) {
	for _, settled := range []bool{false, true} {
		p, lost := healable(t, compaction.Merge, compaction.Default(), settled)
		p.heals(t, lost, bigset.HealResult{Healed: 12})
		dot := lost.Keys[3].Dots[0]
		p.swaps(t, string(lost.Keys[3].Name), bulkName(222), dot)
		wrong := []fold.Element{element(bulkName(222), dot)}
		right := bigset.Facts{Set: lost.Set, Keys: lost.Keys[3:4]}
		for _, c := range []struct {
			facts bigset.Facts
			wrong []fold.Element
			want  bigset.HealResult
		}{
			{bigset.Facts{Set: lost.Set}, wrong, bigset.HealResult{}},
			{bigset.Facts{Set: lost.Set, Keys: wrong}, wrong, bigset.HealResult{Present: 1}},
			{bigset.Facts{Set: lost.Set, Keys: lost.Keys[4:5]}, wrong, bigset.HealResult{Present: 1}},
			{right, lost.Keys[3:4], bigset.HealResult{Healed: 1}},
			{right, wrong, bigset.HealResult{Present: 1, Taken: 1}},
			{right, wrong, bigset.HealResult{Present: 1}},
		} {
			if res, err := p.store.Replica().Heal(bg, c.facts, c.wrong); err != nil || res != c.want {
				t.Errorf("settled %v: %+v, %v, want %+v", settled, res, err, c.want)
			}
		}
		p.whole(t)
		p.close(t)
	}
}

// TestHealSiblings: a count that was taken while one of an element's two dots was lost does not hold when it is back.
func TestHealSiblings(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 5), bigset.Sync)
	other := clock.Dot{Actor: "other", Counter: 1}
	p.facts(t, bigset.Facts{Set: []byte(healSet), Keys: []fold.Element{element(bulkName(3), other)}}, bigset.Sync)
	p.swaps(t, bulkName(3), "", other)
	count := func(want uint64) {
		t.Helper()
		if n, err := p.store.Count(bg, []byte(healSet), engine.CountOptions{}); err != nil || n.Elements != want {
			t.Errorf("%d elements, %v, want %d", n.Elements, err, want)
		}
	}
	count(5)
	p.heals(t, bigset.Facts{Set: []byte(healSet), Keys: []fold.Element{element(bulkName(3), other)}}, bigset.HealResult{Healed: 1})
	count(5)
	count(5)
	p.close(t)
	p.open(t)
	count(5)
	p.verify(t)
	p.close(t)
}

// TestHealSiblingsCrash cuts the power before every operation of a Heal that puts an element's second dot back: where that is stored, the
// flag is on disk that says so, although it is written without a sync just before the swap.
func TestHealSiblingsCrash(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	set, other := []byte(healSet), clock.Dot{Actor: "other", Counter: 1}
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, 5), bigset.Sync)
	f := bigset.Facts{Set: set, Keys: []fold.Element{element(bulkName(3), other)}}
	p.facts(t, f, bigset.Sync)
	p.swaps(t, bulkName(3), "", other)
	_, err := p.store.Count(bg, set, engine.CountOptions{}) // finds no siblings; the next write says so on disk
	must(t, err, "count")
	p.all(t, healSet, keyscheme.OpAdd, []string{bulkName(5)}, bigset.Sync)
	p.flush(t) // or the swap would flush, and sync the log by that
	crashes := p.disk.CrashEverywhere(0, 50)
	p.heals(t, f, bigset.HealResult{Healed: 1})
	back, left := 0, crashes()
	for i, disk := range left {
		q := &pair{label: fmt.Sprintf("crash %d of %d", i, len(left)), disk: disk, opt: p.opt, model: p.model.Clone()}
		q.open(t)
		keys, err := q.store.StoredKeys(set)
		must(t, err, q.label+": keys")
		if _, stored := keys[other]; stored {
			back++
			if n, err := q.store.Count(bg, set, engine.CountOptions{}); err != nil || n.Elements != 6 {
				t.Errorf("%s: %d elements, %v, want 6", q.label, n.Elements, err)
			}
		}
		q.close(t)
	}
	if back == 0 || back == len(left) {
		t.Errorf("the dot is back after %d of %d crashes", back, len(left))
	}
	p.close(t)
}

// spoil changes one byte of a table, so that an element can't be read, opens the store, and returns the table.
func (p *pair) spoil(t *testing.T, name string) string {
	for _, table := range tablesOn(t, p.disk) {
		table = "store/" + table
		whole := testkit.ReadFile(t, p.disk, table)
		for i := 20; i < max(len(whole)*2/3, len(whole)-400); i += 60 { // blocks of elements come first
			data := slices.Clone(whole)
			data[i] ^= 4
			testkit.WriteFile(t, p.disk, table, data)
			store, err := engine.Open("store", &p.opt)
			if err != nil { // it was the store's own block
				continue
			}
			if p.store = store; p.unreadable(name) {
				return table
			}
			p.close(t)
		}
		testkit.WriteFile(t, p.disk, table, whole)
	}
	t.Fatalf("%s: element %s is in no table", p.label, name)
	return ""
}

func (p *pair) unreadable(name string) bool {
	_, err := p.store.Look(bg, []byte(healSet), []byte(name))
	return errors.Is(err, bigset.ErrCorrupt)
}

func TestHealRefuses(t *testing.T) {
	p := newPair("store")
	p.open(t)
	if _, err := p.store.Replica().Heal(bg, bigset.Facts{Set: []byte("s"), Keys: []fold.Element{{Name: []byte("x")}}}, nil); !errors.Is(err, bigset.ErrFacts) {
		t.Errorf("no dot: %v", err)
	}
	p.heals(t, bigset.Facts{Set: []byte("unknown"), Keys: []fold.Element{element("x", clock.Dot{Actor: "a", Counter: 1})}}, bigset.HealResult{NotSeen: 1})
	if _, err := p.store.Replica().State(bg, []byte("unknown")); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("the set is known: %v", err)
	}
	p.close(t)
	if _, err := p.store.Replica().Heal(bg, bigset.Facts{Set: []byte("s")}, nil); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
