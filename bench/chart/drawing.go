package chart

import (
	"math"
	"slices"
)

// valueMax bounds the values that are drawn: the difference of two values must not overflow. valueTiny is the bound on logarithmic axes.
const (
	valueMax  = 1e300
	valueTiny = 1e-300
)

// Drawing is a chart that can be drawn without further checks. X is finite and ascending, Y is finite or NaN, and every value is within its
// axis. Min and Max are nil, or as long as Y and NaN where Y is. Each line has a Style. Lines of a stacked chart have the same X and no
// band, and LogY is off. Reach is 0 or can be shown. No text contains a character that a document must not contain.
type Drawing struct {
	Chart
	areas []area // of a stacked chart, one for each line
}

// area is the lower and the upper edge of a stacked line's area, at each X.
type area struct{ base, height []float64 }

// Draw cleans a chart. The drawing and the chart share nothing that changes.
func Draw(c *Chart) *Drawing {
	d := &Drawing{Chart: *c}
	for _, text := range []*string{&d.Title, &d.Unit, &d.XLabel, &d.XUnit} {
		*text = tidy(*text)
	}
	d.LogY = c.LogY && !c.Stacked
	d.Reach = orZero(drawable(c.Reach, d.LogY))
	d.Lines, d.Marks = nil, nil
	for i := range c.Lines {
		d.Lines = append(d.Lines, d.clean(&c.Lines[i], i+1))
	}
	for _, m := range c.Marks {
		if finite(m.X) && (!c.LogX || m.X > 0) {
			d.Marks = append(d.Marks, Mark{X: clamp(m.X, c.LogX), Text: tidy(m.Text)})
		}
	}
	slices.SortStableFunc(d.Marks, func(a, b Mark) int { return compare(a.X, b.X) })
	if c.Stacked {
		d.align()
	}
	return d
}

// Timed reports whether X is time.
func (d *Drawing) Timed() bool { return d.XUnit == "s" && !d.LogX }

// clean copies a line of a chart and leaves out what can't be drawn.
func (d *Drawing) clean(l *Line, place int) Line {
	k := Line{Name: tidy(l.Name), Style: place}
	if l.Style > 0 {
		k.Style = l.Style
	}
	band := (l.Min != nil || l.Max != nil) && !d.Stacked
	for _, j := range order(l.X[:min(len(l.X), len(l.Y))]) {
		x := l.X[j]
		if !finite(x) || d.LogX && x <= 0 {
			continue
		}
		y := drawable(l.Y[j], d.LogY)
		k.X, k.Y = append(k.X, clamp(x, d.LogX)), append(k.Y, y)
		if band {
			k.Min = append(k.Min, min(y, bound(l.Min, j, y, d.LogY)))
			k.Max = append(k.Max, max(y, bound(l.Max, j, y, d.LogY)))
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

// bound returns the edge of a band at j, or y if the band has none there.
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
func (d *Drawing) align() {
	var x []float64
	for i := range d.Lines {
		x = append(x, d.Lines[i].X...)
	}
	slices.Sort(x)
	x = slices.Compact(x)
	for i := range d.Lines {
		d.Lines[i].Y = d.Lines[i].at(x)
		d.Lines[i].X = x
	}
	d.stack()
}

// stack sets the edges of each area from the lines' values.
func (d *Drawing) stack() {
	d.areas = nil
	var sum []float64
	for i := range d.Lines {
		y := d.Lines[i].Y
		if sum == nil {
			sum = make([]float64, len(y))
		}
		base := slices.Clone(sum)
		for j, v := range y {
			sum[j] = clamp(sum[j]+v, false)
		}
		d.areas = append(d.areas, area{base, slices.Clone(sum)})
	}
}

// at returns the line's value at each X of an ascending list: interpolated between two of its points, 0 outside of them.
func (l *Line) at(x []float64) []float64 {
	y := make([]float64, len(x))
	j := 0
	for i, v := range x {
		for j < len(l.X) && l.X[j] < v {
			j++
		}
		switch {
		case j == len(l.X) || j == 0 && l.X[0] > v:
		case l.X[j] == v:
			y[i] = orZero(l.Y[j])
		default:
			a, b := orZero(l.Y[j-1]), orZero(l.Y[j])
			y[i] = a + (b-a)*((v-l.X[j-1])/(l.X[j]-l.X[j-1]))
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

// Bin returns the drawing with at most most points in each line. Lines sampled at the same X still have the same X afterwards.
func (d *Drawing) Bin(most int) *Drawing {
	longest := 0
	for i := range d.Lines {
		longest = max(longest, len(d.Lines[i].X))
	}
	per := (longest + most - 1) / most
	if per <= 1 {
		return d
	}
	b := &Drawing{Chart: d.Chart}
	b.Lines = make([]Line, len(d.Lines))
	for i := range d.Lines {
		b.Lines[i] = d.Lines[i].bin(per, !d.Stacked)
	}
	if d.Stacked {
		b.stack()
	}
	return b
}

// bin returns the line with one point for every per points. With a band, each point keeps the least and the greatest of its values.
func (l *Line) bin(per int, band bool) Line {
	b := Line{Name: l.Name, Style: l.Style}
	for from := 0; from < len(l.X); from += per {
		to := min(from+per, len(l.X))
		b.X = append(b.X, mean(l.X[from:to]))
		b.Y = append(b.Y, mean(l.Y[from:to]))
		if band {
			b.Min = append(b.Min, least(l.edge(l.Min)[from:to]))
			b.Max = append(b.Max, greatest(l.edge(l.Max)[from:to]))
		}
	}
	return b
}

// edge returns an edge of the band, or the line itself.
func (l *Line) edge(values []float64) []float64 {
	if values == nil {
		return l.Y
	}
	return values
}

// mean, least and greatest ignore NaN values, and return NaN if no other value exists.
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
