package bloomslice

import (
	"errors"
	"fmt"
	"math"
)

// ErrOptions is wrapped by errors about options.
var ErrOptions = errors.New("bloomslice: bad options")

// Options say how a slice grows. They are fixed when a filter is made, and are stored with it.
type Options struct {
	Capacity    uint64  // keys of the first layer; above CapacityMin
	Probability float64 // of a false positive, over all layers; 0 < p < ProbabilityMax
	Scale       uint32  // each layer holds Scale times as many keys as the one before: 2 or 4
	Reduction   float64 // each layer has Reduction times the probability of the one before; 0.1 < r < 1
	// Slices is the number of slices into which the filter is cut: a power of two, at most SlicesMax; 0 is 1. Each holds its part
	// of the keys.
	Slices uint32
	// Owners is how many replicas may fill a slice at the same time, each its own layers: at most OwnersMax; 0 is 1. Capacity and
	// probability are divided among them, so that they hold over the layers of all owners.
	Owners uint32
}

// The bounds and defaults are bloomd's.
const (
	CapacityMin    = 10_000 // the first layer must hold more
	ProbabilityMax = 0.1
	SlicesMax      = 1 << 12
	OwnersMax      = 1 << 8

	reductionMin = 0.1
	partMin      = 100 // keys that an owner's first layer in a slice must hold, at least
)

// DefaultOptions returns bloomd's defaults.
func DefaultOptions() Options {
	return Options{Capacity: 100_000, Probability: 1e-4, Scale: 4, Reduction: 0.9, Slices: 1, Owners: 1}
}

// parts returns the number of parts into which the capacity is divided.
func (o Options) parts() uint64 { return uint64(max(1, o.Slices)) * uint64(max(1, o.Owners)) }

func optionsError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

// Validate returns an error that is ErrOptions and names the first field that is out of its bounds.
func (o Options) Validate() error {
	switch {
	case o.Capacity <= CapacityMin:
		return optionsError("capacity is %d keys, must be above %d", o.Capacity, CapacityMin)
	case !(o.Probability > 0 && o.Probability < ProbabilityMax):
		return optionsError("probability is %v, must be above 0 and below %v", o.Probability, ProbabilityMax)
	case o.Scale != 2 && o.Scale != 4:
		return optionsError("scale is %d, must be 2 or 4", o.Scale)
	case !(o.Reduction > reductionMin && o.Reduction < 1):
		return optionsError("reduction is %v, must be above %v and below 1", o.Reduction, reductionMin)
	case o.Slices&(o.Slices-1) != 0 || o.Slices > SlicesMax:
		return optionsError("%d slices, must be a power of two and at most %d", o.Slices, SlicesMax)
	case o.Owners > OwnersMax:
		return optionsError("%d owners, at most %d", o.Owners, OwnersMax)
	case o.Capacity/o.parts() < partMin:
		return optionsError("capacity is %d keys for %d slices of %d owners, must be at least %d for each", o.Capacity, max(1, o.Slices), max(1, o.Owners), partMin)
	}
	_, err := o.Shape(0)
	return err
}

// Shape is the size of one layer. It is stored with the layer, so that a layer keeps the shape it was made with.
type Shape struct {
	Bytes    uint64 // of bits, 1 to LayerBytesMax
	K        uint32 // bits a key, at least 1
	Capacity uint64 // keys; when the layer has that many, the next key opens another layer
}

// HeaderBytes is what bloomd counts in its storage figures in addition to a layer's bits: the head of its file.
const HeaderBytes = 512

// The largest layers.
const (
	LayerBytesMax = 64 << 30
	HashesMax     = 4096
	LayersMax     = 1 << 12 // of one slice
)

// Shape returns the shape of an owner's i-th layer, counted from 0. With one slice and one owner it equals that of bloomd to the
// byte (Almeida et al., Scalable Bloom Filters, 2007, with the first layer at (1-r)P, so that the sum over all layers stays below
// P). It fails with ErrOptions if the layer would be larger than LayerBytesMax. Each step rounds to a double, as in bloomd: a fused
// or constant expression would give other bytes.
func (o Options) Shape(i int) (Shape, error) {
	first := float64(float64(float64(1-o.Reduction)*o.Probability) / float64(max(1, o.Owners)))
	capacity := math.Trunc(float64(float64(float64(o.Capacity)*math.Pow(float64(o.Scale), float64(i))) / float64(o.parts())))
	probability := float64(first * math.Pow(o.Reduction, float64(i)))
	bits := math.Ceil(-(float64(float64(capacity*math.Log(probability)) / float64(math.Ln2*math.Ln2))))
	bytes := math.Ceil(bits / 8)
	if !(bytes >= 1 && bytes <= LayerBytesMax) {
		return Shape{}, fmt.Errorf("%w: layer %d for %.0f keys takes %.0f bytes, at most %d", ErrOptions, i, capacity, bytes, int64(LayerBytesMax))
	}
	k := math.Round(float64(float64(math.Ln2*float64(bytes*8)) / capacity))
	s := Shape{Bytes: uint64(bytes), K: uint32(k), Capacity: uint64(capacity)}
	return s, s.Validate()
}

// Validate returns an error that is ErrOptions if no layer can have the shape.
func (s Shape) Validate() error {
	if s.Bytes < 1 || s.Bytes > LayerBytesMax || s.K < 1 || s.K > HashesMax || uint64(s.K) > s.Bytes*8 || s.Capacity < 1 {
		return fmt.Errorf("%w: a layer of %d bytes with %d bits a key for %d keys", ErrOptions, s.Bytes, s.K, s.Capacity)
	}
	return nil
}

// TableBytes returns how many bytes of memory a layer of the shape takes in an open slice, without any pages.
func (s Shape) TableBytes() int64 { return int64(s.pages()+(s.pages()+wordBits-1)/wordBits) * 8 }

// pages returns how many pages the bits take.
func (s Shape) pages() int { return int((s.Bytes + PageBytes - 1) / PageBytes) }
