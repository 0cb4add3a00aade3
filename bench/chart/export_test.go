package chart

import (
	"math"
	"strconv"
)

// What is in testdata/words.json.
var (
	ValueText = valueText
	XText     = xText
	ShortText = shortText
)

// Tick is a tick of an axis.
type Tick struct {
	Value float64
	Text  string
}

// Ticks returns the ticks of an axis, and its unit.
func Ticks(from, to float64, log bool, unit string, time bool, count int) ([]Tick, string) {
	list, u := ticks(scale{from, to, log}, unit, time, count)
	var out []Tick
	for _, t := range list {
		out = append(out, Tick{t.v, t.text})
	}
	return out, u
}

// RangeY returns the ends of an axis for values between two.
func RangeY(from, to float64, log bool, unit string) (float64, float64) {
	s := fromZero(Extent{from, to}, unit)
	if log {
		s = decades(Extent{from, to})
	}
	return s.from, s.to
}

// xText writes a value of X as the page does: times like a clock.
func xText(v float64, unit string) string {
	if unit != "s" || math.Abs(v) < 120 || math.Abs(v) > 1e12 {
		return valueText(v, unit)
	}
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	whole := int64(math.Round(v))
	if whole < 3600 {
		return sign + strconv.FormatInt(whole/60, 10) + ":" + two(whole%60)
	}
	return sign + strconv.FormatInt(whole/3600, 10) + ":" + two(whole/60%60) + ":" + two(whole%60)
}
