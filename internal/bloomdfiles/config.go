package bloomdfiles

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bigset/bloomslice"
)

// Config is a filter's config.ini. bloomd rewrites it when a filter is made, flushed or closed, so its figures may be older than
// the files.
type Config struct {
	bloomslice.Options // the probability is rounded to six decimals, which may all be zero
	InMemory           bool
	Size               uint64 // keys
	Keys               uint64 // capacity of all layers
	Bytes              uint64 // of all files
}

// ParseConfig reads the text of a config.ini. Its error is ErrDamaged if a value is missing or not a number.
func ParseConfig(text string) (c Config, err error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	number := func(key string) (n uint64) {
		n, e := strconv.ParseUint(values[key], 10, 64)
		if e != nil && err == nil {
			err = damaged("config.ini: %s = %q is not a number", key, values[key])
		}
		return n
	}
	fraction := func(key string) (f float64) {
		f, e := strconv.ParseFloat(values[key], 64)
		if (e != nil || math.IsNaN(f)) && err == nil {
			err = damaged("config.ini: %s = %q is not a number", key, values[key])
		}
		return f
	}
	c.Capacity, c.Probability = number("initial_capacity"), fraction("default_probability")
	c.Slices, c.Owners = 1, 1
	scale := number("scale_size")
	c.Scale, c.Reduction = uint32(min(scale, math.MaxUint32)), fraction("probability_reduction")
	c.InMemory = number("in_memory") != 0
	c.Size, c.Keys, c.Bytes = number("size"), number("capacity"), number("bytes")
	return c, err
}

// AppendConfig appends the text, as bloomd writes it.
func AppendConfig(dst []byte, c Config) []byte {
	inMemory := 0
	if c.InMemory {
		inMemory = 1
	}
	return fmt.Appendf(dst, `[bloomd]
initial_capacity = %d
default_probability = %f
scale_size = %d
probability_reduction = %f
in_memory = %d
size = %d
capacity = %d
bytes = %d
`, c.Capacity, c.Probability, c.Scale, c.Reduction, inMemory, c.Size, c.Keys, c.Bytes)
}
