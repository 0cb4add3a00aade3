package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/convergence"
)

// met checks that a report has counted nothing without a name, and nothing less often than that many schedules should.
func (r *Report) met(t *testing.T) {
	t.Helper()
	r.judge()
	t.Logf("%d schedules, %d of %d steps skipped, faults %v, mechanisms %v, never %v", r.Schedules, r.Skipped, r.Steps, r.Faults, r.Mechanisms, r.Never)
	for what := range r.Mechanisms {
		if _, named := sightOf[what]; !named {
			t.Errorf("what is met as %q has no name", what)
		}
	}
	for _, s := range r.Below {
		t.Errorf("below its floor: %s", s)
	}
}

// TestTurns: if a time is given, each kind gets its share of the time, whatever a schedule takes; if a number is given, each gets
// its part of the number.
func TestTurns(t *testing.T) {
	cost := map[string]float64{kindRules: 0.002, kindEngines: 0.03, kindClusters: 0.01, kindMembers: 0.09}
	run := func(o Options, turns int) *Report {
		r := newReport()
		list := r.sources(o, convergence.System{})
		for range turns {
			s := r.next(list)
			if s == nil {
				break
			}
			n := min(s.batch, s.schedules)
			s.schedules -= n
			r.Schedules += n
			r.ran(s.kind, n, time.Duration(float64(n)*cost[s.kind]*1e9))
		}
		return r
	}
	r := run(Options{Duration: time.Hour}, 1000)
	all := 0.0
	for _, p := range r.Kinds {
		all += p.Seconds
	}
	for kind, share := range map[string]float64{kindRules: 0.5, kindEngines: 0.2, kindClusters: 0.1, kindMembers: 0.2} {
		if got := r.Kinds[kind].Seconds / all; math.Abs(got-share) > 0.02 {
			t.Errorf("%s had %.3f of the time, want %.2f", kind, got, share)
		}
	}
	for _, c := range []struct {
		o    Options
		want [4]int
	}{
		{Options{Schedules: 1100}, [4]int{1000, 50, 30, 20}},
		{Options{Schedules: 10}, [4]int{7, 1, 1, 1}},
		{Options{Schedules: 1}, [4]int{0, 1, 0, 0}},
		{Options{Schedules: 110, Replicas: 4}, [4]int{100, 5, 5, 0}},
		{Options{Schedules: 17, Replicas: 3, Stores: true}, [4]int{0, 13, 4, 0}},
	} {
		r := run(c.o, 1<<20)
		if got := [4]int{r.Of(kindRules), r.Of(kindEngines), r.Of(kindClusters), r.Of(kindMembers)}; got != c.want {
			t.Errorf("%+v: %v schedules of rules, engines, clusters and members, want %v", c.o, got, c.want)
		}
	}
}

// TestSchedulesOfKinds: the n-th schedule of a kind does not depend on the number of schedules of other kinds.
func TestSchedulesOfKinds(t *testing.T) {
	t.Parallel()
	did := func(schedules int, kinds ...string) (all string) {
		r := newReport()
		engines, done := Engines()
		defer func() {
			if err := done(); err != nil {
				t.Error(err)
			}
		}()
		list := r.sources(Options{Seed: 9, Schedules: schedules}, engines)
		for s := r.next(list); s != nil; s = r.next(list) {
			n, before := min(s.batch, s.schedules), r.Operations
			if !slices.Contains(kinds, s.kind) {
				s.schedules = 0
				continue
			}
			if n == s.batch && (s.kind == kindRules && s.batches < 2 || s.kind == kindClusters && s.batches < 3) { // the last batch may be shorter
				if err := s.run(t.Context(), s.batches, n); err != nil {
					t.Fatal(err)
				}
				all += fmt.Sprintf("%s %d: %d operations; ", s.kind, s.batches, r.Operations-before)
			}
			s.batches++
			s.schedules -= n
			r.ran(s.kind, n, 0)
		}
		return all
	}
	if alone, clusters, both := did(110, kindRules), did(110, kindClusters), did(220, kindRules, kindClusters); sorted(alone+clusters) != sorted(both) {
		t.Errorf("alone %s and %s, together %s", alone, clusters, both)
	}
}

func sorted(list string) string {
	parts := strings.Split(list, "; ")
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// TestFloors: what is reached too rarely is below its floor, and what such schedules can reach, but did not, is in Never.
func TestFloors(t *testing.T) {
	r := newReport()
	r.ran(kindMembers, 1000, 0)
	for _, s := range sights {
		r.count(s.name, int(s.rates[3]))
	}
	if r.judge(); len(r.Never) > 0 || len(r.Below) > 0 {
		t.Errorf("what was measured is below its floors: %v, %v", r.Never, r.Below)
	}
	r.Mechanisms["united"], r.Faults["wipe"] = 0, 100
	r.judge()
	if fmt.Sprint(r.Never) != "[united]" || fmt.Sprint(r.Below) != fmt.Sprintf("[wipe 100 of %d united 0 of %d]", floor(2000), floor(290)) {
		t.Errorf("never %v, below %v", r.Never, r.Below)
	}
	few := newReport()
	few.ran(kindMembers, 1, 0)
	if few.judge(); len(few.Below) > 0 || len(few.Never) < 10 {
		t.Errorf("one schedule: below %v, never %v", few.Below, few.Never)
	}
	r.count("what has no name", 1)
	if r.Mechanisms["what has no name"] != 1 {
		t.Error("what has no name is not counted")
	}
}
