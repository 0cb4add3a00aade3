package lab

import (
	"math"
	"slices"
	"testing"

	"bigset/bench/sample"
)

// TestMoments checks which points of a series are of phases alone: not those of other phases, nor those that two phases share, nor those after one
// that is not known, whose growth is that of two.
func TestMoments(t *testing.T) {
	s := &sample.Series{Columns: []sample.Column{{Name: "ops", Unit: "op", Growth: true}, {Name: "p99", Unit: "us"}},
		Marks: []sample.Mark{{At: 0, Text: "load"}, {At: 2.5, Text: "main"}, {At: 8.5, Text: "after"}}}
	nan := math.NaN()
	for at, ops := range []float64{0, 9000, 9001, 5000, 400, 300, nan, 700, 600, 5001, 9002} {
		p99 := ops / 10
		s.Add(float64(at), []float64{ops, p99})
	}
	var got []float64
	for _, p := range moments(s, []string{"main"}) {
		got = append(got, p.ops)
	}
	if want := []float64{300, 400, 600}; !slices.Equal(got, want) {
		t.Errorf("loads %v, want %v", got, want)
	}
}

// TestNumber checks that figures have their significant digits, and no exponent.
func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234.6: "1,235", 999: "999", 999.6: "1,000", 0.00671: "0.00671", 0.0001: "0.0001", 0.000059: "0.0000590", 4.18e-5: "0.0000418"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
