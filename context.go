package bigset

import (
	"fmt"

	"bigset/clock"
)

// Context is what the author of an operation had seen: the dots by which its element was present (narrow), or the clock of the
// whole set (wide). The zero Context is no context; see Policy. Narrow contexts come from engine.Store.Look and from the elements of a
// read, wide ones from engine.Store.Seen and the chunks of a read. They are trusted here. Tokens.Context opens and checks those that come from outside.
type Context struct {
	// Given is true for every context, also for one whose author saw no dot. Saw and SawAll set it.
	Given bool
	// Dots are those of the element that the author saw.
	Dots []clock.Dot
	// Wide, if it is not nil, is the clock of a whole set that the author had read; Dots is then ignored. It kills the dots of the
	// operation's element that it covers. It must not change afterwards. See engine.Options.KeepContexts.
	Wide *clock.Clock
}

// Saw returns the context of an author who saw the element present by those dots, or absent if there are none.
func Saw(dots ...clock.Dot) Context { return Context{Given: true, Dots: dots} }

// SawAll returns the context of an author who had read the whole set when this was its clock.
func SawAll(seen *clock.Clock) Context { return Context{Given: true, Wide: seen} }

// Present reports whether the element was present when the context was taken.
func (c Context) Present() bool { return len(c.Dots) > 0 }

// Presence says whether a set contained an element when it was looked at. Context is the element's: a remove or an add with it acts on what
// was seen and on nothing newer.
type Presence struct {
	Present bool
	Context Context
}

// WideBytes returns the size of a wide context in memory, 0 without one.
func (c Context) WideBytes() int {
	if c.Wide == nil {
		return 0
	}
	return c.Wide.HeapBytes()
}

// Check returns what is wrong with a context: ErrLimit, or ErrContext if it names an invalid dot.
func (c Context) Check() error {
	return c.check(ContextDotsMax)
}

// check is Check for a context of so many dots at most.
func (c Context) check(most int) error {
	if n := c.WideBytes(); n > WideContextBytesMax {
		return &LimitError{"bytes of a wide context", n, WideContextBytesMax}
	}
	return checkDots(c.Dots, most)
}

// CheckDots returns what is wrong with dots from outside: ErrLimit, or ErrContext for an invalid dot.
func CheckDots(dots []clock.Dot) error { return checkDots(dots, ContextDotsMax) }

func checkDots(dots []clock.Dot, most int) error {
	if len(dots) > most {
		return &LimitError{"dots in a context", len(dots), most}
	}
	for _, d := range dots {
		if d.Counter == 0 || len(d.Actor) == 0 || len(d.Actor) > clock.ActorBytesMax {
			return fmt.Errorf("%w: %v is not a dot", ErrContext, d)
		}
	}
	return nil
}
