package sample

import (
	"math"
	"slices"
)

// Column is a figure that is sampled.
type Column struct {
	Name string `json:"name"`           // in lower case with underscores; a place or a role stands before a slash
	Unit string `json:"unit,omitempty"` // as bench/report has them: "B", "us", "1", "cpu", "keys"
	// Growth marks a counter: what the source reads only grows, and the column has its growth a second. The unit is that of the counter.
	Growth bool `json:"growth,omitempty"`
}

// Mark is a moment with a text: the beginning of a phase.
type Mark struct {
	At   float64 `json:"at"` // seconds since the series began
	Text string  `json:"text"`
}

// Series is what a run was like over time: a value of each column a tick, NaN where it is not known. A series has a bound of points. When
// there are as many, each two become one, which keeps their mean, their least and their greatest value: the memory of a series is bounded,
// and no spike gets lost. The zero value is empty, with a bound of PointsDefault. One goroutine at a time uses a Series.
type Series struct {
	Name    string // the run: a strategy, a system
	Columns []Column
	Marks   []Mark
	Skipped []Skip // sources that were too slow
	Bound   int    // points at most, at least 2; 0 is PointsDefault. It is read when the first tick is added

	ticks int // added
	per   int // ticks of a point; 0 is 1
	at    []float32
	lines []line // of Columns
	last  []int  // ticks of the last point at which the column was known
}

// Skip says how often a source did not answer in time. Its columns are NaN at these ticks.
type Skip struct {
	Source string `json:"source"`
	Ticks  int    `json:"ticks"`
}

// PointsDefault is how many points a series has at most: with a tick each second, one for each tick of the first 20 minutes, and for an hour
// one for 4 s.
const PointsDefault = 1200

// marksMax bounds the marks of a series.
const marksMax = 1000

// line is a column's values. least and greatest are nil while each point is one tick.
type line struct{ mean, least, greatest []float32 }

// Ticks returns how many ticks were added, and how many of them a point stands for; the last point may stand for fewer.
func (s *Series) Ticks() (all, perPoint int) { return s.ticks, max(1, s.per) }

// Len returns the number of points.
func (s *Series) Len() int { return len(s.at) }

// At returns the seconds of each point, since the series began.
func (s *Series) At() []float64 { return wide(s.at) }

// Values returns a column's values, a number a point, and the least and the greatest behind each; these are nil while each point is one
// tick. All are nil if there is no such column.
func (s *Series) Values(name string) (mean, least, greatest []float64) {
	i := s.index(name)
	if i < 0 || i >= len(s.lines) {
		return nil, nil, nil
	}
	l := &s.lines[i]
	return wide(l.mean), wide(l.least), wide(l.greatest)
}

// Last returns a column's value at the last point, NaN if there is none.
func (s *Series) Last(name string) float64 {
	i := s.index(name)
	if i < 0 || i >= len(s.lines) || len(s.at) == 0 {
		return math.NaN()
	}
	return float64(s.lines[i].mean[len(s.at)-1])
}

// Has reports whether there is a column with a value that is known.
func (s *Series) Has(name string) bool {
	i := s.index(name)
	return i >= 0 && i < len(s.lines) && slices.ContainsFunc(s.lines[i].mean, known)
}

func (s *Series) index(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

func known(v float32) bool { return v == v }

// Add adds a tick: its seconds since the series began, and a value of each column. Values that are not finite are not known.
func (s *Series) Add(at float64, values []float64) {
	if s.per == 0 {
		s.begin()
	}
	if s.ticks%s.per == 0 {
		if len(s.at) == s.Bound {
			s.halve()
		}
		if s.ticks%s.per == 0 {
			s.open()
		}
	}
	i := len(s.at) - 1
	n := s.ticks % s.per // ticks of this point so far
	s.at[i] = float32(float64(s.at[i]) + (at-float64(s.at[i]))/float64(n+1))
	for k := range s.lines {
		s.lines[k].add(i, float32(values[k]), &s.last[k])
	}
	s.ticks++
}

func (s *Series) begin() {
	if s.Bound == 0 {
		s.Bound = PointsDefault
	}
	s.Bound = max(2, s.Bound)
	s.per, s.lines, s.last = 1, make([]line, len(s.Columns)), make([]int, len(s.Columns))
}

// open begins a point.
func (s *Series) open() {
	nan := float32(math.NaN())
	s.at = append(s.at, 0)
	for k := range s.lines {
		l := &s.lines[k]
		s.last[k] = 0
		l.mean = append(l.mean, nan)
		if s.per > 1 {
			l.least, l.greatest = append(l.least, nan), append(l.greatest, nan)
		}
	}
}

// add takes a tick's value into a point, in which so many are known.
func (l *line) add(i int, v float32, n *int) {
	if !known(v) || math.IsInf(float64(v), 0) {
		return
	}
	if *n++; *n == 1 {
		l.mean[i] = v
	} else {
		l.mean[i] = float32(float64(l.mean[i]) + (float64(v)-float64(l.mean[i]))/float64(*n))
	}
	if l.least != nil {
		l.least[i], l.greatest[i] = lesser(l.least[i], v), greater(l.greatest[i], v)
	}
}

// halve makes each two points one. When their number is odd, the last one stays open for as many ticks again.
func (s *Series) halve() {
	n := len(s.at)
	s.at = pairs(s.at, middle)
	for k := range s.lines {
		l := &s.lines[k]
		if l.least == nil {
			l.least, l.greatest = l.mean, l.mean
		}
		s.last[k] = 0
		if n%2 == 1 && known(l.mean[n-1]) {
			s.last[k] = s.per
		}
		l.least, l.greatest, l.mean = pairs(l.least, lesser), pairs(l.greatest, greater), pairs(l.mean, middle)
	}
	s.per *= 2
}

// pairs returns what f makes of each two values.
func pairs(values []float32, f func(a, b float32) float32) []float32 {
	out := make([]float32, 0, (len(values)+1)/2+1)
	for i := 0; i < len(values); i += 2 {
		out = append(out, f(values[i], values[min(i+1, len(values)-1)]))
	}
	return out
}

// middle, lesser and greater are of the values that are known.
func middle(a, b float32) float32 {
	switch {
	case !known(a):
		return b
	case !known(b):
		return a
	}
	return a/2 + b/2
}

func lesser(a, b float32) float32 {
	if !known(a) || b < a {
		return b
	}
	return a
}

func greater(a, b float32) float32 {
	if !known(a) || b > a {
		return b
	}
	return a
}

// mark adds a mark. Its moment is as exact as that of a point, so that a mark and a point of one moment are at the same place.
func (s *Series) mark(at float64, text string) {
	if len(s.Marks) < marksMax {
		s.Marks = append(s.Marks, Mark{float64(float32(at)), text})
	}
}

// clone returns a copy that later ticks do not change.
func (s *Series) clone() *Series {
	c := *s
	c.Marks, c.Skipped = slices.Clone(s.Marks), slices.Clone(s.Skipped)
	c.at, c.last, c.lines = slices.Clone(s.at), slices.Clone(s.last), slices.Clone(s.lines)
	for k := range c.lines {
		l := &c.lines[k]
		l.mean, l.least, l.greatest = slices.Clone(l.mean), slices.Clone(l.least), slices.Clone(l.greatest)
	}
	return &c
}

func wide(values []float32) []float64 {
	if values == nil {
		return nil
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}
