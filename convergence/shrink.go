package convergence

import (
	"context"
	"math/bits"
	"slices"
	"time"
)

// shrinker makes a failing script shorter. A candidate stays only if it fails by the same kind of violation.
type shrinker struct {
	sys   System
	best  *Script
	v     *Violation
	tries int // runs left
	limit time.Duration
	again int // how often a candidate is run before it counts as passing; 1 if the failure replays exactly
	ctx   context.Context
}

// shrink returns the shortest script that it finds within the limits, its violation, and whether the limits ended it.
func shrink(ctx context.Context, sys System, s *Script, v *Violation, o *Options, again int) (short *Script, of *Violation, cut bool) {
	ctx, cancel := context.WithTimeout(ctx, o.ShrinkTime)
	defer cancel()
	if !o.until.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, o.until)
		defer cancel()
	}
	h := &shrinker{ctx: ctx, sys: sys, best: s, v: v, tries: o.ShrinkRuns, again: again, limit: o.StepLimit}
	if v.Kind == Hung { // each try that fails takes as long, and leaves a goroutine running
		h.tries, h.limit = min(h.tries, hungTries), min(h.limit, hungLimit)
	}
	h.keep(h.best.before(v.Step))
	for {
		size := h.best.size()
		h.reads()
		h.replicas()
		h.chunks()
		h.elements()
		h.operations()
		h.numbers()
		h.references()
		if h.over() || h.best.size() >= size {
			return h.best, h.v, h.over()
		}
	}
}

const (
	hungTries = 60
	hungLimit = time.Second / 2
)

// size orders scripts: fewer steps first, then fewer operations, replicas, contexts, elements, and steps without reads.
func (s *Script) size() (n int) {
	n = s.Replicas
	if s.Base > 0 {
		n++
	}
	elems := map[string]bool{}
	for i := range s.Steps {
		n += 100
		if s.Steps[i].Unread {
			n++
		}
		if s.Steps[i].many() {
			n += 100 * bits.Len(uint(s.Steps[i].Arg))
		}
		for _, o := range s.Steps[i].Ops {
			n += 10
			if o.Ctx > 0 {
				n += 2
			}
			elems[o.Op.Elem] = true
		}
	}
	return n + len(elems)
}

// over reports whether a limit was reached.
func (h *shrinker) over() bool { return h.tries <= 0 || h.ctx.Err() != nil }

// keep runs a candidate, and accepts it if it fails in the same way.
func (h *shrinker) keep(c *Script) bool {
	for range h.again {
		if h.over() {
			return false
		}
		h.tries--
		if v, _ := watched(h.sys, c, false, h.limit); v != nil && v.Kind == h.v.Kind {
			h.best, h.v = c, v
			return true
		}
	}
	return false
}

// before returns the script up to a step.
func (s *Script) before(step int) *Script {
	return s.filter(func(t Step) bool { return t.N <= step })
}

// filter returns a copy with the steps for which keep is true.
func (s *Script) filter(keep func(Step) bool) *Script {
	c := *s
	c.Steps = nil
	for _, t := range s.Steps {
		if keep(t) {
			t.pretty = ""
			t.Ops = slices.Clone(t.Ops)
			c.Steps = append(c.Steps, t)
		}
	}
	return &c
}

// chunks removes runs of steps: first half of them, then fewer and fewer, then single ones. It goes from the end to the front, so
// that a step that uses a message is removed before the step that makes it.
func (h *shrinker) chunks() {
	for size := max(1, len(h.best.Steps)/2); size >= 1; size /= 2 {
		for end := len(h.best.Steps); end > 0; {
			from := max(0, end-size)
			n, c := 0, h.best
			c = c.filter(func(Step) bool { n++; return n <= from || n > end })
			if len(c.Steps) < len(h.best.Steps) {
				h.keep(c)
			}
			end = from
		}
	}
}

// replicas removes a replica with all steps that name it. The replicas after it are renumbered.
func (h *shrinker) replicas() {
	for r := h.best.Replicas - 1; r >= 0 && h.best.Replicas > 1; r-- {
		c := h.best.filter(func(t Step) bool { return !t.names(r) })
		c.Replicas--
		for i := range c.Steps {
			c.Steps[i].rename(r)
		}
		if h.keep(c) {
			continue
		}
		for q := range r { // another replica may do what it does
			c := h.whole()
			c.Replicas--
			for i := range c.Steps {
				c.Steps[i].become(r, q)
				c.Steps[i].rename(r)
			}
			if h.keep(c) {
				break
			}
		}
	}
}

// become replaces replica r by q in the step.
func (t *Step) become(r, q int) {
	if t.A == r {
		t.A = q
	}
	if t.B == r {
		t.B = q
	}
	if t.Set>>r&1 != 0 {
		t.Set |= 1 << q
	}
}

// names reports whether the step is impossible without a replica.
func (t Step) names(r int) bool {
	for _, c := range kinds[t.Kind] {
		if c == 'A' && t.A == r || c == 'B' && t.B == r || c == 'S' && t.Set == 1<<r {
			return true
		}
	}
	return false
}

// rename decrements the numbers of the replicas after r.
func (t *Step) rename(r int) {
	if t.A > r {
		t.A--
	}
	if t.B > r {
		t.B--
	}
	low := t.Set & (1<<r - 1)
	t.Set = low | t.Set>>(r+1)<<r
}

// elements replaces two elements by one.
func (h *shrinker) elements() {
	elems := h.best.elements()
	for i := len(elems) - 1; i > 0; i-- {
		h.renameElem(elems[i], elems[0])
	}
	h.plainly()
}

// operations removes single operations of batches, and contexts.
func (h *shrinker) operations() {
	for i := len(h.best.Steps) - 1; i >= 0; i-- {
		for k := len(h.best.Steps[i].Ops) - 1; k >= 0; k-- {
			c := h.best.filter(func(Step) bool { return true })
			if ops := c.Steps[i].Ops; len(ops) > 1 {
				c.Steps[i].Ops = slices.Delete(ops, k, k+1)
				if h.keep(c) {
					continue
				}
				c = h.best.filter(func(Step) bool { return true })
			}
			if o := &c.Steps[i].Ops[k]; o.Ctx > 0 {
				o.Ctx = 0
				h.keep(c)
			}
		}
	}
}
