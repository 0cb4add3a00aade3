package chart

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
