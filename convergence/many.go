package convergence

import "fmt"

// churnAt is which of manyEvery schedules begins with hundreds of operations on one element, and churnCount how many these are: more
// than a byte counts.
const (
	churnAt    = manyEvery/2 - 1
	churnCount = 300
)

// churn does operations on one element at a replica, and delivers them to another one.
func (g *gen) churn() {
	r := g.replica()
	n := g.add(Step{Kind: "churn", A: r, Arg: churnCount, Word: g.elems[0]})
	g.views = append(g.views, g.add(Step{Kind: "spread", Ref: n, B: g.other(r)}))
}

// fillSome does an operation on each of many elements at a replica. If the replica does batches, it may be in one batch. A crash
// follows, of which a part survives.
func (g *gen) fillSome(r, count int, batch bool) (step int) {
	if !batch || !g.can.batch {
		return g.add(Step{Kind: "fill", A: r, Arg: count})
	}
	step = g.add(Step{Kind: "bulk", A: r, Arg: count + 1}) // one more than whole parts
	if g.can.durable {
		g.views = append(g.views, g.speak(g.add(Step{Kind: "crash", A: r, Arg: 1 + g.IntN(3)})))
	}
	return step
}

// churn does operations on one element at a replica, in turns of the two kinds that the Spec proposes most often.
func (w *world) churn(n *node, count int, elem string) (*Violation, error) {
	if n.loose[elem] {
		return nil, fmt.Errorf("%w: damaged here", errSkip)
	}
	first, second := newFiller(w.spec, w.s.Seed, false), newFiller(w.spec, w.s.Seed, true)
	return w.operateMany(n, count, func(i int) (Op, *seenView) {
		here := w.here(n)
		if i%2 == 1 && second.kind != "" {
			return second.op(elem), here
		}
		return first.op(elem), here
	})
}

// batchOf does an operation on each of many elements at a replica, in one batch.
func (w *world) batchOf(n *node, count int) (*Violation, error) {
	fill, list := newFiller(w.spec, w.s.Seed, false), make([]ScriptOp, count)
	for i := range list {
		list[i].Op = fill.op(fillElem(i))
	}
	if _, ok := n.rep.(Batcher); !ok || count < 2 {
		return nil, fmt.Errorf("%w: no batches here", errSkip)
	}
	v, err := w.operate(n, w.step.N, list)
	for _, m := range w.at(w.step.N).msgs {
		w.bulk += len(m.data) * len(w.nodes)
	}
	return v, err
}

// many reports whether a step does operations by itself, as many as its number says.
func (s *Step) many() bool { return contains(ofMany, s.Kind) }

var ofMany = []string{"fill", "strip", "churn", "bulk"}
