package compare

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// looks are the numbers of rounds of each side at which verdicts are given, and the chance of a false one that each look may spend.
//
// The three together spend 5 %, in the proportions of Lan and DeMets' function of Pocock's kind, 0.05·ln(1 + (e - 1)·rounds/20), whose steps are
// 2.1, 1.5 and 1.5 %. O'Brien and Fleming's function would leave 0.03 % for the first look, but the least P value that six rounds of each side
// can have is 0.2 %: the look could never decide anything.
//
// The levels add up to 5 %, so they hold whatever the looks have in common. Pocock's single level, 2.2 % at each look, takes advantage of what
// looks share, which is less far out in the tails, where Holm's method works: 2.2 % divided by 500 figures, three times, is more than
// 5 % divided by 500.
//
// The verdict after any other number of rounds is that of the last look reached, from its rounds alone: 7 to 11 rounds are judged by the
// first six, 21 and more by the first twenty. Otherwise each further round would be another look without a share of the error, and a person
// who stops at the first "better" would find one sooner or later.
var looks = [...]look{{6, 0.020}, {12, 0.015}, {20, 0.015}}

// errorTotal is the chance of any false verdict in a comparison, over all looks.
const errorTotal = 0.05

type look struct {
	rounds int
	level  float64
}

// lookAt returns the index of the last look that a number of rounds reaches, or -1.
func lookAt(rounds int) int {
	at := -1
	for i, l := range looks {
		if rounds >= l.rounds {
			at = i
		}
	}
	return at
}

// decides reports whether the look can find a change among tests tests. Two sides of n rounds that do not overlap at all have P =
// 2/C(2n,n), and no P is less.
func (l look) decides(tests int) bool { return leastP(l.rounds)*float64(tests) <= l.level }

func leastP(n int) float64 {
	p := 2.0
	for i := 1; i <= n; i++ {
		p *= float64(i) / float64(n+i)
	}
	return p
}

// lookFor returns the index of the first look after one that can find a change among tests tests. Such a look always exists before the last
// look is reached: the last decides 10^9 tests.
func lookFor(after, tests int) int {
	for i := after + 1; i < len(looks); i++ {
		if looks[i].decides(tests) {
			return i
		}
	}
	return len(looks) - 1
}

// Verdict is the judgement of a change.
type Verdict string

const (
	Better    Verdict = "better"
	Worse     Verdict = "worse"
	Changed   Verdict = "changed"   // beyond noise, for a figure without a better direction
	Mixed     Verdict = "mixed"     // of a row: some figures are better, some worse
	NoChange  Verdict = "no change" // nothing beyond noise
	Undecided Verdict = "undecided" // a later look may find a change
	TooFew    Verdict = "-"         // fewer rounds than the first look needs
)

// Side contains one side's values of a figure.
type Side struct {
	Median float64  `json:"median"`
	Lo     *float64 `json:"lo"` // of its 95 % interval by order statistics; nil with fewer than six rounds
	Hi     *float64 `json:"hi"`
}

// Change is how a figure of a row differs.
type Change struct {
	Figure
	Rounds int  `json:"rounds"` // judged, of each side
	A      Side `json:"a"`
	B      Side `json:"b"`
	// Change is how much more B has than A, as a share of A: 0.1 means 10 % more. It is nil if A has 0 and B has not.
	Change *float64 `json:"change"`
	// Lo and Hi are the 95 % interval of this figure alone: the shifts of A that the U test does not exclude. They are nil without an
	// interval.
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
	// P is the P value of the test, nil without a verdict. It is 0 for a count that differs and has no noise.
	P *float64 `json:"p"`
	// Adjusted is P after Holm's correction, to be compared with Level. It is nil if P is nil, or if nothing had to be tested.
	Adjusted *float64 `json:"p_adjusted"`
	Level    float64  `json:"level,omitempty"`
	Exact    bool     `json:"exact,omitempty"` // the rounds of each side agree on a count
	Verdict  Verdict  `json:"verdict"`

	look int  // index in looks, -1 for none
	same bool // all rounds of both sides are equal
}

// measure makes the change of a figure from the values of both sides, without a verdict yet. It returns nil if a side has no values.
func measure(f Figure, a, b []float64) *Change {
	n := min(len(a), len(b))
	if n == 0 {
		return nil
	}
	c := &Change{Figure: f, Verdict: TooFew, look: lookAt(n)}
	if c.look >= 0 {
		n = looks[c.look].rounds
	}
	a, b = slices.Clone(a[:n]), slices.Clone(b[:n])
	c.Rounds = n
	sa, sb := benchmath.NewSample(a, &benchmath.DefaultThresholds), benchmath.NewSample(b, &benchmath.DefaultThresholds) // sorts a and b
	c.A, c.B = side(sa), side(sb)
	if c.A.Median > 0 || c.B.Median == 0 {
		c.Change = new(ratio(c.B.Median, c.A.Median))
	}
	if c.Change != nil {
		c.Lo, c.Hi = interval(a, b, c.A.Median, *c.Change)
	}
	if c.look < 0 {
		return c
	}
	c.Level = looks[c.look].level
	constant := a[0] == a[n-1] && b[0] == b[n-1]
	switch {
	case constant && a[0] == b[0]:
		c.P, c.Exact, c.same = new(1.0), f.Count, true
	case constant && f.Count:
		c.P, c.Exact = new(benchmath.AssumeExact.Compare(sa, sb).P), true
	default:
		c.P = new(benchmath.AssumeNothing.Compare(sa, sb).P)
	}
	return c
}

