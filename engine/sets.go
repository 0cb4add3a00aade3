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

// Sets lists the sets that this store knows, in the order of their slots (a hash of the name). SetInfo.Seen is the number of events that
// this store has seen.
func (s *Store) Sets(ctx context.Context, o bigset.SetsOptions) iter.Seq2[bigset.SetInfo, error] {
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	if len(o.After) > 0 {
		b.Lower = keyscheme.NewPrefix(o.After).AppendEnd(nil)
	}
	return func(yield func(bigset.SetInfo, error) bool) {
		stopped := false
		err := s.eachRecordIn(ctx, b, func(r setRecord) bool {
			stopped = (o.Empty || r.Live > 0) && !yield(r.SetInfo, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(bigset.SetInfo{}, err)
		}
	}
}

// eachSet calls f for every set until it returns false.
func (s *Store) eachSet(ctx context.Context, f func(bigset.SetInfo) bool) error {
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
		info := bigset.SetInfo{Name: prefix.Set(), Seen: r.seen.Len(), Live: liveDots(r.seen, r.dead)}
		if !f(setRecord{info, r.seen, r.dead, r.value.Unresolved}) {
			return nil
		}
		ok = it.SeekGE(prefix.AppendEnd(nil))
	}
	return lsm.DiskError(it.Error())
}
