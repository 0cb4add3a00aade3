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

// DotStatus says what a store knows of a dot of an element.
type DotStatus byte

const (
	// NotSeen is a dot of which the store has never heard.
	NotSeen DotStatus = iota
	// Live is a dot by which the element is present.
	Live
	// Dead is a dot that was removed or replaced.
	Dead
	// Lost is a dot that was seen, is not dead, and has no key under the element. Where the dot is the element's, that is
	// damage, and says nothing about a remove.
	Lost
)

// String returns the name of the status.
func (v DotStatus) String() string {
	if int(v) < len(statusNames) {
		return statusNames[v]
	}
	return fmt.Sprintf("dot status %d", byte(v))
}

var statusNames = [...]string{"not seen", "live", "dead", "lost"}

// DotStatuses are what a store knows of dots of an element, all of one moment.
type DotStatuses struct {
	// Live are all dots by which the element is present, ascending: also those that nobody asked about.
	Live []clock.Dot
	// Statuses are those of the dots that were asked about, in their order.
	Statuses []DotStatus
}
