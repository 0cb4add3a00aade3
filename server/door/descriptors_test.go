package door

import "testing"

func TestConnectionsMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		configured, want int
		limit            uint64
	}{
		{10_000, 10_000, 0}, {10_000, 10_000, 1 << 20}, {10_000, 7500, 10_000}, {10_000, 10_000, 13_334}, {10_000, 512, 1024}, {10_000, 500, 1000},
		{100, 100, 1024}, {100, 30, 60}, {20, 20, 60}, {5, 1, 1},
	} {
		if got := ConnectionsMost(c.configured, c.limit); got != c.want {
			t.Errorf("%d of %d descriptors: got %d, want %d", c.configured, c.limit, got, c.want)
		}
	}
}
