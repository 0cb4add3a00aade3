package lab

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset/bench/result"
	"bigset/bench/run"
	"bigset/bench/sample"
	"bigset/bench/sample/view"
	"bigset/bench/screen"
	"bigset/bench/spec/parser"
	"bigset/bench/system"
)

const (
	overheadLeg   = time.Second
	overheadPairs = 12
)

// everyOther is an Observer that has a watcher sample and a view draw every other phase, and keeps the figures of all.
type everyOther struct {
	*watcher
	opened         func()
	nth            int // of the phase, among those that are measured
	plain, watched []result.Figures
	ticks          int
}

func (o *everyOther) Opened(at run.At, sys system.System, groups []*sample.Latencies) {
	o.opened = func() { o.watcher.Opened(at, sys, groups) }
}

func (o *everyOther) Closing(system.System) {}

// on reports whether the phase is watched: of each two one is, in turns the first and the second.
func (o *everyOther) on() bool { return o.nth%4 == 1 || o.nth%4 == 2 }

func (o *everyOther) PhaseBegan(p *run.Phase) {
	if p.Measured && o.on() {
		o.opened()
		o.watcher.PhaseBegan(p)
	}
}

func (o *everyOther) PhaseEnded(p *run.Phase, rows []result.Row) {
	if !p.Measured {
		return
	}
	if o.on() {
		for _, s := range o.take() {
			all, _ := s.Ticks()
			o.ticks += all
		}
		o.store.Detach()
		o.watched = append(o.watched, rows[0].Figures)
	} else {
		o.plain = append(o.plain, rows[0].Figures)
	}
	o.nth++
}

// BenchmarkOverhead is what sampling and the live view cost of a run: phases with them and without them, in turns, on one store. An iteration is
// twelve pairs. It reports the median of the ratios of pairs, with against without, the quartiles, and the bounds of the median's 95 % confidence
// interval: of operations a second, and of the CPU time of the process for an operation, which other processes of the machine disturb less. Clients
// record latencies in both. A run is sampled once a second. With 20 iterations the interval is narrow enough for that. Sampled up to
// a hundred times as often, the cost exceeds the noise in one.
//
//	go test ./bench/lab -run '^$' -bench Overhead/every=1s -benchtime 20x
//	go test ./bench/lab -run '^$' -bench Overhead/every=10ms -benchtime 1x
func BenchmarkOverhead(b *testing.B) {
	for _, every := range []time.Duration{overheadLeg, overheadLeg / 4, 10 * time.Millisecond} {
		for _, clients := range []int{1, 50} {
			b.Run(fmt.Sprintf("every=%v/clients=%d", every, clients), func(b *testing.B) { overhead(b, clients, every) })
		}
	}
}

func overhead(b *testing.B, clients int, every time.Duration) {
	var speeds, cpus []float64
	for b.Loop() {
		o := overheadRun(b, clients, every)
		for i := range o.plain {
			p, w := &o.plain[i], &o.watched[i]
			speeds, cpus = append(speeds, w.OpsPerSecond/p.OpsPerSecond), append(cpus, *w.CPUMicros / *p.CPUMicros)
		}
		if len(o.watched) != overheadPairs || o.ticks < max(overheadPairs, overheadPairs*int(overheadLeg/every)/4) { // a busy machine leaves some out
			b.Fatalf("%d watched phases with %d ticks", len(o.watched), o.ticks)
		}
	}
	for name, ratios := range map[string][]float64{"ops/s": speeds, "cpu/op": cpus} {
		slices.Sort(ratios)
		quartile := func(q float64) float64 { // between two values that far along
			at, part := math.Modf(q / 4 * float64(len(ratios)-1))
			i := int(at)
			return ratios[i] + part*(ratios[min(i+1, len(ratios)-1)]-ratios[i])
		}
		low, high := medianBounds(ratios)
		b.ReportMetric(low, name+"-low")
		b.ReportMetric(high, name+"-high")
		b.ReportMetric(quartile(1), name+"-q1")
		b.ReportMetric(quartile(2), name+"-median")
		b.ReportMetric(quartile(3), name+"-q3")
	}
}

// medianBounds returns the bounds of the 95 % confidence interval of the median, by the sign test. values are sorted, and at least six.
func medianBounds(values []float64) (low, high float64) {
	n := float64(len(values))
	i := int(n/2 - 0.98*math.Sqrt(n)) // the number below the median is binomial: n/2 within 1.96 times half the root of n
	return values[i], values[len(values)-1-i]
}

func overheadRun(b *testing.B, clients int, every time.Duration) *everyOther {
	text := &strings.Builder{}
	fmt.Fprintf(text, "name: overhead\nabout: phases that are alike\nsize: 100k\nstore: {memtable: 1MiB}\nphases:\n  - {name: load, unmeasured: true, ops: 100%%, mix: {add: 1}, batch: 1000}\n"+
		"  - {name: warm, unmeasured: true, duration: 2s, clients: %d, mix: {hit: 3, replace: 1}}\n", clients)
	for i := range 2 * overheadPairs {
		fmt.Fprintf(text, "  - {name: leg-%d, duration: %v, clients: %d, mix: {hit: 3, replace: 1}}\n", i, overheadLeg, clients)
	}
	w, err := parser.Parse("overhead.yaml", []byte(text.String()), parser.Known{})
	if err != nil {
		b.Fatal(err)
	}
	live := &view.Live{Screen: screen.Screen{Out: io.Discard, Size: func() (int, int) { return 100, 40 }}, Style: screen.Style{Colour: true}}
	o := &everyOther{watcher: newWatcher(b.Context(), w, Options{Every: every, Watch: live.Show})}
	if _, err := run.Run(b.Context(), w, run.Options{Rounds: 1, Dir: b.TempDir(), Observer: o}); err != nil {
		b.Fatal(err)
	}
	return o
}
