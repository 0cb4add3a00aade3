package convergence

import (
	"math/rand/v2"
	"slices"
)

// action is what a schedule may do next: a step, or a few that belong together.
type action int

const (
	aDo action = iota
	aBatch
	aDeliver
	aDeliverMany
	aSync
	aCrash
	aRestart
	aMaintain
	aRepair
	aCopy
	aTwoCopies
	aStream
	aQuorum
	aPartition
	aSkew
	aFault
	aDamage
	aWipe
	aLeave
	aRestore
	aLost
	aOvertake
	aChain
	aUndurable
	aCopyBroken
	aFailover
	aRetry
	aRetried
	aDies
	aGone
	aBoth
	aStable
	actionCount
)

// weights are the odds of actions.
type weights [actionCount]int

// always are the actions that swarm testing does not switch off.
var always = [actionCount]bool{aDo: true, aDeliver: true, aSync: true}

var actions = [actionCount]func(g *gen){
	aDo:          func(g *gen) { g.doSome(g.replica()) },
	aBatch:       (*gen).batch,
	aDeliver:     (*gen).deliverOne,
	aDeliverMany: (*gen).deliverMany,
	aSync:        func(g *gen) { g.on("sync", g.replica()) },
	aCrash:       (*gen).crash,
	aRestart:     func(g *gen) { g.on("restart", g.replica()) },
	aMaintain:    (*gen).maintain,
	aRepair:      (*gen).repair,
	aCopy:        func(g *gen) { r := g.replica(); g.copySteps(r, g.other(r), 1+g.IntN(4)) },
	aTwoCopies:   (*gen).twoCopies,
	aStream:      (*gen).stream,
	aQuorum:      (*gen).quorum,
	aPartition:   (*gen).partition,
	aSkew:        func(g *gen) { g.add(Step{Kind: "skew", A: g.replica(), Arg: (g.IntN(41) - 20) * 1000}) },
	aFault:       (*gen).fault,
	aDamage:      (*gen).damage,
	aWipe:        func(g *gen) { g.lose("wipe") },
	aLeave:       func(g *gen) { g.lose("leave") },
	aRestore:     (*gen).restore,
	aLost:        (*gen).lost,
	aOvertake:    (*gen).overtake,
	aChain:       (*gen).chain,
	aUndurable:   (*gen).undurable,
	aCopyBroken:  (*gen).copyBroken,
	aFailover:    (*gen).failover,
	aRetry:       (*gen).retry,
	aRetried:     (*gen).retried,
	aDies:        (*gen).dies,
	aGone:        func(g *gen) { g.add(Step{Kind: "gone", A: g.replica()}) },
	aBoth:        (*gen).both,
	aStable:      (*gen).stable,
}

// shape is a named kind of schedule.
type shape struct {
	name  string
	needs func(a abilities, replicas int) bool // nil: any system
	odds  weights
	now   int  // percent: an operation's message is delivered at once
	swarm bool // some classes of faults are off
	away  bool // a replica is away until the second half or the end, and in some schedules joins then
	many  bool // it begins with hundreds of elements
	end   func(g *gen)
}

// mixed has a bit of everything.
var mixed = weights{aDo: 24, aBatch: 3, aDeliver: 14, aDeliverMany: 2, aSync: 10, aCrash: 4, aRestart: 1, aMaintain: 5, aRepair: 6, aCopy: 6,
	aTwoCopies: 1, aStream: 6, aQuorum: 3, aPartition: 2, aSkew: 1, aFault: 1, aDamage: 1, aWipe: 1, aLeave: 1, aRestore: 1, aLost: 1, aOvertake: 2, aChain: 1,
	aUndurable: 1, aCopyBroken: 1, aFailover: 1, aRetry: 3, aRetried: 1, aDies: 2, aGone: 1, aBoth: 3, aStable: 1}

