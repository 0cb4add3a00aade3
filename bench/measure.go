package bench

import (
	"context"
	"runtime"
	"time"

	"bigset/bench/probe"
	"bigset/bench/system"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// phase is a measurement without interruption on one system. Its load calls loop, and settle if it writes.
type phase struct {
	ctx  context.Context
	hist *hdrhistogram.Histogram
	ops  uint64 // operations for the figures; loop adds its calls
	user uint64 // bytes of the elements that the operations named

	settled time.Time // when settle finished the work that the writes had left
	away    time.Duration
	awayCPU time.Duration
}

// checkEvery is how many operations pass between two checks of the context.
const checkEvery = 256

// loop calls f with 0 to n-1, measuring each call.
func (p *phase) loop(n int, f func(i int) error) error {
	last := time.Now()
	for i := range n {
		if i%checkEvery == 0 {
			if err := p.ctx.Err(); err != nil {
				return err
			}
		}
		away := p.away
		if err := f(i); err != nil {
			return err
		}
		now := time.Now()
		p.observe(now.Sub(last) - (p.away - away))
		last = now
	}
	p.ops += uint64(n)
	return nil
}

func (p *phase) observe(d time.Duration) {
	_ = p.hist.RecordValue(int64(min(d, latencyMax))) // in range
}

// settle flushes what was written and waits until compactions have nothing left to do, which counts as part of the writes.
func (p *phase) settle(sys system.System) (err error) {
	p.settled, err = sys.Settle(p.ctx)
	return err
}

// aside runs f outside the measured time.
func (p *phase) aside(f func() error) error {
	began, cpu := time.Now(), cpuNow()
	err := f()
	p.away += time.Since(began)
	p.awayCPU += cpuNow() - cpu
	return err
}

func cpuNow() time.Duration {
	cpu, _ := cpuTime()
	return cpu
}

// measure runs one phase on a system and records its figures under the row's names.
func (e *env) measure(sys system.System, row Row, load func(*phase) error) error {
	f, hist, err := e.figures(sys, load)
	if err != nil {
		return err
	}
	label(sys, &row)
	e.rows.Add(row, f, hist)
	return nil
}

// figures runs one phase on a system.
func (e *env) figures(sys system.System, load func(*phase) error) (f Figures, hist *hdrhistogram.Histogram, err error) {
	runtime.GC()
	before, err := sys.Usage()
	if err != nil {
		return f, nil, err
	}
	p := &phase{ctx: e.ctx, hist: newHistogram()}
	cpu, began := cpuNow(), time.Now()
	if err := load(p); err != nil {
		return f, nil, err
	}
	end := time.Now()
	cpu = cpuNow() - cpu - p.awayCPU
	if !p.settled.IsZero() {
		end = p.settled
	}
	after, err := sys.Usage()
	if err != nil {
		return f, nil, err
	}
	p.figures(&f, end.Sub(began)-p.away, cpu)
	if !p.settled.IsZero() {
		p.wrote(&f, before, after)
	}
	f.HeapBytes = new(heapBytes())
	return f, p.hist, nil
}

// figures sets the figures of speed.
func (p *phase) figures(f *Figures, took, cpu time.Duration) {
	f.Ops = p.ops
	f.OpsPerSecond = float64(p.ops) / max(took, 1).Seconds()
	if _, known := cpuTime(); known && p.ops > 0 {
		f.CPUMicros = new(micros(cpu) / float64(p.ops))
	}
	f.Latencies(p.hist)
}

// wrote sets the figures of a phase that wrote.
func (p *phase) wrote(f *Figures, before, after system.Usage) {
	d := after.Since(before)
	written := d.WAL + d.Flush + d.Compact + d.Rewrite
	f.BytesWritten, f.BytesWAL, f.BytesFlush, f.BytesCompact = new(written), new(d.WAL), new(d.Flush), new(d.Compact)
	f.BytesRewrite, f.BytesRead, f.BytesOnDisk = new(d.Rewrite), new(d.Read), new(after.Tables)
	if p.user > 0 {
		f.WriteAmp = new(float64(written) / float64(p.user))
	}
	if after.Counted {
		f.KeysLive, f.KeysDead = new(after.Live), new(after.Keys-min(after.Keys, after.Live))
	}
}

func cpuTime() (time.Duration, bool) { return probe.CPUTime() }

func heapBytes() uint64 { return probe.HeapBytes() }

func place(dir string) string { return probe.Place(dir) }

// stopwatch records the laps of a call that can't be divided into calls.
type stopwatch struct {
	p    *phase
	last time.Time
}

func (c *stopwatch) start() { c.last = time.Now() }

func (c *stopwatch) lap() {
	now := time.Now()
	c.p.observe(now.Sub(c.last))
	c.last = now
}
