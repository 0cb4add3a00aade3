package engine

import (
	"slices"

	"bigset/clock"
)

// dotBag is a set of dots that is fast for few dots and correct for many.
type dotBag struct {
	dots  []clock.Dot
	index map[clock.Dot]struct{} // of all dots, once there are many
}

// bagLinearMax is the number of dots up to which a linear search is faster than an index.
const bagLinearMax = 16

func (g *dotBag) reset() {
	g.dots = g.dots[:0]
	g.index = nil
}

func (g *dotBag) contains(d clock.Dot) bool {
	if g.index != nil {
		_, ok := g.index[d]
		return ok
	}
	return slices.Contains(g.dots, d)
}

// add reports whether the dot is new.
func (g *dotBag) add(d clock.Dot) bool {
	if g.contains(d) {
		return false
	}
	g.dots = append(g.dots, d)
	if g.index != nil {
		g.index[d] = struct{}{}
	} else if len(g.dots) > bagLinearMax {
		g.index = make(map[clock.Dot]struct{}, 4*len(g.dots))
		for _, d := range g.dots {
			g.index[d] = struct{}{}
		}
	}
	return true
}
