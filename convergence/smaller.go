package convergence

import (
	"slices"
)

// whole returns a copy of the best script, for a change.
func (h *shrinker) whole() *Script { return h.best.filter(func(Step) bool { return true }) }

// reads adds reads before and after each step if the script still fails with them, because it then shows more.
func (h *shrinker) reads() {
	c := h.whole()
	c.Base = 0
	changed := h.best.Base > 0
	for i := range c.Steps {
		changed = changed || c.Steps[i].Unread
		c.Steps[i].Unread = false
	}
	if !changed || h.keep(c) {
		return
	}
	if h.best.Base > 0 {
		c := h.whole()
		c.Base = 0
		h.keep(c)
	}
	for i := range h.best.Steps {
		if h.best.Steps[i].Unread {
			c := h.whole()
			c.Steps[i].Unread = false
			h.keep(c)
		}
	}
}

// numbers reduces fills, the bytes of arguments and jumps of clocks, and merges two jumps into one.
func (h *shrinker) numbers() {
	for i := 0; i < len(h.best.Steps); i++ {
		if s := h.best.Steps[i]; s.many() {
			h.least(i, s.Arg)
		}
		for k := range h.best.Steps[i].Ops {
			h.argument(i, k)
		}
		if h.best.Steps[i].Kind == "skew" {
			h.jumps(i)
		}
	}
}

// least looks for the smallest number with which the step still fails.
func (h *shrinker) least(i, most int) {
	for low := 1; low < most; {
		c := h.whole()
		c.Steps[i].Arg = (low + most) / 2
		if h.keep(c) {
			most = c.Steps[i].Arg
		} else {
			low = c.Steps[i].Arg + 1
		}
	}
}

func (h *shrinker) argument(i, k int) {
	arg := h.best.Steps[i].Ops[k].Op.Arg
	if len(arg) == 0 {
		return
	}
	try := func(b []byte) bool {
		c := h.whole()
		c.Steps[i].Ops[k].Op.Arg = b
		return h.keep(c)
	}
	if text := string(arg); text != "1" && try([]byte("1")) {
		return
	}
	for len(arg) > 1 && try(arg[:len(arg)/2]) {
		arg = arg[:len(arg)/2]
	}
}

func (h *shrinker) jumps(i int) {
	s := h.best.Steps[i]
	for j := i + 1; j < len(h.best.Steps); j++ {
		if t := h.best.Steps[j]; t.Kind == "skew" && t.A == s.A {
			for _, at := range []int{j, i} {
				c := h.whole()
				c.Steps[at].Arg = s.Arg + t.Arg
				other := i + j - at
				c.Steps = slices.Delete(c.Steps, other, other+1)
				if h.keep(c) {
					return
				}
			}
			return
		}
	}
	for _, smaller := range []int{1000, -1000} {
		if s.Arg > 1000 && smaller > 0 || s.Arg < -1000 && smaller < 0 {
			c := h.whole()
			c.Steps[i].Arg = smaller
			h.keep(c)
		}
	}
}

// references redirects references from a step to an earlier or a later one in the script, so that the step can be removed.
func (h *shrinker) references() {
	if len(h.best.Steps) > referencesMax {
		return
	}
	for i := len(h.best.Steps) - 1; i >= 0; i-- {
		for k := range h.best.Steps {
			if k != i && i < len(h.best.Steps) && k < len(h.best.Steps) && h.redirect(h.best.Steps[i].N, h.best.Steps[k].N) {
				break
			}
		}
	}
}

const referencesMax = 30

// redirect removes a step, and redirects references to it to another step.
func (h *shrinker) redirect(from, to int) bool {
	used := false
	c := h.best.filter(func(t Step) bool { return t.N != from })
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Ref == from {
			used, s.Ref = true, to
		}
		if s.Ref >= s.N {
			return false
		}
		for k := range s.Ops {
			if s.Ops[k].Ctx == from {
				used, s.Ops[k].Ctx = true, to
			}
			if s.Ops[k].Ctx >= s.N {
				return false
			}
		}
	}
	return used && h.keep(c)
}

// plainly gives elements one-letter names, in the same order.
func (h *shrinker) plainly() {
	elems := h.best.elements()
	for n, elem := range elems {
		to := string(rune('a' + n))
		if n > 20 || elem == to || slices.Contains(elems, to) {
			continue
		}
		h.renameElem(elem, to)
	}
}

func (h *shrinker) renameElem(elem, to string) {
	c := h.whole()
	for _, t := range c.Steps {
		for k := range t.Ops {
			if t.Ops[k].Op.Elem == elem && t.Ops[k].Op.Kind != "clear" {
				t.Ops[k].Op.Elem = to
			}
		}
	}
	for i := range c.Steps {
		if k := c.Steps[i].Kind; (k == "damage" || k == "churn") && c.Steps[i].Word == elem {
			c.Steps[i].Word = to
		}
	}
	h.keep(c)
}

// elements returns the elements that operations name, in order.
func (s *Script) elements() (elems []string) {
	for _, t := range s.Steps {
		if t.Kind == "churn" && !slices.Contains(elems, t.Word) {
			elems = append(elems, t.Word)
		}
		for _, o := range t.Ops {
			if o.Op.Kind != "clear" && !slices.Contains(elems, o.Op.Elem) {
				elems = append(elems, o.Op.Elem)
			}
		}
	}
	slices.Sort(elems)
	return elems
}
