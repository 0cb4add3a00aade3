package lsm

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"bigset/keyscheme"
)

// keyCounterName is the name of the table property that keyCounter writes. It is on disk.
const keyCounterName = "bigset.keys.v1"

const (
	// countedSetsMax bounds the sets that one table names; a table of many small sets sums up the rest.
	countedSetsMax = 256
	// countedKeysMin is the number of keys from which a set is named.
	countedKeysMin = 64
)

// SetKeys is how many element keys of one set a table holds.
type SetKeys struct {
	Prefix string
	Keys   uint64
}

// keyCounter counts, for each table that is written, the element keys of each set. From these counts the store knows how much is on
// disk, even after a restart, and, compared with the live dots, how much of it is garbage. The property is a version byte, the
// count of all element keys, then for each set that is named: length, prefix, count; all numbers are uvarints.
type keyCounter struct {
	written *atomic.Uint64 // of the store
	all     uint64
	sets    []SetKeys
	prefix  []byte
	keys    uint64
}

// Name implements pebble.BlockPropertyCollector.
func (c *keyCounter) Name() string { return keyCounterName }

// AddPointKey implements pebble.BlockPropertyCollector.
func (c *keyCounter) AddPointKey(key pebble.InternalKey, _ []byte) error {
	if kind := key.Kind(); kind != pebble.InternalKeyKindMerge && kind != pebble.InternalKeyKindSet {
		return nil
	}
	n, _, _, _, ok := keyscheme.ElementDot(key.UserKey)
	if !ok {
		return nil
	}
	if string(key.UserKey[:n]) != string(c.prefix) {
		c.endSet()
		c.prefix = append(c.prefix[:0], key.UserKey[:n]...)
	}
	c.keys++
	return nil
}

func (c *keyCounter) endSet() {
	c.all += c.keys
	if c.keys >= countedKeysMin {
		c.name(SetKeys{string(c.prefix), c.keys})
	}
	c.keys = 0
}

// name keeps the sets with the most keys.
func (c *keyCounter) name(s SetKeys) {
	if len(c.sets) < countedSetsMax {
		c.sets = append(c.sets, s)
		return
	}
	least := 0
	for i := range c.sets {
		if c.sets[i].Keys < c.sets[least].Keys {
			least = i
		}
	}
	if c.sets[least].Keys < s.Keys {
		c.sets[least] = s
	}
}

// AddRangeKeys implements pebble.BlockPropertyCollector.
func (c *keyCounter) AddRangeKeys(sstable.Span) error { return nil }

// AddCollectedWithSuffixReplacement implements pebble.BlockPropertyCollector.
func (c *keyCounter) AddCollectedWithSuffixReplacement(_, _, _ []byte) error { return nil }

// SupportsSuffixReplacement implements pebble.BlockPropertyCollector.
func (c *keyCounter) SupportsSuffixReplacement() bool { return false }

// FinishDataBlock implements pebble.BlockPropertyCollector: blocks carry nothing.
func (c *keyCounter) FinishDataBlock(buf []byte) ([]byte, error) { return buf, nil }

// AddPrevDataBlockToIndexBlock implements pebble.BlockPropertyCollector.
func (c *keyCounter) AddPrevDataBlockToIndexBlock() {}

// FinishIndexBlock implements pebble.BlockPropertyCollector.
func (c *keyCounter) FinishIndexBlock(buf []byte) ([]byte, error) { return buf, nil }

// FinishTable implements pebble.BlockPropertyCollector.
func (c *keyCounter) FinishTable(buf []byte) ([]byte, error) {
	c.endSet()
	if c.written != nil {
		c.written.Add(c.all)
	}
	buf = append(buf, 1)
	buf = binary.AppendUvarint(buf, c.all)
	for _, s := range c.sets {
		buf = binary.AppendUvarint(buf, uint64(len(s.Prefix)))
		buf = append(buf, s.Prefix...)
		buf = binary.AppendUvarint(buf, s.Keys)
	}
	return buf, nil
}

// parseKeyCount inverts FinishTable. It reports false for other bytes, which mean that nothing is known.
func parseKeyCount(b []byte) (all uint64, sets []SetKeys, ok bool) {
	if len(b) == 0 || b[0] != 1 {
		return 0, nil, false
	}
	r := uvarints{b: b[1:]}
	all = r.next()
	for len(r.b) > 0 && !r.bad {
		prefix := r.bytes()
		sets = append(sets, SetKeys{string(prefix), r.next()})
	}
	return all, sets, !r.bad
}

// uvarints reads numbers and strings until one is malformed.
type uvarints struct {
	b   []byte
	bad bool
}

func (r *uvarints) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *uvarints) bytes() []byte {
	n := r.next()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}
