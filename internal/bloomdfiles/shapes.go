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

// fit returns the options and layers that the files are of. The options are those of the text, unless its probability has lost so many
// digits that the files are of another: then that one is derived from the first file. A filter that was read with the lost probability may
// have grown by the text's, or bloomd's default. Its error is ErrDamaged where the files are of no options.
func fit(c Config, files []found) (o bloomslice.Options, layers []bloomslice.Layer, derived bool, err error) {
	o = c.Options
	if layers = shapes(o, nil, files); layers != nil {
		return o, layers, false, nil
	}
	if p, ok := derive(o, files[0]); ok {
		o.Probability = p
		if layers = shapes(o, []float64{c.Probability, bloomslice.DefaultOptions().Probability}, files); layers != nil {
			return o, layers, true, nil
		}
	}
	return o, nil, false, misfit(c, files)
}

// shapes returns the layers if the files have the shapes that the options say, or, all but the first, that other probabilities do.
func shapes(o bloomslice.Options, others []float64, files []found) (layers []bloomslice.Layer) {
	if o.Validate() != nil {
		return nil
	}
	for i, f := range files {
		shape, ok := o.Shape(i)
		for n := 0; i > 0 && n < len(others) && (ok != nil || !f.has(shape)); n++ {
			other := o
			if other.Probability = others[n]; other.Validate() == nil {
				shape, ok = other.Shape(i)
			}
		}
		if ok != nil || !f.has(shape) {
			return nil
		}
		layers = append(layers, bloomslice.Layer{ID: bloomslice.LayerID{Index: uint16(i)}, Shape: shape, Count: f.count})
	}
	return layers
}

func (f found) has(s bloomslice.Shape) bool { return f.bytes == s.Bytes && f.k == s.K }

// derive returns the probability with the fewest digits that gives the first layer its size, and that six decimals print as the text has it.
func derive(o bloomslice.Options, first found) (p float64, ok bool) {
	if o.Capacity == 0 || !(o.Reduction > 0 && o.Reduction < 1) {
		return 0, false
	}
	printed := strconv.FormatFloat(o.Probability, 'f', 6, 64)
	bits := float64(first.bytes)*8 - 4 // the middle of those that take so many bytes
	middle := math.Exp(-bits*math.Ln2*math.Ln2/float64(o.Capacity)) / (1 - o.Reduction)
	for digits := range 17 {
		p, _ := strconv.ParseFloat(strconv.FormatFloat(middle, 'e', digits, 64), 64)
		o.Probability = p
		if strconv.FormatFloat(p, 'f', 6, 64) == printed && shapes(o, nil, []found{first}) != nil {
			return p, true
		}
	}
	return 0, false
}

// misfit says how the files differ from what they should be.
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
	return damaged("the files are of no options")
}
