package convergence

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// pools are elements that belong together. The first is the usual one.
var pools = [][]string{
	{"a", "b", "c", "d", "e"},
	{"a", "ab", "abc", "b", "a\x00"},
	{"", "\x00", "\xff", "\xff\xfe", "é", " ", "a/b", "a:b", "%2F"},
	{"1", "10", "2", "-1", "0x1"},
}

// alike are elements that are easily taken for the first of their list: by keys that are joined from parts, by paths that are cleaned,
// by comparisons that ignore case, blanks or accents, by numbers.
var alike = [][]string{
	{"a", "A", "a ", " a", "a\n", "a\x00", "a/", "/a", "a/b", "a:b", "a.b", "a|b", "a,b", "a-b", "a_b", "a#b"},
	{"\u00e9", "e\u0301", "\u00c9", "e"},
	{"1", "01", "1.0", "+1", "1 "},
}

// pickAlike draws a list, and of the list its first element and some others.
func pickAlike(r *rand.Rand) []string {
	list := slices.Clone(alike[max(0, r.IntN(len(alike)+2)-2)])
	others := list[1:]
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return list[:min(len(list), elemsMost)]
}

// Schedules with many elements, or with very long ones, cost as much as a hundred others, so only one in manyEvery or longEvery has
// them.
const (
	manyEvery = 250
	longEvery = 500
)

// elemsMost is how many elements a schedule has, unless it begins with many.
const elemsMost = 5

// long returns elements whose length exceeds a byte or 16 bits, and that differ in their last byte.
func long(n int) []string {
	s := strings.Repeat("x", n-1)
	return []string{s + "a", s + "b", "x"}
}

// pickElems draws the elements of a schedule: those of Options.Elements, otherwise mostly plain ones.
func pickElems(r *rand.Rand, own []string, nth int) []string {
	pool := own
	if len(own) == 0 {
		pool = pools[0]
		k := r.IntN(200)
		switch {
		case k < 60:
			pool = pools[1+k%(len(pools)-1)]
		case k < 70:
			pool = long(300)
		}
		if nth%longEvery == longEvery/2 {
			pool = long(66_000)
		} else if k >= 70 && k < 90 {
			return pickAlike(r)
		}
	}
	most := min(len(pool), elemsMost)
	list := slices.Clone(pool)
	if len(pool) > most {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list[:min(most, 2+r.IntN(4))]
}

// unread chooses, in a part of the schedules, steps before and after which no replica is read. Steps whose view is used later are
// still read.
func (g *gen) unread() {
	many := g.shape.many && g.nth%manyEvery != churnAt // whose views are long
	if !many && g.IntN(4) > 0 {
		return
	}
	used := map[int]bool{}
	for i := range g.s.Steps {
		for _, o := range g.s.Steps[i].Ops {
			used[o.Ctx] = true
		}
	}
	for i := range g.s.Steps[:len(g.s.Steps)-1] {
		s := &g.s.Steps[i]
		if i > 0 && g.s.Steps[i-1].Kind == "bulk" {
			continue
		}
		s.Unread = s.Unread || many && i < len(g.s.Steps)-2 || !used[s.N] && g.percent(70)
	}
}
