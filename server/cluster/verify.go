package cluster

import (
	"encoding/json"
	"fmt"
)

// Kept is what a folder keeps of its cluster.
type Kept struct {
	Record  *Record // nil if the folder is of no cluster
	Filters int     // filters that are not dropped, in the list of the cluster's filters
}

// Verify reads what a member keeps on a disk, as its start does. Problems are what can't be read: with one of them the member does not start.
func Verify(d Disk) (k Kept, problems []error) {
	value, err := d.Load(keyLedger)
	if err == nil {
		var l ledger
		l, err = decodeLedger(value)
		k.Record = l.Committed
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("the record of the cluster: %w", err))
	}
	value, err = d.Load(keyFilled)
	if err == nil && len(value) > 0 {
		err = json.Unmarshal(value, &filled{})
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("the epoch under which this disk was filled: %w", err))
	}
	c, err := openCatalogue(d)
	if err != nil {
		return k, append(problems, fmt.Errorf("the list of the cluster's filters: %w", err))
	}
	for _, e := range c.entries {
		if e.State != FilterDropped {
			k.Filters++
		}
	}
	return k, problems
}

// Held returns the record by which a folder is of a cluster: the committed one, or else the one that its member has agreed to, which the
// others may have committed. It is nil if the folder is of no cluster.
func Held(d Disk) (*Record, error) {
	value, err := d.Load(keyLedger)
	if err != nil {
		return nil, err
	}
	l, err := decodeLedger(value)
	if l.Committed == nil {
		return l.Prepared, err
	}
	return l.Committed, err
}
