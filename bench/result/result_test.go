package result

import "testing"

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("%v: got %v", c.values, got)
		}
	}
}
