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
	// Live is the number of live dots; 0 for a set that is empty.
	Live uint64
	// Seen is the number of events that this store knows of.
	Seen uint64
}

// Sets lists the sets of which this store has ever heard, in the order of their slots (a hash of the name). Those without
// a live dot, dropped or emptied, come only with all: they keep their clock for ever, so that nothing comes back.
func (s *Store) Sets(ctx context.Context, all bool) iter.Seq2[SetInfo, error] {
	return s.SetsAfter(ctx, all, nil)
}

// SetsAfter is Sets from behind a name on, which need not be that of a set. An empty one is the beginning.
func (s *Store) SetsAfter(ctx context.Context, all bool, name []byte) iter.Seq2[SetInfo, error] {
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	if len(name) > 0 {
		b.Lower = keyscheme.NewPrefix(name).AppendEnd(nil)
	}
	return func(yield func(SetInfo, error) bool) {
		stopped := false
		err := s.eachRecordIn(ctx, b, func(r setRecord) bool {
			stopped = (all || r.Live > 0) && !yield(r.SetInfo, nil)
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

// eachRecord calls f for every set until it returns false. It reads clocks and tombstones, which no filter touches.
func (s *Store) eachRecord(ctx context.Context, f func(setRecord) bool) error {
	return s.eachRecordIn(ctx, keyscheme.SlotRange(0, keyscheme.SlotMax), f)
}

// eachRecordIn is eachRecord for the sets whose clocks are within some bounds.
func (s *Store) eachRecordIn(ctx context.Context, b keyscheme.Bounds, f func(setRecord) bool) (err error) {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	s.swapping.Lock() // a sweep swaps clocks, too
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	s.swapping.Unlock()
	if err != nil {
		return lsm.DiskError(err)
	}
	defer lsm.Closing(it, &err)
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
			ok = it.Next() // a stray one, that verify reports
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
