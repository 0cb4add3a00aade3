package report

import (
	"math"
	"slices"
)

// valueMax bounds what is drawn: differences of two values must not overflow. valueTiny is the same on logarithmic axes.
const (
	valueMax  = 1e300
	valueTiny = 1e-300
)

// drawing is a chart that can be drawn as it is: X is finite and ascending, Y is finite or NaN, and nothing is out of its axis.
type drawing struct {
	*Chart
	lines []curve
	marks []Mark
	clock int // charts over time with the same number have one axis
}

// curve is a line of a drawing. low and high are nil, or as long as y, and NaN where y is.
type curve struct {
	name         string
	style        int // from 0
	x, y         []float64
	low, high    []float64
	base, height []float64 // of a stacked line: where its area begins and ends
}

// draw cleans a chart.
func draw(c *Chart) *drawing {
	d := &drawing{Chart: c}
	for i := range c.Lines {
		d.lines = append(d.lines, clean(c, i))
	}
	for _, m := range c.Marks {
		if finite(m.X) && (!c.LogX || m.X > 0) {
			d.marks = append(d.marks, Mark{X: clamp(m.X, c.LogX), Text: m.Text})
		}
	}
	slices.SortStableFunc(d.marks, func(a, b Mark) int { return compare(a.X, b.X) })
	if c.Stacked {
		d.align()
	}
	return d
}

// logY reports whether Y is logarithmic: areas on top of one another can't be.
func (d *drawing) logY() bool { return d.LogY && !d.Stacked }

// timed reports whether X is the page's time.
func (d *drawing) timed() bool { return d.XUnit == "s" && !d.LogX }

// clean copies one line of a chart without what can't be drawn.
func clean(c *Chart, i int) curve {
	l := &c.Lines[i]
	k := curve{name: l.Name, style: i}
	if l.Style > 0 {
		k.style = l.Style - 1
	}
	logY := c.LogY && !c.Stacked
	band := (l.Min != nil || l.Max != nil) && !c.Stacked
	for _, j := range order(l.X[:min(len(l.X), len(l.Y))]) {
		x := l.X[j]
		if !finite(x) || c.LogX && x <= 0 {
			continue
		}
		y := drawable(l.Y[j], logY)
		k.x, k.y = append(k.x, clamp(x, c.LogX)), append(k.y, y)
		if band {
			k.low = append(k.low, min(y, bound(l.Min, j, y, logY)))
			k.high = append(k.high, max(y, bound(l.Max, j, y, logY)))
		}
	}
	return k
}

// order returns the indices of X in ascending order of X.
func order(x []float64) []int {
	at := make([]int, len(x))
	for i := range at {
		at[i] = i
	}
	if !slices.IsSorted(x) {
		slices.SortStableFunc(at, func(a, b int) int { return compare(x[a], x[b]) })
	}
	return at
}

// bound returns the edge of a band at j, or y where it has none.
func bound(edges []float64, j int, y float64, log bool) float64 {
	if j >= len(edges) {
		return y
	}
	if v := drawable(edges[j], log); finite(v) && finite(y) {
		return v
	}
	return y
}

// drawable returns the value as it is drawn, or NaN for a gap.
func drawable(v float64, log bool) float64 {
	if !finite(v) || log && v <= 0 {
		return math.NaN()
	}
	return clamp(v, log)
}

func clamp(v float64, log bool) float64 {
	if log {
		return max(valueTiny, min(valueMax, v))
	}
	return max(-valueMax, min(valueMax, v))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// compare orders numbers, NaN first.
func compare(a, b float64) int {
	switch {
	case a < b || math.IsNaN(a) && !math.IsNaN(b):
		return -1
	case a > b || math.IsNaN(b) && !math.IsNaN(a):
		return 1
	}
	return 0
}

// align gives all lines of a stacked chart the same X, and each line the edges of its area.
func (d *drawing) align() {
	var x []float64
	for i := range d.lines {
		x = append(x, d.lines[i].x...)
	}
	slices.Sort(x)
	x = slices.Compact(x)
	for i := range d.lines {
		d.lines[i].y = d.lines[i].at(x)
		d.lines[i].x = x
	}
	d.stack()
}

// stack sets the edges of each area from the lines' values.
func (d *drawing) stack() {
	var sum []float64
	for i := range d.lines {
		k := &d.lines[i]
		if sum == nil {
			sum = make([]float64, len(k.y))
		}
		k.base = slices.Clone(sum)
		for j, v := range k.y {
			sum[j] = clamp(sum[j]+v, false)
		}
		k.height = slices.Clone(sum)
	}
}

// at returns the line's value at each X of an ascending list: on a straight line between two of its points, 0 outside of them.
func (k *curve) at(x []float64) []float64 {
	y := make([]float64, len(x))
	j := 0
	for i, v := range x {
		for j < len(k.x) && k.x[j] < v {
			j++
		}
		switch {
		case j == len(k.x) || j == 0 && k.x[0] > v:
		case k.x[j] == v:
			y[i] = orZero(k.y[j])
		default:
			a, b := orZero(k.y[j-1]), orZero(k.y[j])
			y[i] = a + (b-a)*((v-k.x[j-1])/(k.x[j]-k.x[j-1]))
		}
	}
	return y
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// bin returns the drawing with at most so many points in each line. Lines that were sampled at the same X still are after it.
func (d *drawing) bin(most int) *drawing {
	longest := 0
	for i := range d.lines {
		longest = max(longest, len(d.lines[i].x))
	}
	per := (longest + most - 1) / most
	if per <= 1 {
		return d
	}
	b := &drawing{Chart: d.Chart, marks: d.marks, clock: d.clock, lines: make([]curve, len(d.lines))}
	for i := range d.lines {
		b.lines[i] = d.lines[i].bin(per, !d.Stacked)
	}
	if d.Stacked {
		b.stack()
	}
	return b
}

// bin returns the line with one point for each so many. With a band each point keeps the least and the greatest of its values.
func (k *curve) bin(per int, band bool) curve {
	b := curve{name: k.name, style: k.style}
	for from := 0; from < len(k.x); from += per {
		to := min(from+per, len(k.x))
		b.x = append(b.x, mean(k.x[from:to]))
		b.y = append(b.y, mean(k.y[from:to]))
		if band {
			b.low = append(b.low, least(k.edge(k.low)[from:to]))
			b.high = append(b.high, greatest(k.edge(k.high)[from:to]))
		}
	}
	return b
}

// edge returns an edge of the band, or the line itself.
func (k *curve) edge(values []float64) []float64 {
	if values == nil {
		return k.y
	}
	return values
}

// mean, least and greatest are of the values that are not NaN, and NaN without any.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += (v - sum) / float64(n)
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum
}

func least(values []float64) float64 {
	found := math.NaN()
	for _, v := range values {
		if math.IsNaN(found) || v < found {
			found = v
		}
	}
	return found
}

func greatest(values []float64) float64 {
	found := math.NaN()
	for _, v := range values {
		if math.IsNaN(found) || v > found {
			found = v
		}
	}
	return found
}
