package bigset

import (
	"fmt"

	"bigset/clock"
)

// State is what a store knows of a set at one moment.
type State struct {
	// Seen are the events that this store knows of, Dead those of them that are removed or replaced. Both are shared: read only.
	Seen, Dead *clock.Clock
	// Unresolved is the number of keys with an unresolved context (engine.Options.KeepContexts); after a crash it may be too many.
	Unresolved uint64
}

// Verdict says what a store knows of a dot of an element.
type Verdict byte

const (
	// NotSeen is a dot of which the store has never heard.
	NotSeen Verdict = iota
	// Live is a dot by which the element is present.
	Live
	// Dead is a dot that was removed or replaced.
	Dead
	// Lost is a dot that was seen, is not dead, and has no key under the element. Where the dot is the element's, that is
	// damage, and says nothing about a remove.
	Lost
)

// String returns the verdict's name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict %d", byte(v))
}

var verdictNames = [...]string{"not seen", "live", "dead", "lost"}

// Judgement is what a store knows of an element, all of one moment.
type Judgement struct {
	// Live are all dots by which the element is present, ascending: also those that nobody asked about.
	Live []clock.Dot
	// Verdicts are on the dots that were asked about, in their order.
	Verdicts []Verdict
}
