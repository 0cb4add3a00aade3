package convergence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// abilities are what the replicas of a system can do.
type abilities struct {
	batch, durable, backup, fault, repair, resend, send, copying, leave, maintain, damage, merge, retries, parallel bool

	restored bool // System.Restored

	quiet   bool // Quieter
	removes bool // its specification proposes "add" and "remove": most aims are made of these
}

// probe opens a replica to find out what it can do. It gives up if that takes longer than a step may.
func probe(sys System, limit time.Duration) (a abilities, err error) {
	if err := sys.check(); err != nil {
		return a, err
	}
	if limit < 0 {
		return openOne(sys)
	}
	type result struct {
		a   abilities
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := openOne(sys)
		done <- result{a, err}
	}()
	wait := newPatience(limit)
	defer wait.Stop()
	for {
		select {
		case r := <-done:
			return r.a, r.err
		case <-wait.C:
		}
		if wait.ends(false) {
			return a, fmt.Errorf("convergence: system %q: a replica has not opened after %v\n%s", sys.Name, limit, stacks(func(g string) bool { return strings.Contains(g, "convergence.openOne") }))
		}
	}
}

func openOne(sys System) (a abilities, err error) {
	if blocked, left := sys.inside(func(sys System) { a, err = openInside(sys) }); err == nil && (blocked != nil || left != nil) {
		err = fmt.Errorf("convergence: system %q: a replica was opened and closed: %w", sys.Name, errors.Join(blocked, left))
	}
	return a, err
}

func openInside(sys System) (a abilities, err error) {
	w := &world{sys: sys, spec: sys.spec(), s: &Script{Replicas: 1}, stats: newStats()}
	w.pcg = rand.NewPCG(0, 0)
	w.rand = rand.New(w.pcg)
	defer func() {
		if v := w.close(nil); v != nil && err == nil {
			err = v.alone(sys)
		}
	}()
	if v := w.guard(w.open); v != nil {
		return a, v.alone(sys)
	}
	r := w.nodes[0].rep
	_, a.batch = r.(Batcher)
	_, a.durable = r.(Durable)
	_, a.backup = r.(Backuper)
	_, a.fault = r.(DiskFaulter)
	_, a.repair = r.(Repairer)
	_, a.copying = r.(Copier)
	_, a.leave = r.(Leaver)
	_, a.maintain = r.(Maintainer)
	_, a.quiet = r.(Quieter)
	_, a.damage = r.(Damager)
	a.merge = sys.Merge != nil
	_, a.resend = r.(Resender)
	a.restored = sys.Restored
	_, a.send = r.(Sender)
	a.retries, a.parallel = sys.Retries, sys.Parallel
	kinds := map[string]bool{}
	gen := func() *Violation {
		for range 100 {
			kinds[w.spec.Gen(w.rand, []string{"a"}).Kind] = true
		}
		return nil
	}
	if v := w.guard(gen); v != nil {
		return a, v.alone(sys)
	}
	a.removes = kinds["add"] && kinds["remove"]
	return a, sys.fits(a)
}

// alone returns the error for what went wrong with a replica before any schedule.
func (v *Violation) alone(sys System) error {
	return fmt.Errorf("convergence: system %q: %s", sys.Name, strings.TrimSpace(v.Text+"\n"+v.Stack))
}

// gen makes one schedule. It looks at no replica, only at the numbers of the steps that it has made, so that the schedule is a
// function of the seed, the options and what the system can do.
type gen struct {
	*rand.Rand
	can   abilities
	spec  Spec
	shape *shape
	s     *Script
	away  int  // a replica that is left out until the end; -1 is none
	joins bool // and does not exist before
	elems []string
	odds  weights
	nth   int
	now   int // percent: a message goes out at once

	views   []int // steps that show something
	dos     []int // steps with operations
	msgs    []int // steps that may have made messages
	asks    []int
	answers []int
	reads   []openRead
}

type openRead struct {
	step, streams int
}

// generate makes the n-th schedule.
func generate(sys System, can abilities, o *Options, nth int, p *plan) *Script {
	seed := mix(o.Seed, uint64(nth))
	return generateFrom(sys, can, o, nth, seed, rand.NewPCG(seed, 1), p)
}

