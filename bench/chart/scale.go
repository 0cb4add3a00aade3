package chart

import (
	"math"
	"strconv"
	"strings"
)

// The script of bench/report draws the same axes with the same words: it contains a copy of this file's functions. testdata/words.json
// contains what both must print: TestWords compares it with this file, and a test in a browser compares it with the script.

// scale is an axis. from and to are the values at its ends.
type scale struct {
	from, to float64
	log      bool
}

// at returns the position of a value, 0 at from and 1 at to.
func (s scale) at(v float64) float64 {
	if s.log {
		return (math.Log10(v) - math.Log10(s.from)) / (math.Log10(s.to) - math.Log10(s.from))
	}
	return (v - s.from) / (s.to - s.from)
}

// Extent is the range of some values.
type Extent struct{ From, To float64 }

func nothing() Extent { return Extent{math.Inf(1), math.Inf(-1)} }

// add extends the Extent to contain values. It ignores NaN.
func (e *Extent) add(values ...float64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			e.From, e.To = min(e.From, v), max(e.To, v)
		}
	}
}

// ExtentX returns the range of the X axis if the drawing stands alone.
func (d *Drawing) ExtentX() Extent {
	s := d.scaleX()
	return Extent{s.from, s.to}
}

// scaleX returns the X axis of a drawing. For time it spans the points, from 0 if that is near; otherwise it adds a margin.
func (d *Drawing) scaleX() scale {
	e := nothing()
	for i := range d.Lines {
		if k := &d.Lines[i]; len(k.X) > 0 {
			e.add(k.X[0], k.X[len(k.X)-1])
		}
	}
	switch {
	case e.From > e.To:
		return scale{from: 1, to: 10, log: d.LogX}
	case d.LogX:
		margin := math.Pow(e.To/e.From, 0.03)
		if margin == 1 || math.IsInf(margin, 0) {
			margin = 2
		}
		return scale{max(e.From/margin, valueTiny/10), min(e.To*margin, valueMax*10), true}
	case e.From == e.To:
		margin := max(math.Abs(e.From)/2, 0.5)
		return scale{from: e.From - margin, to: e.To + margin}
	case d.Timed() && e.From > 0 && e.From < e.To/4:
		return scale{from: 0, to: e.To} // the first sample is taken after a while
	case d.Timed():
		return scale{from: e.From, to: e.To}
	}
	margin := (e.To - e.From) * 0.03
	return scale{from: e.From - margin, to: e.To + margin}
}

// scaleY returns the Y axis of a drawing. A linear one contains 0, so that heights can be compared.
func (d *Drawing) scaleY() scale {
	e := nothing()
	if d.Reach != 0 {
		e.add(d.Reach)
	}
	for i := range d.Lines {
		k := &d.Lines[i]
		if d.Stacked {
			e.add(d.areas[i].base...)
			e.add(d.areas[i].height...)
			continue
		}
		e.add(k.Y...)
		e.add(k.Min...)
		e.add(k.Max...)
	}
	if d.LogY {
		return decades(e)
	}
	return fromZero(e, d.Unit)
}

// Linear Y axes end at steps of a fifth of the range. At most seven steps fit, so both ends have ticks.
const (
	stepsY = 5
	ticksY = 7
)

// fromZero returns a linear axis that contains 0 and ends at ticks of its unit.
func fromZero(e Extent, unit string) scale {
	if e.From > e.To || e.From == 0 && e.To == 0 {
		return scale{from: 0, to: 1}
	}
	s := scale{from: min(e.From, 0), to: max(e.To, 0)}
	rounded := s.rounded(prefixOf(s.far(), unit).factor)
	if p := prefixOf(rounded.far(), unit); p != prefixOf(s.far(), unit) {
		return s.rounded(p.factor) // 1010 MiB of 1500 MiB: the ticks are in GiB
	}
	return rounded
}

// far returns how far from 0 the scale reaches.
func (s scale) far() float64 { return max(math.Abs(s.from), math.Abs(s.to)) }

// rounded returns a linear scale whose ends are at nice steps in a unit of factor.
func (s scale) rounded(factor float64) scale {
	step := niceStep((s.to-s.from)/factor/stepsY) * factor
	if !finite(step) || step == 0 {
		return s
	}
	if s.from < 0 {
		s.from = math.Floor(s.from/step*(1+1e-9)) * step
	}
	if s.to > 0 {
		s.to = math.Ceil(s.to/step*(1-1e-9)) * step
	}
	return s
}

// decades returns a logarithmic axis from a power of ten to a power of ten.
func decades(e Extent) scale {
	if e.From > e.To {
		return scale{from: 1, to: 10, log: true}
	}
	from, to := math.Floor(math.Log10(e.From)+1e-9), math.Ceil(math.Log10(e.To)-1e-9)
	if from >= to {
		to = from + 1
	}
	return scale{from: math.Pow(10, from), to: math.Pow(10, to), log: true}
}

// niceStep returns the step of 1, 2 or 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// timeSteps are the steps of a time axis in seconds; longer axes use days.
var timeSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400}

// tick is a position on an axis and its text.
type tick struct {
	v    float64
	text string
}

