package sim

import (
	"errors"

	"bigset/clock"
	"bigset/engine"
)

// Contexts as clients hold them: one letter, and a clock.
const (
	narrow = 'n' // the dots of an element
	wide   = 'w' // all that was seen of the set
)

func encode(kind byte, c *clock.Clock) []byte { return c.Append([]byte{kind}) }

var errContext = errors.New("sim: bad context")

// decode returns the context of an operation; nil is none.
func decode(b []byte) (engine.Context, error) {
	if b == nil {
		return engine.Context{}, nil
	}
	if len(b) == 0 {
		return engine.Context{}, errContext
	}
	c, err := clock.Decode(b[1:])
	switch {
	case err != nil:
		return engine.Context{}, err
	case b[0] == wide:
		return engine.SawAll(c), nil
	}
	var dots []clock.Dot
	for d := range c.Dots() {
		dots = append(dots, d)
	}
	return engine.Saw(dots...), nil
}
