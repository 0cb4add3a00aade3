package convergence

import "slices"

// Actions that aim at one mistake each. They are mixed with other actions, so that their effects vary.

// spread makes a replica's last operation durable at another one, and delivers everything to everyone.
func (g *gen) spread(r int) {
	n := g.doSome(r)
	g.deliver(n, g.other(r))
	for i := range g.s.Replicas {
		g.on("sync", i)
	}
}

// lose destroys a replica's data once it is durable elsewhere, looks at what is then read, and fills the replica again.
func (g *gen) lose(kind string) {
	r := g.replica()
	g.spread(r)
	g.on(kind, r)
	if g.can.merge {
		g.quorum()
	}
	g.fill(r)
}

func (g *gen) fill(r int) {
	for from := range g.s.Replicas {
		if from != r && g.percent(80) {
			g.copySteps(from, r, 3+g.IntN(3))
		}
	}
}

// restore brings a replica back from a backup without its last operations, and lets it write.
func (g *gen) restore() {
	r := g.replica()
	n := g.on("backup", r)
	if !g.can.copying && g.percent(50) { // the lost life is then another one than that of the backup
		g.on("restart", r)
	}
	g.doSome(r)
	g.spread(r)
	g.add(Step{Kind: "restore", A: r, Ref: n})
	if g.can.copying {
		g.fill(r)
	} else if g.percent(50) {
		g.catchUp(r)
	}
	g.doSome(r)
}

// lost makes a replica lose what was already acknowledged elsewhere, and then delivers it again.
func (g *gen) lost() {
	r := g.replica()
	o := g.other(r)
	n := g.doSome(r)
	g.deliver(n, o)
	g.on("sync", o)
	g.crashAt(r)
	if g.percent(60) {
		g.doSome(r)
	}
	g.deliver(n, r)
	if g.percent(50) {
		g.deliver(n, r)
		g.crashAt(r)
	}
}

// overtake delivers a remove before the add that it removes, which has itself replaced something.
func (g *gen) overtake() {
	p := g.Perm(g.s.Replicas)
	a, b, c, e := p[0], p[1], p[2], g.elem()
	op := func(r int, kind string, ctx int) int {
		return g.do(r, ScriptOp{Op: Op{Kind: kind, Elem: e}, Ctx: ctx})
	}
	first := op(a, "add", 0)
	g.deliver(first, b)
	if g.percent(70) {
		g.deliver(first, c)
	}
	second := op(a, "add", first)
	at := g.deliver(second, b)
	kind := "remove"
	if g.percent(25) {
		kind = "add"
	}
	third := op(b, kind, at)
	g.deliver(third, c)
	if g.can.maintain && g.percent(40) {
		g.views = append(g.views, g.add(Step{Kind: "maintain", A: c}))
	}
	g.deliver(second, c)
	if g.percent(30) {
		g.deliver(first, c)
	}
}

// chain replaces an element again and again, each time by an author that knows only the last add. The first replica gets the last
// add before the one that it replaced.
func (g *gen) chain() {
	p, e := g.Perm(g.s.Replicas), g.elem()
	add := func(r, ctx int) int {
		return g.quiet(r, ScriptOp{Op: Op{Kind: "add", Elem: e}, Ctx: ctx})
	}
	first := add(p[0], 0)
	second := add(p[1], g.deliver(first, p[1]))
	third := add(p[2], g.deliver(second, p[2]))
	add(p[0], g.deliver(third, p[0]))
	if g.can.maintain {
		g.views = append(g.views, g.add(Step{Kind: "maintain", A: p[0]}))
	}
	g.deliver(second, p[0])
}

// undurable makes compaction apply a removal before the removal is durable.
func (g *gen) undurable() {
	r, e := g.replica(), g.elem()
	n := g.do(r, ScriptOp{Op: Op{Kind: "add", Elem: e}})
	g.on("sync", r)
	g.quiet(r, ScriptOp{Op: Op{Kind: "remove", Elem: e}})
	if g.percent(40) {
		g.on("sync", r)
	}
	for range 1 + g.IntN(2) {
		g.views = append(g.views, g.add(Step{Kind: "maintain", A: r, Arg: g.IntN(16)}))
	}
	g.views = append(g.views, g.add(Step{Kind: "crash", A: r}))
	if g.percent(50) {
		g.deliver(n, r)
	}
}

