package sample_test

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bigset/bench/sample"
)

// fake is a source of columns that a function reads.
type fake struct {
	name    string
	columns []sample.Column
	read    func(values []float64)
}

func (f *fake) Name() string             { return f.name }
func (f *fake) Columns() []sample.Column { return f.columns }
func (f *fake) Read(values []float64)    { f.read(values) }

func equal(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-4 || math.IsNaN(a) && math.IsNaN(b) }) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func values(s *sample.Series, name string) []float64 {
	v, _, _ := s.Values(name)
	return v
}

// TestSampler: gauges are as they are read, counters are their growth a second, a phase begins with a tick, ratios are those of growth since then,
// and the last tick is that of Stop.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0.
		src := &fake{"a", []sample.Column{{Name: "gauge"}, {Name: "log_bytes", Unit: "B", Growth: true}, {Name: "user_bytes", Unit: "B", Growth: true}}, nil}
		counts := []float64{100, 300, 200, 600, 700, 800, 900, 1000} // it falls once
		src.read = func(v []float64) {
			v[0], v[1], v[2] = n, counts[int(n)], 10*n
			n++
		}
		var told []*sample.Tick
		s := sample.Start(sample.Options{Name: "run", Sources: []sample.Source{src}, Watch: func(k *sample.Tick) { told = append(told, k) },
			Ratios: []sample.Ratio{{Name: "amp", Of: []string{"log_bytes"}, To: []string{"user_bytes"}}, {Name: "none", Of: []string{"gauge"}, To: []string{"nothing"}}}})
		time.Sleep(3500 * time.Millisecond)
		s.Phase("second", func() (float64, float64) { return 3, 4 })
		time.Sleep(1100 * time.Millisecond)
		s.Phase("third", func() (float64, float64) { return 3, 4 })
		time.Sleep(300 * time.Millisecond)
		out := s.Stop()
		s.Phase("none", nil)
		if again := s.Stop(); again.Len() != out.Len() {
			t.Errorf("stopped again: %d points", again.Len())
		}
		equal(t, "at", out.At(), []float64{0, 1, 2, 3, 3.5, 4.5, 4.6, 4.9})
		equal(t, "gauge", values(out, "gauge"), []float64{0, 1, 2, 3, 4, 5, 6, 7})
		equal(t, "counter", values(out, "log_bytes"), []float64{nan, 200, 0, 300, 200, 100, nan, 500})
		equal(t, "ratio", values(out, "amp"), []float64{nan, 20, 10, 500. / 30, 15, 10, 10, 10})
		if out.Name != "run" || len(out.Marks) != 2 || out.Marks[0] != (sample.Mark{At: 3.5, Text: "second"}) || len(out.Skipped) > 0 || values(out, "none") != nil {
			t.Errorf("%+v", out)
		}
		last := told[len(told)-1]
		if len(told) != 8 || last.At != 4900*time.Millisecond || last.Phase != "third" || last.Done != 3 || last.Of != 4 || last.Value("gauge") != 7 || told[0].Phase != "" {
			t.Errorf("%d ticks were reported, the last is %+v", len(told), last)
		}
	})
}

// TestStep: ticks name the step until the next phase begins.
func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		s := sample.Start(sample.Options{Watch: func(k *sample.Tick) { steps = append(steps, k.Phase+"/"+k.Step) }})
		s.Phase("load", nil)
		time.Sleep(1100 * time.Millisecond)
		s.Step("settling")
		time.Sleep(time.Second)
		s.Phase("main", nil)
		time.Sleep(time.Second)
		s.Stop()
		if steps = slices.Compact(steps); !slices.Equal(steps, []string{"/", "load/", "load/settling", "main/"}) {
			t.Errorf("steps %q", steps)
		}
	})
}

// TestSlowSource: a source that takes long is skipped and piles up nothing; the others' ticks stay in time, what it counted since its last tick
// is growth of the whole time, and Stop waits for it.
func TestSlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick, slow, inside atomic.Int64
		a := &fake{"quick", []sample.Column{{Name: "a"}}, func(v []float64) { v[0] = float64(quick.Add(1)) }}
		b := &fake{"slow", []sample.Column{{Name: "b", Growth: true}}, func(v []float64) {
			if inside.Add(1) > 1 {
				t.Error("it is read twice at a time")
			}
			n := slow.Add(1)
			v[0] = float64(n * 100)
			if n == 3 { // the tick at 2 s
				time.Sleep(2700 * time.Millisecond)
			}
			inside.Add(-1)
		}}
		s := sample.Start(sample.Options{Sources: []sample.Source{a, b}})
		time.Sleep(6200 * time.Millisecond)
		out := s.Stop()
		// The last 200 ms are too short to say anything.
		equal(t, "at", out.At(), []float64{0, 1, 2, 3, 4, 5, 6})
		equal(t, "a", values(out, "a"), []float64{1, 2, 3, 4, 5, 6, 7})
		// Skipped at 2, 3 and 4 s. The answer came at 4.7 s and was too old at 5 s, when it is asked again: 400, after 200 at 1 s.
		equal(t, "b", values(out, "b"), []float64{nan, 100, nan, nan, nan, 50, 100})
		if len(out.Skipped) != 1 || out.Skipped[0] != (sample.Skip{Source: "slow", Ticks: 3}) {
			t.Errorf("skipped: %v", out.Skipped)
		}
		slow.Store(2)
		s = sample.Start(sample.Options{Sources: []sample.Source{b}, Watch: func(*sample.Tick) { time.Sleep(time.Minute) }})
		began := time.Now()
		time.Sleep(100 * time.Millisecond)
		s.Stop()
		if inside.Load() != 0 || time.Since(began) < 2700*time.Millisecond {
			t.Errorf("it was read when Stop returned, after %v", time.Since(began))
		}
	})
}

// TestSlowWatch: who watches slowly misses ticks, and delays none.
func TestSlowWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		s := sample.Start(sample.Options{Watch: func(k *sample.Tick) {
			told = append(told, k.At)
			time.Sleep(2400 * time.Millisecond)
		}})
		time.Sleep(10*time.Second + 1)
		out := s.Stop()
		if out.Len() != 11 || !slices.Equal(told, []time.Duration{0, 2 * time.Second, 4 * time.Second, 7 * time.Second, 9 * time.Second, 10 * time.Second}) {
			t.Errorf("%d points; reported %v", out.Len(), told)
		}
	})
}

// TestSeriesSoFar: a copy of the series does not change.
func TestSeriesSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fake{"a", []sample.Column{{Name: "a"}}, func(v []float64) { v[0] = 7 }}
		s := sample.Start(sample.Options{Sources: []sample.Source{src}, Every: time.Minute, Bound: 4})
		time.Sleep(2*time.Minute + time.Second)
		some := s.Series()
		s.Phase("later", nil)
		time.Sleep(time.Hour)
		if all := s.Stop(); some.Len() != 3 || len(some.Marks) != 0 || all.Len() > 4 || len(all.Marks) != 1 {
			t.Errorf("%d points then, %d at the end", some.Len(), all.Len())
		}
	})
}
