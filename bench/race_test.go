package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"bigset/bench/system"
)

// small is a race of a moment.
func small(t *testing.T, seed uint64) RaceConfig {
	return RaceConfig{Seed: seed, Scale: 0.001, Dir: t.TempDir(), Tick: 5 * time.Millisecond, quiet: 60 * time.Millisecond}
}

// streamOf3 has the operations of seed 3: equal seeds do the same, in every version. Those of the queue follow from no seed.
var streamOf3 = map[string]string{"settled": "3d4a198b0476", "queue": "f331e2e68470", "churn": "5b8e549ad3c7"}

// TestRace: both racers do the same operations, which follow from the seed, and what is reported of each adds up.
func TestRace(t *testing.T) {
	t.Parallel()
	c := small(t, 3)
	told := map[string]int{}
	c.Show = func(l Leg) { told[l.Name+" "+l.Phase]++ }
	legs, err := Race(t.Context(), c)
	if err != nil || len(legs) != 3 {
		t.Fatalf("%d legs, %v", len(legs), err)
	}
	for _, l := range legs {
		if l.Stream != streamOf3[l.Name] {
			t.Errorf("%s: stream %s, want %s", l.Name, l.Stream, streamOf3[l.Name])
		}
		wantOps := map[string]uint64{"settled": 2_000 + 1_800, "queue": 2 * 2_000, "churn": 2_000 + 10*2*2_000}[l.Name]
		if !l.Finished || l.Ops != wantOps {
			t.Errorf("%s: finished %v, %d operations of %d", l.Name, l.Finished, l.Ops, wantOps)
		}
		for i, x := range l.Racers {
			if x.Name != RacerNames[i] || x.BytesWritten <= x.BytesBelow || x.Reads == 0 || x.ReadP99 < x.ReadP50 || x.ReadP50 <= 0 || x.Seconds <= 0 {
				t.Errorf("%s: %+v", l.Name, x)
			}
			if (x.SpaceBack != nil) != (l.Name == "settled") {
				t.Errorf("%s, %s: space back %v", l.Name, x.Name, x.SpaceBack)
			}
			checkSamples(t, l, x)
		}
		if live := map[string]uint64{"settled": 200, "churn": 2_000}[l.Name]; l.Racers[0].KeysLive != live || l.Racers[1].KeysLive != live {
			t.Errorf("%s: %d and %d live, want %d", l.Name, l.Racers[0].KeysLive, l.Racers[1].KeysLive, live)
		}
		if told[l.Name+" resting"] == 0 || len(l.Marks) < 3 {
			t.Errorf("%s: told %v, marks %v", l.Name, told, l.Marks)
		}
	}
	if set, point := legs[0].Racers[0], legs[0].Racers[1]; set.BytesWritten*2 > point.BytesWritten {
		t.Errorf("the settled set took %d bytes with tombstones, %d with deletes", set.BytesWritten, point.BytesWritten)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func checkSamples(t *testing.T, l Leg, x Racer) {
	t.Helper()
	last := RaceSample{}
	for _, s := range x.Samples {
		if s.At < last.At || math.IsNaN(s.SpaceBack) != (x.SpaceBack == nil) {
			t.Errorf("%s, %s: %+v after %+v", l.Name, x.Name, s, last)
		}
		last = s
	}
	if last.BytesWritten != x.BytesWritten || last.KeysDead != x.KeysDead || last.BytesTables != x.BytesTables {
		t.Errorf("%s, %s: the last sample is %+v", l.Name, x.Name, last)
	}
}

// TestRaceInterrupted: a race that is interrupted returns what it has measured, and leaves nothing on the disk.
func TestRaceInterrupted(t *testing.T) {
	t.Parallel()
	c := small(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Show = func(l Leg) {
		if l.Name == "queue" && len(l.Racers[0].Samples) > 0 {
			cancel()
		}
	}
	legs, err := Race(ctx, c)
	if !errors.Is(err, context.Canceled) || len(legs) != 2 || !legs[0].Finished || legs[1].Finished || len(legs[1].Racers[0].Samples) == 0 {
		t.Errorf("%d legs, %v: %+v", len(legs), err, legs)
	}
	if len(legs) > 0 && (legs[0].Stream == streamOf3["settled"] || len(legs[0].Stream) != streamDigits) {
		t.Errorf("seed 1 has stream %q", legs[0].Stream)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestRaceChecks: a store that does not hold what it should ends the race.
func TestRaceChecks(t *testing.T) {
	t.Parallel()
	c := small(t, 1)
	c.Show = func(Leg) {}
	r := &race{conf: c, env: env{ctx: t.Context(), cfg: Config{}.withDefaults(), root: c.Dir, elements: 100}}
	for name, work := range map[string]func(*leg) error{
		"an element too many": func(*leg) error { return nil },
		"another operation": func(l *leg) error {
			for i, x := range l.racers {
				b := x.batch.Reset()
				b.Add(r.names(), i, x.dots[i])
				if err := x.remove(b); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		err := r.run(&leg{state: Leg{Name: "wrong"}, memTable: raceMemTableMin, load: 100, left: 99, work: work})
		if l := r.legs[len(r.legs)-1]; !errors.Is(err, system.ErrWrong) || l.Finished {
			t.Errorf("%s: %v, %+v", name, err, l)
		}
	}
	if l := r.legs[0]; len(r.legs) != 2 || l.Name != "wrong" {
		t.Errorf("legs %+v", r.legs)
	}
}

func TestSpaceBack(t *testing.T) {
	t.Parallel()
	before := system.Usage{Tables: 1000, Live: 100}
	for _, c := range []struct {
		tables, live uint64
		want         float64
	}{{1000, 100, 0}, {1000, 10, 0}, {2000, 10, 0}, {550, 10, 0.5}, {100, 10, 1}, {90, 10, 1}, {500, 100, 0}, {0, 0, 1}} {
		if got := spaceBack(before, system.Usage{Tables: c.tables, Live: c.live}); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes, %d live: %v, want %v", c.tables, c.live, got, c.want)
		}
	}
}

// TestRaceTurns: the racer that has the first turn changes, and both have equally many.
func TestRaceTurns(t *testing.T) {
	t.Parallel()
	l := &leg{race: &race{env: env{ctx: t.Context()}}, racers: [2]*racing{newRacing(), newRacing()}}
	var order []int
	if err := l.steps("counting", 4, func(_ int, x *racing) error {
		for i := range l.racers {
			if x == l.racers[i] {
				order = append(order, i)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 0, 0, 1, 1, 0, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("turns %v, want %v", order, want)
	}
}
