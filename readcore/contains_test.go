package readcore_test

import (
	"fmt"
	"slices"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/readcore"
)

// answer is what a replica says about an element at one moment.
func (r *replica) answer(element string, asked []clock.Dot) readcore.Answer {
	a := readcore.Answer{Live: r.visible(element), Asked: asked}
	for _, d := range asked {
		v := bigset.NotSeen
		switch {
		case slices.Contains(a.Live, d):
			v = bigset.Live
		case r.dead.Contains(d):
			v = bigset.Dead
		case r.seen.Contains(d):
			v = bigset.Lost
		}
		a.Statuses = append(a.Statuses, v)
	}
	return a
}

// spoil changes an answer into what it would be without asking for statuses, or with only those that were asked for.
func spoil(a *readcore.Answer, asked []clock.Dot, broken string) {
	switch broken {
	case "only what was asked":
		if asked != nil {
			a.Live = slices.DeleteFunc(a.Live, func(d clock.Dot) bool { return !slices.Contains(asked, d) })
		}
	case "absent is dead", "absent is not seen":
		for i, d := range a.Asked {
			switch {
			case slices.Contains(a.Live, d):
			case broken == "absent is dead":
				a.Statuses[i] = bigset.Dead
			default:
				a.Statuses[i] = bigset.NotSeen
			}
		}
	}
}

// containsSchedule looks elements up at a quorum while the replicas change.
func containsSchedule(pick func(int) int, broken string) error {
	w := newWorld(pick)
	for range w.pick(30) {
		w.step()
	}
	for range 3 {
		element := elements[w.pick(len(elements)):][:1]
		if err := w.contains(element, broken); err != nil {
			return fmt.Errorf("%q: %w, R=%d", element, err, w.r)
		}
	}
	return nil
}

func (w *world) contains(element, broken string) error {
	g := w.begin()
	from := w.pick(len(w.replicas))
	asked := slices.Concat(w.replicas[from:], w.replicas[:from])[:w.r]
	var d readcore.Decision
	for round := 0; round == 0 || len(d.Ask) > 0; round++ {
		if round > 50 {
			return fmt.Errorf("not decided")
		}
		answers := make([]readcore.Answer, w.r)
		for i, r := range asked {
			answers[i] = r.answer(element, d.Ask)
			spoil(&answers[i], d.Ask, broken)
			if round < 10 && w.chance(60) {
				w.step()
			}
		}
		d = readcore.Decide(answers)
	}
	if len(d.Dots) == 0 && g.must(element) {
		return fmt.Errorf("lost")
	}
	if len(d.Dots) > 0 && !g.may(element) {
		return fmt.Errorf("back")
	}
	if broken != "" {
		return nil
	}
	return w.repair(element, asked, d.Repairs)
}

func (w *world) repair(element string, asked []*replica, repairs []readcore.Repair) error {
	for _, rep := range repairs {
		r := asked[rep.Replica]
		for _, d := range rep.Missing {
			r.put(d, element)
		}
		for _, d := range rep.Dead {
			if !slices.ContainsFunc(asked, func(o *replica) bool { return o.dead.Contains(d) }) {
				return fmt.Errorf("nobody's Dead has %v", d)
			}
			r.kill(clock.Of(d))
		}
		if len(rep.Lost) > 0 {
			return fmt.Errorf("nothing was damaged, and %v is said to be", rep.Lost)
		}
	}
	return w.check()
}

// TestContains: a look-up at a quorum finds what must be seen and nothing that must not, whatever happens between its rounds.
func TestContains(t *testing.T) {
	for seed := range uint64(10_000) {
		if err := containsSchedule(seeded(seed), ""); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestContainsBroken: look-ups that are broken in ways that are easily overlooked are caught by the test.
func TestContainsBroken(t *testing.T) {
	for _, broken := range []string{
		"absent is dead",      // what a replica does not show counts as removed
		"absent is not seen",  // or as not seen
		"only what was asked", // dots that came since the first round are not shown in the second
	} {
		t.Run(broken, func(t *testing.T) {
			const most = 50_000
			for seed := range uint64(most) {
				if err := containsSchedule(seeded(seed), broken); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d schedules", most)
		})
	}
}
