package lsm

import (
	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// RangeTable is a table that overlaps a range of keys.
type RangeTable struct {
	Table
	Within uint64 // approximate number of its bytes that lie in the range
}

// ReadTablesIn reads the properties of each table that overlaps a range. It reads properties and indexes, but no keys.
func (d *DB) ReadTablesIn(b keyscheme.Bounds) ([]RangeTable, error) {
	levels, err := d.pebble.SSTables(pebble.WithProperties(), pebble.WithKeyRangeFilter(b.Lower, b.Upper), pebble.WithApproximateSpanBytes())
	if err != nil {
		return nil, DiskError(err)
	}
	var tables []RangeTable
	for level, infos := range levels {
		for i := range infos {
			tables = append(tables, RangeTable{surveyTable(level, &infos[i]), infos[i].ApproximateSpanBytes})
		}
	}
	return tables, nil
}
