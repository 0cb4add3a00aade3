package convergence

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Kinds returns the kinds of steps.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Shrink makes a failing script shorter, as Run does.
func Shrink(sys System, s *Script) (*Script, *Violation) {
	o, _ := Options{}.withDefaults()
	v, _ := watched(sys, s, false, o.StepLimit)
	if v == nil {
		return s, nil
	}
	s, v, _ = shrink(context.Background(), sys, s, v, &o, 1)
	return s, v
}

// RunReplay replays a file, as Run does.
func RunReplay(t T, sys System, o Options, file string) { runReplay(t, sys, o, file) }

// FromEnv overrides options as Run does.
func (o Options) FromEnv() (Options, error) {
	err := o.fromEnv()
	return o, err
}

// Accepting returns the declarations that accept a script without steps, of those that are tried until a time.
func Accepting(ctx context.Context, sys System, until time.Time) (names []string, all bool) {
	o, _ := Options{}.withDefaults()
	o.until = until
	sys.CausalNet = false
	sys.Buffers = false
	return sys.accepting(ctx, abilities{}, &Script{System: sys.Name, Replicas: 1}, bad(Lost, "x"), &o)
}
