package compaction

import (
	"errors"
	"fmt"
	"time"
)

// ErrStrategy is returned where a strategy cannot work on a store's kind of record, or is unknown.
var ErrStrategy = errors.New("compaction: strategy refused")

// Record is the kind of record in which a store keeps its element keys. It is part of the store's format and never changes.
type Record byte

const (
	// Merge records are shown to the drop filter whenever a flush or a compaction rewrites them. No delete may ever be written
	// over one: Pebble panics where a delete meets a merge record that its merger has dropped (Pebble issue 6168).
	Merge Record = 'm'
	// Set records are plain: nothing is asked about them, and point deletes may be written over them.
	Set Record = 's'
)

// String returns "merge" or "set".
func (r Record) String() string {
	switch r {
	case Merge:
		return "merge"
	case Set:
		return "set"
	}
	return fmt.Sprintf("record(%d)", byte(r))
}

// ParseRecord inverts String.
func ParseRecord(s string) (Record, error) {
	for _, r := range []Record{Merge, Set} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("compaction: unknown kind of record %q: it is merge or set", s)
}

// Load is what a strategy knows of a set when it is asked whether the rewriter should look.
type Load struct {
	Keys       uint64        // element keys in tables, by the tables' own counts
	Live       uint64        // live dots
	Unresolved uint64        // unresolved keys: those whose wide contexts are not resolved yet
	Quiet      time.Duration // since the set was last written
}

// Garbage returns the number of keys in tables that are not needed: at least 0, and approximate while keys are in memory.
// An unresolved key counts: it is one, or supersedes one, or at least carries a context that can go.
func (l Load) Garbage() uint64 {
	if l.Keys <= l.Live {
		return l.Unresolved
	}
	return l.Keys - l.Live + l.Unresolved
}

// Strategy says how dead keys leave the disk. A storage developer may bring another one: the engine asks it, and does what
// it says. What is dead is not its to say, so no answer of it can lose or bring back an element; wrong ones cost space and
// work. Its methods are called from several goroutines and must not block.
type Strategy interface {
	// Name is what a command line calls it.
	Name() string
	// WorksOn returns an error that wraps ErrStrategy when it can't work on records of that kind. It is asked when a store
	// is opened.
	WorksOn(r Record) error

	// Filters, Deletes and Rewrites say which means it uses. Each must always answer the same.

	// Filters reports whether durable tombstones are given to the drop filter.
	Filters() bool
	// Deletes reports whether a kill writes a delete of the killed key, beside the tombstone: only on Set records.
	Deletes() bool
	// Rewrites reports whether the rewriter is used: if not, Wants and Worth are never asked.
	Rewrites() bool

	// Wants reports whether the rewriter should look for spans of a set under that load. It is asked in the background of
	// each set that may have garbage in tables, and again after each span. The engine chooses the set with the most garbage
	// of those that are wanted, and lets one that is being written wait for some seconds. Sets too small for a table to name
	// are asked for together, a table's worth of them, by what a sample of them holds. Compaction on demand does not ask.
	Wants(l Load) bool
	// Worth reports whether a span is worth copying. It is asked for the densest span of a set, of which only samples are
	// counted, and again when it was read whole, before it is swapped: then its Bytes are 0, and a large one may have ended
	// early. Compaction on demand does not ask.
	Worth(s Span) bool
}

// Policy is a Strategy made of plain values: all the ready ones are.
type Policy struct {
	Label    string
	Record   Record // the only kind it works on; 0 is any
	Filter   bool
	Delete   bool
	Rewrite  bool
	KeysMin  uint64  // rewriting: no set with fewer keys of garbage is looked at; 0 is 4,096
	Excess   float64 // rewriting: starts when keys in tables exceed live ones by this share; 0 is 0.3
	Idle     float64 // rewriting: the same for a set that has been quiet for QuietEnough; 0 is 0.1
	DeadsMin float64 // rewriting: a span with a smaller share of dead keys stays; 0 is 0.15
}

// QuietEnough is how long a set must not have been written for a policy to take it as idle.
const QuietEnough = 500 * time.Millisecond

// Default is the drop filter and the rewriter together, for stores of Merge records.
func Default() Strategy {
	return Policy{Label: "default", Record: Merge, Filter: true, Rewrite: true}
}

// Filter lets only flushes and compactions drop keys; what has settled at the bottom stays.
func Filter() Strategy { return Policy{Label: "filter", Record: Merge, Filter: true} }

// Rewriter leaves flushes and compactions alone and only swaps spans.
func Rewriter() Strategy { return Policy{Label: "rewriter", Rewrite: true} }

// PointDeletes is the classical way, as a baseline: a delete for every killed key, on a store of Set records.
func PointDeletes() Strategy { return Policy{Label: "point-deletes", Record: Set, Delete: true} }

// None drops nothing, ever.
func None() Strategy { return Policy{Label: "none"} }

// Strategies lists the ready ones in the order in which help texts should name them.
func Strategies() []Strategy {
	return []Strategy{Default(), Filter(), Rewriter(), PointDeletes(), None()}
}

// ByName returns the ready strategy of that name, or an error that wraps ErrStrategy and names those there are.
func ByName(name string) (Strategy, error) {
	var names []string
	for _, s := range Strategies() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("%w: no strategy %q: there are %q", ErrStrategy, name, names)
}

// For returns the strategy that a store of such records has when none is asked for.
func For(r Record) Strategy {
	if r == Set {
		return PointDeletes()
	}
	return Default()
}

// Name implements Strategy.
func (p Policy) Name() string { return p.Label }

// Filters implements Strategy.
func (p Policy) Filters() bool { return p.Filter }

// Deletes implements Strategy.
func (p Policy) Deletes() bool { return p.Delete }

// WorksOn implements Strategy.
func (p Policy) WorksOn(r Record) error {
	switch {
	case p.Filter && r != Merge:
		return fmt.Errorf("%w: %s needs merge records, the store has %s records", ErrStrategy, p.Label, r)
	case p.Delete && r != Set:
		return fmt.Errorf("%w: %s needs set records, the store has %s records", ErrStrategy, p.Label, r)
	case p.Record != 0 && p.Record != r:
		return fmt.Errorf("%w: %s needs %s records, the store has %s records", ErrStrategy, p.Label, p.Record, r)
	}
	return nil
}

// Rewrites implements Strategy.
func (p Policy) Rewrites() bool { return p.Rewrite }

// Wants implements Strategy: there is enough garbage, absolutely and beside what is live.
func (p Policy) Wants(l Load) bool {
	garbage, excess := l.Garbage(), orElse(p.Excess, 0.3)
	if l.Quiet > QuietEnough {
		excess = orElse(p.Idle, 0.1)
	}
	return p.Rewrite && garbage >= orElse(p.KeysMin, 4096) && float64(garbage) > excess*float64(l.Live)
}

// Worth implements Strategy.
func (p Policy) Worth(s Span) bool { return p.Rewrite && s.Density() >= orElse(p.DeadsMin, 0.15) }

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
