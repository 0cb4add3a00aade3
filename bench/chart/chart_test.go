package chart_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"bigset/bench/chart"
	"bigset/bench/chart/charttest"
)

func csv(t *testing.T, c *chart.Chart) string {
	t.Helper()
	var b strings.Builder
	if err := chart.WriteCSV(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func svg(t *testing.T, c *chart.Chart, o chart.SVGOptions) string {
	t.Helper()
	var b strings.Builder
	if err := chart.WriteSVG(&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// FuzzSVGText puts a text wherever a plot has one.
func FuzzSVGText(f *testing.F) {
	for _, h := range charttest.Hostile {
		f.Add(h, 1.0)
	}
	f.Fuzz(func(t *testing.T, s string, v float64) {
		c := chart.Chart{Title: s, Unit: s, XLabel: s, XUnit: s, Lines: []chart.Line{{Name: s, X: []float64{0, v, 2}, Y: []float64{v, 1, v}}}, Marks: []chart.Mark{{X: v, Text: s}}}
		charttest.CheckMarkup(t, "plot", svg(t, &c, chart.SVGOptions{}), charttest.Plot)
		c.LogX, c.LogY = true, true
		charttest.CheckMarkup(t, "logarithmic plot", svg(t, &c, chart.SVGOptions{}), charttest.Plot)
	})
}

func TestCSVNames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	c := chart.Chart{Unit: "a,\"b", Lines: []chart.Line{{Name: "=1+1", X: []float64{1, 1, 2}, Y: []float64{5, 6, 7}}, {Name: "@x", X: []float64{1}, Y: []float64{1e-7}, Min: []float64{0}}}}
	if err := chart.WriteCSV(&b, &c); err != nil {
		t.Fatal(err)
	}
	want := "x,\"'=1+1 [a,\"\"b]\",\"'@x [a,\"\"b]\",\"'@x least [a,\"\"b]\",\"'@x greatest [a,\"\"b]\"\n1,5,1e-07,0,1e-07\n1,6,,,\n2,7,,,\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, c := range charttest.Papers() {
		charttest.Golden(t, name+".svg", svg(t, &c, chart.SVGOptions{}))
		charttest.Golden(t, name+".csv", csv(t, &c))
	}
	c := charttest.Papers()["time"]
	charttest.Golden(t, "time-dark-small.svg", svg(t, &c, chart.SVGOptions{Width: 1, Height: 1, Dark: true, NoTitle: true}))
}

// TestKeepsChart: writing gives the same bytes again, and changes nothing of the chart.
func TestKeepsChart(t *testing.T) {
	t.Parallel()
	again := charttest.Odd()
	for i, c := range charttest.Odd() {
		for range 2 {
			if svg(t, &c, chart.SVGOptions{}) != svg(t, &again[i], chart.SVGOptions{}) || csv(t, &c) != csv(t, &again[i]) {
				t.Errorf("%s: the same chart gave other bytes", c.Title)
			}
		}
		for j, l := range charttest.Odd()[i].Lines {
			same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
			got := c.Lines[j]
			if !slices.EqualFunc(got.X, l.X, same) || !slices.EqualFunc(got.Y, l.Y, same) || !slices.EqualFunc(got.Min, l.Min, same) {
				t.Errorf("writing changed %s", c.Title)
			}
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriterFails(t *testing.T) {
	t.Parallel()
	c := charttest.Papers()["time"]
	if err := chart.WriteSVG(brokenWriter{}, &c, chart.SVGOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("WriteSVG: %v", err)
	}
	if err := chart.WriteCSV(brokenWriter{}, &c); !errors.Is(err, errBroken) {
		t.Errorf("WriteCSV: %v", err)
	}
}

// TestMarkup: hostile texts and odd numbers give well-formed plots with the package's own elements.
func TestMarkup(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(charttest.HostileCharts(), charttest.Odd()) {
		for _, o := range []chart.SVGOptions{{}, {Dark: true, Width: 300, Height: 200}, {Classes: true}} {
			charttest.CheckMarkup(t, c.Title, svg(t, &c, o), charttest.Plot)
		}
	}
}
