package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
)

// located asks a store for dots, and returns its answers, chunk by chunk.
func (p *pair) located(t rapid.TB, set string, dots *clock.Clock) (all []bigset.Facts) {
	t.Helper()
	for f, err := range p.store.Replica().Locate(bg, []byte(set), dots) {
		must(t, err, p.label+": locate")
		if string(f.Set) != set || f.Empty() {
			t.Fatalf("%s: facts %+v of set %q", p.label, f, set)
		}
		all = append(all, f)
	}
	return all
}

// checkLocated fails unless the answers are what the model has of the dots, no more and no less.
func (p *pair) checkLocated(t rapid.TB, set string, dots *clock.Clock, all []bigset.Facts) {
	t.Helper()
	m, keys, dead := p.model.Set(set), map[clock.Dot]string{}, &clock.Clock{}
	for _, f := range all {
		for _, e := range f.Keys {
			if !slices.IsSortedFunc(e.Dots, clock.Dot.Compare) {
				t.Fatalf("%s: dots of %q are not in order: %v", p.label, e.Name, e.Dots)
			}
			for _, d := range e.Dots {
				if _, ok := keys[d]; ok {
					t.Fatalf("%s: dot %v comes twice", p.label, d)
				}
				keys[d] = string(e.Name)
			}
		}
		dead.Union(f.Dead)
	}
	for d, e := range keys {
		if m.Keys[d] != e || !dots.Contains(d) {
			t.Fatalf("%s: dot %v is that of %q, not of %q", p.label, d, m.Keys[d], e)
		}
	}
	for d, e := range m.Keys {
		if _, ok := keys[d]; dots.Contains(d) && !ok {
			t.Fatalf("%s: dot %v of %q was not found", p.label, d, e)
		}
	}
	want := m.Dead.Clock()
	want.Intersect(dots)
	if !want.Equal(dead) {
		t.Fatalf("%s: dead %v, want %v", p.label, dead, want)
	}
}

// lacking returns the dots that one state names and another does not.
func lacking(mine, theirs bigset.State) *clock.Clock {
	want, dead := theirs.Seen.Clone(), theirs.Dead.Clone()
	want.Subtract(mine.Seen)
	dead.Subtract(mine.Dead)
	want.Union(dead)
	return want
}

// TestLocate: for each dot its key, its death, or nothing, and the metrics say where it was found.
func TestLocate(t *testing.T) {
	p := newPair("store")
	p.opt.MemTableBytes = 4 << 20
	p.open(t)
	p.store.Replica().KeepRecent()
	p.all(t, "t", keyscheme.OpAdd, []string{"another set"}, bigset.NoSync)
	for from := 0; from < 3000; from += 500 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(from, from+500), bigset.NoSync)
	}
	p.all(t, "s", keyscheme.OpRemove, elementNames(100, 200), bigset.NoSync)
	p.all(t, "s", keyscheme.OpAdd, elementNames(150, 300), bigset.NoSync)
	everything := p.known(t, "s").Seen.Clone()
	everything.AddRange("never seen", 1, 50)
	every := &clock.Clock{}
	for d := range everything.Dots() {
		if d.Counter%7 == 0 {
			every.Add(d)
		}
	}
	ask := func(what string, dots *clock.Clock, inLog, byScan bool) {
		t.Helper()
		before, err := p.store.Stats()
		must(t, err, "stats")
		all := p.located(t, "s", dots)
		p.checkLocated(t, "s", dots, all)
		after, err := p.store.Stats()
		must(t, err, "stats")
		if after.LocatedInLog > before.LocatedInLog != inLog || after.LocatedByScan > before.LocatedByScan != byScan ||
			after.LocateScans-before.LocateScans > 1 || after.LocateScans > before.LocateScans != byScan {
			t.Errorf("%s: %d and %d found in the log, %d and %d by a scan", what,
				before.LocatedInLog, after.LocatedInLog, before.LocatedByScan, after.LocatedByScan)
		}
		for _, f := range all {
			if len(f.Keys) > 1000 {
				t.Errorf("%s: %d keys in a chunk", what, len(f.Keys))
			}
		}
	}
	ask("young", everything, true, false)
	ask("some", every, true, false)
	ask("none", dotsOf("never seen", 1, 9), false, false)
	ask("nothing", nil, false, false)
	p.close(t)
	p.open(t)
	ask("old", everything, false, true)
	ask("some of the old", every, false, true)
	p.all(t, "s", keyscheme.OpAdd, elementNames(3000, 3100), bigset.NoSync)
	everything = p.known(t, "s").Seen
	ask("old and young", everything, true, true)
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	ask("compacted", everything, true, true)
	for _, err := range p.store.Replica().Locate(bg, []byte("never"), everything) {
		if !errors.Is(err, bigset.ErrNotFound) {
			t.Errorf("a set that is not known: %v", err)
		}
	}
	for range p.store.Replica().Locate(bg, []byte("s"), everything) {
		break // a loop that stops is not yielded to again
	}
	p.close(t)
}

