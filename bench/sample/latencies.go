package sample

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// LatencyMax is the longest latency that is told from longer ones.
const LatencyMax = 10 * time.Minute

// Digits of latencies: of those of a tick, and of those of a whole run.
const (
	tickDigits = 2
	runDigits  = 3
)

// Latencies are those of a group of clients, with what these have done. Each client records into a Recorder of its own, so that clients
// never wait for each other. It is a Source, with these columns, after the group's name and a slash where it has one:
//
//	ops, user_bytes       operations and the bytes that they named, as counters
//	errors                operations that failed, as a counter
//	p50, p99, p999, max   µs, of the calls that ended since the last tick
type Latencies struct {
	group string

	mu        sync.Mutex // guards what follows
	recorders []*Recorder
	tick      *hdrhistogram.Histogram
}

// NewLatencies returns the latencies of a group; it may have no name.
func NewLatencies(group string) *Latencies {
	return &Latencies{group: group, tick: newHistogram(tickDigits)}
}

func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(LatencyMax), digits)
}

// Recorder records what a client does. It holds a lock for some nanoseconds, for which only a reader ever makes it wait, and allocates
// nothing. One goroutine at a time may record.
type Recorder struct {
	mu               sync.Mutex
	all              *hdrhistogram.Histogram
	tick, idle       *hdrhistogram.Histogram // since the last tick; idle is empty, the reader's
	ops, bytes, errs uint64
	_                [64]byte // recorders do not share a cache line
}

// Recorder returns a recorder for a client. It takes 350 KB of memory.
func (l *Latencies) Recorder() *Recorder {
	r := &Recorder{all: newHistogram(runDigits), tick: newHistogram(tickDigits), idle: newHistogram(tickDigits)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorders = append(l.recorders, r)
	return r
}

// Record records a call that did so many operations and named so many bytes. For a client with a rate, took is since the call was due.
func (r *Recorder) Record(took time.Duration, ops, bytes int) {
	ns := int64(max(0, min(took, LatencyMax)))
	r.mu.Lock()
	_, _ = r.all.RecordValue(ns), r.tick.RecordValue(ns) // they are in range
	r.ops += uint64(ops)
	r.bytes += uint64(bytes)
	r.mu.Unlock()
}

// Failed records a call that failed.
func (r *Recorder) Failed() {
	r.mu.Lock()
	r.errs++
	r.mu.Unlock()
}

// Name implements Source.
func (l *Latencies) Name() string {
	if l.group == "" {
		return "clients"
	}
	return "clients " + l.group
}

// Columns implements Source.
func (l *Latencies) Columns() []Column {
	c := []Column{
		{Name: "ops", Unit: "op", Growth: true}, {Name: "user_bytes", Unit: "B", Growth: true}, {Name: "errors", Unit: "op", Growth: true},
		{Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "p999", Unit: "us"}, {Name: "max", Unit: "us"},
	}
	if l.group != "" {
		for i := range c {
			c[i].Name = l.group + "/" + c[i].Name
		}
	}
	return c
}

// Read implements Source.
func (l *Latencies) Read(values []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick.Reset()
	var ops, bytes, errs uint64
	for _, r := range l.recorders {
		r.mu.Lock()
		done := r.tick
		r.tick, r.idle = r.idle, done
		ops, bytes, errs = ops+r.ops, bytes+r.bytes, errs+r.errs
		r.mu.Unlock()
		if done.TotalCount() > 0 {
			l.tick.Merge(done)
			done.Reset()
		}
	}
	values[0], values[1], values[2] = float64(ops), float64(bytes), float64(errs)
	if l.tick.TotalCount() == 0 {
		return
	}
	for i, percent := range []float64{50, 99, 99.9, 100} {
		values[3+i] = micros(l.tick.ValueAtPercentile(percent))
	}
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

// Ops returns how many operations were recorded so far, and the bytes that they named.
func (l *Latencies) Ops() (ops, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.recorders {
		r.mu.Lock()
		ops, bytes = ops+r.ops, bytes+r.bytes
		r.mu.Unlock()
	}
	return ops, bytes
}

// Total returns all latencies that were recorded, in nanoseconds with three significant digits.
func (l *Latencies) Total() *hdrhistogram.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := newHistogram(runDigits)
	for _, r := range l.recorders {
		r.mu.Lock()
		all.Merge(r.all)
		r.mu.Unlock()
	}
	return all
}

// Clear forgets all latencies: a phase begins. What the clients have done goes on to be counted.
func (l *Latencies) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.recorders {
		r.mu.Lock()
		r.all.Reset()
		r.tick.Reset()
		r.mu.Unlock()
	}
}
