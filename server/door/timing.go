package door

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets of a Latency: below 64 µs, 128 µs, 256 µs and so on; the last has no bound.
const (
	latencyBuckets = 20
	latencyLeast   = 64 * time.Microsecond
)

// Latency contains the durations of requests, until the answer was handed to the connection.
type Latency struct {
	Count   uint64                 `json:"count"`
	Seconds float64                `json:"seconds"` // sum
	Buckets [latencyBuckets]uint64 `json:"buckets"` // how many took below 64 µs, 128 µs, 256 µs, … and longer
}

// LatencyBound returns the bound of a bucket; 0 for the last one, which has none.
func LatencyBound(bucket int) time.Duration {
	if bucket == latencyBuckets-1 {
		return 0
	}
	return latencyLeast << bucket
}

// Timing counts requests. The zero value is ready to use. Its methods may be called by any number of goroutines.
type Timing struct {
	nanos   atomic.Uint64
	buckets [latencyBuckets]atomic.Uint64
}

// Add counts n requests that were done together since began.
func (t *Timing) Add(began time.Time, n int) {
	took := time.Since(began)
	t.nanos.Add(uint64(took) * uint64(n))
	t.buckets[min(latencyBuckets-1, bits.Len64(uint64(took/latencyLeast)))].Add(uint64(n))
}

// Latency returns what was counted so far.
func (t *Timing) Latency() (l Latency) {
	l.Seconds = time.Duration(t.nanos.Load()).Seconds()
	for i := range t.buckets {
		l.Buckets[i] = t.buckets[i].Load()
		l.Count += l.Buckets[i]
	}
	return l
}
