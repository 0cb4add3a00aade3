package convergence

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// blockSize is how many schedules share one plan. A plan is made from what all schedules did up to the block before the last one.
// So it depends only on their numbers, and workers that run ahead rarely wait.
const blockSize = 25

// plan is what a block's schedules favour, in percent of the average. A nil plan favours nothing.
type plan struct {
	Shapes  []int // by shape
	Actions []int // by action
}

// plannedPercent of the shapes are drawn by the plan. The odds of an action change to between oddsLeast and oddsMost percent.
const (
	plannedPercent = 80
	oddsLeast      = 50
	oddsMost       = 400
)

// guide learns which faults, states and pairs of steps were rarely reached, and favours the shapes and actions of the schedules
// that reached them.
type guide struct {
	mu    sync.Mutex
	ready *sync.Cond
	plans []*plan // by block

	names   map[string]int // what can be reached, as an index
	met     []int          // by that index: how many schedules reached it
	shapes  tally
	actions tally
}

// tally counts schedules by shape, or by action, and how many of them reached each thing.
type tally struct {
	schedules []int
	met       [][]int
}

func newGuide() *guide {
	g := &guide{names: map[string]int{}, plans: make([]*plan, 2), shapes: newTally(len(shapes)), actions: newTally(int(actionCount))}
	g.ready = sync.NewCond(&g.mu)
	return g
}

// plan waits for the plan of a schedule's block.
func (g *guide) plan(ctx context.Context, nth int) *plan {
	block := nth / blockSize
	g.mu.Lock()
	defer g.mu.Unlock()
	if block >= len(g.plans) {
		defer context.AfterFunc(ctx, g.wake)()
	}
	for block >= len(g.plans) && ctx.Err() == nil {
		g.ready.Wait()
	}
	return g.plans[min(block, len(g.plans)-1)]
}

func (g *guide) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready.Broadcast()
}

// learn records what a schedule did. Outcomes must come in the order of their numbers.
func (g *guide) learn(o outcome) {
	met := g.indexes(o.stats)
	for _, i := range met {
		g.met[i]++
	}
	g.shapes.add(shapeNumber(o.s.Shape), met)
	o.s.took.each(func(a int) bool {
		g.actions.add(a, met)
		return true
	})
	if (o.n+1)%blockSize > 0 {
		return
	}
	p := &plan{g.shapes.percent(g.met), g.actions.percent(g.met)}
	for a, n := range p.Actions {
		p.Actions[a] = min(max(n, oddsLeast), oddsMost)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plans = append(g.plans, p)
	g.ready.Broadcast()
}

// indexes returns what a schedule reached.
func (g *guide) indexes(s *Stats) (met []int) {
	see := func(name string) {
		i, ok := g.names[name]
		if !ok {
			i = len(g.met)
			g.names[name], g.met = i, append(g.met, 0)
		}
		met = append(met, i)
	}
	for _, list := range []map[string]int{s.Faults, s.Sometimes} {
		for name, n := range list {
			if n > 0 {
				see(name)
			}
		}
	}
	s.pairs.each(func(i int) bool {
		see(pairNames[i])
		return true
	})
	return met
}

func newTally(n int) tally { return tally{make([]int, n), make([][]int, n)} }

func (t *tally) add(i int, met []int) {
	if i < 0 {
		return
	}
	t.schedules[i]++
	for _, f := range met {
		for f >= len(t.met[i]) {
			t.met[i] = append(t.met[i], 0)
		}
		t.met[i][f]++
	}
}

// percent returns, by shape or action, how much of what is rare one schedule reached: what one schedule in n reaches counts n times
// as much as what all reach. Shapes or actions without a schedule so far get 100, the average.
func (t *tally) percent(met []int) []int {
	const one = 1 << 20
	list, sum, had := make([]int, len(t.met)), 0, 0
	for i, n := range t.schedules {
		if n == 0 {
			continue
		}
		for f, m := range t.met[i] {
			list[i] += m * one / met[f]
		}
		list[i] /= n
		sum, had = sum+list[i], had+1
	}
	for i, n := range t.schedules {
		if n == 0 || sum == 0 {
			list[i] = 100
		} else {
			list[i] = 100 * list[i] * had / sum
		}
	}
	return list
}

func shapeNumber(name string) int {
	return slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
}

// pick draws a shape.
func (p *plan) pick(r *rand.Rand, fit []*shape) *shape {
	sum, upTo := 0, make([]int, len(fit))
	for i, s := range fit {
		sum += 1 + p.Shapes[shapeNumber(s.name)]
		upTo[i] = sum
	}
	k := r.IntN(sum)
	return fit[slices.IndexFunc(upTo, func(n int) bool { return k < n })]
}

// String writes the plan into the file of a running schedule.
func (p *plan) String() string {
	text, _ := json.Marshal(p)
	return string(text)
}

// readPlan inverts String. It reports whether the plan fits this version of the kit.
func readPlan(text string) (p *plan, ok bool) {
	err := json.Unmarshal([]byte(text), &p)
	return p, err == nil && (p == nil || len(p.Shapes) == len(shapes) && len(p.Actions) == int(actionCount))
}

// kindNumbers numbers the kinds of steps, and pairNames names pairs of them.
var kindNumbers, pairNames = numberKinds()

func numberKinds() (numbers map[string]int, pairs []string) {
	numbers = map[string]int{}
	names := slices.Sorted(maps.Keys(kinds))
	for i, before := range names {
		numbers[before] = i
		for _, after := range names {
			pairs = append(pairs, before+", then "+after)
		}
	}
	return numbers, pairs
}

// countPair records which kind of step follows which at the replicas of a step.
func (w *world) countPair(s *Step) {
	kind := kindNumbers[s.Kind]
	note := func(n *node) {
		if n.last > 0 {
			w.stats.pairs.add((n.last-1)*len(kindNumbers) + kind)
		}
		n.last = kind + 1
	}
	for _, n := range w.named(s) {
		note(n)
	}
}
