package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"bigset/bench/result"
)

// Live is what the clients of a role have done so far in a phase that runs, or has run. Each client records for itself, so that clients never
// wait for each other. Any number of goroutines may call its methods.
type Live struct {
	Role    string // "" if it has no name
	Probe   bool   // the role acts while the clock of the others stands still
	clients []*recorder

	taking sync.Mutex // one goroutine at a time collects histograms
}

// Counts are what clients have done.
type Counts struct {
	Ops   uint64 // operations, as spec.Phase.Ops counts them
	Calls uint64
	Bytes uint64 // of the elements that the operations named
}

// recorder is what one client has done.
type recorder struct {
	mu     sync.Mutex
	now    *hdrhistogram.Histogram // since the last Take
	spare  *hdrhistogram.Histogram // empty; nil as long as nobody took
	before *hdrhistogram.Histogram // taken; nil likewise
	counts Counts
	_      [64]byte // recorders do not share a cache line
}

func newLive(role string, probe bool, clients int) *Live {
	l := &Live{Role: role, Probe: probe}
	for range clients {
		l.clients = append(l.clients, &recorder{now: result.NewHistogram()})
	}
	return l
}

// record records a call.
func (r *recorder) record(took time.Duration, ops, bytes int) {
	ns := int64(max(0, min(took, result.LatencyMax)))
	r.mu.Lock()
	_ = r.now.RecordValue(ns) // it is in range
	r.counts.Calls++
	r.counts.Ops += uint64(ops)
	r.counts.Bytes += uint64(bytes)
	r.mu.Unlock()
}

// Counts returns what was done so far.
func (l *Live) Counts() (c Counts) {
	for _, r := range l.clients {
		r.mu.Lock()
		c.Add(r.counts)
		r.mu.Unlock()
	}
	return c
}

// Add adds what others have done.
func (c *Counts) Add(o Counts) {
	c.Ops += o.Ops
	c.Calls += o.Calls
	c.Bytes += o.Bytes
}

// Take adds the latencies of the calls that ended since the last Take to a histogram of nanoseconds. It makes a client wait for some
// nanoseconds only.
func (l *Live) Take(into *hdrhistogram.Histogram) {
	l.taking.Lock()
	defer l.taking.Unlock()
	for _, r := range l.clients {
		if r.spare == nil {
			r.spare, r.before = result.NewHistogram(), result.NewHistogram()
		}
		r.mu.Lock()
		done := r.now
		r.now, r.spare = r.spare, nil
		r.mu.Unlock()
		if done.TotalCount() > 0 {
			into.Merge(done)
			r.before.Merge(done)
			done.Reset()
		}
		r.spare = done
	}
}

// All returns all latencies.
func (l *Live) All() *hdrhistogram.Histogram {
	l.taking.Lock()
	defer l.taking.Unlock()
	h := result.NewHistogram()
	for _, r := range l.clients {
		r.mu.Lock()
		h.Merge(r.now)
		if r.before != nil {
			h.Merge(r.before)
		}
		r.mu.Unlock()
	}
	return h
}