// generateFrom makes a schedule by drawing from a source.
func generateFrom(sys System, can abilities, o *Options, nth int, seed uint64, from rand.Source, p *plan) *Script {
	g := &gen{Rand: rand.New(from), can: can, spec: sys.spec(), away: -1}
	n := o.Replicas
	if n == 0 {
		n = []int{2, 3, 3, 3, 3, 4, 5}[g.IntN(7)]
		if g.IntN(16) == 0 {
			n = 6 + g.IntN(3)
		}
	}
	g.nth = nth
	g.shape = pickShape(g.Rand, o, can, n, p)
	if k := nth % manyEvery; k == manyEvery-1 && len(o.Elements) == 0 || k == churnAt {
		if s := manyShape(o); s != nil {
			g.shape, n = s, min(n, 3)
		}
	}
	g.s = &Script{System: sys.Name, Seed: seed, Replicas: n, Shape: g.shape.name}
	g.setup(o, nth, p)
	first := g.s.nextN()
	last := first + 10 + g.IntN(o.Steps)
	if g.shape.many {
		last = first + 10 + g.IntN(10)
	}
	g.s.Steps = slices.Grow(g.s.Steps, last-first+stepsMore)
	back := first + (last-first)/2
	for g.s.nextN() < last {
		if g.away >= 0 && g.s.nextN() > back && g.percent(10) {
			g.comeBack()
		}
		g.act()
	}
	g.finish()
	g.unread()
	return g.s
}

// stepsMore is room for the steps of the last action and of the end.
const stepsMore = 16

func (s *Script) nextN() int { return len(s.Steps) + 1 }

// setup draws what applies to the whole schedule: the elements, one of which is hot, and the classes of faults that are switched
// off.
func (g *gen) setup(o *Options, nth int, p *plan) {
	g.elems = pickElems(g.Rand, o.Elements, nth)
	if g.IntN(16) == 0 {
		g.s.Base = []uint64{1<<8 - 3, 1<<16 - 3, 1<<32 - 3, 1<<53 - 3}[g.IntN(4)]
	}
	if g.IntN(2) == 0 {
		for range 4 {
			g.elems = append(g.elems, g.elems[0])
		}
	}
	g.odds, g.now = g.shape.odds, g.shape.now
	for i := range g.odds {
		// An action that a system can't do draws nothing, so that a new action changes no schedule of systems without it.
		if !g.able(action(i)) || g.shape.swarm && !always[i] && g.IntN(10) < 4 {
			g.odds[i] = 0
		}
		if p != nil {
			g.odds[i] *= p.Actions[i]
		}
	}
	if g.shape.swarm && g.IntN(10) < 3 {
		g.now = 0
	}
	if g.shape.away {
		g.away = g.IntN(g.s.Replicas)
		g.joins = g.away > 0 && g.percent(60)
	}
	if g.shape.many {
		g.many()
	}
	if nth%manyEvery == manyEvery-1 && len(o.Elements) > elemsMost {
		g.all(o.Elements)
	}
}

// all does an operation on each of many elements at a replica, and delivers them to another one.
func (g *gen) all(elems []string) {
	r := g.replica()
	to := g.other(r)
	fill := newFiller(g.spec, g.s.Seed, false)
	for _, elem := range elems {
		g.deliver(g.quiet(r, ScriptOp{Op: fill.op(elem)}), to)
	}
}

func (g *gen) able(a action) bool {
	three := g.s.Replicas >= 3
	switch a {
	case aBatch:
		return g.can.batch
	case aDies:
		return g.can.durable && (g.can.repair || g.can.resend)
	case aGone:
		return !g.can.copying && three
	case aBoth:
		return g.can.parallel
	case aStable:
		return g.can.send && g.can.durable && three
	case aSync, aCrash, aRestart, aLost:
		return g.can.durable
	case aMaintain:
		return g.can.maintain
	case aRepair:
		return g.can.repair
	case aCopy:
		return g.can.copying
	case aTwoCopies:
		return g.can.copying && three
	case aStream, aQuorum:
		return g.can.merge
	case aFault:
		return g.can.fault
	case aDamage:
		return g.can.damage && g.can.removes && three
	case aWipe:
		return g.can.copying && g.can.durable && three
	case aLeave:
		return g.can.leave && g.can.durable && three
	case aRestore:
		return g.can.backup && g.can.durable && (g.can.copying && three || g.can.restored)
	case aOvertake, aChain:
		return g.can.removes && three
	case aUndurable:
		return g.can.removes && g.can.maintain && g.can.durable
	case aCopyBroken:
		return g.can.removes && g.can.copying && g.can.durable
	case aRetry:
		return g.can.retries
	case aRetried:
		return g.can.retries && g.can.removes
	case aFailover:
		return g.can.removes && g.can.merge && three
	}
	return true
}