// populate adds every element at one replica, and delivers the adds to others.
func (g *gen) populate(r, percent int) {
	for _, e := range slices.Compact(slices.Sorted(slices.Values(g.elems))) {
		n := g.quiet(r, ScriptOp{Op: Op{Kind: "add", Elem: e}})
		g.msgs = append(g.msgs, n)
		for to := range g.s.Replicas {
			if to != r && to != g.away && g.percent(percent) {
				g.deliver(n, to)
			}
		}
	}
	if g.can.durable && g.percent(70) {
		g.on("sync", r)
	}
}

// copyBroken writes at a copy's source during the copy, breaks the copy in one of several ways, and makes the source lose what it
// wrote.
func (g *gen) copyBroken() {
	r := g.replica()
	to := g.other(r)
	if g.percent(20) {
		g.copyKilled(r, to)
		return
	}
	g.populate(r, 70*g.IntN(2))
	g.on("sync", r)
	kind, e := []string{"add", "remove"}[g.IntN(2)], g.elem()
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4: // not copied yet
		e = slices.Max(g.elems)
	case 5, 6, 7: // copied already
		e = slices.Min(g.elems)
	}
	early := g.percent(50) // before the copy begins: it sees what its source then loses
	if !early {
		g.copySteps(r, to, 1+g.IntN(2))
	}
	n := g.quiet(r, ScriptOp{Op: Op{Kind: kind, Elem: e}})
	if early {
		g.msgs = append(g.msgs, n)
		g.views = append(g.views, g.add(Step{Kind: "copy", A: r, B: to}))
	}
	switch g.IntN(5) {
	case 0:
		g.add(Step{Kind: "cut", A: r, B: to})
	case 1:
		g.views = append(g.views, g.add(Step{Kind: "crash", A: to, Arg: 4}))
	case 2:
		g.views = append(g.views, g.add(Step{Kind: "crash", A: r}))
	}
	g.copySteps(r, to, 3+g.IntN(3))
	if g.percent(60) {
		g.views = append(g.views, g.add(Step{Kind: "crash", A: r}))
	}
}

// copyKilled lets a whole copy pass an element that its source has removed since the copy began, and then makes the source lose
// that removal.
func (g *gen) copyKilled(r, to int) {
	g.populate(r, 0)
	g.on("sync", r)
	step := Step{Kind: "copy", A: r, B: to}
	g.views = append(g.views, g.add(step))
	g.quiet(r, ScriptOp{Op: Op{Kind: "remove", Elem: slices.Max(g.elems)}})
	for range 1 + g.IntN(3) { // few: a copy that is done starts again, and then sees the removal
		g.views = append(g.views, g.add(step))
	}
	g.views = append(g.views, g.add(Step{Kind: "crash", A: r}))
}

// failover replaces a replica of a streaming read, one that may know more than the others, then writes with the contexts that the
// read gave.
func (g *gen) failover() {
	p := g.Perm(g.s.Replicas)
	set, k := uint32(0), g.s.Replicas/2+1
	for _, r := range p[:k] {
		set |= 1 << r
	}
	if g.percent(50) {
		g.populate(p[0], 70)
	}
	e := g.elem()
	if g.percent(60) {
		g.quiet(p[1], ScriptOp{Op: Op{Kind: "add", Elem: e}})
	}
	n := g.add(Step{Kind: "open", Set: set})
	out := g.IntN(2) // of p, not of the streams: these are in the replicas' order
	stream := ones(set & (1<<p[out] - 1))
	for range g.IntN(4) {
		i := stream
		if g.percent(40) {
			i = g.IntN(k)
		}
		g.msgs = append(g.msgs, g.add(Step{Kind: "chunk", Ref: n, Arg: i}))
	}
	g.add(Step{Kind: "replace", Ref: n, Arg: stream, B: p[k]})
	done := g.finishRead(openRead{n, k})
	if g.percent(70) {
		g.quiet(p[1], ScriptOp{Op: Op{Kind: "remove", Elem: e}, Ctx: done})
	}
}

