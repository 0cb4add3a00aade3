package spec

import "testing"

// A count at a size is at least 1, unless it is zero.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		count      Count
		size, want int
	}{{Count{}, 10, 0}, {Count{Of: 0.001}, 10, 1}, {Count{Of: 0.5}, 11, 6}, {Count{Absolute: 7}, 10, 7}, {Count{Of: 20}, 1 << 30, 20 << 30}} {
		if got := c.count.At(c.size); got != c.want {
			t.Errorf("%v at %d: %d, want %d", c.count, c.size, got, c.want)
		}
	}
}
