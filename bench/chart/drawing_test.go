package chart

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAxesEndAtTicks: a linear Y axis shows its values and 0, and has ticks at both ends.
func TestAxesEndAtTicks(t *testing.T) {
	t.Parallel()
	checkAxis(t, 1, 1.0485760015e9, "B") // just above 1000 MiB
	checkAxis(t, -1.06e9, 1, "B/s")
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"", "1", "us", "B", "B/s", "op/s"}).Draw(t, "unit")
		a := rapid.Float64Range(-1e12, 1e12).Draw(t, "a") * math.Pow(10, float64(rapid.IntRange(-12, 12).Draw(t, "power")))
		b := rapid.Float64Range(-1e12, 1e12).Draw(t, "b")
		checkAxis(t, min(a, b), max(a, b), unit)
	})
}

func checkAxis(t rapid.TB, from, to float64, unit string) {
	s := fromZero(Extent{from, to}, unit)
	list, _ := ticks(s, unit, false, ticksY)
	if len(list) < 2 || len(list) > ticksY+1 {
		t.Fatalf("%v: %d ticks: %v", s, len(list), list)
	}
	if slack := (to - from) * 1e-8; s.from > min(from, 0)+slack || s.to < max(to, 0)-slack {
		t.Fatalf("%v does not show %g to %g", s, from, to)
	}
	span := s.to - s.from
	if math.Abs(list[0].v-s.from) > span*1e-6 || math.Abs(list[len(list)-1].v-s.to) > span*1e-6 {
		t.Fatalf("%v: ticks end at %v and %v", s, list[0], list[len(list)-1])
	}
	for i := 1; i < len(list); i++ {
		if list[i].text == list[i-1].text {
			t.Fatalf("%v: %q twice", s, list[i].text)
		}
	}
}

func TestWordsForValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "us", "0 µs"}, {999, "us", "999 µs"}, {1500, "us", "1.5 ms"}, {2.5e6, "us", "2.5 s"}, {1023, "B", "1023 B"}, {1 << 20, "B/s", "1 MiB/s"},
		{12345, "op/s", "12.35 k op/s"}, {-1234567, "keys", "-1.235 M keys"}, {1.5, "1", "1.5"}, {0.25, "cpu", "0.25 cores"}, {3, "", "3"},
		{math.NaN(), "B", "–"}, {12.3456, "s", "12.35 s"}, {1e-9, "", "1e-09"},
	} {
		if got := valueText(c.v, c.unit); got != c.want {
			t.Errorf("%g %s is written %q, want %q", c.v, c.unit, got, c.want)
		}
	}
	for v, want := range map[float64]string{59: "59 s", 150: "2:30", 3725: "1:02:05", -150: "-2:30"} {
		if got := xText(v, "s"); got != want {
			t.Errorf("%g s is written %q, want %q", v, got, want)
		}
	}
}

// TestBins: a bin keeps what stands out, in the order of X.
func TestBins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.Just(math.NaN()))
		y := rapid.SliceOfN(value, 1, 300).Draw(t, "y")
		c := Chart{Lines: []Line{{X: make([]float64, len(y)), Y: y}, {X: []float64{0.5}, Y: []float64{1}}}}
		for i := range y {
			c.Lines[0].X[i] = float64(i)
		}
		most := rapid.IntRange(1, 100).Draw(t, "most")
		d := Draw(&c).Bin(most)
		k := &d.Lines[0]
		if len(k.X) > most || !slices.IsSorted(k.X) || len(k.Y) != len(k.X) {
			t.Fatalf("%d bins of at most %d: %v", len(k.X), most, k.X)
		}
		if same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }; !same(least(k.edge(k.Min)), least(y)) ||
			!same(greatest(k.edge(k.Max)), greatest(y)) {
			t.Fatalf("bins from %g to %g, values from %g to %g", least(k.edge(k.Min)), greatest(k.edge(k.Max)), least(y), greatest(y))
		}
		for i := range k.Y {
			if k.Min != nil && !math.IsNaN(k.Y[i]) && (k.Min[i] > k.Y[i]+1e-6 || k.Max[i] < k.Y[i]-1e-6) {
				t.Fatalf("the mean %g is not between %g and %g", k.Y[i], k.Min[i], k.Max[i])
			}
		}
	})
}

