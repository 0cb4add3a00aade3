package sample

import (
	"math"
	"slices"
)

// Column is a sampled figure.
type Column struct {
	Name string `json:"name"`           // in lower case with underscores; a place or a role precedes a slash
	Unit string `json:"unit,omitempty"` // as in bench/report: "B", "us", "1", "cpu", "keys"
	// Growth marks a counter: the source's value only grows, and the column contains its growth per second. The unit is that of the
	// counter.
	Growth bool `json:"growth,omitempty"`
}

// Mark is a moment with a text, such as the beginning of a phase.
type Mark struct {
	At   float64 `json:"at"` // seconds since the series began
	Text string  `json:"text"`
}

// Series is the development of a run: a value of each column for each tick, NaN if unknown. A series has a bound of points. When it is
// reached, pairs of points are merged into points with their mean, their least and their greatest value: so the memory of a series is
// bounded, and no spike is lost. The zero value is empty, with a bound of PointsDefault. Only one goroutine at a time may use a Series.
type Series struct {
	Name    string // the run: a strategy, a system
	Columns []Column
	Marks   []Mark
	Skipped []Skip // sources that were too slow
	Bound   int    // largest number of points, at least 2; 0 means PointsDefault. It is read when the first tick is added

	ticks int // number of ticks added
	per   int // ticks for each point; 0 means 1
	at    []float32
	lines []line // of Columns
	last  []int  // ticks of the last point at which the column was known
}

// Skip counts how often a source did not answer in time. Its columns are NaN at these ticks.
type Skip struct {
	Source string `json:"source"`
	Ticks  int    `json:"ticks"`
}

// PointsDefault is the default bound of points of a series: with a tick each second, one point for each tick of the first 20 minutes and,
// for an hour, one for every 4 s.
const PointsDefault = 1200

// marksMax bounds the marks of a series.
const marksMax = 1000

// line contains a column's values. least and greatest are nil while each point is one tick.
type line struct{ mean, least, greatest []float32 }

// Ticks returns how many ticks were added, and for how many of them a point stands; the last point may stand for fewer.
func (s *Series) Ticks() (all, perPoint int) { return s.ticks, max(1, s.per) }

// Len returns the number of points.
func (s *Series) Len() int { return len(s.at) }

// At returns the seconds of each point, since the series began.
func (s *Series) At() []float64 { return wide(s.at) }

// Values returns a column's values, one for each point, and the least and the greatest value of each point; these are nil while each point
// is one tick. All are nil if the column does not exist.
func (s *Series) Values(name string) (mean, least, greatest []float64) {
	i := s.index(name)
	if i < 0 || i >= len(s.lines) {
		return nil, nil, nil
	}
	l := &s.lines[i]
	return wide(l.mean), wide(l.least), wide(l.greatest)
}

// Last returns a column's value at the last point, or NaN.
func (s *Series) Last(name string) float64 {
	i := s.index(name)
	if i < 0 || i >= len(s.lines) || len(s.at) == 0 {
		return math.NaN()
	}
	return float64(s.lines[i].mean[len(s.at)-1])
}

// Has reports whether a column exists and has a known value.
func (s *Series) Has(name string) bool {
	i := s.index(name)
	return i >= 0 && i < len(s.lines) && slices.ContainsFunc(s.lines[i].mean, known)
}

func (s *Series) index(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

func known(v float32) bool { return v == v }

// Add adds a tick: its seconds since the beginning of the series, and a value for each column. Values that are not finite count as unknown.
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

// add adds a tick's value to a point, which already contains n known values.
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

// halve merges pairs of points. If their number is odd, the last one stays open for as many ticks again.
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

// pairs returns the results of f for pairs of values.
func pairs(values []float32, f func(a, b float32) float32) []float32 {
	out := make([]float32, 0, (len(values)+1)/2+1)
	for i := 0; i < len(values); i += 2 {
		out = append(out, f(values[i], values[min(i+1, len(values)-1)]))
	}
	return out
}

// middle, lesser and greater ignore unknown values.
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

// mark adds a mark. Its time has the precision of a point's, so that a mark and a point of one moment have the same position.
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
