package chart_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bigset/bench/chart"
	"bigset/bench/chart/charttest"
)

// agreed is what the package and the script of bench/report must both say: testdata/words.json.
type agreed struct {
	Words []word
	Axes  []axis
}

// word is a value as it is written.
type word struct {
	V                     float64
	Unit, Value, X, Short string
}

// axis is the ticks of an axis, and what it shows if the values are between From and To.
type axis struct {
	From, To  float64
	Unit      string
	Log, Time bool
	Ticks     [][2]any // place, text
	Shown     string   // the unit
	Range     [2]float64
}

func sayWords() (a agreed) {
	for _, u := range []string{"", "1", "s", "us", "B", "B/s", "cpu", "op/s", "keys"} {
		for _, v := range []float64{0, 1, -1, 0.5, 9.9996, 10, 99.994, 123.456, 999.96, 1000, 1023.9, 1024, 1536, 12345.678, 1e6, 123456789, -2.5e6, 1e-3, 1e-5, 3.2e-9,
			1e15, 1e18, 1e300, 5e9, 3599.6, 3600, 86399, 120, 119.9} {
			a.Words = append(a.Words, word{v, u, chart.ValueText(v, u), chart.XText(v, u), chart.ShortText(v, u)})
		}
	}
	for _, s := range [][2]float64{{0, 1}, {0, 3599}, {900, 1800}, {0, 59.5}, {0, 90000}, {-5, 17}, {0, 6.3e7}, {0.0001, 0.00037}, {-3e9, 1}, {1, 1e9}, {20, 700},
		{1e-5, 1e5}, {0, 1e300}, {0, 3e-12}, {3, 4}, {0.87, 115}, {0, 1.0485760015e9}, {-1060000000, 3}, {4.1e5, 4.2e5}, {2.3e-7, 3e8}} {
		for _, u := range []string{"s", "B", "us", "op/s", ""} {
			a.Axes = append(a.Axes, sayAxis(s, u, false, false), sayAxis(s, u, false, true))
			if s[0] > 0 {
				a.Axes = append(a.Axes, sayAxis(s, u, true, false))
			}
		}
	}
	return a
}

func sayAxis(s [2]float64, unit string, log, time bool) axis {
	a := axis{From: s[0], To: s[1], Unit: unit, Log: log, Time: time, Ticks: [][2]any{}}
	a.Range[0], a.Range[1] = chart.RangeY(s[0], s[1], log, unit)
	list, shown := chart.Ticks(s[0], s[1], log, unit, time, 6)
	for _, k := range list {
		a.Ticks = append(a.Ticks, [2]any{k.Value, k.Text})
	}
	a.Shown = shown
	return a
}

// TestWords compares words and scales with those that are agreed.
func TestWords(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(sayWords())
	if err != nil {
		t.Fatal(err)
	}
	charttest.Golden(t, "words.json", strings.NewReplacer("},{", "},\n{", ":[{", ":[\n{").Replace(string(text))+"\n")
}