func side(s *benchmath.Sample) Side {
	m := benchmath.AssumeNothing.Summary(s, 0.95)
	out := Side{Median: m.Center}
	if !math.IsInf(m.Lo, 0) && !math.IsInf(m.Hi, 0) {
		out.Lo, out.Hi = new(m.Lo), new(m.Hi)
	}
	return out
}

func ratio(b, a float64) float64 {
	if a == b {
		return 0
	}
	return min(b/a-1, math.MaxFloat64)
}

// outside is how many of the n² differences between n rounds of each side lie outside a 95 % interval, at each end: one more than the
// greatest U for which the test gives P <= 5 %. Other numbers of rounds are never judged, or have no such U (below 4).
var outside = map[int]int{4: 1, 5: 3, 6: 6, 12: 38, 20: 128}

// interval returns the 95 % interval of the change between samples of n rounds each: Hodges and Lehmann's, which contains the shifts that
// the U test does not exclude. Shifts are ratios or, if a value is 0, differences as shares of A's median. The interval always contains the
// change itself, which is that of the medians.
func interval(a, b []float64, median, change float64) (lo, hi *float64) {
	skip, ok := outside[len(a)]
	if !ok {
		return nil, nil
	}
	ratios := slices.Min(a) > 0 && slices.Min(b) > 0
	var shifts []float64
	for _, x := range a {
		for _, y := range b {
			switch {
			case ratios:
				shifts = append(shifts, ratio(y, x))
			case x == y:
				shifts = append(shifts, 0)
			case median == 0:
				return nil, nil
			default:
				shifts = append(shifts, max(-math.MaxFloat64, min((y-x)/median, math.MaxFloat64)))
			}
		}
	}
	slices.Sort(shifts)
	return new(min(change, shifts[skip-1])), new(max(change, shifts[len(shifts)-skip]))
}

// holm gives verdicts to all changes of a comparison.
//
// It uses Holm's method and not Benjamini and Hochberg's. Each verdict is acted on by itself (a gate fails, a commit is reverted), so any
// false verdict must be rare, not only a large share of false ones. And figures depend on each other (speed falls as latency rises) in ways
// for which Benjamini and Hochberg's method holds only with a further factor, while Holm's always holds. Its price is power, which more
// rounds buy back: with 6 rounds nothing can be found among more than 9 figures, with 12 among 20,000.
//
// A figure whose rounds on both sides are all equal is not a test: it can't be called changed by chance (Tarone's rule). Nor is a count
// without noise. Figures with too few rounds are tests still to come.
//
// P values are first divided by the levels of their looks, so that rows with different numbers of rounds can be in one family.
func holm(changes []*Change) (tests int) {
	var family []*Change
	for _, c := range changes {
		switch {
		case c.look < 0:
			tests++
		case c.same:
			c.Verdict = NoChange
		case c.Exact:
			c.decide()
		default:
			tests++
			family = append(family, c)
		}
	}
	slices.SortStableFunc(family, func(x, y *Change) int { return cmp.Compare(*x.P/x.Level, *y.P/y.Level) })
	worst := 0.0
	for i, c := range family {
		worst = max(worst, *c.P/c.Level*float64(tests-i))
		c.Adjusted = new(min(1, worst*c.Level))
		switch {
		case worst <= 1:
			c.decide()
		case c.open(tests):
			c.Verdict = Undecided
		default:
			c.Verdict = NoChange
		}
	}
	return tests
}

// decide gives the verdict of a change that is beyond noise.
func (c *Change) decide() {
	more := c.B.Median > c.A.Median
	switch {
	case c.B.Median == c.A.Median: // they differ in their spread
		c.Verdict = Changed
	case c.Better == Neither:
		c.Verdict = Changed
	case more == (c.Better == More):
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
}

// open reports whether a later look may find a change that this one does not: either the whole error of 5 % would find it, or this look
// can't decide that many tests, and the figure differs.
func (c *Change) open(tests int) bool {
	if c.look == len(looks)-1 {
		return false
	}
	return *c.Adjusted <= errorTotal || !looks[c.look].decides(tests) && *c.P <= errorTotal
}
