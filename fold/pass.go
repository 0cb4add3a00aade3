package fold

import (
	"bigset/clock"
	"bigset/keyscheme"
)

// Key is a stored key of one element, as the fold pass looks at it.
type Key struct {
	Dot  clock.Dot
	Op   keyscheme.Op
	Wide *clock.Clock // the context that keeps it unresolved, nil when it is resolved
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

// Resolve is the fold pass over one element: it resolves the unresolved keys whose contexts are within seen. It needs all keys of the
// element except those that are resolved and dead. It appends to killed the dots that must be durably in Dead before the fates are
// carried out: add keys that a resolved context covers, unresolved or not. Each key is resolved by its own context: a key that is itself
// covered stays unresolved until its own context is within seen. Resolve costs as much as uniting the contexts.
func Resolve(keys []Key, seen, dead *clock.Clock, killed []clock.Dot) ([]clock.Dot, []Fate) {
	covered := &clock.Clock{} // by the contexts that are resolved
	resolves := make([]bool, len(keys))
	for i, k := range keys {
		if resolves[i] = k.Wide != nil && seen.Descends(k.Wide); resolves[i] {
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
		case k.Wide != nil && !resolves[i]:
		case k.Op == keyscheme.OpRemove || isDead:
			fates[i] = Leave
		case k.Wide != nil:
			fates[i] = Close
		}
	}
	return killed, fates
}
