package engine

import (
	"slices"

	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// keptKey is an element key with its value.
type keptKey struct{ key, value []byte }

// newKept copies an element key, and its value if it is unresolved.
func newKept(key, value []byte) keptKey {
	if !keyscheme.IsUnresolved(value) {
		return keptKey{append([]byte(nil), key...), keyscheme.ResolvedValue}
	}
	return keptKey{append([]byte(nil), key...), append([]byte(nil), value...)}
}

// tableKeysBytes is about how many bytes of keys go into one new table. Small tables make it cheap to write one again when
// a late write falls in it.
const tableKeysBytes = 2 << 20

// copied is what replaces a span: its keys, in order, and the tables that hold them.
type copied struct {
	s *Store
	lsm.SpanFiles
	arena  []byte         // the keys, one after the other
	ends   []int          // where each key ends in arena
	values map[int][]byte // the values of unresolved keys, by number
	tables []copiedTable
}

// copiedTable is a new table: the keys it holds, by their numbers.
type copiedTable struct {
	first, last int // last is exclusive
	path        string
}

// keep appends a key, which is greater than all before it.
func (c *copied) keep(k keptKey) {
	if keyscheme.IsUnresolved(k.value) {
		if c.values == nil {
			c.values = map[int][]byte{}
		}
		c.values[len(c.ends)] = k.value
	}
	c.arena = append(c.arena, k.key...)
	c.ends = append(c.ends, len(c.arena))
}

// key returns the i-th key.
func (c *copied) key(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.arena[start:c.ends[i]]
}

// value returns the value of the i-th key.
func (c *copied) value(i int) []byte {
	if v, unresolved := c.values[i]; unresolved {
		return v
	}
	return keyscheme.ResolvedValue
}

// writeTables writes the keys to new tables.
func (c *copied) writeTables() error {
	for first := 0; first < len(c.ends); {
		last := first
		for size := 0; last < len(c.ends) && size <= tableKeysBytes; last++ {
			size += len(c.key(last)) + len(c.value(last))
		}
		t := copiedTable{first: first, last: last}
		if err := c.write(&t, nil); err != nil {
			return err
		}
		c.tables = append(c.tables, t)
		first = last
	}
	return nil
}

// write writes the keys of a table, and late ones in between, to a new file.
func (c *copied) write(t *copiedTable, late []keptKey) (err error) {
	t.path, err = c.WriteTable(c.merging(*t, late))
	return err
}

// tablePaths returns the paths of the tables, in order.
func (c *copied) tablePaths() []string {
	paths := make([]string, len(c.tables))
	for i, t := range c.tables {
		paths[i] = t.path
	}
	return paths
}

// mergeLate writes again the tables into which late keys below upper fall. It changes late.
func (c *copied) mergeLate(late []keptKey, upper []byte) error {
	late = slices.DeleteFunc(late, func(k keptKey) bool { return comparator.Compare(k.key, upper) >= 0 })
	if len(late) == 0 {
		return nil
	}
	slices.SortFunc(late, func(a, b keptKey) int { return comparator.Compare(a.key, b.key) })
	if len(c.tables) == 0 {
		c.tables = []copiedTable{{}}
	}
	for i := range c.tables {
		t := &c.tables[i]
		n := len(late)
		if i+1 < len(c.tables) { // those before the next table's first key; the last table takes the rest
			next := c.key(c.tables[i+1].first)
			n, _ = slices.BinarySearchFunc(late, next, func(k keptKey, key []byte) int { return comparator.Compare(k.key, key) })
		}
		if n == 0 {
			continue
		}
		if err := c.write(t, late[:n]); err != nil {
			return err
		}
		late = late[n:]
	}
	return nil
}

// merging yields a table's keys and late ones in order.
func (c *copied) merging(t copiedTable, late []keptKey) func(yield func(key, value []byte) error) error {
	return func(yield func(key, value []byte) error) error {
		for i := t.first; i < t.last || len(late) > 0; {
			var next keptKey
			if len(late) == 0 || i < t.last && comparator.Compare(c.key(i), late[0].key) < 0 {
				next = keptKey{c.key(i), c.value(i)}
				i++
			} else {
				next, late = late[0], late[1:]
			}
			if err := yield(next.key, next.value); err != nil {
				return err
			}
		}
		return nil
	}
}
