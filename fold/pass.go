package fold

import (
	"bigset/clock"
	"bigset/keyscheme"
)

// Key is a stored key of one element, as the fold pass looks at it.
type Key struct {
	Dot  clock.Dot
	Op   keyscheme.Op
	Wide *clock.Clock // the context that keeps it open, nil when it is closed
}

// Fate is what becomes of a key.
type Fate byte

const (
	// Keep leaves a key as it is.
	Keep Fate = iota
	// Close takes the context off a key: an add that stays.
	Close
	// Drop takes a key away: its dot is dead, and what it superseded is too.
	Drop
)

// Resolve is the fold pass over one element: it closes the open keys whose contexts are within seen. It needs all keys of the
// element but those that are closed and dead. It appends to killed the dots that must be in Dead, durably, before the fates are
// carried out: add keys that a closing context covers, open or not. Each key closes by its own context: one that is itself
// covered stays open until its own is within seen.
func Resolve(keys []Key, seen, dead *clock.Clock, killed []clock.Dot) ([]clock.Dot, []Fate) {
	from := len(killed)
	isDead := func(d clock.Dot) bool {
		if dead.Contains(d) {
			return true
		}
		for _, k := range killed[from:] {
			if k == d {
				return true
			}
		}
		return false
	}
	closes := make([]bool, len(keys))
	for i, k := range keys {
		if closes[i] = k.Wide != nil && seen.Descends(k.Wide); !closes[i] {
			continue
		}
		for _, a := range keys {
			if a.Op == keyscheme.OpAdd && k.Wide.Contains(a.Dot) && !isDead(a.Dot) {
				killed = append(killed, a.Dot)
			}
		}
	}
	fates := make([]Fate, len(keys))
	for i, k := range keys {
		switch {
		case k.Wide != nil && !closes[i]:
		case k.Op == keyscheme.OpRemove || isDead(k.Dot):
			fates[i] = Drop
		case k.Wide != nil:
			fates[i] = Close
		}
	}
	return killed, fates
}
