package sim

import (
	"context"
	"slices"

	"bigset/convergence"
)

const (
	shrinkRuns  = 2000 // of candidates
	shrinkSeeds = 2    // orders of turns in which a candidate is tried
)

// shrinker makes a failing script of a cluster shorter. A candidate stays only if it fails by the same kind of violation. A script
// does not determine the order of turns, so each candidate is tried in more than one order.
type shrinker struct {
	ctx   context.Context
	best  *script
	v     *convergence.Violation
	runs  int // left
	seeds int
	run   func(*script) (*convergence.Violation, error)
	err   error
}

// runAlone runs a script for its violation only.
func runAlone(s *script) (*convergence.Violation, error) {
	return runScript(s, newReport())
}

// again runs a script several times. It returns a violation of the same kind, and how often there was one. What the steps did in
// the last of these runs is noted in the script.
func (h *shrinker) again(s *script, times int) (v *convergence.Violation, failed int, err error) {
	for range times {
		c := s.filter(all)
		found, err := h.run(c)
		if err != nil {
			return nil, 0, err
		}
		if found != nil && found.Kind == h.v.Kind {
			v, failed = found, failed+1
			s.steps = c.steps
		}
	}
	return v, failed, nil
}

func (h *shrinker) shrink() error {
	for {
		size := h.best.size()
		h.chunks()
		h.replicas()
		h.elements()
		h.arguments()
		if h.err != nil || h.done() || h.best.size() >= size {
			return h.err
		}
	}
}

func (h *shrinker) done() bool { return h.runs <= 0 || h.ctx.Err() != nil }

// size orders scripts: fewer steps first, then fewer operations, replicas, contexts, elements and less waiting.
func (s *script) size() (n int) {
	n = s.replicas
	var elements []string
	for _, t := range s.steps {
		if n += 100; t.args["wait"] > 0 {
			n++
		}
		for _, o := range t.ops {
			if n += 10; o.from > 0 {
				n += 2
			}
			if !slices.Contains(elements, o.element) {
				elements = append(elements, o.element)
			}
		}
	}
	return n + len(elements)
}

// keep runs a candidate, and accepts it if it fails in the same way.
func (h *shrinker) keep(c *script) bool {
	for range h.seeds {
		if h.done() || h.err != nil {
			return false
		}
		h.runs--
		v, err := h.run(c)
		if err != nil {
			h.err = err
			return false
		}
		if v != nil && v.Kind == h.v.Kind {
			h.best, h.v = c, v
			return true
		}
		c.seed++
	}
	return false
}

// chunks removes runs of steps: first half of them, then fewer and fewer, then single ones, from the end to the front.
func (h *shrinker) chunks() {
	for size := max(1, len(h.best.steps)/2); size >= 1; size /= 2 {
		for end := len(h.best.steps); end > 0; end -= size {
			h.keep(h.best.filter(func(i int, _ *step) bool { return i < end-size || i >= end }))
		}
	}
}

// replicas removes a replica with all steps that name it. The replicas after it are renumbered.
func (h *shrinker) replicas() {
	for r := h.best.replicas - 1; r >= 0 && h.best.replicas > scriptLeast; r-- {
		c := h.best.filter(func(_ int, t *step) bool { return !t.names(r) })
		c.replicas--
		for i := range c.steps {
			c.steps[i].rename(r, c.replicas)
		}
		h.keep(c)
	}
}

// names reports whether the step is impossible without a replica.
func (t *step) names(r int) bool {
	for _, a := range stepKinds[t.kind] {
		if (a == "at" || a == "with") && t.args[a] == r || a == "via" && t.args[a] == coordinators+r {
			return true
		}
	}
	return false
}

// rename decrements the numbers of the replicas after r; left is the number of replicas that remain.
func (t *step) rename(r, left int) {
	for a, v := range t.args {
		switch {
		case (a == "at" || a == "with") && v > r, a == "via" && v > coordinators+r:
			v--
		case a == "r", a == "w", a == "dw":
			v = min(v, left)
		case a == "cut":
			low := v & (1<<r - 1)
			v = low | v>>(r+1)<<r
		}
		t.args[a] = v
	}
}

// elements replaces two elements by one.
func (h *shrinker) elements() {
	var names []string
	for _, t := range h.best.steps {
		for _, o := range t.ops {
			if !slices.Contains(names, o.element) {
				names = append(names, o.element)
			}
		}
	}
	slices.Sort(names)
	for i := len(names) - 1; i > 0; i-- {
		h.keep(h.best.filter(func(_ int, t *step) bool {
			for k := range t.ops {
				if t.ops[k].element == names[i] {
					t.ops[k].element = names[0]
				}
			}
			return true
		}))
	}
}

// arguments removes single operations of a step, contexts, and waiting.
func (h *shrinker) arguments() {
	for i := len(h.best.steps) - 1; i >= 0; i-- {
		change := func(f func(t *step)) bool {
			c := h.best.filter(all)
			f(&c.steps[i])
			return h.keep(c)
		}
		if h.best.steps[i].args["wait"] > 0 {
			change(func(t *step) { t.args["wait"] = 0 })
		}
		for k := len(h.best.steps[i].ops) - 1; k >= 0; k-- {
			if len(h.best.steps[i].ops) > 1 && change(func(t *step) { t.ops = slices.Delete(t.ops, k, k+1) }) {
				continue
			}
			if h.best.steps[i].ops[k].from > 0 {
				change(func(t *step) { t.ops[k].from, t.ops[k].whole = 0, false })
			}
		}
	}
}
