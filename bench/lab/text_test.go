package lab

import (
	"strings"
	"testing"
)

// TestLate: operations that were not begun are one or several.
func TestLate(t *testing.T) {
	for n, want := range map[uint64]string{1: "1 operation was due and not begun", 1200: "1,200 operations were due and not begun"} {
		if got := late(n); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