// ticks returns about count ticks of an axis, and the text of its unit.
func ticks(s scale, unit string, time bool, count int) ([]tick, string) {
	if s.log {
		return logTicks(s, unit, count), unitText(prefix{1, ""}, unit)
	}
	if time {
		if t, ok := timeTicks(s, count); ok {
			return t, clockUnit(s.to - s.from)
		}
	}
	p := prefixOf(s.far(), unit)
	step := niceStep((s.to - s.from) / p.factor / float64(count))
	if !finite(step) || step <= 0 {
		return nil, unitText(p, unit)
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var list []tick
	first := math.Ceil(s.from/p.factor/step - 1e-6)
	last := math.Floor(s.to/p.factor/step + 1e-6)
	for i := first; i <= last && len(list) < 50; i++ {
		v := i*step + 0 // no negative zero
		list = append(list, tick{v * p.factor, plain(v, digits)})
	}
	return list, unitText(p, unit)
}

// plain writes a number with the given number of decimals, and very long numbers with an exponent.
func plain(v float64, digits int) string {
	switch {
	case v == 0 && digits > 6:
		return "0"
	case math.Abs(v) >= 1e6 || digits > 6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// timeTicks returns ticks at whole seconds, minutes or hours, if the axis is long enough for them.
func timeTicks(s scale, count int) ([]tick, bool) {
	span := s.to - s.from
	if span < 2 || span > 1e9 || math.Abs(s.from) > 1e12 {
		return nil, false
	}
	step := 86400 * niceStep(span/86400/float64(count))
	for _, t := range timeSteps {
		if span/t <= float64(count) {
			step = t
			break
		}
	}
	var list []tick
	for v := math.Ceil(s.from/step-1e-6) * step; v <= s.to+step*1e-6; v += step {
		list = append(list, tick{v + 0, clockText(v, span)})
	}
	return list, true
}

// clockUnit returns the unit of a time axis that is span seconds long.
func clockUnit(span float64) string {
	switch {
	case span <= 120:
		return "s"
	case span < 3600:
		return "min:s"
	}
	return "h:min"
}

// clockText writes a time on an axis that is span seconds long.
func clockText(v, span float64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	whole := int64(math.Round(v))
	switch clockUnit(span) {
	case "s":
		return sign + strconv.FormatInt(whole, 10)
	case "min:s":
		return sign + strconv.FormatInt(whole/60, 10) + ":" + two(whole%60)
	}
	return sign + strconv.FormatInt(whole/3600, 10) + ":" + two(whole/60%60)
}

func two(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// logTicks returns ticks at powers of ten: at some of them if there are many, and also at 2 and 5 times them if there are few. An axis too
// short for these gets linear ticks.
func logTicks(s scale, unit string, count int) []tick {
	from, to := int(math.Ceil(math.Log10(s.from)-1e-9)), int(math.Floor(math.Log10(s.to)+1e-9))
	times, every := []float64{1}, max(1, (to-from+count-1)/count)
	if to-from <= count/3 {
		times, from = []float64{1, 2, 5}, from-1
	}
	var list []tick
	for e := from; e <= to; e += every {
		for _, m := range times {
			if v := m * math.Pow(10, float64(e)); v >= s.from*(1-1e-9) && v <= s.to*(1+1e-9) {
				list = append(list, tick{v, shortText(v, unit)})
			}
		}
	}
	if step := niceStep((s.to - s.from) / float64(max(count, 6))); len(list) < 2 && finite(step) && step > 0 {
		list = nil
		for i := math.Ceil(s.from/step - 1e-6); i <= math.Floor(s.to/step+1e-6) && len(list) < 50; i++ {
			list = append(list, tick{i * step, shortText(i*step, unit)})
		}
	}
	return list
}

// prefix is the divisor of a value and the text for it.
type prefix struct {
	factor float64
	text   string
}

// prefixes returns the prefixes of a unit in ascending order. Their texts come before the unit, or replace it.
func prefixes(unit string) []prefix {
	switch unit {
	case "us":
		return []prefix{{1, "µs"}, {1e3, "ms"}, {1e6, "s"}}
	case "B", "B/s":
		return []prefix{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}, {1 << 40, "TiB"}}
	case "s", "1", "cpu":
		return []prefix{{1, ""}}
	}
	return []prefix{{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}
}

// prefixOf returns the largest prefix that is not above the value.
func prefixOf(v float64, unit string) prefix {
	list := prefixes(unit)
	found := list[0]
	for _, p := range list[1:] {
		if math.Abs(v) >= p.factor*(1-1e-9) {
			found = p
		}
	}
	return found
}

// unitText returns a unit with its prefix, as written beside an axis.
func unitText(p prefix, unit string) string {
	switch unit {
	case "us":
		if p.text == "" {
			return ""
		}
		return p.text
	case "B", "B/s":
		if p.text == "" {
			return strings.TrimPrefix(unit, "B")
		}
		return p.text + strings.TrimPrefix(unit, "B")
	case "1":
		return "ratio"
	case "cpu":
		return "cores"
	}
	return strings.TrimSpace(p.text + " " + unit)
}

// shortText writes a value with its prefix and without its unit, for a tick of a logarithmic axis.
func shortText(v float64, unit string) string {
	p := prefixOf(v, unit)
	sep := ""
	if unit == "us" || unit == "B" || unit == "B/s" {
		sep = " "
	}
	return strings.TrimSpace(digits(v/p.factor, 3) + sep + p.text)
}

// valueText writes a value for people, with its unit: four digits are enough to compare by eye.
func valueText(v float64, unit string) string {
	if !finite(v) {
		return "–"
	}
	p := prefixOf(v, unit)
	number := digits(v/p.factor, 4)
	switch unit {
	case "1", "":
		return number + p.text
	}
	return number + " " + unitText(p, unit)
}

// digits writes a number with n digits, in the shortest form.
func digits(v float64, n int) string {
	a := math.Abs(v)
	if a != 0 && (a >= 1e6 || a < 1e-4) {
		return strconv.FormatFloat(v, 'g', n, 64)
	}
	before := 1
	for limit := 10.0; a >= limit && before < n; limit *= 10 {
		before++
	}
	text := strconv.FormatFloat(v, 'f', n-before, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}
