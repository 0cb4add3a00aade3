package bigset

import (
	"fmt"

	"bigset/clock"
)

// State is what a store knows of a set at one moment.
type State struct {
	// Seen are the events that this store knows of, Dead those that are removed or replaced. Both are shared: read only.
	Seen, Dead *clock.Clock
	// Unresolved is the number of keys with an unresolved context (engine.Options.KeepContexts); after a crash it may be too large.
	Unresolved uint64
}

// DotStatus says what a store knows of a dot of an element.
type DotStatus byte

const (
	// NotSeen is a dot that the store does not know.
	NotSeen DotStatus = iota
	// Live is a dot by which the element is present.
	Live
	// Dead is a dot that was removed or replaced.
	Dead
	// Lost is a dot that was seen, is not dead, and has no key under the element. If the dot belongs to the element, that is
	// damage, and does not mean that it was removed.
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

// DotStatuses is what a store knows of an element, all of one moment.
type DotStatuses struct {
	// Live are all dots by which the element is present, ascending, including those that were not asked about.
	Live []clock.Dot
	// Statuses are those of the dots that were asked about, in their order.
	Statuses []DotStatus
}
