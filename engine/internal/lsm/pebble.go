package lsm

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/keyscheme"
)

// This file is the one place where our rules meet Pebble's hooks.

// mergerName is on disk: Pebble checks it at every open, so it never changes.
const mergerName = "bigset.merger.v1"

// Comparer returns the order of keys in the form that Pebble requires. It is for tools and baselines that open a store's files, or
// compare with them.
func Comparer() *pebble.Comparer {
	return asserted(&pebble.Comparer{
		Name:                 comparator.Name,
		Compare:              comparator.Compare,
		Equal:                comparator.Equal,
		Split:                comparator.Split,
		AbbreviatedKey:       comparator.AbbreviatedKey,
		Separator:            comparator.Separator,
		Successor:            comparator.Successor,
		ImmediateSuccessor:   comparator.ImmediateSuccessor,
		ComparePointSuffixes: comparator.ComparePointSuffixes,
		CompareRangeSuffixes: comparator.CompareRangeSuffixes,
		FormatKey:            func(key []byte) fmt.Formatter { return comparator.Format(key) },
	})
}

// Merger returns a merger for tools and baselines that open a store's files: it drops nothing.
func Merger() *pebble.Merger { return newMerger(&atomic.Pointer[compaction.Registry]{}, nil) }

// newMerger returns the merger of one store. It asks the registry which records may be left out; dropped may be nil.
func newMerger(registry *atomic.Pointer[compaction.Registry], dropped *atomic.Uint64) *pebble.Merger {
	return &pebble.Merger{Name: mergerName, Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		prefixLen, actor, counter, _, ok := keyscheme.ElementDot(key)
		if !ok {
			return newUnion(key, value), nil
		}
		if r := registry.Load(); r != nil && !keyscheme.IsUnresolved(value) && r.Droppable(key[:prefixLen], actor, counter) {
			if dropped != nil {
				dropped.Add(1)
			}
			return gone{}, nil
		}
		if len(value) == 1 && value[0] == keyscheme.ResolvedValue[0] {
			return plain{}, nil
		}
		return &kept{append([]byte(nil), value...)}, nil
	}}
}

// gone is the merger of a record that is left out. Older records of the same key, which should not exist, are left out as well.
type gone struct{}

func (gone) MergeNewer([]byte) error { return nil }
func (gone) MergeOlder([]byte) error { return nil }

func (gone) Finish(bool) ([]byte, io.Closer, error) { return keyscheme.ResolvedValue, nil, nil }

// DeletableFinish implements pebble.DeletableValueMerger.
func (gone) DeletableFinish(bool) ([]byte, bool, io.Closer, error) { return nil, true, nil, nil }

// plain is the merger of an element key without a context. The key is written once, so there is nothing to merge with.
type plain struct{}

func (plain) MergeNewer([]byte) error                { return nil }
func (plain) MergeOlder([]byte) error                { return nil }
func (plain) Finish(bool) ([]byte, io.Closer, error) { return keyscheme.ResolvedValue, nil, nil }

// kept is the merger of any other record that is written once: the newest value stays.
type kept struct{ value []byte }

func (k *kept) MergeNewer(value []byte) error {
	k.value = append(k.value[:0], value...)
	return nil
}
func (k *kept) MergeOlder([]byte) error                { return nil }
func (k *kept) Finish(bool) ([]byte, io.Closer, error) { return k.value, nil, nil }

// union merges the operands of a clock or a tombstone.
type union struct {
	merge        func(dst []byte, operands [][]byte) []byte
	newer, older [][]byte // newer ascending from the first operand, older descending from it
}

func newUnion(key, value []byte) pebble.ValueMerger {
	k, err := keyscheme.Decode(key)
	u := &union{older: [][]byte{append([]byte(nil), value...)}}
	switch {
	case err == nil && k.Kind == keyscheme.KindClock:
		u.merge = keyscheme.MergeClockValues
	case err == nil && (k.Kind == keyscheme.KindClockPage || k.Kind == keyscheme.KindTombstone || k.Kind == keyscheme.KindTombstonePage):
		u.merge = keyscheme.MergeTombstoneValues
	default:
		return &kept{u.older[0]}
	}
	return u
}

func (u *union) MergeNewer(value []byte) error {
	u.newer = append(u.newer, append([]byte(nil), value...))
	return nil
}

func (u *union) MergeOlder(value []byte) error {
	u.older = append(u.older, append([]byte(nil), value...))
	return nil
}

// Finish implements pebble.ValueMerger. It never fails: an error from a merger counts as corruption and stops flushes forever, so
// operands that can't be united are kept verbatim.
func (u *union) Finish(bool) ([]byte, io.Closer, error) {
	if len(u.newer) == 0 && len(u.older) == 1 {
		return u.older[0], nil, nil
	}
	operands := make([][]byte, 0, len(u.older)+len(u.newer))
	for i := len(u.older) - 1; i >= 0; i-- {
		operands = append(operands, u.older[i])
	}
	return u.merge(nil, append(operands, u.newer...)), nil, nil
}

// formatVersion is the Pebble format of a store. In formats below 20, damage to the tail of the log goes unnoticed.
const formatVersion = pebble.FormatNewest

// pebbleOptions returns how a store opens Pebble.
func (d *DB) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	po := BaselineOptions(d.opt.MemTableBytes, d.opt.Tuning)
	po.FS, po.Cache = tableFS{&d.hold, &d.flushRetry}, cache
	po.Merger = newMerger(d.hooks.Registry, &d.Counters.Filtered)
	po.Logger = logger{d.opt.Logger}
	po.EventListener = d.listener()
	po.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{
		func() pebble.BlockPropertyCollector { return &keyCounter{written: &d.Counters.Tabled} },
		func() pebble.BlockPropertyCollector { return &dotCollector{} },
	}
	po.Experimental.IngestSplit = cutting
	if d.opt.Tune != nil {
		d.opt.Tune(po)
	}
	return po
}

// BaselineOptions returns the Pebble options that a store has with that tuning, except for cache, file system, events and drop filter: raw Pebble
// with the same order, table format, bloom filters and sizes, as a baseline to measure against.
func BaselineOptions(memTableBytes int, t bigset.LSM) *pebble.Options {
	po := &pebble.Options{
		Comparer:           Comparer(),
		Merger:             Merger(),
		FormatMajorVersion: formatVersion,
		MemTableSize:       uint64(memTableBytes),
	}
	tune(po, t)
	// Row blocks: columnar ones require prefixes in bytewise order, which a length-prefixed element does not have.
	po.Experimental.EnableColumnarBlocks = func() bool { return false }
	// A swap over keys in a memtable could wait in the queue of memtables. But if a read fails while it is flushed from there,
	// Pebble loses tables. So a swap first flushes what it overlaps, and the rewriter flushes before it holds writers.
	po.Experimental.DisableIngestAsFlushable = func() bool { return true }
	return po
}

// BaselineCache returns a cache that holds that many bytes of blocks. Pebble counts its memtables against the cache: a cache of the
// size of a memtable would silently cache nothing. So two memtables are added, one filled and one being flushed.
func BaselineCache(memTableBytes int, blockCacheBytes int64) *pebble.Cache {
	return pebble.NewCache(blockCacheBytes + 2*int64(memTableBytes))
}
