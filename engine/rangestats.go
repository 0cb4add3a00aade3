package engine

import (
	"context"
	"fmt"

	"bigset"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// RangeStats are figures of a range of slots.
type RangeStats struct {
	Bytes uint64 // on disk: sets, pages of filters, and everything else in the slots
	Keys  uint64 // element keys, including dead ones that are not reclaimed yet
	Sets  uint64 // sets that tables name: a lower bound
}

// RangeStats returns approximate figures of the slots from first to last, both included. It reads the properties of
// the tables that overlap the range, and the indexes of those that cross its ends, but no key: the cost grows with
// the number of tables. Unflushed data and logs are not counted.
//
// A table within the range counts whole, so Bytes and Keys are exact for it. For a table that crosses an end, Bytes
// counts the blocks that overlap the range: too much by at most one block at each end, too little by the table's
// index and filter blocks. Keys is divided in proportion to the bytes, so its error is at most the keys of the tables
// that cross the ends. (The first table of a store has the metadata before slot 0, so it always crosses one.) Dead
// keys, and records that newer ones replace, count until they are reclaimed. A table names the sets that have most
// keys in it, and none with fewer than 64, so Sets is a lower bound.
func (r Replica) RangeStats(ctx context.Context, first, last keyscheme.Slot) (RangeStats, error) {
	if first > last {
		return RangeStats{}, fmt.Errorf("%w: slots %08x to %08x", bigset.ErrRequest, first, last)
	}
	if err := r.s.db.Enter(); err != nil {
		return RangeStats{}, err
	}
	defer r.s.db.Leave()
	if err := ctx.Err(); err != nil {
		return RangeStats{}, err
	}
	out, err := r.s.rangeStats(keyscheme.SlotRange(first, last))
	if err != nil {
		return RangeStats{}, fmt.Errorf("engine: figures of slots %08x to %08x: %w", first, last, lsm.DiskError(err))
	}
	return out, nil
}

func (s *Store) rangeStats(b keyscheme.Bounds) (out RangeStats, err error) {
	tables, err := s.db.ReadTablesIn(b)
	if err != nil {
		return RangeStats{}, err
	}
	sets := map[string]struct{}{}
	for i := range tables {
		t := &tables[i]
		out.Bytes += t.Within
		if t.Bytes > 0 {
			out.Keys += uint64(float64(t.Keys) * min(1, float64(t.Within)/float64(t.Bytes)))
		}
		for _, sk := range t.Sets {
			if p := []byte(sk.Prefix); comparator.Compare(p, b.Lower) >= 0 && comparator.Compare(p, b.Upper) < 0 {
				sets[sk.Prefix] = struct{}{}
			}
		}
	}
	out.Sets = uint64(len(sets))
	return out, nil
}
