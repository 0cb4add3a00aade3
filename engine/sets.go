package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// SetInfo is a set in a list.
type SetInfo struct {
	Name []byte
	// Live is the number of live dots; 0 if the set is empty.
	Live uint64
	// Seen is the number of events that this store has seen.
	Seen uint64
}

// SetsOptions select the sets of a list. The zero value selects all that have a live dot.
type SetsOptions struct {
	// Empty includes sets without a live dot, dropped or emptied: they keep their clock for ever, so that nothing is
	// resurrected.
	Empty bool
	// After continues a list after a name, which need not be the name of a set. Empty means the beginning.
	After []byte
}

// Sets lists the sets that this store knows, in the order of their slots (a hash of the name).
func (s *Store) Sets(ctx context.Context, o SetsOptions) iter.Seq2[SetInfo, error] {
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	if len(o.After) > 0 {
		b.Lower = keyscheme.NewPrefix(o.After).AppendEnd(nil)
	}
	return func(yield func(SetInfo, error) bool) {
		stopped := false
		err := s.eachRecordIn(ctx, b, func(r setRecord) bool {
			stopped = (o.Empty || r.Live > 0) && !yield(r.SetInfo, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(SetInfo{}, err)
		}
	}
}

// eachSet calls f for every set until it returns false.
func (s *Store) eachSet(ctx context.Context, f func(SetInfo) bool) error {
	return s.eachRecord(ctx, func(r setRecord) bool { return f(r.SetInfo) })
}

// eachRecord calls f for every set until it returns false. It reads clocks and tombstones, which the drop filter
// never drops.
func (s *Store) eachRecord(ctx context.Context, f func(setRecord) bool) error {
	return s.eachRecordIn(ctx, keyscheme.SlotRange(0, keyscheme.SlotMax), f)
}

// eachRecordIn is eachRecord for the sets whose clocks are within the bounds.
func (s *Store) eachRecordIn(ctx context.Context, b keyscheme.Bounds, f func(setRecord) bool) (err error) {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	it, err := s.recordIter(b)
	if err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	return s.eachRecordOf(ctx, it, f)
}

// recordIter opens an iterator over the sets whose clocks are within the bounds.
func (s *Store) recordIter(b keyscheme.Bounds) (*pebble.Iterator, error) {
	s.swapping.Lock() // a sweep swaps clocks, too
	defer s.swapping.Unlock()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	return it, lsm.DiskError(err)
}

// eachRecordOf is eachRecord for the sets that an iterator shows.
func (s *Store) eachRecordOf(ctx context.Context, it *pebble.Iterator, f func(setRecord) bool) error {
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.db.Closed() {
			return bigset.ErrClosed
		}
		key, err := keyscheme.Decode(it.Key())
		if err != nil {
			return fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		switch key.Kind {
		case keyscheme.KindClock:
		case keyscheme.KindSlotBloom, keyscheme.KindSlotMeta: // these come last in their slot
			ok = key.Slot != keyscheme.SlotMax && it.SeekGE(keyscheme.AppendSlot(nil, key.Slot+1))
			continue
		default:
			ok = it.Next() // a stray key, which verify reports
			continue
		}
		prefix := keyscheme.NewPrefix(key.Set)
		r, err := readRecords(it, prefix)
		if err != nil {
			return err
		}
		info := SetInfo{Name: prefix.Set(), Seen: r.seen.Len(), Live: liveDots(r.seen, r.dead)}
		if !f(setRecord{info, r.seen, r.dead, r.value.Unresolved}) {
			return nil
		}
		ok = it.SeekGE(prefix.AppendEnd(nil))
	}
	return lsm.DiskError(it.Error())
}
