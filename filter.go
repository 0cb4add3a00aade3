package bigset

import (
	"fmt"

	"bigset/bloomslice"
	"bigset/keyscheme"
)

// FilterDurability says how durable a mark is when it is acknowledged.
type FilterDurability = keyscheme.FilterDurability

// The durabilities of a filter's marks.
const (
	FilterServer   = keyscheme.FilterServer   // what engine.Options.FilterDurability says
	FilterInterval = keyscheme.FilterInterval // at once; marks that were not flushed yet are lost in a crash
	FilterLog      = keyscheme.FilterLog      // when the operating system has it: it survives the process, not the machine
	FilterSync     = keyscheme.FilterSync     // when it is on disk
)

// FilterOptions are what a filter is made with. The zero fields of Options are bloomslice.DefaultOptions.
type FilterOptions struct {
	bloomslice.Options
	InMemory   bool // its bits are never stored; after a restart it is empty
	Durability FilterDurability
}

// Check returns what is wrong with the options of a filter: ErrRequest, or bloomslice.ErrOptions.
func (o *FilterOptions) Check() error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Durability > FilterSync {
		return fmt.Errorf("%w: no durability %d of filters", ErrRequest, o.Durability)
	}
	return nil
}

// CheckFilterName returns what is wrong with the name of a filter: ErrLimit.
func CheckFilterName(name []byte) error {
	if keyscheme.CheckFilterName(name) != nil {
		return &LimitError{"bytes of a filter's name", len(name), keyscheme.FilterNameBytesMax}
	}
	return nil
}
