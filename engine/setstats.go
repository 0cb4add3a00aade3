package engine

import (
	"bytes"
	"context"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// SetStats are figures of one set.
type SetStats struct {
	Name           []byte
	Live           uint64 // live dots: elements, and second dots of elements
	Seen, Dead     uint64 // dots
	Unresolved     int64  // unresolved keys (Options.KeepContexts); after a crash possibly too many
	Actors, Gaps   int    // of the clock
	BytesClock     int    // encoded
	BytesTombstone int    // encoded
	BytesHeap      int64  // of both, in memory

	// The following are known of tables only, by the tables' own counts. A table names the sets that have most keys
	// in it, and none with fewer than 64. What was written since the last flush is not included. If a swap has cut a
	// table, they are estimated by its size.
	Keys        uint64   // element keys
	KeysByLevel []uint64 // the same by level of the LSM; nil if no table names the set
	KeysDead    uint64   // Keys beyond the live dots: approximately a lower bound of the dead keys
	BytesTables uint64   // the set's share of the tables
}

func newSetStats(name []byte, seen, dead *clock.Clock, unresolved int64) SetStats {
	return SetStats{
		Name: bytes.Clone(name), Seen: seen.Len(), Dead: dead.Len(), Live: liveDots(seen, dead), Unresolved: unresolved,
		Actors: len(seen.Actors()), Gaps: seen.GapCount(),
		BytesClock:     len(keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: seen})),
		BytesTombstone: len(keyscheme.AppendTombstoneValue(nil, dead)),
		BytesHeap:      int64(seen.HeapBytes() + dead.HeapBytes()),
	}
}

// SetStats returns the figures of one set. Like Stats, it reads the properties of all tables.
func (s *Store) SetStats(ctx context.Context, name []byte) (out SetStats, err error) {
	err = s.withSet(ctx, name, func(st *set) error {
		v := st.view()
		out = newSetStats(st.name, v.seen, v.dead, st.unresolvedKeys())
		tables, err := s.db.ReadTables()
		if err != nil {
			return err
		}
		out.inTables(tabledBySet(tables)[string(st.prefix)])
		return nil
	})
	return out, err
}

// EachSetStats lists the figures of all sets, including sets without a live dot, in the order of their slots. It
// reads every clock and tombstone.
func (s *Store) EachSetStats(ctx context.Context) iter.Seq2[SetStats, error] {
	return func(yield func(SetStats, error) bool) {
		if err := s.db.Enter(); err != nil {
			yield(SetStats{}, err)
			return
		}
		defer s.db.Leave()
		tables, err := s.db.ReadTables()
		if err != nil {
			yield(SetStats{}, err)
			return
		}
		tabled, stopped := tabledBySet(tables), false
		err = s.eachRecord(ctx, func(r setRecord) bool {
			st := newSetStats(r.Name, r.seen, r.dead, r.unresolved)
			st.inTables(tabled[string(keyscheme.NewPrefix(r.Name))])
			stopped = !yield(st, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(SetStats{}, err)
		}
	}
}

// setTables sums what tables record of one set.
type setTables struct {
	keys    uint64
	byLevel []uint64
	bytes   uint64
}

// tabledBySet sums what tables record of each set that they name, by the prefix of its keys.
func tabledBySet(tables []lsm.Table) map[string]setTables {
	all := map[string]setTables{}
	for _, t := range tables {
		for _, sk := range t.Sets {
			s := all[sk.Prefix]
			for len(s.byLevel) <= t.Level {
				s.byLevel = append(s.byLevel, 0)
			}
			s.keys += sk.Keys
			s.byLevel[t.Level] += sk.Keys
			if t.Keys > 0 {
				s.bytes += uint64(float64(t.Bytes) * min(1, float64(sk.Keys)/float64(t.Keys)))
			}
			all[sk.Prefix] = s
		}
	}
	return all
}

func (st *SetStats) inTables(t setTables) {
	st.Keys, st.KeysByLevel, st.BytesTables = t.keys, t.byLevel, t.bytes
	st.KeysDead = t.keys - min(t.keys, st.Live)
}

// setRecord is a set in a list, with its clock and tombstone.
type setRecord struct {
	bigset.SetInfo
	seen, dead *clock.Clock
	unresolved int64
}