// TestLocateSkips: a scan for the newest dots leaves unread what holds none of them: old tables beside a young one, and old blocks
// where they were compacted into one. A scan for dots of any age reads all, and so does one of tables that say nothing.
func TestLocateSkips(t *testing.T) {
	t.Parallel()
	for _, says := range []bool{true, false} {
		t.Run(fmt.Sprintf("says=%v", says), func(t *testing.T) {
			p := newPair("store")
			p.opt.MemTableBytes = 4 << 20
			p.opt.Tune(nil)
			if !says {
				p.opt.Tune(engine.WithoutDotRanges)
			}
			p.open(t)
			p.all(t, "s", keyscheme.OpAdd, elementNames(0, 20_000), bigset.NoSync)
			p.reopen(t)
			must(t, p.store.FlushTables(), "flush")
			must(t, p.store.CompactTables(bg), "compact tables")
			everything := p.known(t, "s").Seen.Clone()
			skips, all := p.scanned(t, everything)
			if skips != 0 || all < 60 {
				t.Errorf("everything: %d skips, %d blocks read", skips, all)
			}
			p.all(t, "s", keyscheme.OpAdd, []string{"n1", "n5", "n9"}, bigset.NoSync)
			p.reopen(t)
			must(t, p.store.FlushTables(), "flush")
			newest := p.known(t, "s").Seen.Clone()
			newest.Subtract(everything)
			for _, where := range []string{"in a young table", "compacted into the rest"} {
				skips, blocks := p.scanned(t, newest)
				if says && (skips == 0 || blocks > all/4) || !says && (skips != 0 || blocks < all/2) {
					t.Errorf("%s: %d skips, %d blocks read of %d", where, skips, blocks, all)
				}
				must(t, p.store.CompactTables(bg), "compact tables")
			}
			if says { // an open with tables of both kinds
				p.opt.Tune(engine.WithoutDotRanges)
			} else {
				p.opt.Tune(nil)
			}
			p.all(t, "s", keyscheme.OpAdd, []string{"n2", "n6"}, bigset.NoSync)
			p.reopen(t)
			p.scanned(t, p.known(t, "s").Seen)
			p.close(t)
		})
	}
}

func (p *pair) reopen(t rapid.TB) {
	t.Helper()
	p.close(t)
	p.open(t)
}

// scanned asks for dots past the log, and returns what the scan left unread and how many blocks it read.
func (p *pair) scanned(t rapid.TB, dots *clock.Clock) (skips uint64, blocks int64) {
	t.Helper()
	p.store.ForgetRecent()
	before, err := p.store.Stats()
	must(t, err, "stats")
	read := p.store.BlocksRead()
	p.checkLocated(t, "s", dots, p.located(t, "s", dots))
	read = p.store.BlocksRead() - read
	after, err := p.store.Stats()
	must(t, err, "stats")
	return after.LocateSkips - before.LocateSkips, read
}

// TestLocateSiblings: the dots of an element come in order, in whichever order they were written.
func TestLocateSiblings(t *testing.T) {
	p := newPair("store")
	p.open(t)
	want := &clock.Clock{}
	for _, actor := range []clock.Actor{"z", "a", "m"} {
		d := bigset.Delta{Set: []byte("s"), Actor: actor, First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("x")}}}
		must(t, p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "apply")
		want.Add(clock.Dot{Actor: actor, Counter: 1})
	}
	found := p.located(t, "s", want)
	if len(found) != 1 || len(found[0].Keys) != 1 || !slices.Equal(found[0].Keys[0].Dots, slices.Collect(want.Dots())) {
		t.Fatalf("located %+v, want %v", found, want)
	}
}

