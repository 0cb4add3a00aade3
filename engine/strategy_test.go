package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// plugIn is a strategy that a storage developer brings along: no Policy. It notes what it is asked.
type plugIn struct {
	filters, deletes, rewrites bool
	refuses                    error
	wants                      func(compaction.Load) bool
	worth                      func(compaction.Span) bool
	loads                      []compaction.Load
	spans                      []compaction.Span
}

func (s *plugIn) Name() string                    { return "plug-in" }
func (s *plugIn) WorksOn(compaction.Record) error { return s.refuses }
func (s *plugIn) Filters() bool                   { return s.filters }
func (s *plugIn) Deletes() bool                   { return s.deletes }
func (s *plugIn) Rewrites() bool                  { return s.rewrites }
func (s *plugIn) Wants(l compaction.Load) bool    { s.loads = append(s.loads, l); return s.wants(l) }
func (s *plugIn) Worth(span compaction.Span) bool {
	s.spans = append(s.spans, span)
	return s.worth(span)
}
func never[T any](T) bool  { return false }
func always[T any](T) bool { return true }

// deadOf returns how many dead keys of a range of elements are stored.
func deadOf(t *testing.T, p *pair, from, to int) int {
	t.Helper()
	keys, err := p.store.StoredKeys([]byte("s"))
	must(t, err, "keys")
	n := 0
	for dot, e := range keys {
		if _, live := p.model.Set("s").Keys[dot]; !live && bulkName(from) <= e && e < bulkName(to) {
			n++
		}
	}
	return n
}

// TestPlugIn runs a strategy that the engine knows nothing of on a set whose first half is nearly all dead, at the bottom,
// and its second half nearly all alive. What the strategy decides is done, and nothing else.
func TestPlugIn(t *testing.T) {
	t.Parallel()
	const first, middle, last = 10_000, 14_000, 18_000
	const dense, sparse = 3600, 400 // dead keys of either half
	for _, c := range []struct {
		name                 string
		s                    plugIn
		dense, sparse        int // 1: the dead keys of that half are left, 0: they are gone
		asksLoads, asksSpans bool
		afterCompact         int
	}{
		{name: "wants nothing", s: plugIn{rewrites: true, wants: never[compaction.Load], worth: always[compaction.Span]},
			dense: 1, sparse: 1, asksLoads: true},
		{name: "finds nothing worth it", s: plugIn{rewrites: true, wants: always[compaction.Load], worth: never[compaction.Span]},
			dense: 1, sparse: 1, asksLoads: true, asksSpans: true},
		{name: "copies what is dense", s: plugIn{rewrites: true, wants: always[compaction.Load],
			worth: func(s compaction.Span) bool { return 2*s.Dead > s.Keys }}, sparse: 1, asksLoads: true, asksSpans: true},
		{name: "copies all that has any", s: plugIn{rewrites: true, wants: always[compaction.Load],
			worth: func(s compaction.Span) bool { return s.Dead > 0 }}, asksLoads: true, asksSpans: true},
		{name: "does not rewrite", s: plugIn{wants: always[compaction.Load], worth: always[compaction.Span]},
			dense: 1, sparse: 1, afterCompact: dense + sparse},
	} {
		if testing.Short() && !c.asksSpans {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := newPair("store")
			p.opt.SpanBytes, p.opt.Strategy = 64<<10, &c.s
			p.open(t)
			p.all(t, "s", keyscheme.OpAdd, elementNames(first, last), bigset.Sync)
			must(t, p.store.FlushTables(), "flush")
			must(t, p.store.CompactTables(bg), "compact")
			var gone []string
			for i := first; i < last; i++ {
				if i%10 == 0 == (i >= middle) {
					gone = append(gone, bulkName(i))
				}
			}
			p.all(t, "s", keyscheme.OpRemove, gone, bigset.Sync)
			p.close(t)
			p.open(t) // now it has not been written for long
			for range 40 {
				p.store.RunnerForgets()
				must(t, p.store.RunnerTick(bg), "tick")
			}
			// A span ends where a table does, so one of them may reach over the middle; and few keys are not worth counting.
			const part = 3 * (middle - first) / 4
			if got, most := deadOf(t, p, first, first+part), dense*3/4; got > c.dense*most+most/5 || got < c.dense*most {
				t.Errorf("%d dead keys left where they are dense, want %d of %d", got, c.dense*most, most)
			}
			if got, most := deadOf(t, p, last-part, last), sparse*3/4; got > c.sparse*most+most/5 || got < c.sparse*most {
				t.Errorf("%d dead keys left where they are sparse, want %d of %d", got, c.sparse*most, most)
			}
			if (len(c.s.loads) > 0) != c.asksLoads || (len(c.s.spans) > 0) != c.asksSpans {
				t.Fatalf("asked for %d loads, %d spans", len(c.s.loads), len(c.s.spans))
			}
			if c.asksLoads && (c.s.loads[0].Keys < (last-first)*19/20 || c.s.loads[0].Keys > last-first || c.s.loads[0].Live != last-first-dense-sparse) {
				t.Errorf("asked for %+v, want %d keys", c.s.loads[0], last-first)
			}
			if c.asksSpans && c.s.spans[0].Density() < 0.85 {
				t.Errorf("asked for %+v first, want the densest", c.s.spans[0])
			}
			for _, span := range c.s.spans {
				if prefix := string(keyscheme.NewPrefix([]byte("s"))); span.Set != prefix || string(span.Lower) < prefix || span.Upper == nil {
					t.Errorf("asked for %+v, want a part of the set", span)
				}
			}
			loads, spans := len(c.s.loads), len(c.s.spans)
			_, err := p.store.Compact(bg, engine.CompactOptions{})
			must(t, err, "compact")
			if got := deadOf(t, p, first, last); got != c.afterCompact {
				t.Errorf("%d dead keys left by Compact, want %d", got, c.afterCompact)
			}
			if loads != len(c.s.loads) || spans != len(c.s.spans) {
				t.Error("asked on demand")
			}
			st, err := p.store.Stats()
			must(t, err, "stats")
			if st.TombstonesPublished != 0 || st.Strategy != "plug-in" {
				t.Errorf("%q: %d tombstones published to a filter that it does not use", st.Strategy, st.TombstonesPublished)
			}
			p.check(t)
			p.verify(t)
			p.close(t)
		})
	}
}

// TestPlugInMeans has strategies of one's own that filter or write deletes, and such as can't.
func TestPlugInMeans(t *testing.T) {
	half := elementNames(0, 50)
	p := newPair("filters")
	p.opt.Strategy = &plugIn{filters: true}
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, half, bigset.Sync)
	publishAndFlush(t, p)
	p.checkClean(t, "s")
	p.close(t)

	p = newPair("deletes")
	p.opt.Strategy, p.opt.Record = &plugIn{deletes: true}, compaction.Set
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, half, bigset.Sync)
	p.checkClean(t, "s")
	p.close(t)

	sorry := errors.New("not on these")
	for i, c := range []struct {
		s      plugIn
		record compaction.Record
		want   error
	}{
		{plugIn{refuses: fmt.Errorf("%w: %w", compaction.ErrStrategy, sorry)}, compaction.Merge, sorry},
		{plugIn{deletes: true}, compaction.Merge, compaction.ErrStrategy},
	} {
		p := newPair("refused")
		_, err := engine.Open("store", &engine.Options{FS: p.disk, Logger: silent, Record: c.record, Strategy: &c.s})
		if !errors.Is(err, c.want) || !errors.Is(err, compaction.ErrStrategy) {
			t.Errorf("case %d: %v, want %v", i, err, c.want)
		}
	}
}