// TestBinsKeepBands: bins of bins have the band of the first ones.
func TestBinsKeepBands(t *testing.T) {
	t.Parallel()
	c := Chart{Lines: []Line{{X: []float64{0, 1, 2, 3}, Y: []float64{1, 2, 3, 4}, Min: []float64{-7, 2, 3, 3}, Max: []float64{1, 9, 3, 5}}}}
	k := Draw(&c).Bin(2).Lines[0]
	if !slices.Equal(k.Min, []float64{-7, 3}) || !slices.Equal(k.Max, []float64{9, 5}) || !slices.Equal(k.Y, []float64{1.5, 3.5}) {
		t.Errorf("%v, from %v to %v", k.Y, k.Min, k.Max)
	}
}

func TestStack(t *testing.T) {
	t.Parallel()
	c := Chart{Stacked: true, LogY: true, Lines: []Line{
		{X: []float64{0, 2, 4}, Y: []float64{1, 3, 5}}, {X: []float64{1, 3}, Y: []float64{10, 20}}, {X: []float64{2, 3}, Y: []float64{math.NaN(), 1}},
	}}
	d := Draw(&c)
	for i, want := range [][]float64{{1, 2, 3, 4, 5}, {1, 12, 18, 24, 5}, {1, 12, 18, 25, 5}} {
		if !slices.Equal(d.areas[i].height, want) || i > 0 && !slices.Equal(d.areas[i].base, d.areas[i-1].height) {
			t.Errorf("area %d: from %v to %v, want %v", i, d.areas[i].base, d.areas[i].height, want)
		}
	}
	if s := d.scaleY(); s.log || s.from != 0 || s.to < 25 {
		t.Errorf("the axis is %v", s)
	}
}

// TestClean: what can't be drawn is left out, and X ascends.
func TestClean(t *testing.T) {
	t.Parallel()
	inf, nan := math.Inf(1), math.NaN()
	c := Chart{LogX: true, LogY: true, Lines: []Line{{X: []float64{3, 0, 1, nan, 2, inf, 9}, Y: []float64{30, 5, -1, 5, inf, 5}}},
		Marks: []Mark{{X: 5}, {X: -1}, {X: nan}, {X: 2}}}
	d := Draw(&c)
	k := d.Lines[0]
	if !slices.Equal(k.X, []float64{1, 2, 3}) || !math.IsNaN(k.Y[0]) || !math.IsNaN(k.Y[1]) || k.Y[2] != 30 {
		t.Errorf("X %v, Y %v", k.X, k.Y)
	}
	if len(d.Marks) != 2 || d.Marks[0].X != 2 {
		t.Errorf("marks %v", d.Marks)
	}
}

// TestLogTicks: each logarithmic axis has ticks, in order and within it.
func TestLogTicks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := math.Pow(10, rapid.Float64Range(-290, 290).Draw(t, "from"))
		to := from * math.Pow(10, rapid.OneOf(rapid.Float64Range(0.01, 4), rapid.Float64Range(4, 10)).Draw(t, "decades"))
		count := rapid.IntRange(2, 14).Draw(t, "count")
		list := logTicks(scale{from, to, true}, "op/s", count)
		if len(list) < 2 || len(list) > 2*count+4 {
			t.Fatalf("%g to %g: %d ticks for %d: %v", from, to, len(list), count, list)
		}
		for i, k := range list {
			if k.v < from*(1-1e-6) || k.v > to*(1+1e-6) || i > 0 && k.v <= list[i-1].v {
				t.Fatalf("%g to %g: ticks at %v", from, to, list)
			}
		}
	})
}

// TestReach: charts with the same Reach have the same axis.
func TestReach(t *testing.T) {
	t.Parallel()
	small, large := Chart{Reach: 90, Lines: []Line{{X: []float64{1}, Y: []float64{2}}}}, Chart{Lines: []Line{{X: []float64{1}, Y: []float64{90}}}}
	if a, b := Draw(&small).scaleY(), Draw(&large).scaleY(); a != b {
		t.Errorf("%v and %v", a, b)
	}
	small.Reach, small.LogY = -1, true
	if s := Draw(&small).scaleY(); s.from != 1 || s.to != 10 {
		t.Errorf("a reach that a logarithmic axis can't show made it %v", s)
	}
}
