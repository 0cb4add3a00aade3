package rest

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

// timing counts requests. The zero value is ready to use.
type timing struct {
	nanos   atomic.Uint64
	buckets [latencyBuckets]atomic.Uint64
}

func (t *timing) add(took time.Duration) {
	t.nanos.Add(uint64(took))
	t.buckets[min(latencyBuckets-1, bits.Len64(uint64(took/latencyLeast)))].Add(1)
}

func (t *timing) latency() (l Latency) {
	l.Seconds = time.Duration(t.nanos.Load()).Seconds()
	for i := range t.buckets {
		l.Buckets[i] = t.buckets[i].Load()
		l.Count += l.Buckets[i]
	}
	return l
}
