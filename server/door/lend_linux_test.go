package door

import (
	"testing"
	"time"
)

// TestIsSlow: a call is slow if it took long for its pieces, and its thread has waited or is another one.
func TestIsSlow(t *testing.T) {
	here, waited, moved := thread{7, 100}, thread{7, 101}, thread{8, 100}
	many := 1000
	for _, c := range []struct {
		took   time.Duration
		pieces int
		after  thread
		want   bool
	}{
		{lendTime / 2, 1, waited, false},
		{5 * lendTime, 1, here, false}, // it worked, or waited for a processor
		{5 * lendTime, 1, waited, true},
		{5 * lendTime, 1, moved, true},
		{lendTime + time.Duration(many)*pieceTime, many, waited, false}, // much work
		{2*lendTime + time.Duration(many)*pieceTime, many, waited, true},
	} {
		if got := isSlow(c.took, c.pieces, here, c.after); got != c.want {
			t.Errorf("%v for %d pieces, %v afterwards: slow %v, want %v", c.took, c.pieces, c.after, got, c.want)
		}
	}
}
