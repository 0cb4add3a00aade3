package bigset

import (
	"fmt"

	"bigset/clock"
	"bigset/fold"
)

// Facts are what one replica sends another about a set: keys with their dots, and dots that are dead. They claim nothing else: what
// they leave out may exist or not. They may come in any order and any number of times.
type Facts struct {
	Set []byte
	// Keys are elements, each with one or more dots by which it was added. A dot belongs to one add forever, so it does not matter
	// how old a key is.
	Keys []fold.Element
	// Dead are dots that are removed or replaced; nil is none.
	Dead *clock.Clock
}

// Empty reports whether the facts say nothing.
func (f Facts) Empty() bool { return len(f.Keys) == 0 && f.Dead.Empty() }

// Check returns what is wrong with facts, for any store: ErrLimit, ErrRequest for the name of the set, or ErrFacts.
func (f *Facts) Check() error {
	if err := CheckName(f.Set); err != nil {
		return err
	}
	if err := CheckClock(f.Dead); err != nil {
		return err
	}
	keys, total, dots := 0, 0, &clock.Clock{}
	for i := range f.Keys {
		e := &f.Keys[i]
		if err := CheckElement(e.Name); err != nil {
			return err
		}
		if len(e.Dots) == 0 {
			return fmt.Errorf("%w: element %.64q has no dot", ErrFacts, e.Name)
		}
		if err := CheckDots(e.Dots); err != nil {
			return fmt.Errorf("%w: %w", ErrFacts, err)
		}
		for _, d := range e.Dots {
			if !dots.Add(d) {
				return fmt.Errorf("%w: dot %v comes twice", ErrFacts, d)
			}
		}
		keys += len(e.Dots)
		total += len(e.Dots) * len(e.Name)
	}
	if keys > BatchOpsMax {
		return &LimitError{"keys in facts", keys, BatchOpsMax}
	}
	if total > BatchBytesMax {
		return &LimitError{"bytes of elements in facts", total, BatchBytesMax}
	}
	return checkBatch(f.Set, keys, total, 0)
}

// FactsResult says what facts have changed.
type FactsResult struct {
	// Keys is the number of keys that were new. Dead is the number of dots that were not dead in this store before.
	Keys, Dead uint64
}

// HealResult says what became of the keys of a Heal.
type HealResult struct {
	Healed  int // put back
	Present int // not lost: stored under the element, and readable
	Dead    int // their dots are dead
	NotSeen int // their dots were never seen: ApplyFacts accepts such keys
	Left    int // still lost: damage around them can't be read, or the span is being written
	Taken   int // keys under a wrong element that were removed
}