// damage loses an element at one of the replicas that have it for certain, and lets that replica answer.
func (g *gen) damage() {
	r, e := g.replica(), g.elem()
	o := g.other(r)
	n := g.quiet(r, ScriptOp{Op: Op{Kind: "add", Elem: e}})
	g.deliver(n, o)
	g.on("sync", r)
	g.on("sync", o)
	g.views = append(g.views, g.add(Step{Kind: "damage", A: r, Word: e}))
	if g.can.repair && g.percent(50) {
		ask := g.on("ask", g.other(r))
		g.asks = append(g.asks, ask)
		n := g.add(Step{Kind: "answer", Ref: ask, B: r})
		g.deliver(n, o)
		g.deliver(n, o)
	}
	if g.can.merge && g.percent(50) {
		n := g.add(Step{Kind: "quorum", Set: 1<<r | 1<<o})
		g.deliver(n, o)
		g.views = append(g.views, g.add(Step{Kind: "deliver", Ref: n, Sub: 1, B: o}))
	}
}

// retry repeats a client's earlier request.
func (g *gen) retry() {
	if len(g.dos) > 0 {
		g.again(g.replica(), g.recent(g.dos))
	}
}

func (g *gen) again(r, first int) {
	n := g.add(Step{Kind: "retry", A: r, Ref: first})
	g.views, g.msgs = append(g.views, n), append(g.msgs, n)
}

// retried repeats a client's request, here or elsewhere, after another client has removed what it had added, or added what it had
// removed.
func (g *gen) retried() {
	a, e := g.replica(), g.elem()
	b := g.other(a)
	kinds := []string{"add", "remove"}
	if g.percent(30) {
		slices.Reverse(kinds)
	}
	first := g.quiet(a, ScriptOp{Op: Op{Kind: kinds[0], Elem: e}})
	g.msgs = append(g.msgs, first)
	heard := g.deliver(first, b)
	if g.can.durable && g.percent(60) {
		r := []int{a, b}[g.IntN(2)]
		g.on("sync", r)
		if g.percent(60) {
			g.crashAt(r)
		}
	}
	g.deliver(g.quiet(b, ScriptOp{Op: Op{Kind: kinds[1], Elem: e}, Ctx: heard}), a)
	g.again([]int{a, b, g.replica()}[g.IntN(3)], first)
}

// both lets two clients do something at once, and delivers what came of it, in any order.
func (g *gen) both() {
	r := g.replica()
	n := g.doAs("both", r, g.op(), g.op())
	g.msgs = append(g.msgs, n)
	for sub := range 2 {
		if g.percent(g.now) {
			g.views = append(g.views, g.add(Step{Kind: "deliver", Ref: n, Sub: sub, B: g.other(r)}))
		}
	}
}

// stable delivers an operation to a majority of the replicas, or to all three, and lets them acknowledge it to each other by messages
// of their own: for what they then forget, a replica that missed the operation, or loses it, can't ask any more. If all three have
// it, one of them has mostly not synced it, and loses it.
func (g *gen) stable() {
	p := g.Perm(g.s.Replicas)
	all := len(p) == 3 && g.percent(50)
	if !all {
		p = p[:min(g.s.Replicas/2+1, 3)]
	}
	said := map[int]int{} // by step: its replica
	var steps []int
	say := func(step, r int) {
		said[step] = r
		steps = append(steps, step)
	}
	n := g.quiet(p[0], g.op())
	for _, r := range p[1:] {
		say(g.deliver(n, r), r)
	}
	asks := g.can.repair && g.percent(30)
	for i, r := range p {
		if asks {
			say(g.on("ask", r), r)
		}
		if i != 1 || !all || g.percent(20) {
			say(g.on("sync", r), r)
		}
	}
	for _, step := range steps {
		for _, r := range p {
			if r != said[step] {
				g.deliver(step, r)
			}
		}
	}
	if all || g.percent(30) {
		g.crashAt(p[1])
	}
}
