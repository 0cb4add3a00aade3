package compaction

import (
	"errors"
	"fmt"
	"time"
)

// ErrStrategy is returned when a strategy is unknown or cannot work on a store's kind of record.
var ErrStrategy = errors.New("compaction: strategy refused")

// Record is the kind of record in which a store keeps its element keys. It is part of the store's format and never changes.
type Record byte

const (
	// Merge records are shown to the drop filter whenever a flush or a compaction rewrites them. No delete may ever be written over
	// one: Pebble panics when a delete meets a merge record that its merger has dropped (Pebble issue 6168).
	Merge Record = 'm'
	// Set records are plain: no filter is asked about them, and point deletes may be written over them.
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
	return 0, fmt.Errorf("compaction: unknown kind of record %q, want merge or set", s)
}

// Load is what a strategy knows of a set when it is asked whether the rewriter should look at it.
type Load struct {
	Keys       uint64        // element keys in tables, by the tables' own counts
	Live       uint64        // live dots
	Unresolved uint64        // unresolved keys: those whose wide contexts are not resolved yet
	Quiet      time.Duration // since the set was last written
}

// Garbage returns the number of keys in tables that are not needed: at least 0, and approximate while keys are in memory. An
// unresolved key counts as garbage: it is not needed, or supersedes a key that is not, or at least carries a context that can be
// removed.
func (l Load) Garbage() uint64 {
	if l.Keys <= l.Live {
		return l.Unresolved
	}
	return l.Keys - l.Live + l.Unresolved
}

// Strategy says how dead keys leave the disk. A storage developer may supply another one: the engine asks it and follows its
// answers. A strategy does not decide what is dead, so none of its answers can lose or bring back an element; wrong answers cost
// space and work. Its methods are called from several goroutines and must not block.
type Strategy interface {
	// Name is the strategy's name on a command line.
	Name() string
	// WorksOn returns an error that wraps ErrStrategy if the strategy can't work on records of that kind. It is called when a store
	// is opened.
	WorksOn(r Record) error

	// Filters, Deletes and Rewrites say which means the strategy uses. Each must always return the same answer.

	// Filters reports whether durable tombstones are given to the drop filter.
	Filters() bool
	// Deletes reports whether a kill writes a delete of the killed key as well as the tombstone: only on Set records.
	Deletes() bool
	// Rewrites reports whether the rewriter is used. If not, Wants and Worth are never called.
	Rewrites() bool

	// Wants reports whether the rewriter should look for spans of a set under that load. It is called in the background for each
	// set that may have garbage in tables, and again after each span. The engine chooses the wanted set with the most
	// garbage; a set that is being written waits for some seconds. Sets too small for a table to name are asked about together, as
	// many as fill a table, with the load estimated from a sample of them. Compaction on demand does not call it.
	Wants(l Load) bool
	// Worth reports whether a span is worth copying. It is called for the densest span of a set, whose keys were only sampled, and
	// again after the span was read whole, before it is swapped. On the second call its Bytes are 0, and a large span may have
	// ended early. Compaction on demand does not call it.
	Worth(s Span) bool
}

// Policy is a Strategy made of plain values. All the built-in strategies are Policies.
type Policy struct {
	Label    string
	Record   Record // the only kind it works on; 0 is any
	Filter   bool
	Delete   bool
	Rewrite  bool
	KeysMin  uint64  // rewriting: no set with fewer keys of garbage is looked at; 0 is 4,096
	Excess   float64 // rewriting: starts when keys in tables exceed live ones by this share; 0 is 0.3
	Idle     float64 // rewriting: the same for a set that has been quiet for QuietEnough; 0 is 0.1
	DeadsMin float64 // rewriting: a span with a smaller share of dead keys is not copied; 0 is 0.15
}

// QuietEnough is how long a set must have gone without a write for a Policy to treat it as idle.
const QuietEnough = 500 * time.Millisecond

// Default combines the drop filter and the rewriter, for stores of Merge records.
func Default() Strategy {
	return Policy{Label: "default", Record: Merge, Filter: true, Rewrite: true}
}

// Filter lets only flushes and compactions drop keys; what has settled at the bottom stays.
func Filter() Strategy { return Policy{Label: "filter", Record: Merge, Filter: true} }

// Rewriter leaves flushes and compactions alone and only swaps spans.
func Rewriter() Strategy { return Policy{Label: "rewriter", Rewrite: true} }

// PointDeletes is the classical method, as a baseline: a delete for every killed key, on a store of Set records.
func PointDeletes() Strategy { return Policy{Label: "point-deletes", Record: Set, Delete: true} }

// None never drops anything.
func None() Strategy { return Policy{Label: "none"} }

// Strategies lists the built-in strategies in the order in which help texts should name them.
func Strategies() []Strategy {
	return []Strategy{Default(), Filter(), Rewriter(), PointDeletes(), None()}
}

// ByName returns the built-in strategy of that name, or an error that wraps ErrStrategy and lists the names.
func ByName(name string) (Strategy, error) {
	var names []string
	for _, s := range Strategies() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("%w: unknown strategy %q, want one of %q", ErrStrategy, name, names)
}

// For returns the default strategy of a store with records of that kind.
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

// Wants implements Strategy: a set is wanted if it has enough garbage, both absolutely and compared with what is live.
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
