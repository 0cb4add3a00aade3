package system

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/pebbletool"
	"bigset/keyscheme"
)

// Raw is Pebble by hand. It writes the keys that the engine writes, with values of the same sizes, in the same batches, and reads as a
// program written by an expert would. It keeps no clock: the values of clock and tombstone keys are bytes of the right length.
type Raw struct {
	folder  string
	cache   *pebble.Cache
	options *pebble.Options
	db      *pebble.DB
	record  compaction.Record
	write   *pebble.WriteOptions
	// deletes makes removes also delete the element keys, the classical way. reads makes writes get the clock key first.
	deletes, reads bool

	mu       sync.Mutex
	counters map[string]*atomic.Uint64 // the last dot of each set
}

// RawActor has the length of the engine's actors.
const RawActor = clock.Actor("raw-pebble-1")

// OpenRaw opens Pebble by hand in a folder, which it creates.
func OpenRaw(dir string, o Options) (*Raw, error) {
	tuning, err := tuned(o.Pebble)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	po := pebbletool.BaselineOptions(o.MemTableBytes, tuning)
	cache := pebbletool.BaselineCache(o.MemTableBytes, o.CacheBytes)
	po.Cache, po.Logger = cache, quiet{}
	db, err := pebble.Open(dir, po)
	if err != nil {
		cache.Unref()
		return nil, err
	}
	r := &Raw{folder: dir, cache: cache, options: po, db: db, record: o.Record, deletes: o.Deletes, reads: o.ReadsClocks, counters: map[string]*atomic.Uint64{}}
	if old, is := o.Before.(interface {
		lastDots() map[string]*atomic.Uint64
	}); is { // a Raw, or a system built on one
		r.counters = old.lastDots()
	}
	r.write = pebble.NoSync
	if o.Sync {
		r.write = pebble.Sync
	}
	if err := r.meta(metaKeys[0], metaKeys[1]); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// metaKeys stand for the engine's own metadata, before all sets: two are written when a store is made, and one of them and a third before
// the first write. Without them the tables of the two systems would overlap differently, and one would compact when the other does not.
var metaKeys = [][]byte{{1}, {3}, {2}}

func (r *Raw) meta(keys ...[]byte) error {
	b := r.db.NewBatch()
	for _, key := range keys {
		if err := b.Set(key, make([]byte, 64), nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

// mark writes what the engine writes before the first write after an open.
func (r *Raw) mark() error { return r.meta(metaKeys[0], metaKeys[2]) }

// quiet is a logger that writes nothing. It panics if Pebble can't continue.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Errorf("bench: Pebble cannot go on: "+format, args...))
}

func (r *Raw) lastDots() map[string]*atomic.Uint64 { return r.counters }

// DB returns the underlying Pebble, for operations that only it has.
func (r *Raw) DB() *pebble.DB { return r.db }

// PebbleOptions returns the options that it was opened with.
func (r *Raw) PebbleOptions() *pebble.Options { return r.options }

// WriteOptions returns the options of its commits, which say whether they are synced.
func (r *Raw) WriteOptions() *pebble.WriteOptions { return r.write }

// Record returns the kind of record that it writes.
func (r *Raw) Record() compaction.Record { return r.record }

// Dir implements System.
func (r *Raw) Dir() string { return r.folder }

// Close implements System.
func (r *Raw) Close() error {
	err := r.db.Close()
	r.cache.Unref()
	return err
}

// Label implements System.
func (r *Raw) Label() (system, record, strategy string) {
	return NamePebble, r.record.String(), ""
}

// Fill implements System.
func (r *Raw) Fill(elements [][]byte) error {
	s := r.Handle(WarmName())
	if err := errors.Join(r.mark(), s.Insert(elements, nil), r.db.Flush()); err != nil {
		return err
	}
	if err := errors.Join(s.Exchange(nil, nil, nil, nil), r.db.Flush()); err != nil {
		return err
	}
	b := s.prefix.Elements()
	return r.db.Excise(context.Background(), pebble.KeyRange{Start: b.Lower, End: b.Upper})
}

// Settle implements System.
func (r *Raw) Settle(ctx context.Context) (time.Time, error) {
	if err := r.db.Flush(); err != nil {
		return time.Time{}, err
	}
	return Resting(ctx, restEnough, func() (state, bool, error) {
		m := r.db.Metrics()
		st := state{flushes: uint64(m.Flush.Count), compactions: uint64(m.Compact.Count), debt: m.Compact.EstimatedDebt}
		return st, m.Compact.NumInProgress > 0 || m.Flush.NumInProgress > 0, nil
	})
}

// Usage implements System.
func (r *Raw) Usage() (Usage, error) {
	m := r.db.Metrics()
	u := Usage{WAL: m.WAL.BytesWritten}
	for _, l := range m.Levels {
		u.Flush += l.TableBytesFlushed
		u.Compact += l.TableBytesCompacted
		u.Rewrite += l.TableBytesIngested
		u.Read += l.TableBytesRead
		u.Tables += uint64(l.TablesSize)
	}
	return u, nil
}

// Compact implements System.
func (r *Raw) Compact(ctx context.Context, name string) error {
	b := r.Handle(name).prefix.All()
	return errors.Join(r.db.Flush(), r.db.Compact(ctx, b.Lower, b.Upper, false))
}

// Drop writes one range delete.
func (r *Raw) Drop(name string) error {
	b := r.Handle(name).prefix.Elements()
	return r.db.DeleteRange(b.Lower, b.Upper, pebble.Sync)
}

// Verify implements System.
func (r *Raw) Verify(name string, elements int) error { return CountBy(r.Set(name), elements) }

// Set implements System.
func (r *Raw) Set(name string) Set { return r.Handle(name) }

// Handle returns a handle of a set, as Set does.
func (r *Raw) Handle(name string) *RawSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counters[name] == nil {
		r.counters[name] = &atomic.Uint64{}
	}
	s := &RawSet{sys: r, prefix: keyscheme.NewPrefix([]byte(name)), last: r.counters[name]}
	s.clockKey, s.tombstoneKey = s.prefix.AppendClock(nil), s.prefix.AppendTombstone(nil)
	seen := &clock.Clock{}
	seen.AddRange(RawActor, 1, 1<<20)
	s.clockValue = keyscheme.AppendClockValue(nil, keyscheme.ClockValue{Seen: seen})
	return s
}

// RawSet is one set as keys.
type RawSet struct {
	sys                    *Raw
	prefix                 keyscheme.Prefix
	last                   *atomic.Uint64
	clockKey, tombstoneKey []byte
	clockValue             []byte
	tombstones             map[int][]byte // values by the number of removes for which they stand
	buf                    []byte
}

// KeyPrefix returns the prefix of the set's keys.
func (s *RawSet) KeyPrefix() keyscheme.Prefix { return s.prefix }

// LastDot returns the counter of the last dot, which all handles of the set share.
func (s *RawSet) LastDot() *atomic.Uint64 { return s.last }

// Insert implements Set.
func (s *RawSet) Insert(elements [][]byte, dots []uint64) error {
	return s.commit(func(b *pebble.Batch) error {
		return s.add(b, elements, dots)
	})
}

// commit commits a batch of what f writes, followed by the clock key.
func (s *RawSet) commit(f func(b *pebble.Batch) error) (err error) {
	if s.sys.reads {
		_, closer, err := s.sys.db.Get(s.clockKey)
		if err == nil {
			err = closer.Close()
		}
		if err != nil && !errors.Is(err, pebble.ErrNotFound) {
			return err
		}
	}
	b := s.sys.db.NewBatch()
	defer func() {
		if e := b.Close(); err == nil {
			err = e
		}
	}()
	if err := f(b); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(s.clockValue[len(s.clockValue)-8:], s.last.Load())
	if err := b.Set(s.clockKey, s.clockValue, nil); err != nil {
		return err
	}
	return b.Commit(s.sys.write)
}

// add writes element keys.
func (s *RawSet) add(b *pebble.Batch, elements [][]byte, dots []uint64) error {
	last := s.last.Add(uint64(len(elements)))
	for i, e := range elements {
		dot := clock.Dot{Actor: RawActor, Counter: last - uint64(len(elements)-1-i)}
		if len(dots) > 0 {
			dots[i] = dot.Counter
		}
		s.buf = s.prefix.AppendElement(s.buf[:0], e, dot, keyscheme.OpAdd)
		write := b.Merge
		if s.sys.record == compaction.Set {
			write = b.Set
		}
		if err := write(s.buf, keyscheme.ResolvedValue, nil); err != nil {
			return err
		}
	}
	return nil
}

// Exchange implements Set.
func (s *RawSet) Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	s.last.Add(uint64(len(gone)))
	return s.commit(func(b *pebble.Batch) error {
		if err := s.add(b, fresh, freshDots); err != nil {
			return err
		}
		for i := 0; s.sys.deletes && i < len(gone); i++ {
			s.buf = s.prefix.AppendElement(s.buf[:0], gone[i], clock.Dot{Actor: RawActor, Counter: goneDots[i]}, keyscheme.OpAdd)
			if err := b.Delete(s.buf, nil); err != nil {
				return err
			}
		}
		return b.Set(s.tombstoneKey, s.tombstone(len(gone)), nil)
	})
}

// TakeFirst implements Set.
func (s *RawSet) TakeFirst(n int) error {
	taken := 0
	if err := s.Take(n, func([]byte) { taken++ }); err != nil {
		return err
	}
	return Expect("elements taken off", taken, n)
}

// Take implements Set.
func (s *RawSet) Take(n int, each func(element []byte)) error {
	s.last.Add(uint64(n))
	return s.commit(func(b *pebble.Batch) error {
		bounds, taken := s.prefix.Elements(), 0
		it, err := s.sys.db.NewIter(&pebble.IterOptions{LowerBound: bounds.Lower, UpperBound: bounds.Upper})
		if err != nil {
			return err
		}
		for ok := it.First(); ok && taken < n; ok = it.Next() {
			if err := b.Delete(it.Key(), nil); err != nil {
				return errors.Join(err, it.Close())
			}
			if element, _, _, _, ok := keyscheme.DecodeElement(len(s.prefix), it.Key()); ok && each != nil {
				each(element)
			}
			taken++
		}
		return errors.Join(b.Set(s.tombstoneKey, s.tombstone(n), nil), it.Close())
	})
}

// tombstone returns a value of the length by which a tombstone grows with n removes.
func (s *RawSet) tombstone(n int) []byte {
	if s.tombstones == nil {
		s.tombstones = map[int][]byte{}
	}
	if s.tombstones[n] == nil {
		var dead clock.Clock
		for i := range n { // the removed dots are scattered, the removes' own dots are consecutive
			dead.Add(clock.Dot{Actor: RawActor, Counter: 1 + Mix(uint64(i))%(1<<20)})
			dead.Add(clock.Dot{Actor: RawActor, Counter: 1<<20 + uint64(i)})
		}
		s.tombstones[n] = keyscheme.AppendTombstoneValue(nil, &dead)
	}
	return s.tombstones[n]
}

// Contains implements Set.
func (s *RawSet) Contains(element []byte) (found bool, err error) {
	s.buf = s.prefix.AppendElementBound(s.buf[:0], element)
	it, err := s.sys.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return false, err
	}
	if it.SeekPrefixGE(s.buf) {
		_, _, counter, _, ok := keyscheme.DecodeElement(len(s.prefix), it.Key())
		found = ok && counter > 0
	}
	return found, it.Close()
}

