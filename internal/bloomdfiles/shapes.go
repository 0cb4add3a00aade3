package bloomdfiles

import (
	"math"
	"strconv"

	"bigset/bloomslice"
)

// found is what a data file says of its layer.
type found struct {
	bytes uint64 // of bits
	k     uint32
	count uint64
}

// fit returns the options and layers that match the files. The options are those of the text, unless its probability has lost so
// many digits that the files have another one: then that one is derived from the first file. If bloomd has read the filter with the
// lost probability, the filter may have grown with the probability of the text, or bloomd's default. The error is ErrDamaged if no
// options match the files.
func fit(c Config, files []found) (o bloomslice.Options, layers []bloomslice.Layer, derived bool, err error) {
	o = c.Options
	if layers = shapes(o, nil, files); layers != nil {
		return o, layers, false, nil
	}
	if p, ok := derive(o, files); ok {
		o.Probability = p
		if layers = shapes(o, []float64{c.Probability, bloomslice.DefaultOptions().Probability}, files); layers != nil {
			return o, layers, true, nil
		}
	}
	return o, nil, false, misfit(c, files)
}

// shapes returns the layers if the files have the shapes that the options give. All files but the first may instead have the shapes
// that one of the other probabilities gives.
func shapes(o bloomslice.Options, others []float64, files []found) (layers []bloomslice.Layer) {
	if o.Validate() != nil {
		return nil
	}
	for i, f := range files {
		shape, err := o.Shape(i)
		for n := 0; i > 0 && n < len(others) && (err != nil || !f.has(shape)); n++ {
			other := o
			if other.Probability = others[n]; other.Validate() == nil {
				shape, err = other.Shape(i)
			}
		}
		if err != nil || !f.has(shape) {
			return nil
		}
		layers = append(layers, bloomslice.Layer{ID: bloomslice.LayerID{Index: uint16(i)}, Shape: shape, Count: f.count})
	}
	return layers
}

func (f found) has(s bloomslice.Shape) bool { return f.bytes == s.Bytes && f.k == s.K }

// sixDecimals is half of the last decimal of the text.
const sixDecimals = 0.5e-6

// derive returns the probability with the fewest digits that prints as the text with six decimals, and that gives the first layer
// its size, and as far as possible the others theirs.
func derive(o bloomslice.Options, files []found) (p float64, ok bool) {
	if o.Capacity == 0 || !(o.Reduction > 0 && o.Reduction < 1) {
		return 0, false
	}
	printed := strconv.FormatFloat(o.Probability, 'f', 6, 64)
	low, high := max(0, o.Probability-sixDecimals), min(o.Probability+sixDecimals, math.Nextafter(bloomslice.ProbabilityMax, 0))
	for i, f := range files {
		l, h := span(o, i, f.bytes)
		if l, h = max(l, low), min(h, high); l < h {
			low, high = l, h
		} else if i == 0 {
			return 0, false
		}
	}
	for digits := range 17 {
		p, _ := strconv.ParseFloat(strconv.FormatFloat(low+(high-low)/2, 'e', digits, 64), 64)
		o.Probability = p
		if low <= p && p <= high && strconv.FormatFloat(p, 'f', 6, 64) == printed && shapes(o, nil, files[:1]) != nil {
			return p, true
		}
	}
	return 0, false
}

// span returns the bounds of the probabilities with which a layer has the given number of bytes.
func span(o bloomslice.Options, i int, bytes uint64) (low, high float64) {
	capacity := float64(o.Capacity) * math.Pow(float64(o.Scale), float64(i))
	of := func(bytes float64) float64 {
		return math.Exp(-bytes*8*math.Ln2*math.Ln2/capacity) / (1 - o.Reduction) / math.Pow(o.Reduction, float64(i))
	}
	return of(float64(bytes)), of(float64(bytes) - 1)
}

// misfit reports how the files differ from what they should be.
func misfit(c Config, files []found) error {
	if err := c.Validate(); err != nil {
		return damaged("config.ini: %w; data.000.mmap has %d bytes of bits and %d bits a key", err, files[0].bytes, files[0].k)
	}
	for i, f := range files {
		shape, err := c.Shape(i)
		if err != nil {
			return damaged("layer %d: %w", i, err)
		}
		if !f.has(shape) {
			return damaged("data.%03d.mmap has %d bytes of bits and %d bits a key; a layer for %d keys at capacity %d, probability %v, scale %d, reduction %v has %d and %d",
				i, f.bytes, f.k, shape.Capacity, c.Capacity, c.Probability, c.Scale, c.Reduction, shape.Bytes, shape.K)
		}
	}
	return damaged("no options match the files")
}
