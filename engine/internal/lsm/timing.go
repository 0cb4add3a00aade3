package lsm

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// TimingBuckets is how many counts a timing has: below 16 µs, below 4 times that, and so on to 4 s; the last has the rest.
const TimingBuckets = 11

// TimingBound returns the upper bound of a bucket's latencies.
func TimingBound(bucket int) time.Duration { return 16 * time.Microsecond << (2 * bucket) }

// Timing counts latencies. All its methods may be called by any number of goroutines. The zero value has counted none.
type Timing struct {
	nanos   atomic.Int64
	buckets [TimingBuckets]atomic.Uint64
}

// Observe counts something that began at the given time and has ended.
func (t *Timing) Observe(began time.Time) { t.Add(time.Since(began)) }

// Add counts something that took the given time.
func (t *Timing) Add(d time.Duration) {
	t.nanos.Add(int64(d))
	t.buckets[min(TimingBuckets-1, (bits.Len64(uint64(max(0, d))/uint64(TimingBound(0)))+1)/2)].Add(1)
}

// Counts returns the sum of all times, and how many of them are in each bucket.
func (t *Timing) Counts() (took time.Duration, buckets []uint64) {
	for i := range t.buckets {
		buckets = append(buckets, t.buckets[i].Load())
	}
	return time.Duration(t.nanos.Load()), buckets
}

// Stopwatch sums consecutive times. Only one goroutine at a time may call Start, and then Stop; any number may call Sum. The zero
// value is stopped.
type Stopwatch struct {
	// ticks is twice the nanoseconds of the times that have ended; while one is running, twice its beginning is subtracted, and
	// ticks is odd.
	ticks atomic.Int64
}

// stopwatchesBegin is the origin from which the beginnings of times are measured.
var stopwatchesBegin = time.Now()

// Start starts a time.
func (w *Stopwatch) Start() { w.ticks.Add(1 - 2*int64(time.Since(stopwatchesBegin))) }

// Stop ends it.
func (w *Stopwatch) Stop() { w.ticks.Add(2*int64(time.Since(stopwatchesBegin)) - 1) }

// Sum returns the sum of all times, including the current one up to now.
func (w *Stopwatch) Sum() time.Duration {
	t := w.ticks.Load()
	if t&1 == 0 {
		return time.Duration(t / 2)
	}
	return time.Duration((t-1)/2) + time.Since(stopwatchesBegin)
}
