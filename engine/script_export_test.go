package engine

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/engine/internal/marklog"
	"bigset/fold"
	"bigset/keyscheme"
)

// Published returns those of some dots that the drop filter may drop keys of.
func (s *Store) Published(name []byte, dots *clock.Clock) *clock.Clock {
	published, registry, prefix := &clock.Clock{}, s.registry.Load(), keyscheme.NewPrefix(name)
	for d := range dots.Dots() {
		if registry.Droppable(prefix, []byte(d.Actor), d.Counter) {
			published.Add(d)
		}
	}
	return published
}

// ReadLong is Read with an iterator that does not grow old, however late the consumer comes for the next chunk.
func (s *Store) ReadLong(ctx context.Context, name []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		err := s.reading(ctx, name, o, func(_ *set, r *reader) error {
			for !r.done {
				r.opened = time.Now()
				chunk, err := r.next(ctx)
				if err != nil {
					return err
				}
				if r.timer != nil {
					r.timer.Stop()
				}
				if !yield(chunk, nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// TableRecord is a record in a table.
type TableRecord struct {
	Level int
	Kind  pebble.InternalKeyKind
	Key   []byte
}

// TableRecords returns all records in tables, also those that the drop filter hides from readers, level by level.
func (s *Store) TableRecords() (all []TableRecord, err error) {
	levels, err := s.db.Pebble().SSTables()
	if err != nil {
		return nil, err
	}
	for level, tables := range levels {
		for i := range tables {
			records, err := s.recordsOf(&tables[i])
			if err != nil {
				return nil, err
			}
			for _, r := range records {
				all = append(all, TableRecord{level, r.Kind, r.Key})
			}
		}
	}
	return all, nil
}

// recordsOf returns the records of a table. A swap may have cut it: what is beyond its bounds does not count.
func (s *Store) recordsOf(info *pebble.SSTableInfo) (records []TableRecord, err error) {
	path := s.db.FS().PathJoin(s.db.Dir(), info.BackingSSTNum.String()+".sst")
	file, err := s.db.FS().Open(path, vfs.RandomReadsOption)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, err
	}
	po := lsm.BaselineOptions(1<<20, LSM{})
	po.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), readable, po.MakeReaderOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for kv := it.First(); kv != nil; kv = it.Next() {
		if key := kv.K.UserKey; comparator.Compare(key, info.Smallest.UserKey) >= 0 && comparator.Compare(key, info.Largest.UserKey) <= 0 {
			records = append(records, TableRecord{Kind: kv.Kind(), Key: append([]byte{}, key...)})
		}
	}
	return records, it.Error()
}

// EachRecord calls f for every key and value that an iterator shows, the store's own metadata first.
func (s *Store) EachRecord(f func(k *keyscheme.Key, key, value []byte)) (err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer lsm.Closing(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		f(&k, it.Key(), value)
	}
	return it.Error()
}

// MarksInLog calls f for each mark in the log of marks: the segment's place among the segments, the filter's generation, and the key's hash.
func (s *Store) MarksInLog(f func(segment int, generation uint64, hash bloomslice.Hash)) (segments int, err error) {
	var log marklog.Log
	log.Init(s.db, 0, nil)
	if segments, err = log.Find(); err != nil {
		return 0, err
	}
	return segments, log.Replay(func(segment int, records []byte) error {
		for len(records) > 0 {
			r, rest, err := marklog.DecodeRecord(records)
			if err != nil {
				return err
			}
			f(segment, r.Generation, r.Hash)
			records = rest
		}
		return nil
	})
}

// Swapping holds Store.swapping as a swap does, until end is called. waits reports whether a goroutine waits to lock it.
func (s *Store) Swapping() (waits func() bool, end func()) {
	s.swapping.RLock()
	return func() bool {
		if !s.swapping.TryRLock() {
			return true
		}
		s.swapping.RUnlock()
		return false
	}, s.swapping.RUnlock
}
