package sample

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/result"
)

// tickDigits is the number of significant digits of the latencies of a tick. Those of a phase have three.
const tickDigits = 2

// Latencies are the latencies of a group of clients in successive phases, and the counts of their operations. Each client records into a
// Recorder of its own. Any number of goroutines may call the methods. It is a Source with these columns, prefixed by the group's name and a
// slash if the group has one:
//
//	ops, user_bytes       operations and the bytes named in them, as counters over all phases
//	p50, p99, p999, max   µs, of the calls that ended since the last tick
type Latencies struct {
	group string

	mu        sync.Mutex // guards the fields below; taken before the mu of a Recorder
	recorders []*Recorder
	ops       uint64 // of phases that have ended
	bytes     uint64

	shared histograms
}

// histograms are the histograms of all clients of a group. A Recorder holds mu while it counts a batch of latencies.
type histograms struct {
	mu         sync.Mutex
	phase      *hdrhistogram.Histogram
	tick, idle *hdrhistogram.Histogram // since the last tick; idle is empty and belongs to the reader
}

// NewLatencies returns the latencies of a group. The name may be empty.
func NewLatencies(group string) *Latencies {
	newTick := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(result.LatencyMax), tickDigits) }
	return &Latencies{group: group, shared: histograms{phase: result.NewHistogram(), tick: newTick(), idle: newTick()}}
}

// Recorder records what a client does. It holds a lock for some nanoseconds, which only a reader ever contends for, and allocates nothing.
// Only one goroutine at a time may record.
type Recorder struct {
	of *Latencies

	mu    sync.Mutex
	took  [batchMax]int64 // ns, of calls that are not in a histogram yet
	n     int
	ops   uint64
	bytes uint64
	_     [64]byte // recorders do not share a cache line
}

// batchMax is how many latencies a recorder counts together: few enough not to cause latency.
const batchMax = 64

// Begin begins a phase with the given number of clients, and returns a recorder for each. Recorders of the phase before can't be used
// afterwards.
func (l *Latencies) Begin(clients int) []*Recorder {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops, bytes := l.collect()
	l.ops, l.bytes = l.ops+ops, l.bytes+bytes
	l.shared.phase.Reset()
	l.recorders = make([]*Recorder, clients)
	for i := range l.recorders {
		l.recorders[i] = &Recorder{of: l}
	}
	return l.recorders
}

// collect counts all latencies of the phase, and returns the operations and bytes in it. The caller holds mu.
func (l *Latencies) collect() (ops, bytes uint64) {
	for _, r := range l.recorders {
		r.mu.Lock()
		r.count()
		ops, bytes = ops+r.ops, bytes+r.bytes
		r.mu.Unlock()
	}
	return ops, bytes
}

// Record records a call with its number of operations and the number of bytes named in them. For a client with a rate, took counts from
// when the call was due.
func (r *Recorder) Record(took time.Duration, ops, bytes int) {
	r.mu.Lock()
	if r.n == len(r.took) {
		r.count()
	}
	r.took[r.n] = int64(max(0, min(took, result.LatencyMax)))
	r.n++
	r.ops += uint64(ops)
	r.bytes += uint64(bytes)
	r.mu.Unlock()
}

// count adds the recorded latencies to the histograms of the group. The caller holds mu.
func (r *Recorder) count() {
	h := &r.of.shared
	h.mu.Lock()
	for _, ns := range r.took[:r.n] {
		_, _ = h.phase.RecordValue(ns), h.tick.RecordValue(ns) // in range
	}
	h.mu.Unlock()
	r.n = 0
}

// Group returns the name of the group.
func (l *Latencies) Group() string { return l.group }

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
		{Name: "ops", Unit: "op", Growth: true}, {Name: "user_bytes", Unit: "B", Growth: true},
		{Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "p999", Unit: "us"}, {Name: "max", Unit: "us"},
	}
	for i := range c {
		c[i].Name = InGroup(l.group, c[i].Name)
	}
	return c
}

// Read implements Source.
func (l *Latencies) Read(values []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops, bytes := l.collect()
	values[0], values[1] = float64(l.ops+ops), float64(l.bytes+bytes)
	h := &l.shared
	h.mu.Lock()
	done := h.tick
	h.tick, h.idle = h.idle, done
	h.mu.Unlock()
	if done.TotalCount() == 0 {
		return
	}
	for i, percent := range []float64{50, 99, 99.9, 100} {
		values[2+i] = result.Micros(time.Duration(done.ValueAtPercentile(percent)))
	}
	done.Reset()
}

// Ops returns how many operations were recorded in this phase so far, and the bytes named in them.
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

// Total returns a histogram of all latencies of this phase, in nanoseconds with three significant digits.
func (l *Latencies) Total() *hdrhistogram.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collect()
	all := result.NewHistogram()
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	all.Merge(l.shared.phase)
	return all
}
