package sim

import (
	"errors"

	"bigset"
	"bigset/clock"
)

// Contexts in the encoding that clients hold: one letter, and a clock.
const (
	narrow = 'n' // the dots of an element
	wide   = 'w' // all that was seen of the set
)

func encode(kind byte, c *clock.Clock) []byte { return c.Append([]byte{kind}) }

var errContext = errors.New("sim: bad context")

// decode returns the context of an operation; nil is none.
func decode(b []byte) (bigset.Context, error) {
	if b == nil {
		return bigset.Context{}, nil
	}
	if len(b) == 0 {
		return bigset.Context{}, errContext
	}
	c, err := clock.Decode(b[1:])
	switch {
	case err != nil:
		return bigset.Context{}, err
	case b[0] == wide:
		return bigset.SawAll(c), nil
	}
	var dots []clock.Dot
	for d := range c.Dots() {
		dots = append(dots, d)
	}
	return bigset.Saw(dots...), nil
}