var shapes = []shape{
	{name: "mixed", odds: mixed, now: 60, swarm: true},
	{name: "mixed-all", odds: mixed, now: 60},
	{name: "deltas", odds: weights{aDo: 30, aBatch: 5, aDeliver: 30, aOvertake: 4, aChain: 2, aSync: 2}, now: 40},
	{name: "backwards-twice", odds: weights{aDo: 30, aBatch: 4, aChain: 1, aDeliver: 6}, now: 20, end: (*gen).backwardsTwice},
	{name: "overtake", needs: func(a abilities, n int) bool { return a.removes && n >= 3 }, odds: weights{aDo: 10, aOvertake: 10, aDeliver: 5, aRepair: 2, aMaintain: 3}, now: 30},
	{name: "away", needs: func(a abilities, n int) bool { return n >= 3 }, odds: mixed, now: 70, swarm: true, away: true},
	{name: "unsynced", needs: func(a abilities, n int) bool { return a.durable },
		odds: weights{aDo: 25, aBatch: 6, aDeliver: 15, aSync: 8, aCrash: 12, aRestart: 1, aLost: 6, aMaintain: 6, aDies: 4, aStable: 4}, now: 60},
	{name: "compaction", needs: func(a abilities, n int) bool { return a.maintain },
		odds: weights{aDo: 25, aDeliver: 12, aDeliverMany: 2, aSync: 10, aCrash: 4, aMaintain: 22, aChain: 4, aUndurable: 3, aQuorum: 2, aRepair: 3}, now: 50},
	{name: "copies", needs: func(a abilities, n int) bool { return a.copying },
		odds: weights{aDo: 22, aDeliver: 8, aSync: 6, aCrash: 5, aCopy: 22, aTwoCopies: 3, aCopyBroken: 5, aQuorum: 3, aMaintain: 1}, now: 40},
	{name: "anti-entropy", needs: func(a abilities, n int) bool { return a.repair },
		odds: weights{aDo: 22, aDeliver: 6, aSync: 6, aCrash: 3, aRepair: 22, aQuorum: 2, aDamage: 3, aMaintain: 2, aDies: 2, aGone: 1, aStable: 8}, now: 25},
	{name: "streams", needs: func(a abilities, n int) bool { return a.merge && n >= 2 },
		odds: weights{aDo: 22, aDeliver: 10, aSync: 6, aCrash: 2, aStream: 14, aFailover: 4, aQuorum: 4, aDamage: 1}, now: 55},
	{name: "disks", needs: func(a abilities, n int) bool { return a.copying && a.durable && n >= 3 },
		odds: weights{aDo: 20, aDeliver: 8, aSync: 6, aWipe: 4, aLeave: 4, aRestore: 5, aQuorum: 4, aCopy: 3}, now: 70},
	{name: "faults", needs: func(a abilities, n int) bool { return a.fault },
		odds: weights{aDo: 25, aBatch: 3, aDeliver: 14, aSync: 8, aCrash: 5, aFault: 10, aMaintain: 4, aRetry: 4}, now: 50},
	{name: "retries", needs: func(a abilities, n int) bool { return a.retries },
		odds: weights{aDo: 22, aBatch: 3, aDeliver: 14, aSync: 8, aCrash: 4, aRetry: 12, aRetried: 6, aRepair: 2, aFault: 1}, now: 50},
	{name: "many", odds: weights{aDo: 24, aDeliver: 14, aSync: 6, aCrash: 2, aRepair: 4, aCopy: 4, aQuorum: 2}, now: 60, many: true},
}

// ShapeNames returns the names of the shapes of schedules, for Options.Shapes.
func ShapeNames() (names []string) {
	for i := range shapes {
		names = append(names, shapes[i].name)
	}
	return names
}

