package report

import (
	"math"
	"slices"
	"strings"
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
	s := fromZero(extent{from, to}, unit)
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
		d := draw(&c).bin(most)
		k := &d.lines[0]
		if len(k.x) > most || !slices.IsSorted(k.x) || len(k.y) != len(k.x) {
			t.Fatalf("%d bins of at most %d: %v", len(k.x), most, k.x)
		}
		if same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }; !same(least(k.edge(k.low)), least(y)) ||
			!same(greatest(k.edge(k.high)), greatest(y)) {
			t.Fatalf("bins from %g to %g, values from %g to %g", least(k.edge(k.low)), greatest(k.edge(k.high)), least(y), greatest(y))
		}
		for i := range k.y {
			if k.low != nil && !math.IsNaN(k.y[i]) && (k.low[i] > k.y[i]+1e-6 || k.high[i] < k.y[i]-1e-6) {
				t.Fatalf("the mean %g is not between %g and %g", k.y[i], k.low[i], k.high[i])
			}
		}
	})
}

// TestBinsKeepBands: bins of bins have the band of the first ones.
func TestBinsKeepBands(t *testing.T) {
	t.Parallel()
	c := Chart{Lines: []Line{{X: []float64{0, 1, 2, 3}, Y: []float64{1, 2, 3, 4}, Min: []float64{-7, 2, 3, 3}, Max: []float64{1, 9, 3, 5}}}}
	k := draw(&c).bin(2).lines[0]
	if !slices.Equal(k.low, []float64{-7, 3}) || !slices.Equal(k.high, []float64{9, 5}) || !slices.Equal(k.y, []float64{1.5, 3.5}) {
		t.Errorf("%v, from %v to %v", k.y, k.low, k.high)
	}
}

func TestStack(t *testing.T) {
	t.Parallel()
	c := Chart{Stacked: true, LogY: true, Lines: []Line{
		{X: []float64{0, 2, 4}, Y: []float64{1, 3, 5}}, {X: []float64{1, 3}, Y: []float64{10, 20}}, {X: []float64{2, 3}, Y: []float64{math.NaN(), 1}},
	}}
	d := draw(&c)
	for i, want := range [][]float64{{1, 2, 3, 4, 5}, {1, 12, 18, 24, 5}, {1, 12, 18, 25, 5}} {
		if !slices.Equal(d.lines[i].height, want) || i > 0 && !slices.Equal(d.lines[i].base, d.lines[i-1].height) {
			t.Errorf("area %d: from %v to %v, want %v", i, d.lines[i].base, d.lines[i].height, want)
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
	d := draw(&c)
	k := d.lines[0]
	if !slices.Equal(k.x, []float64{1, 2, 3}) || !math.IsNaN(k.y[0]) || !math.IsNaN(k.y[1]) || k.y[2] != 30 {
		t.Errorf("X %v, Y %v", k.x, k.y)
	}
	if len(d.marks) != 2 || d.marks[0].X != 2 {
		t.Errorf("marks %v", d.marks)
	}
}

// ---- colours ----

// rgb returns a colour as three numbers from 0 to 1.
func rgb(t *testing.T, s string) [3]float64 {
	t.Helper()
	var c [3]float64
	for i := range c {
		n := 0
		for _, d := range strings.ToLower(s[1+2*i : 3+2*i]) {
			n = n*16 + strings.IndexRune("0123456789abcdef", d)
		}
		c[i] = float64(n) / 255
	}
	return c
}

func linear(c [3]float64) [3]float64 {
	for i, v := range c {
		if v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// contrast is that of the Web Content Accessibility Guidelines.
func contrast(t *testing.T, a, b string) float64 {
	light := func(s string) float64 {
		c := linear(rgb(t, s))
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05
	}
	x, y := light(a), light(b)
	return max(x, y) / min(x, y)
}

// lab returns linear light in CIE's L*a*b*, in which distances are about as eyes see them.
func lab(c [3]float64) [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x, y, z := f((0.4124*c[0]+0.3576*c[1]+0.1805*c[2])/0.9505), f(0.2126*c[0]+0.7152*c[1]+0.0722*c[2]), f((0.0193*c[0]+0.1192*c[1]+0.9505*c[2])/1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// eyes are what is left of linear light for eyes that lack a kind of cone (Machado, Oliveira and Fernandes 2009).
var eyes = map[string][3][3]float64{
	"all cones": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"no red":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"no green":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"no blue":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func seen(t *testing.T, s string, eye [3][3]float64) [3]float64 {
	c := linear(rgb(t, s))
	var out [3]float64
	for i := range out {
		for j := range c {
			out[i] += eye[i][j] * c[j]
		}
		out[i] = min(1, max(0, out[i]))
	}
	return lab(out)
}

func TestColours(t *testing.T) {
	t.Parallel()
	for name, th := range map[string]*theme{"light": &light, "dark": &dark} {
		for _, paper := range []string{th.paper, th.panel} {
			for _, text := range []string{th.text, th.muted, th.good, th.bad, th.doubt} {
				if c := contrast(t, text, paper); c < 4.5 {
					t.Errorf("%s: text %s on %s has a contrast of %.2f, want 4.5", name, text, paper, c)
				}
			}
		}
		for _, line := range append(th.lines[:], th.axis, th.mark) {
			if c := contrast(t, line, th.paper); c < 3 {
				t.Errorf("%s: line %s has a contrast of %.2f, want 3", name, line, c)
			}
		}
		checkApart(t, name, th)
	}
}

// checkApart: any two of the first eight styles differ to any eyes, by colour or else by dashes, and the first four by colour.
func checkApart(t *testing.T, name string, th *theme) {
	t.Helper()
	for who, eye := range eyes {
		for i := range th.lines {
			for j := range i {
				a, b := seen(t, th.lines[i], eye), seen(t, th.lines[j], eye)
				distance := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
				if distance < 12 && (dashOf(i) == dashOf(j) || i < 4) {
					t.Errorf("%s, %s: lines %d and %d look alike: %.1f", name, who, i, j, distance)
				}
			}
		}
	}
}

// TestAssets: nothing in the scripts or the licence ends the element or the comment that they stand in.
func TestAssets(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"report.js": scriptOwn, "uplot.min.js": scriptPlot, "styles": style()} {
		for _, end := range []string{"</script", "</style", "<!--"} {
			if strings.Contains(strings.ToLower(text), end) {
				t.Errorf("%s contains %s", name, end)
			}
		}
	}
	if strings.Contains(licencePlot, "--") || licencePlot == "" {
		t.Error("the licence can't stand in a comment")
	}
	for _, call := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(", "XMLHttpRequest", "WebSocket"} {
		if strings.Contains(scriptOwn, call) || strings.Contains(scriptPlot, call) {
			t.Errorf("a script uses %s", call)
		}
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
	if a, b := draw(&small).scaleY(), draw(&large).scaleY(); a != b {
		t.Errorf("%v and %v", a, b)
	}
	small.Reach, small.LogY = -1, true
	if s := draw(&small).scaleY(); s.from != 1 || s.to != 10 {
		t.Errorf("a reach that a logarithmic axis can't show made it %v", s)
	}
}