// Get looks up the key of an element by its dot, which only a benchmark knows.
func (s *RawSet) Get(element []byte, dot uint64) (bool, error) {
	s.buf = s.prefix.AppendElement(s.buf[:0], element, clock.Dot{Actor: RawActor, Counter: dot}, keyscheme.OpAdd)
	_, closer, err := s.sys.db.Get(s.buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// rawChunk is how many keys a scan reports at a time.
const rawChunk = 1000

// Read implements Set.
func (s *RawSet) Read(limit int, each func(n int)) (err error) {
	b := s.prefix.Elements()
	it, err := s.sys.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok && (limit == 0 || n < limit); ok = it.Next() {
		if _, _, _, _, ok := keyscheme.DecodeElement(len(s.prefix), it.Key()); !ok {
			return errors.Join(fmt.Errorf("%w: key %x", ErrWrong, it.Key()), it.Close())
		}
		if n++; n%rawChunk == 0 {
			each(rawChunk)
		}
	}
	if n%rawChunk > 0 {
		each(n % rawChunk)
	}
	return it.Close()
}

// First implements Set.
func (s *RawSet) First(q Query) (found bool, err error) {
	b := s.prefix.Elements()
	switch {
	case q.Prefix != nil:
		b = s.prefix.Starting(q.Prefix)
	case q.From != nil:
		b = s.prefix.Range(keyscheme.Before(q.From), keyscheme.Before(q.To))
	}
	it, err := s.sys.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return false, err
	}
	if it.First() {
		_, _, _, _, found = keyscheme.DecodeElement(len(s.prefix), it.Key())
	}
	return found, it.Close()
}
