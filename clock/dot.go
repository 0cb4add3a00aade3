package clock

import (
	"cmp"
	"fmt"
	"strings"
)

// ActorBytesMax is the longest actor name, in bytes. It is part of the disk and wire formats.
const ActorBytesMax = 255

// Actor names one source of events: an opaque byte string of 1 to ActorBytesMax bytes. An actor never issues the same
// counter twice; a store that cannot be sure of that takes a new actor.
type Actor string

// Dot is one event: the Counter-th of its Actor. Counters start at 1; a zero Dot is no event.
type Dot struct {
	Actor   Actor
	Counter uint64
}

// Valid reports whether d can be an event: its counter is at least 1 and its actor has 1 to ActorBytesMax bytes.
func (d Dot) Valid() bool { return d.Counter != 0 && d.Actor.valid() }

func (a Actor) valid() bool { return len(a) > 0 && len(a) <= ActorBytesMax }

// Compare orders dots by actor bytes, then by counter. It returns -1, 0 or 1.
func (d Dot) Compare(o Dot) int {
	if c := strings.Compare(string(d.Actor), string(o.Actor)); c != 0 {
		return c
	}
	return cmp.Compare(d.Counter, o.Counter)
}

// String renders the dot as hex actor, colon, counter.
func (d Dot) String() string { return fmt.Sprintf("%x:%d", string(d.Actor), d.Counter) }
