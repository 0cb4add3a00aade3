package fold

import (
	"bigset/clock"
	"bigset/keyscheme"
)

// Key is a stored key of one element, as the fold pass looks at it.
type Key struct {
	Dot  clock.Dot
	Op   keyscheme.Op
	Wide *clock.Clock // the context that keeps it unresolved, nil when it is closed
}

// Fate is what becomes of a key.
type Fate byte

const (
	// Keep leaves a key as it is.
	Keep Fate = iota
	// Close removes the context from a key: an add that stays.
	Close
	// Leave omits a key: its dot is dead, and what it superseded is too.
	Leave
)

// Resolve is the fold pass over one element: it closes the unresolved keys whose contexts are within seen. It needs all keys of the
// element except those that are closed and dead. It appends to killed the dots that must be durably in Dead before the fates are
// carried out: add keys that a closing context covers, unresolved or not. Each key closes by its own context: a key that is itself
// covered stays unresolved until its own context is within seen. Resolve costs as much as uniting the contexts.
func Resolve(keys []Key, seen, dead *clock.Clock, killed []clock.Dot) ([]clock.Dot, []Fate) {
	covered := &clock.Clock{} // by the contexts that close
	closes := make([]bool, len(keys))
	for i, k := range keys {
		if closes[i] = k.Wide != nil && seen.Descends(k.Wide); closes[i] {
			covered.Union(k.Wide)
		}
	}
	fates := make([]Fate, len(keys))
	for i, k := range keys {
		isDead := dead.Contains(k.Dot)
		if !isDead && k.Op == keyscheme.OpAdd && covered.Contains(k.Dot) {
			killed, isDead = append(killed, k.Dot), true
		}
		switch {
		case k.Wide != nil && !closes[i]:
		case k.Op == keyscheme.OpRemove || isDead:
			fates[i] = Leave
		case k.Wide != nil:
			fates[i] = Close
		}
	}
	return killed, fates
}
