package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestScrub verifies in pieces of a few keys while each piece is followed by writes, drops and swaps: it finds nothing wrong
// with a store that is right, and holds up nothing that would have the filter wait.
func TestScrub(t *testing.T) {
	p := newPair("store")
	p.opt.Strategy = eager(compaction.Default())
	p.open(t)
	for i, set := range []string{"s", "t", "u"} {
		p.all(t, set, keyscheme.OpAdd, elementNames(0, 120+i), engine.Sync)
	}
	must(t, p.store.CompactTables(bg), "settle")
	pieces := 0
	between := func(engine.VerifyReport) {
		switch pieces++; pieces % 7 {
		case 0:
			p.all(t, "s", keyscheme.OpAdd, elementNames(pieces%120, pieces%120+5), engine.NoSync)
		case 1:
			p.all(t, "t", keyscheme.OpRemove, elementNames(pieces%110, pieces%110+4), engine.NoSync)
		case 2:
			publish(t, p)
			must(t, p.store.FlushTables(), "flush")
		case 3:
			rewriteAll(t, p)
		case 4:
			p.all(t, "u", keyscheme.OpAdd, elementNames(0, 3), engine.NoSync)
		case 5:
			must(t, p.store.CompactTables(bg), "compact")
		case 6:
			if pieces > 60 {
				p.drop(t, "u", nil, engine.NoSync)
				must(t, p.store.RunnerTick(bg), "cut out")
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
		t.Error("the filter was given nothing: the scrub held it up")
	}
	p.check(t)
	p.close(t)
}

// TestScrubFinds: what Verify finds at one moment it finds in pieces, too.
func TestScrubFinds(t *testing.T) {
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

// TestScrubRate: a scrub keeps to its rate, and ends when it is told to.
func TestScrubRate(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), engine.Sync)
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
