package bloomslice

import (
	"errors"
	"testing"
)

// TestShape compares with sizes that a bloomd was seen to make.
func TestShape(t *testing.T) {
	options := func(capacity uint64, p float64) Options {
		o := DefaultOptions()
		o.Capacity, o.Probability = capacity, p
		return o
	}
	for _, c := range []struct {
		o       Options
		storage uint64
		k       uint32
	}{
		{options(10001, 0.0001), 30469, 17},
		{options(20000, 0.01), 36456, 10},
		{options(100000, 0.0001), 300046, 17},
		{options(100000, 0.001), 240139, 13},
		{options(100000, 0.01), 180232, 10},
		{options(1000000, 0.001), 2396777, 13},
		{options(10001, 0.0999999), 12495, 7},
		{options(65536, 1.0/1024), 157958, 13},
		{options(1000000, 0.0001), 2995843, 17},
		{options(1000000, 1e-5), 3594909, 20},
		{options(1000000, 1e-6), 4193976, 23},
		{options(1000000, 1e-7), 4793042, 27},
		{options(10000000, 0.001), 23963158, 13},
		{options(123456, 0.00321), 258885, 12},
		{options(1000001, 0.05), 1378983, 8},
		{options(10001, 1e-300), 1803882, 1000},
		{Options{Capacity: 100000, Probability: 1e-4, Scale: 4, Reduction: 0.5}, 258173, 0},
		{Options{Capacity: 100000, Probability: 1e-4, Scale: 4, Reduction: 0.2}, 245945, 0},
		{options(100000, 0.05), 138359, 0},
	} {
		s, err := c.o.Shape(0)
		if err != nil {
			t.Fatal(err)
		}
		if s.Bytes+HeaderBytes != c.storage || c.k != 0 && s.K != c.k {
			t.Errorf("%+v: storage %d, k %d; want %d, %d", c.o, s.Bytes+HeaderBytes, s.K, c.storage, c.k)
		}
	}
	for _, c := range []struct {
		o       Options
		storage []uint64 // after each layer
	}{
		{options(10001, 0.0001), []uint64{30469, 151903, 640489, 2610841}},
		{options(10001, 0.01), []uint64{18486, 91990, 388856, 1592326}},
		{Options{Capacity: 10001, Probability: 0.001, Scale: 2, Reduction: 0.9}, []uint64{24478, 73469, 172035}},
		{Options{Capacity: 10001, Probability: 0.001, Scale: 2, Reduction: 0.5}, []uint64{20290, 63964, 158014}},
		{Options{Capacity: 10001, Probability: 0.001, Scale: 4, Reduction: 0.5}, []uint64{20290, 107126, 481789}},
	} {
		var sum uint64
		for i, want := range c.storage {
			s, err := c.o.Shape(i)
			if err != nil {
				t.Fatal(err)
			}
			if sum += s.Bytes + HeaderBytes; sum != want {
				t.Errorf("%+v: %d bytes with layer %d, want %d", c.o, sum, i, want)
			}
		}
	}
}

// TestShapeOfParts: slices and owners together have what a single one would have: the capacity is divided among all, the
// probability among owners.
func TestShapeOfParts(t *testing.T) {
	for _, slices := range []uint32{0, 1, 4} {
		for _, owners := range []uint32{0, 1, 2, 5} {
			o := Options{Capacity: 1_000_000, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: slices, Owners: owners}
			parts := max(1, slices) * max(1, owners)
			one := Options{Capacity: 1_000_000 / uint64(parts), Probability: 0.01 / float64(max(1, owners)), Scale: 4, Reduction: 0.9}
			for i := range 3 {
				s, err := o.Shape(i)
				if err != nil {
					t.Fatal(err)
				}
				want, err := one.Shape(i)
				if err != nil {
					t.Fatal(err)
				}
				if s.K != want.K || s.Capacity != want.Capacity || s.Bytes-want.Bytes+1 > 2 { // but for the last rounding
					t.Errorf("%d slices, %d owners, layer %d: %+v, want %+v", slices, owners, i, s, want)
				}
			}
		}
	}
}

// TestOptionsRefused has one bad field in each case.
func TestOptionsRefused(t *testing.T) {
	for _, o := range []Options{
		{Capacity: 10_000, Probability: 0.01, Scale: 4, Reduction: 0.9},
		{Capacity: 0, Probability: 0.01, Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: 0, Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: 0.1, Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: -1, Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: nan(), Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: 0.01, Scale: 3, Reduction: 0.9},
		{Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 0.1},
		{Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 1},
		{Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: nan()},
		{Capacity: 1 << 62, Probability: 0.01, Scale: 4, Reduction: 0.9},
		{Capacity: 1e12, Probability: 0.01, Scale: 4, Reduction: 0.9},
		{Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 3},
		{Capacity: 1e9, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 2 * SlicesMax},
		{Capacity: 1e9, Probability: 0.01, Scale: 4, Reduction: 0.9, Owners: OwnersMax + 1},
		{Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: 128, Owners: 2},
	} {
		if err := o.Validate(); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, s := range []Shape{{}, {1, 1, 0}, {1, 9, 1}, {1, 0, 1}, {0, 1, 1}, {LayerBytesMax + 1, 1, 1}, {1 << 20, HashesMax + 1, 1}} {
		if err := s.Validate(); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestLargestShapes: values at the bounds are accepted.
func TestLargestShapes(t *testing.T) {
	for _, s := range []Shape{{LayerBytesMax, 1, 1}, {1 << 20, HashesMax, 1}, {1, 8, 1}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, o := range []Options{{Capacity: CapacityMin + 1, Probability: 0.01, Scale: 2, Reduction: 0.9}, {Capacity: 20_000, Probability: 0.0999999, Scale: 4, Reduction: 0.9}, {Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 0.1000001}, {Capacity: 20_000, Probability: 0.01, Scale: 4, Reduction: 0.9999999},
		{Capacity: SlicesMax * OwnersMax * partMin, Probability: 0.01, Scale: 4, Reduction: 0.9, Slices: SlicesMax, Owners: OwnersMax}} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func nan() float64 {
	var zero float64
	return zero / zero
}
