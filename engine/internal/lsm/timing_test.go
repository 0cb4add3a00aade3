package lsm

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStopwatch: the sum has the times that have ended, and the one that goes on.
func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Stopwatch
		want := func(d time.Duration) {
			t.Helper()
			if got := w.Sum(); got != d {
				t.Errorf("got %v, want %v", got, d)
			}
		}
		time.Sleep(time.Second)
		want(0)
		w.Start()
		time.Sleep(3 * time.Second)
		want(3 * time.Second)
		w.Stop()
		time.Sleep(time.Hour)
		want(3 * time.Second)
		w.Start()
		time.Sleep(time.Millisecond + 1)
		w.Stop()
		want(3*time.Second + time.Millisecond + 1)
	})
}
