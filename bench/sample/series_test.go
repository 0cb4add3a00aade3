package sample_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigset/bench/sample"
)

var nan = math.NaN()

// TestSeriesKeepsExtremes: whatever is added, and however often points were made one, the greatest and the least value of each column are
// there, each point lies between its own, the points are as few as was asked, and means are those of what was added.
func TestSeriesKeepsExtremes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &sample.Series{Columns: []sample.Column{{Name: "a"}, {Name: "b", Unit: "B"}}, Bound: rapid.IntRange(1, 20).Draw(t, "bound")}
		n := rapid.IntRange(0, 300).Draw(t, "ticks")
		gaps := rapid.IntRange(0, 3).Draw(t, "gaps") // 0: every value is known
		var all [2][]float64
		for i := range n {
			values := []float64{nan, nan}
			for k := range values {
				if gaps == 0 || rapid.IntRange(0, gaps).Draw(t, "known") == 0 {
					values[k] = float64(rapid.IntRange(-1000, 1000).Draw(t, "value"))
					all[k] = append(all[k], values[k])
				}
			}
			s.Add(float64(i), values)
		}
		at := s.At()
		ticks, per := s.Ticks()
		if len(at) > max(2, s.Bound) || ticks != n || !slices.IsSorted(at) || len(at) != (n+per-1)/per {
			t.Fatalf("%d points of %d ticks, %d each, bound %d: %v", len(at), ticks, per, s.Bound, at)
		}
		for k, name := range []string{"a", "b"} {
			mean, low, high := s.Values(name)
			if (low == nil) != (per == 1) {
				t.Fatalf("%d ticks a point, least %v", per, low)
			}
			if low == nil {
				low, high = mean, mean
			}
			if got, want := extreme(low, math.Min), extreme(all[k], math.Min); got != want {
				t.Fatalf("%s: least %v, want %v", name, got, want)
			}
			if got, want := extreme(high, math.Max), extreme(all[k], math.Max); got != want {
				t.Fatalf("%s: greatest %v, want %v", name, got, want)
			}
			for i := range mean {
				if !(mean[i] >= low[i]-1e-3 && mean[i] <= high[i]+1e-3) && !math.IsNaN(mean[i]+low[i]+high[i]) || math.IsNaN(mean[i]) != math.IsNaN(low[i]) {
					t.Fatalf("%s, point %d: %v is not between %v and %v", name, i, mean[i], low[i], high[i])
				}
			}
			if gaps == 0 && n > 0 { // the mean of all, from the points
				sum := 0.
				for i, m := range mean {
					sum += m * float64(min(per, n-i*per))
				}
				if want := total(all[k]); math.Abs(sum-want) > 1e-3*float64(n) {
					t.Fatalf("%s: the points sum up to %v, want %v", name, sum, want)
				}
			}
		}
		same(t, s)
	})
}

func extreme(values []float64, f func(a, b float64) float64) float64 {
	found := -1e9 * f(-1, 1) // above all where the least is asked for, below all where the greatest is
	for _, v := range values {
		if !math.IsNaN(v) {
			found = f(found, v)
		}
	}
	return found
}

func total(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// same checks that a series is the same after a way through JSON, whose bytes are the same again.
func same(t rapid.TB, s *sample.Series) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back sample.Series
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	again, err := json.Marshal(&back)
	if err != nil || string(again) != string(b) {
		t.Fatalf("%v\n%s\n%s", err, again, b)
	}
	for _, c := range s.Columns {
		m, l, h := s.Values(c.Name)
		bm, bl, bh := back.Values(c.Name)
		if fmt.Sprint(m, l, h, s.At()) != fmt.Sprint(bm, bl, bh, back.At()) {
			t.Fatalf("%s: got %v %v %v, want %v %v %v", c.Name, bm, bl, bh, m, l, h)
		}
	}
}

// hour is a series of an hour with a number of columns, half of them noisy.
func hour(columns int) *sample.Series {
	s := &sample.Series{Name: "an hour"}
	for k := range columns {
		s.Columns = append(s.Columns, sample.Column{Name: fmt.Sprint("c", k), Unit: "B"})
	}
	values := make([]float64, columns)
	for i := range 3600 {
		for k := range values {
			values[k] = 1e9 + 1e6*float64(i)
			if k%2 == 1 {
				values[k] = float64(uint32(i*k+1)*2654435761%1_000_003) * 1000
			}
		}
		s.Add(float64(i), values)
	}
	return s
}

// TestSeriesIsSmall: an hour of eighty columns stays below a megabyte of JSON and has few points.
func TestSeriesIsSmall(t *testing.T) {
	t.Parallel()
	s := hour(80)
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, per := s.Ticks(); s.Len() != 900 || per != 4 || len(b) > 1<<20 {
		t.Errorf("%d points of %d ticks, %d bytes", s.Len(), per, len(b))
	}
	if _, low, high := s.Values("c0"); low[1] != float64(float32(1e9+4e6)) || high[1] != float64(float32(1e9+7e6)) {
		t.Errorf("second point: %v to %v", low[1], high[1])
	}
}

// TestSeriesDamaged: what is no series is refused.
func TestSeriesDamaged(t *testing.T) {
	t.Parallel()
	good := &sample.Series{Name: "x", Columns: []sample.Column{{Name: "a"}}}
	for i := range 3 {
		good.Add(float64(i), []float64{float64(i)})
	}
	b, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(b)
	descending := &sample.Series{Columns: []sample.Column{{Name: "a"}}}
	descending.Add(2, []float64{1})
	descending.Add(1, []float64{1})
	down, err := json.Marshal(descending)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, text string }{
		{"no object", `[]`}, {"too many", strings.Replace(whole, `"points":3`, `"points":30000000`, 1)},
		{"too few numbers", strings.Replace(strings.Replace(whole, `"points":3`, `"points":4`, 1), `"ticks":3`, `"ticks":4`, 1)},
		{"too many numbers", strings.Replace(strings.Replace(whole, `"points":3`, `"points":2`, 1), `"ticks":3`, `"ticks":2`, 1)},
		{"ticks", strings.Replace(whole, `"ticks":3`, `"ticks":9`, 1)}, {"per point", strings.Replace(whole, `"ticks_per_point":1`, `"ticks_per_point":0`, 1)},
		{"base64", strings.Replace(whole, `"data":"`, `"data":"!`, 1)}, {"negative", strings.Replace(whole, `"points":3`, `"points":-1`, 1)},
		{"descending", string(down)},
	} {
		var s sample.Series
		if err := json.Unmarshal([]byte(c.text), &s); err == nil {
			t.Errorf("%s: no error for %s", c.what, c.text)
		}
	}
	var s sample.Series
	if err := json.Unmarshal(b, &s); err != nil || s.Last("a") != 2 || !math.IsNaN(s.Last("b")) || !s.Has("a") || s.Has("b") {
		t.Errorf("%v: %v", err, s.Last("a"))
	}
}

func FuzzSeries(f *testing.F) {
	b, err := json.Marshal(hour(2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s sample.Series
		if json.Unmarshal(b, &s) == nil {
			same(t, &s)
		}
	})
}