// act chooses an action by its odds.
func (g *gen) act() {
	sum := 0
	for _, n := range g.odds {
		sum += n
	}
	k := g.IntN(sum)
	for a, n := range g.odds {
		if k -= n; k < 0 {
			g.s.took.add(a)
			actions[a](g)
			return
		}
	}
}

// add appends a step and returns its number.
func (g *gen) add(s Step) int {
	s.N = g.s.nextN()
	g.s.Steps = append(g.s.Steps, s)
	return s.N
}

func (g *gen) replica() int {
	for {
		if r := g.IntN(g.s.Replicas); r != g.away {
			return r
		}
	}
}

// other returns a replica other than r.
func (g *gen) other(r int) int {
	if g.s.Replicas == 1 || g.s.Replicas == 2 && g.away >= 0 {
		return r
	}
	for {
		if o := g.replica(); o != r {
			return o
		}
	}
}

func (g *gen) percent(n int) bool { return g.IntN(100) < n }

// recent picks from a list, mostly from its end.
func (g *gen) recent(list []int) int {
	n := len(list)
	if n == 0 {
		return 0
	}
	if g.percent(70) {
		return list[n-1-g.IntN(min(n, 5))]
	}
	return list[g.IntN(n)]
}

// op proposes an operation, with a context of any age or none.
func (g *gen) op() ScriptOp {
	o := ScriptOp{Op: g.spec.Gen(g.Rand, g.elems)}
	if g.percent(75) && len(g.views) > 0 && !g.shape.many {
		o.Ctx = g.recent(g.views)
	}
	return o
}

// quiet emits operations at a replica. Their messages are not delivered yet.
func (g *gen) quiet(r int, ops ...ScriptOp) int { return g.doAs("do", r, ops...) }

func (g *gen) doAs(kind string, r int, ops ...ScriptOp) int {
	n := g.add(Step{Kind: kind, A: r, Ops: ops})
	g.views, g.dos = append(g.views, n), append(g.dos, n)
	return n
}

// do emits operations at a replica, and often delivers the message.
func (g *gen) do(r int, ops ...ScriptOp) int {
	n := g.quiet(r, ops...)
	g.msgs = append(g.msgs, n)
	if g.percent(g.now) {
		for to := range g.s.Replicas {
			if to != r && to != g.away && g.percent(55) {
				g.deliver(n, to)
			}
		}
	}
	return n
}

func (g *gen) doSome(r int) int {
	ops := []ScriptOp{g.op()}
	if g.odds[aBatch] > 0 && g.percent(15) {
		for range 1 + g.IntN(2) {
			ops = append(ops, g.op())
		}
	}
	return g.do(r, ops...)
}

func (g *gen) deliver(step, to int) int {
	n := g.add(Step{Kind: "deliver", Ref: step, B: to})
	g.views = append(g.views, n)
	return g.speak(n)
}

// speak notes that a step may have made messages of the replica's own, such as an acknowledgement, and returns the step.
func (g *gen) speak(n int) int {
	if kind := g.s.Steps[n-1].Kind; g.can.send || g.can.resend && (kind == "crash" || kind == "dies" || kind == "restart") {
		g.msgs = append(g.msgs, n)
	}
	return n
}

func (g *gen) on(kind string, r int) int {
	n := g.speak(g.add(Step{Kind: kind, A: r}))
	if kind != "sync" && kind != "backup" && kind != "ask" {
		g.views = append(g.views, n)
	}
	return n
}

// finish ends the schedule: it ends open reads, then exchanges everything.
func (g *gen) finish() {
	for _, r := range g.reads {
		if g.percent(70) {
			g.add(Step{Kind: "finish", Ref: r.step})
		}
	}
	g.comeBack()
	if g.shape.end != nil {
		g.shape.end(g)
	}
	g.exchange()
}

func (g *gen) exchange() {
	modes := []string{"messages", "messages"}
	if g.can.repair {
		modes = append(modes, "repair", "repair")
	}
	if g.can.repair && g.s.took.has(int(aStable)) { // messages would bring what was forgotten too early
		modes = append(modes, "repair", "repair")
	}
	if g.can.copying {
		modes = append(modes, "copies")
	}
	g.add(Step{Kind: "exchange", Word: modes[g.IntN(len(modes))]})
}
