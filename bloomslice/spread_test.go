package bloomslice

import (
	"fmt"
	"testing"
)

// chiSquare is Pearson's sum for counts that should be equal: about the number of counts, give or take the square root of twice
// that number.
func chiSquare(counts []int) (sum float64) {
	all := 0
	for _, n := range counts {
		all += n
	}
	want := float64(all) / float64(len(counts))
	for _, n := range counts {
		sum += (float64(n) - want) * (float64(n) - want) / want
	}
	return sum
}

// chiMost is a bound that no sum of 64 even counts reaches: six deviations above the mean.
const chiMost = 63 + 6*11.3

// TestSliceSplits: slice i of n becomes slices i and i+n of 2n, and every number of slices is covered.
func TestSliceSplits(t *testing.T) {
	for i := range 10_000 {
		h := Sum(fmt.Append(nil, "split", i))
		if h.Slice(0) != 0 || h.Slice(1) != 0 {
			t.Fatal("a filter that is not cut has other slices than 0")
		}
		for n := uint32(1); n < SlicesMax; n *= 2 {
			one, two := h.Slice(n), h.Slice(2*n)
			if one >= n || two != one && two != one+n {
				t.Fatalf("slice %d of %d, and %d of %d", one, n, two, 2*n)
			}
		}
	}
}

// TestSliceSpread: keys are spread evenly over slices, and the keys of one slice over each of the runs of bits of a layer, small and
// large.
func TestSliceSpread(t *testing.T) {
	const parts, keys, bins, chosen = 64, 400_000, 64, 5
	var layers []*layer
	for _, o := range []Options{options(10_001, 0.05), options(1_000_000, 0.0001), options(3_000_000_000, 0.001), options(20_000_000_000, 0.0001)} {
		shape, err := o.Shape(0)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, &layer{shape: shape, perHash: newModulus(shape.Bytes * 8 / uint64(shape.K))})
	}
	var slices [parts]int
	places := make([][4][bins]int, len(layers))
	for i := range keys {
		h := Sum(fmt.Appendf(nil, "key%d", i))
		part := h.Slice(parts)
		if slices[part]++; part != chosen {
			continue
		}
		for at, l := range layers {
			for run := range uint32(4) {
				within := l.place(&h, run) - uint64(run)*l.perHash.m
				places[at][run][within*bins/l.perHash.m]++
			}
		}
	}
	if sum := chiSquare(slices[:]); sum > chiMost {
		t.Errorf("slices: %.0f, at most %.0f; %v", sum, chiMost, slices)
	}
	for at, l := range layers {
		for run := range places[at] {
			if sum := chiSquare(places[at][run][:]); sum > chiMost {
				t.Errorf("run %d of a layer of %d bytes: %.0f, at most %.0f; %v", run, l.shape.Bytes, sum, chiMost, places[at][run])
			}
		}
	}
}
