package choose

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"bigset/bench/spec"
)

// shares draws and returns how often each rank was chosen.
func shares(d spec.Distribution, window, n, draws int) []float64 {
	c := New(d, window, rand.New(rand.NewPCG(1, 2)))
	counts := make([]float64, n)
	for range draws {
		counts[c.Choose(n)] += 1 / float64(draws)
	}
	return counts
}

// TestChoose compares the distributions with their shares by definition.
func TestChoose(t *testing.T) {
	const n, draws = 100, 400_000
	harmonic := 0.0
	for i := range n {
		harmonic += math.Pow(float64(i+1), -0.99)
	}
	byZipf := func(i int) float64 { return math.Pow(float64(i+1), -0.99) / harmonic }
	tests := []struct {
		d      spec.Distribution
		window int
		want   func(rank int) float64
		sorted bool // which are popular is left open
	}{
		{spec.Distribution{Kind: spec.Uniform}, 0, func(int) float64 { return 0.01 }, false},
		{spec.Distribution{Kind: spec.Latest, Theta: 0.99}, 0, func(rank int) float64 { return byZipf(n - 1 - rank) }, false},
		{spec.Distribution{Kind: spec.Zipfian, Theta: 0.99}, 0, byZipf, true},
		{spec.Distribution{Kind: spec.Pareto, Share: 0.2}, 0, func(i int) float64 {
			if i < 20 {
				return 0.04
			}
			return 0.0025
		}, true},
		{spec.Distribution{Kind: spec.Young, Share: 0.05, Choices: 0.9}, 0, func(rank int) float64 {
			if rank >= 95 {
				return 0.18
			}
			return 0.1 / 95
		}, false},
		{spec.Distribution{Kind: spec.Queue}, 0, func(rank int) float64 {
			if rank == 0 {
				return 1
			}
			return 0
		}, false},
		{spec.Distribution{Kind: spec.Sawtooth}, 0, func(int) float64 { return 0.01 }, false},
		{spec.Distribution{Kind: spec.Timeline}, 10, func(rank int) float64 {
			if rank >= 90 {
				return 0.1
			}
			return 0
		}, false},
	}
	for _, test := range tests {
		got := shares(test.d, test.window, n, draws)
		if test.sorted {
			if slices.IsSortedFunc(got, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
				t.Errorf("%s: the popular ones are the oldest", test.d.Kind)
			}
			slices.Sort(got)
			slices.Reverse(got)
		}
		for rank, share := range got {
			want := test.want(rank)
			if sigma := math.Sqrt(want/draws) + 1e-9; math.Abs(share-want) > 5*sigma+0.01*want {
				t.Errorf("%s: rank %d in %.5f of the choices, should be %.5f", test.d.Kind, rank, share, want)
			}
		}
	}
}

// TestScattered checks that it is a permutation, and that most things stay where they are when others come.
func TestScattered(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64, 100, 1000, 1025} {
		seen := make([]bool, n)
		for i := range n {
			at := scattered(i, n)
			if seen[at] {
				t.Fatalf("%d of %d: two things at %d", i, n, at)
			}
			seen[at] = true
		}
	}
	moved := 0
	for i := range 1500 {
		if scattered(i, 1500) != scattered(i, 1510) {
			moved++
		}
	}
	if moved > 60 {
		t.Errorf("%d of 1,500 things moved when ten came", moved)
	}
}

func BenchmarkZipf(b *testing.B) {
	c := New(spec.Distribution{Kind: spec.Zipfian, Theta: 0.99}, 0, rand.New(rand.NewPCG(1, 1)))
	n := 1_000_000
	for b.Loop() {
		c.Choose(n)
		n++
	}
}