// pickShape draws a shape that suits the system: by the plan if p is not nil, otherwise so that a third of all schedules are mixed.
func pickShape(r *rand.Rand, o *Options, can abilities, replicas int, p *plan) *shape {
	var fit []*shape
	for i := range shapes {
		s := &shapes[i]
		if s.many && len(o.Shapes) == 0 {
			continue
		}
		if (s.needs == nil || s.needs(can, replicas)) && (len(o.Shapes) == 0 || slices.Contains(o.Shapes, s.name)) {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		return &shapes[0]
	}
	if p != nil && r.IntN(100) < plannedPercent {
		return p.pick(r, fit)
	}
	if r.IntN(4) == 0 {
		return fit[0]
	}
	return fit[r.IntN(len(fit))]
}

// many adds hundreds of elements at a replica, more than fit a byte or a page, and delivers them to others. In every other schedule
// it then removes most of them. In others it does as many operations on one element.
func (g *gen) many() {
	if g.nth%manyEvery == churnAt {
		g.churn()
		return
	}
	r := g.replica()
	turn := g.nth / manyEvery
	count := []int{1100, 300}[turn%2]
	strips := turn/2%2 != turn%2 && newFiller(g.spec, g.s.Seed, true).kind != ""
	n := g.fillSome(r, count, !strips)
	g.elems = []string{fillElem(0), fillElem(1), fillElem(count / 2), fillElem(count - 1), "z"}
	to := g.other(r)
	g.views = append(g.views, g.add(Step{Kind: "spread", Ref: n, B: to}))
	if !strips {
		return
	}
	if g.percent(50) {
		r, to = to, r
	}
	n = g.add(Step{Kind: "strip", A: r, Arg: count - stripLeft})
	g.views = append(g.views, g.add(Step{Kind: "spread", Ref: n, B: to}))
}

// stripLeft is how many elements are left of those that a schedule begins with.
const stripLeft = 50

// dies cuts a replica's power in an operation, and then delivers messages of others to it.
func (g *gen) dies() {
	r := g.replica()
	g.views = append(g.views, g.speak(g.add(Step{Kind: "dies", A: r, Arg: g.IntN(5), Ops: []ScriptOp{g.op()}})))
}

// manyShape returns the shape that begins with many elements, unless the options exclude it.
func manyShape(o *Options) *shape {
	for i := range shapes {
		if s := &shapes[i]; s.many && (len(o.Shapes) == 0 || slices.Contains(o.Shapes, s.name)) {
			return s
		}
	}
	return nil
}

// comeBack ends the absence of a replica. A replica that joins, often when another one has left, asks others for their data, or
// receives old messages.
func (g *gen) comeBack() {
	r := g.away
	if g.away = -1; r < 0 || !g.joins {
		return
	}
	if g.able(aGone) && g.percent(40) { // it takes the place of one that leaves
		g.add(Step{Kind: "gone", A: g.other(r)})
	}
	g.on("join", r)
	if g.can.repair && g.percent(70) {
		ask := g.on("ask", r)
		n := g.add(Step{Kind: "answer", Ref: ask, B: g.other(r)})
		g.deliver(n, r)
	}
	if g.can.copying && g.percent(50) {
		g.copySteps(g.other(r), r, 3)
	}
	for range g.IntN(4) {
		if len(g.msgs) > 0 {
			g.deliver(g.recent(g.msgs), r)
		}
	}
}

func (g *gen) elem() string { return g.elems[g.IntN(len(g.elems))] }

func (g *gen) batch() {
	ops := []ScriptOp{g.op(), g.op()}
	if ops[0].Op.Elem != "" && ops[1].Op.Elem != "" && g.percent(40) {
		ops[1].Op.Elem, ops[1].Ctx = ops[0].Op.Elem, 0
	}
	r := g.replica()
	g.do(r, ops...)
	if g.can.durable && g.odds[aCrash] > 0 && g.percent(40) {
		g.crashAt(r)
	}
}

func (g *gen) deliverOne() {
	if len(g.msgs) == 0 {
		return
	}
	step := g.recent(g.msgs)
	n := g.add(Step{Kind: "deliver", Ref: step, B: g.replica(), Sub: g.IntN(8) / 7})
	g.views = append(g.views, n)
}

// deliverMany gives a replica the last messages, backwards.
func (g *gen) deliverMany() {
	to := g.replica()
	for i := range min(len(g.msgs), 2+g.IntN(5)) {
		g.deliver(g.msgs[len(g.msgs)-1-i], to)
	}
}

// backwardsTwice delivers all messages to every replica twice, the last one first. Replicas are read after a part of them, and
// after all.
func (g *gen) backwardsTwice() {
	g.s.Steps = slices.Grow(g.s.Steps, 2*g.s.Replicas*len(g.msgs)+1)
	for to := range g.s.Replicas {
		for range 2 {
			for i := len(g.msgs) - 1; i >= 0; i-- {
				g.add(Step{Kind: "deliver", Ref: g.msgs[i], B: to, Unread: i > 0 && g.percent(75)})
			}
		}
	}
}

func (g *gen) crash() { g.crashAt(g.replica()) }

func (g *gen) crashAt(r int) {
	n := g.speak(g.add(Step{Kind: "crash", A: r, Arg: g.IntN(5)}))
	g.views = append(g.views, n)
}

func (g *gen) maintain() {
	n := g.speak(g.add(Step{Kind: "maintain", A: g.replica(), Arg: g.IntN(16)}))
	g.views = append(g.views, n)
}

// repair does a part of an anti-entropy exchange: a question, an answer to an older question, or the delivery of an older answer.
func (g *gen) repair() {
	r := g.replica()
	if len(g.asks) == 0 || g.percent(50) {
		g.asks = append(g.asks, g.on("ask", r))
	}
	if g.percent(70) {
		ask := g.recent(g.asks)
		g.answers = append(g.answers, g.add(Step{Kind: "answer", Ref: ask, B: g.other(r)}))
	}
	if len(g.answers) > 0 && g.percent(80) {
		n := g.recent(g.answers)
		for sub := range 2 {
			if g.percent(75) {
				g.views = append(g.views, g.add(Step{Kind: "deliver", Ref: n, Sub: sub, B: r}))
			}
		}
	}
}

// copySteps does a part of a copy, with crashes and cuts between its chunks.
func (g *gen) copySteps(from, to, n int) {
	for range n {
		g.views = append(g.views, g.add(Step{Kind: "copy", A: from, B: to}))
		switch k := g.IntN(40); {
		case k < 6:
			g.doSome([]int{from, to, from}[g.IntN(3)])
		case k < 9:
			g.deliverOne()
		case k < 11:
			g.add(Step{Kind: "cut", A: from, B: to})
		case k < 13 && g.odds[aCrash] > 0:
			g.crashAt([]int{from, to}[g.IntN(2)])
		case k < 14 && g.odds[aSync] > 0:
			g.on("sync", to)
		}
	}
}

// twoCopies fills one replica from two sources at the same time.
func (g *gen) twoCopies() {
	to := g.replica()
	a := g.other(to)
	b := g.other(to)
	for range 3 + g.IntN(5) {
		g.copySteps([]int{a, b}[g.IntN(2)], to, 1)
	}
}

// some returns k different replicas.
func (g *gen) some(k int) (set uint32) {
	perm := g.Perm(g.s.Replicas)
	for _, r := range perm {
		if r != g.away && ones(set) < k {
			set |= 1 << r
		}
	}
	return set
}

func (g *gen) quorumSize() int {
	n := g.s.Replicas
	k := n/2 + 1
	switch g.IntN(5) {
	case 0:
		k = 1 + g.IntN(n)
	case 1:
		k = n
	}
	return k
}

func (g *gen) quorum() {
	g.views = append(g.views, g.add(Step{Kind: "quorum", Set: g.some(g.quorumSize())}))
}

// stream reads several replicas while they are written: chunks, a fail-over, writes beyond the reader's bound. Writes with the
// contexts of the read follow it.
func (g *gen) stream() {
	if len(g.reads) == 0 || g.percent(60) {
		if g.can.removes && g.percent(40) {
			g.populate(g.replica(), 70)
		}
		set := g.some(g.quorumSize())
		n := g.add(Step{Kind: "open", Set: set})
		g.reads = append(g.reads, openRead{n, ones(set)})
	}
	r := g.reads[g.IntN(len(g.reads))]
	for range 1 + g.IntN(6) {
		switch k := g.IntN(20); {
		case k < 10:
			g.msgs = append(g.msgs, g.add(Step{Kind: "chunk", Ref: r.step, Arg: g.IntN(r.streams)}))
		case k < 15:
			g.doSome(g.replica())
		case k < 18:
			g.deliverOne()
		default:
			g.add(Step{Kind: "replace", Ref: r.step, Arg: g.IntN(r.streams), B: g.replica()})
		}
	}
	if g.percent(50) {
		g.finishRead(r)
	}
}

func (g *gen) finishRead(r openRead) (step int) {
	n := g.add(Step{Kind: "finish", Ref: r.step})
	g.views, g.msgs = append(g.views, n), append(g.msgs, n)
	g.reads = slices.DeleteFunc(g.reads, func(o openRead) bool { return o == r })
	for range g.IntN(3) {
		o := g.op()
		o.Ctx = n
		if g.percent(50) && o.Op.Kind == "add" && g.can.removes {
			o.Op.Kind = "remove"
		}
		g.do(g.replica(), o)
	}
	return n
}

func (g *gen) partition() {
	if g.percent(50) {
		g.add(Step{Kind: "heal"})
		return
	}
	g.add(Step{Kind: "partition", Set: g.some(1 + g.IntN(max(1, g.s.Replicas-1)))})
}

// fault makes a disk fail for a few operations, and often for a sync, which may lose what it was to write: the next sync must not
// treat that as durable.
func (g *gen) fault() {
	r := g.replica()
	g.add(Step{Kind: "fault", A: r, Word: []string{"io-error", "disk-full"}[g.IntN(2)]})
	for range g.IntN(4) {
		g.doSome(r)
		g.deliverOne()
	}
	if g.can.durable && g.percent(60) {
		g.on("sync", r)
	}
	g.add(Step{Kind: "fault", A: r, Word: "ok"})
	if g.can.durable && g.percent(40) {
		g.on("sync", r)
		g.crashAt(r)
	}
}
