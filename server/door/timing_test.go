package door

import (
	"testing"
	"time"
)

// TestTiming: a request is in the first bucket whose bound is above its time.
func TestTiming(t *testing.T) {
	var x Timing
	x.Add(time.Now().Add(-time.Second), 3)
	x.Add(time.Now().Add(-time.Hour), 1)
	l := x.Latency()
	if l.Count != 4 || l.Seconds < 3603 {
		t.Errorf("%+v", l)
	}
	for i, n := range l.Buckets {
		bound := LatencyBound(i)
		switch {
		case n == 3 && (bound <= time.Second || bound > 3*time.Second), n == 1 && bound != 0, n != 0 && n != 1 && n != 3:
			t.Errorf("%d requests below %v", n, bound)
		}
	}
}
