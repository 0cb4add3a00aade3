package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestScrub verifies in pieces of a few keys while each piece is followed by writes, drops and swaps: it finds nothing wrong
// with a store that is right, and holds up nothing that would have the drop filter wait.
func TestScrub(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Default())
	p.open(t)
	for i, set := range []string{"s", "t", "u"} {
		p.all(t, set, keyscheme.OpAdd, elementNames(0, 120+i), bigset.Sync)
	}
	must(t, p.store.CompactTables(bg), "settle")
	pieces := 0
	between := func(engine.VerifyReport) {
		switch pieces++; pieces % 7 {
		case 0:
			p.all(t, "s", keyscheme.OpAdd, elementNames(pieces%120, pieces%120+5), bigset.NoSync)
		case 1:
			p.all(t, "t", keyscheme.OpRemove, elementNames(pieces%110, pieces%110+4), bigset.NoSync)
		case 2:
			publish(t, p)
			must(t, p.store.FlushTables(), "flush")
		case 3:
			rewriteAll(t, p)
		case 4:
			p.all(t, "u", keyscheme.OpAdd, elementNames(0, 3), bigset.NoSync)
		case 5:
			must(t, p.store.CompactTables(bg), "compact")
		case 6:
			if pieces > 60 {
				p.drop(t, "u", nil, bigset.NoSync)
				must(t, p.store.RunnerTick(bg), "excised")
			}
		}
	}
	rep, err := p.store.Verify(bg, engine.VerifyOptions{BytesPerSecond: 20 << 10, Progress: between})
	must(t, err, "scrub")
	if !rep.OK() || rep.Sets != 3 || pieces < 30 {
		t.Errorf("%+v after %d pieces", rep, pieces)
	}
	stats, err := p.store.Stats()
	must(t, err, "stats")
	if stats.TombstonesPublished == 0 {
		t.Error("the drop filter was given nothing: the scrub held it up")
	}
	p.check(t)
	p.close(t)
}

// TestScrubFinds: what Verify finds at one moment it finds in pieces, too.
func TestScrubFinds(t *testing.T) {
	t.Parallel()
	o := damage(t, compaction.Merge, func(d *damaged) {
		for dot, e := range d.keys {
			if e == "b" {
				d.remove(d.prefix.AppendElement(nil, []byte(e), dot, keyscheme.OpAdd))
			}
		}
	})
	s, err := engine.Open("store", o)
	must(t, err, "open")
	rep, err := s.Verify(bg, engine.VerifyOptions{BytesPerSecond: 10 << 10})
	must(t, err, "scrub")
	if rep.ProblemCount != 1 || string(rep.Problems[0].Set) != "s" || !strings.Contains(rep.Problems[0].What, "have no key") {
		t.Errorf("%+v", rep)
	}
	must(t, s.Close(), "close")
}

// TestScrubFindsUnresolvedKeys: an unresolved key that the clock does not count is found in a set that takes several pieces.
func TestScrubFindsUnresolvedKeys(t *testing.T) {
	t.Parallel()
	o := damage(t, compaction.Merge, func(d *damaged) {
		d.clock(keyscheme.ClockValue{Seen: plus(d.seen, d.next())})
		d.element("b", d.next(), keyscheme.AppendElementValue(nil, d.seen))
	})
	s, err := engine.Open("store", o)
	must(t, err, "open")
	pieces := 0
	rep, err := s.Verify(bg, engine.VerifyOptions{Set: []byte("s"), BytesPerSecond: 1 << 10, Progress: func(engine.VerifyReport) { pieces++ }})
	must(t, err, "scrub")
	if rep.ProblemCount != 1 || !strings.Contains(rep.Problems[0].What, "the clock counts 0 unresolved keys, there are 1") || pieces < 3 {
		t.Errorf("%+v after %d pieces", rep, pieces)
	}
	must(t, s.Close(), "close")
}

// TestScrubUnresolvedKeys: unresolved keys come, and are resolved, between the pieces of a scrub that has counted them already, or will.
func TestScrubUnresolvedKeys(t *testing.T) {
	t.Parallel()
	p := openPair(t, "store")
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 150), bigset.Sync)
	widely := func(kind keyscheme.Op, from, to int) {
		seen := bigset.SawAll(p.context(t, "s"))
		for i := from; i < to; i++ {
			p.one(t, kind, bulkName(i), seen)
		}
	}
	widely(keyscheme.OpAdd, 0, 60)
	must(t, p.store.CompactTables(bg), "settle")
	pieces := 0
	rep, err := p.store.Verify(bg, engine.VerifyOptions{BytesPerSecond: 40 << 10, Progress: func(engine.VerifyReport) {
		switch pieces++; {
		case pieces%8 == 0:
			rewriteAll(t, p)
		case pieces%3 == 0:
			widely(keyscheme.OpAdd, pieces%140, pieces%140+4)
		case pieces%3 == 1:
			widely(keyscheme.OpRemove, pieces%130+10, pieces%130+11)
		}
	}})
	must(t, err, "scrub")
	stats, err := p.store.Stats()
	must(t, err, "stats")
	if !rep.OK() || pieces < 20 || rep.UnresolvedKeys == 0 || stats.RewriteResolved == 0 {
		t.Errorf("%+v after %d pieces, %d keys resolved", rep, pieces, stats.RewriteResolved)
	}
	p.settle(t)
	p.close(t)
}

// TestScrubRate: a scrub keeps to its rate, and ends when its context does.
func TestScrubRate(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	began := time.Now()
	_, err := p.store.Verify(bg, engine.VerifyOptions{BytesPerSecond: 40 << 10})
	must(t, err, "scrub")
	if took := time.Since(began); took < 30*time.Millisecond { // some 5 kB
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if _, err := p.store.Verify(ctx, engine.VerifyOptions{BytesPerSecond: 1}); err == nil {
		t.Error("it went on after it was cancelled")
	}
	p.close(t)
}
