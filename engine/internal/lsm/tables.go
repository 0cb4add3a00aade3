package lsm

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"bigset/keyscheme"
)

// Table is a table and the element keys that it holds.
type Table struct {
	Level             int
	Smallest, Largest []byte
	Bytes             uint64
	Keys              uint64 // element keys of all sets
	Sets              []SetKeys
}

// ReadTables reads the properties of each table.
func (d *DB) ReadTables() ([]Table, error) {
	levels, err := d.pebble.SSTables(pebble.WithProperties())
	if err != nil {
		return nil, DiskError(err)
	}
	var tables []Table
	for level, infos := range levels {
		for i := range infos {
			tables = append(tables, surveyTable(level, &infos[i]))
		}
	}
	return tables, nil
}

func surveyTable(level int, info *pebble.SSTableInfo) Table {
	t := Table{Level: level, Bytes: info.Size, Smallest: info.Smallest.UserKey, Largest: info.Largest.UserKey}
	p := info.Properties
	if p == nil {
		return t
	}
	value := p.UserProperties[keyCounterName]
	if len(value) > 0 {
		// The first byte is the collector's number in the table.
		if keys, sets, ok := parseKeyCount([]byte(value[1:])); ok {
			t.Keys, t.Sets = keys, sets
		}
	}
	if info.Virtual {
		t.Keys, t.Sets = virtualCounts(&t, p.NumEntries)
	}
	return t
}

// virtualCounts returns the counts of a table that a swap has cut, a virtual table in Pebble's terms. Pebble withholds the property
// of the whole table, but knows the approximate number of records that are left: if both ends belong to one set, they are that
// set's.
func virtualCounts(t *Table, records uint64) (keys uint64, sets []SetKeys) {
	if _, _, _, _, ok := keyscheme.ElementDot(t.Largest); !ok {
		return 0, nil // mostly a clock and a tombstone that are left of a set
	}
	first, err := keyscheme.Decode(t.Smallest)
	if n := first.PrefixLen(); err == nil && n > 0 && bytes.HasPrefix(t.Largest, t.Smallest[:n]) {
		sets = []SetKeys{{string(t.Smallest[:n]), records}}
	}
	return records, sets
}
