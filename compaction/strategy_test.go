package compaction_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bigset/compaction"
)

// TestRewrites: a policy wants the rewriter when there is enough garbage, in keys and compared with what is live; a quiet set needs
// less.
func TestWants(t *testing.T) {
	const quiet = compaction.QuietEnough + 1
	ready := compaction.Policy{Rewrite: true}
	small := compaction.Policy{Rewrite: true, KeysMin: 1, Excess: 0.5, Idle: 0.25}
	for _, c := range []struct {
		what   string
		policy compaction.Policy
		load   compaction.Load
		want   bool
	}{
		{"nothing", ready, compaction.Load{}, false},
		{"no garbage", ready, compaction.Load{Keys: 1e6, Live: 1e6}, false},
		{"fewer keys than live dots", ready, compaction.Load{Keys: 1e5, Live: 1e6}, false},
		{"garbage alone", ready, compaction.Load{Keys: 4096}, true},
		{"a key too little", ready, compaction.Load{Keys: 4095}, false},
		{"30 in 100", ready, compaction.Load{Keys: 130_000, Live: 100_000}, false},
		{"over 30 in 100", ready, compaction.Load{Keys: 130_001, Live: 100_000}, true},
		{"10 in 100, quiet", ready, compaction.Load{Keys: 110_000, Live: 100_000, Quiet: quiet}, false},
		{"over 10 in 100, quiet", ready, compaction.Load{Keys: 110_001, Live: 100_000, Quiet: quiet}, true},
		{"over 10 in 100, nearly quiet", ready, compaction.Load{Keys: 110_001, Live: 100_000, Quiet: compaction.QuietEnough}, false},
		{"no rewriter", compaction.Policy{}, compaction.Load{Keys: 1e6}, false},
		{"its own minimum", small, compaction.Load{Keys: 1}, true},
		{"its own excess", small, compaction.Load{Keys: 150, Live: 100}, false},
		{"over its own excess", small, compaction.Load{Keys: 151, Live: 100}, true},
		{"its own idle excess", small, compaction.Load{Keys: 125, Live: 100, Quiet: quiet}, false},
		{"over its own idle excess", small, compaction.Load{Keys: 126, Live: 100, Quiet: time.Hour}, true},
	} {
		if got := c.policy.Wants(c.load); got != c.want {
			t.Errorf("%s: Wants(%+v) = %v, want %v", c.what, c.load, got, c.want)
		}
	}
}

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		policy compaction.Policy
		span   compaction.Span
		want   bool
	}{
		{compaction.Policy{Rewrite: true}, compaction.Span{Keys: 100, Dead: 15}, true},
		{compaction.Policy{Rewrite: true}, compaction.Span{Keys: 100, Dead: 14}, false},
		{compaction.Policy{Rewrite: true}, compaction.Span{}, false},
		{compaction.Policy{Rewrite: true, DeadsMin: 0.5}, compaction.Span{Keys: 100, Dead: 49}, false},
		{compaction.Policy{Rewrite: true, DeadsMin: 0.5}, compaction.Span{Keys: 100, Dead: 50}, true},
		{compaction.Policy{}, compaction.Span{Keys: 100, Dead: 100}, false},
	} {
		if got := c.policy.Worth(c.span); got != c.want {
			t.Errorf("%+v.Worth(%d of %d) = %v, want %v", c.policy, c.span.Dead, c.span.Keys, got, c.want)
		}
	}
}

func TestWorksOn(t *testing.T) {
	for _, c := range []struct {
		policy     compaction.Policy
		merge, set bool
	}{
		{compaction.Policy{}, true, true},
		{compaction.Policy{Rewrite: true}, true, true},
		{compaction.Policy{Filter: true}, true, false},
		{compaction.Policy{Delete: true}, false, true},
		{compaction.Policy{Record: compaction.Merge}, true, false},
		{compaction.Policy{Record: compaction.Set}, false, true},
		{compaction.Policy{Record: compaction.Set, Filter: true}, false, false},
		{compaction.Policy{Record: compaction.Merge, Delete: true}, false, false},
		{compaction.Policy{Filter: true, Delete: true}, false, false},
	} {
		for record, want := range map[compaction.Record]bool{compaction.Merge: c.merge, compaction.Set: c.set} {
			err := c.policy.WorksOn(record)
			if (err == nil) != want || err != nil && !errors.Is(err, compaction.ErrStrategy) {
				t.Errorf("%+v on %v records: %v, want %v", c.policy, record, err, want)
			}
		}
	}
}

// TestStrategies: the built-in strategies are found by their names, keep what they say, and each kind of record has a default.
func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		name             string
		filters, deletes bool
		rewrites         bool
	}{
		{"default", true, false, true},
		{"filter", true, false, false},
		{"rewriter", false, false, true},
		{"point-deletes", false, true, false},
		{"none", false, false, false},
	} {
		s, err := compaction.ByName(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s.Name() != c.name || s.Filters() != c.filters || s.Deletes() != c.deletes || s.Rewrites() != c.rewrites || s.Wants(compaction.Load{Keys: 1e6}) != c.rewrites {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	for _, name := range []string{"", "Default", "default ", "magic"} {
		s, err := compaction.ByName(name)
		if s != nil || !errors.Is(err, compaction.ErrStrategy) {
			t.Errorf("ByName(%q) = %v, %v", name, s, err)
			continue
		}
		for _, ready := range compaction.Strategies() {
			if !strings.Contains(err.Error(), ready.Name()) {
				t.Errorf("ByName(%q): %v does not name %s", name, err, ready.Name())
			}
		}
	}
	for record, want := range map[compaction.Record]string{compaction.Merge: "default", compaction.Set: "point-deletes"} {
		s := compaction.For(record)
		if s.Name() != want || s.WorksOn(record) != nil {
			t.Errorf("For(%v) = %s, %v, want %s", record, s.Name(), s.WorksOn(record), want)
		}
	}
}

func TestParseRecord(t *testing.T) {
	for text, want := range map[string]compaction.Record{"merge": compaction.Merge, "set": compaction.Set} {
		if got, err := compaction.ParseRecord(text); got != want || err != nil || got.String() != text {
			t.Errorf("ParseRecord(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "m", "Merge", "merge\n", "delete", "record(0)", compaction.Record(0).String()} {
		if got, err := compaction.ParseRecord(text); got != 0 || err == nil {
			t.Errorf("ParseRecord(%q) = %v, want an error", text, got)
		}
	}
}

func TestGarbage(t *testing.T) {
	for _, c := range []struct{ keys, live, want uint64 }{{0, 0, 0}, {5, 3, 2}, {3, 3, 0}, {3, 5, 0}} {
		if got := (compaction.Load{Keys: c.keys, Live: c.live}).Garbage(); got != c.want {
			t.Errorf("%d keys, %d live: %d, want %d", c.keys, c.live, got, c.want)
		}
	}
}