// TestLocateMany: young keys of more than a log's worth are found, and those of a batch that is larger.
func TestLocateMany(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.MemTableBytes = 4 << 20
	p.open(t)
	p.store.Replica().KeepRecent()
	defer p.close(t)
	long := func(i int) []byte { return fmt.Appendf(nil, "%-500d", i) }
	for n := range 5 {
		var ops []bigset.Op
		for i := range 5000 {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: long(n*5000 + i)})
		}
		p.write(t, "s", ops, bigset.WriteOptions{Policy: bigset.PolicyEmpty, Durability: bigset.NoSync})
	}
	newest := dotsOf(p.store.Replica().Actor(), 24_900, 25_000)
	p.checkLocated(t, "s", newest, p.located(t, "s", newest))
	var ops []bigset.Op
	for i := range 12_000 {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: long(i)})
	}
	p.write(t, "s", ops, bigset.WriteOptions{Policy: bigset.PolicyEmpty, Durability: bigset.NoSync})
	all := p.known(t, "s").Seen
	p.checkLocated(t, "s", all, p.located(t, "s", all))
}

// TestLocateSlowly: no iterator is open while a chunk is yielded, and what dies in between is named all the same.
func TestLocateSlowly(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.MemTableBytes = 4 << 20
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 4000), bigset.Sync)
	p.close(t)
	p.open(t)
	defer p.close(t)
	want := p.known(t, "s").Seen.Clone()
	named := &clock.Clock{}
	n := 0
	for f, err := range p.store.Replica().Locate(bg, []byte("s"), want) {
		must(t, err, "locate")
		if n++; n == 2 { // all that has not been shown yet, and more
			p.all(t, "s", keyscheme.OpRemove, elementNames(1500, 4000), bigset.NoSync)
			_, err := p.store.Compact(bg, engine.CompactOptions{})
			must(t, err, "compact")
			keys, err := p.store.StoredKeys([]byte("s"))
			if err != nil || len(keys) != 1500 {
				t.Fatalf("%d keys: something holds up the collection, %v", len(keys), err)
			}
		}
		for _, e := range f.Keys {
			for _, d := range e.Dots {
				named.Add(d)
			}
		}
		named.Union(f.Dead)
	}
	if !named.Equal(want) {
		t.Errorf("named %v, want %v", named, want)
	}
}

// TestUnresolvedKeysAreNotCopied: a key whose context is still to be resolved can't be sent as a fact.
func TestUnresolvedKeysAreNotCopied(t *testing.T) {
	p := openPair(t, "store")
	defer p.close(t)
	p.one(t, keyscheme.OpAdd, "a", bigset.Saw())
	resolved := p.known(t, "s").Seen.Clone()
	p.one(t, keyscheme.OpAdd, "b", bigset.SawAll(resolved))
	if st := p.known(t, "s"); st.Unresolved != 1 {
		t.Errorf("%d unresolved keys", st.Unresolved)
	}
	p.checkLocated(t, "s", resolved, p.located(t, "s", resolved))
	var err error
	for _, err = range p.store.Replica().Locate(bg, []byte("s"), p.known(t, "s").Seen) {
	}
	if !errors.Is(err, bigset.ErrUnresolved) {
		t.Errorf("locate: %v", err)
	}
	if _, err := p.store.Replica().DotStatus(bg, []byte("s"), []byte("b"), nil); !errors.Is(err, bigset.ErrUnresolved) {
		t.Errorf("status of dots: %v", err)
	}
}

// learns lets one store ask another for what it is missing of a set, and apply the answers: each one sometimes, some twice.
func (n *node) learns(t *rapid.T, from *node, set string) {
	want := lacking(n.known(t, set), from.known(t, set))
	if !from.model.Set(set).Known() {
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "ask more") == 0 {
		want.Union(from.known(t, set).Seen)
	}
	all := from.located(t, set, want)
	from.checkLocated(t, set, want, all)
	for _, f := range all {
		for _, part := range n.parts(t, f) {
			res := n.pair.facts(t, part, drawDurability(t))
			n.m.seen.sawIf(res.Keys > 0, sawFactKeys)
			n.m.seen.sawIf(res.Dead > 0, sawFactDeaths)
		}
	}
}

// parts draws some of facts, in pieces.
func (n *node) parts(t *rapid.T, f bigset.Facts) (parts []bigset.Facts) {
	if !f.Dead.Empty() && rapid.IntRange(0, 3).Draw(t, "deaths") > 0 {
		parts = append(parts, bigset.Facts{Set: f.Set, Dead: f.Dead})
	}
	if len(f.Keys) > 0 {
		from := rapid.IntRange(0, len(f.Keys)-1).Draw(t, "from key")
		parts = append(parts, bigset.Facts{Set: f.Set, Keys: f.Keys[from:], Dead: f.Dead})
		if from > 0 {
			parts = append(parts, bigset.Facts{Set: f.Set, Keys: []fold.Element{f.Keys[rapid.IntRange(0, from).Draw(t, "key")]}})
		}
	}
	return parts
}
