package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// RunsOf makes stores that are opened with these options remember dead runs of at least keysMin keys.
func (o *Options) RunsOf(keysMin int) { o.runKeysMin = keysMin }

// HotDots returns the live dots that are remembered of elements of a set, and how many look-ups of all sets these have answered. It fails if an element
// has two entries.
func (s *Store) HotDots(name []byte) (dots map[string][]clock.Dot, hits uint64, err error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return nil, 0, err
	}
	defer s.sets.release(st)
	st.mu.RLock()
	defer st.mu.RUnlock()
	dots = map[string][]clock.Dot{}
	hs := st.hot.Load()
	if hs == nil {
		return dots, s.hot.hits.Load(), nil
	}
	s.hot.each(func(e hotEntry) {
		if e.set() != hs.number {
			return
		}
		if dots[string(e.element())] != nil {
			err = fmt.Errorf("%q is remembered twice", e.element())
		}
		dots[string(e.element())] = slices.DeleteFunc(e.appendDots([]clock.Dot{}, hs.actor), st.dead.Contains)
	})
	return dots, s.hot.hits.Load(), err
}

// each calls f with each entry that can be found.
func (t *hotDots) each(f func(hotEntry)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, at := range s.chains {
			for ; s.has(at); at = s.entry(at).older() {
				if s.entry(at).set() != 0 {
					f(s.entry(at))
				}
			}
		}
		s.mu.Unlock()
	}
}

// KeysLookedUp returns how many look-ups have read keys.
func (s *Store) KeysLookedUp() uint64 { return s.counters.lookUps.Load() - s.hot.hits.Load() }

// OnceLooked makes the next look-up that reads keys call f between them and Dead. No other look-up may be under way.
// The look-up holds locks: another goroutine calls f.
func (s *Store) OnceLooked(f func()) {
	s.looked = func() {
		s.looked = nil
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
}

// UseFewHotShards makes the store remember the elements of few shards, or of all.
func (s *Store) UseFewHotShards(few bool) {
	n := len(s.hot.shards)
	if few {
		n = s.hot.few()
	}
	s.hot.mode.Store(s.hot.newMode(n))
}

// HotBytes returns the bytes that are taken for what is remembered, by the store's sum and by a count, and how many entries can be found.
func (s *Store) HotBytes() (sum, counted int64, entries int) {
	for i := range s.hot.shards {
		shard := &s.hot.shards[i]
		shard.mu.Lock()
		counted += int64(cap(shard.ring) + 4*cap(shard.chains))
		shard.mu.Unlock()
	}
	s.hot.each(func(hotEntry) { entries++ })
	return s.hot.bytes.Load(), counted, entries
}

// Tune makes stores that are opened with these options run Pebble with what f changes; nil changes nothing. f may change how large and how many things are,
// and nothing that decides about keys, order, events or files.
func (o *Options) Tune(f func(*pebble.Options)) { o.tune = f }

// WithoutDotRanges makes stores that are opened with these options write tables that say nothing of the dots in them.
func WithoutDotRanges(po *pebble.Options) {
	po.BlockPropertyCollectors = slices.DeleteFunc(po.BlockPropertyCollectors, func(c func() pebble.BlockPropertyCollector) bool {
		return c().Name() == lsm.DotRangesName
	})
}

// RequestPages returns how many records of requests Requests reads at a time.
func (s *Store) RequestPages(ctx context.Context) (pages []int, err error) {
	keys, err := s.requestKeys(ctx, 0, keyscheme.SlotMax)
	for err == nil && len(keys) > 0 {
		var page []bigset.KeptRequest
		if page, keys, err = s.readRequests(ctx, keys); err == nil {
			pages = append(pages, len(page))
		}
	}
	return pages, err
}

// KeptMillis returns when the records that are to be deleted in turn were stored.
func (s *Store) KeptMillis() (all []uint64) {
	s.requestLog.mu.Lock()
	defer s.requestLog.mu.Unlock()
	for _, r := range s.requestLog.queue {
		all = append(all, r.millis)
	}
	return all
}

// Unsettled returns how many records in tables the drop filter is still asked of: those that have not come to the bottommost level by a
// compaction that wrote them again.
func (s *Store) Unsettled() (n uint64, err error) {
	levels, err := s.db.Pebble().SSTables(pebble.WithProperties())
	if err != nil {
		return 0, err
	}
	for _, tables := range levels {
		for i := range tables {
			n += tables[i].Properties.NumMergeOperands
		}
	}
	return n, nil
}

// LastWritten makes a set one that was last written so long ago.
func (s *Store) LastWritten(name []byte, ago time.Duration) error {
	st, err := s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer s.sets.release(st)
	st.lastWrite.Store(time.Now().Add(-ago).UnixNano())
	return nil
}

// ForgetRecent empties the log of recent writes.
func (s *Store) ForgetRecent() {
	s.recent.mu.Lock()
	defer s.recent.mu.Unlock()
	s.recent.young, s.recent.old = nil, nil
}

// BlocksRead returns how many blocks of tables were asked for since the store was opened.
func (s *Store) BlocksRead() int64 {
	m := s.db.Metrics()
	return m.BlockCache.Hits + m.BlockCache.Misses
}

// TableFormat returns the format that Pebble has for the store.
func (s *Store) TableFormat() pebble.FormatMajorVersion { return s.db.Pebble().FormatMajorVersion() }

// PublisherRound does one round of the publisher, which a store with a negative BackgroundInterval never does by itself.
func (s *Store) PublisherRound() error { return s.publisher.round() }

// RunnerTick does what the background would find due now.
func (s *Store) RunnerTick(ctx context.Context) error { return s.runner.tick(ctx) }

// RunnerForgets makes the runner look again at sets that it had put aside for a while.
func (s *Store) RunnerForgets() {
	clear(s.runner.picker.resting)
	s.runner.sweeps.after = time.Time{}
}

// Pass is what one pass of the rewriter did.
type Pass struct {
	Next          []byte // the element key bound where the span ended; nil at the end of the set
	Keys, Dropped int
	Swapped, Left bool
}

// RewriteSpan runs the rewriter over one span of a set, from a bound on that an earlier pass returned, nil for the start.
func (s *Store) RewriteSpan(ctx context.Context, name, from []byte, deadMin int) (Pass, error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return Pass{}, err
	}
	defer s.sets.release(st)
	bounds := st.prefix.Elements()
	if from != nil {
		bounds.Lower = from
	}
	res, err := s.rewriteSpan(ctx, st, keyscheme.Bounds{Lower: bounds.Lower, Upper: bounds.Upper}, func(sp compaction.Span) bool { return int(sp.Dead) >= deadMin })
	p := Pass{Next: res.Upper, Keys: res.Keys, Dropped: res.Dropped, Swapped: res.Swapped, Left: res.Left}
	if string(p.Next) == string(bounds.Upper) {
		p.Next = nil
	}
	return p, err
}

// RewriteSets runs a sweep over small sets, from a bound on that an earlier one returned, nil for the start. It also returns the
// set at its end that is not for it.
func (s *Store) RewriteSets(ctx context.Context, from []byte, deadMin int) (Pass, []byte, error) {
	bounds := keyscheme.SlotRange(0, keyscheme.SlotMax)
	if from != nil {
		bounds.Lower = from
	}
	res, err := s.rewriteSets(ctx, bounds, func(sp compaction.Span) bool { return int(sp.Dead) >= deadMin })
	p := Pass{Next: res.Upper, Keys: res.Keys, Dropped: res.Dropped, Swapped: res.Swapped, Left: res.Left}
	if string(p.Next) == string(bounds.Upper) {
		p.Next = nil
	}
	return p, res.Own, err
}

// SeenAndDead returns a set's clock and tombstone.
func (s *Store) SeenAndDead(name []byte) (seen, dead *clock.Clock, err error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return nil, nil, err
	}
	defer s.sets.release(st)
	v := st.view()
	return v.seen, v.dead, nil
}

// ClockFlags returns the flags of a set's clock key.
func (s *Store) ClockFlags(name []byte) (keyscheme.ClockFlags, error) {
	value, _, err := s.db.Get(keyscheme.NewPrefix(name).AppendClock(nil))
	if err != nil {
		return 0, err
	}
	v, err := keyscheme.DecodeClockValue(value)
	return v.Flags, err
}

// StoredKeys returns the element keys of a set that an iterator shows now, dead ones included: dot to element.
func (s *Store) StoredKeys(name []byte) (_ map[clock.Dot]string, err error) {
	prefix := keyscheme.NewPrefix(name)
	b := prefix.Elements()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	keys := map[clock.Dot]string{}
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, err
		}
		keys[k.Dot()] = string(k.Element)
	}
	return keys, it.Error()
}

// UnresolvedKeys returns the dots of the unresolved keys of a set.
func (s *Store) UnresolvedKeys(name []byte) (_ map[clock.Dot]struct{}, err error) {
	b := keyscheme.NewPrefix(name).Elements()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	unresolved := map[clock.Dot]struct{}{}
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, err
		}
		if keyscheme.IsUnresolved(it.Value()) {
			unresolved[k.Dot()] = struct{}{}
		}
	}
	return unresolved, it.Error()
}

// UnresolvedCount returns the count of unresolved keys that the set's clock key holds.
func (s *Store) UnresolvedCount(name []byte) (int64, error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return 0, err
	}
	defer s.sets.release(st)
	return st.unresolvedKeys(), nil
}

// AmendUnresolvedCount changes the count of unresolved keys of a set, as a crash may leave it.
func (s *Store) AmendUnresolvedCount(name []byte, by int64) error {
	st, err := s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer s.sets.release(st)
	return s.holding(st, func() error { return s.amend(st, nil, by) })
}

// DiskSeenAndDead returns Seen and Dead of a set as its records on disk say, past the cache.
func (s *Store) DiskSeenAndDead(name []byte) (seen, dead *clock.Clock, err error) {
	st := &set{name: name, prefix: keyscheme.NewPrefix(name)}
	if err := s.load(st); err != nil {
		return nil, nil, err
	}
	return st.seen, st.dead, nil
}

// CompactTables compacts everything that Pebble has, through the drop filter.
func (s *Store) CompactTables(ctx context.Context) error {
	s.db.EndRest() // as Compact does: a compaction would wait a second in a store that was just opened
	b := keyscheme.SlotRange(0, keyscheme.SlotMax)
	return s.db.Pebble().Compact(ctx, b.Lower, b.Upper, true)
}

// SplitRecords makes the store cut clocks and tombstones into pages at these sizes, in bytes. Call it before the store is used.
func (s *Store) SplitRecords(clock, tombstone, operands, page int) {
	s.limits = recordLimits{clock, tombstone, operands, page}
}

// BoundEvents bounds the dots that one operation may find. Call it before the store is used.
func (s *Store) BoundEvents(dots int) { s.eventDotsMax = dots }

// CausalKeys counts the keys on disk that hold a set's clock and tombstone, by kind.
func (s *Store) CausalKeys(name []byte) (_ map[keyscheme.Kind]int, err error) {
	b := keyscheme.NewPrefix(name).Causal()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: b.Lower, UpperBound: b.Upper})
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	kinds := map[keyscheme.Kind]int{}
	for ok := it.First(); ok; ok = it.Next() {
		k, err := keyscheme.Decode(it.Key())
		if err != nil {
			return nil, err
		}
		kinds[k.Kind]++
	}
	return kinds, it.Error()
}

// TrimSets makes the cache forget unused sets now.
func (s *Store) TrimSets() error { return s.sets.trim() }

// WhileTrimmed makes TrimSets call f when it has taken a set out of memory and not yet out of the drop filter.
func (s *Store) WhileTrimmed(f func()) { s.sets.trimmed = f }

// WhenViewed makes readers call f when they have taken a view and not yet opened its iterator. They hold locks: f lets another goroutine
// write.
func (s *Store) WhenViewed(f func()) { s.viewed = f }

// WhenViewing sets a function that a Moment calls after each view that it has taken, while it still takes others.
func (s *Store) WhenViewing(f func()) { s.viewing = f }

// HoldSet holds a set as a look-up may that reads the disk, until release is called.
func (s *Store) HoldSet(name []byte) (release func(), err error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return nil, err
	}
	st.mu.RLock()
	return func() {
		st.mu.RUnlock()
		s.sets.release(st)
	}, nil
}

// Durable reports whether all that was applied is known to be on disk.
func (s *Store) Durable() bool { return s.db.Durable() >= s.db.Applied() }

// InDoubt reports whether the store found, when it was opened, that it must take a new incarnation.
func (s *Store) InDoubt() bool { return s.db.InDoubt() }

// Marked reports whether the disk says that the store has been written since it was opened.
func (s *Store) Marked() bool { return s.db.Marked() }

// Filtered returns how often the drop filter left a record out since the store was opened.
func (s *Store) Filtered() uint64 { return s.db.Counters.Filtered.Load() }

// Added returns how many element keys were written since the store was opened.
func (s *Store) Added() uint64 { return s.counters.added.Load() }

// FlushTables flushes memtables, without first making durable what is in the log.
func (s *Store) FlushTables() error { return s.db.Pebble().Flush() }

// CompactElements compacts the element range of a set, and with it nothing that holds its clock or tombstone alone.
func (s *Store) CompactElements(ctx context.Context, name []byte) error {
	b := keyscheme.NewPrefix(name).Elements()
	return s.db.Pebble().Compact(ctx, b.Lower, b.Upper, true)
}

// ReadSteps reads a set and returns how many keys its last iterator stepped over, and how many runs it seeked over.
func (s *Store) ReadSteps(name []byte, o bigset.ReadOptions) (steps, runs int, elements []string, err error) {
	err = s.reading(context.Background(), name, o, func(_ *set, r *reader) error {
		for !r.done {
			chunk, err := r.next(context.Background())
			if err != nil {
				return err
			}
			for _, e := range chunk.Elements {
				elements = append(elements, string(e.Name))
			}
		}
		steps, runs = r.skip.steps, r.skip.passed
		return nil
	})
	return steps, runs, elements, err
}

// DeadRuns returns the dead runs of a set, and how many readers look for more.
func (s *Store) DeadRuns(name []byte) (runs []string, finders int) {
	st, err := s.sets.acquire(name)
	if err != nil {
		panic(err)
	}
	defer s.sets.release(st)
	d := st.runs.Load()
	if d == nil {
		return nil, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.list {
		runs = append(runs, fmt.Sprintf("%q to %q, %d keys", r.from[len(st.prefix):], r.to[len(st.prefix):], r.keys))
	}
	return runs, len(d.finders)
}

// RunsPassed returns how often readers have seeked over a dead run.
func (s *Store) RunsPassed() uint64 { return s.counters.runsPassed.Load() }

// HoldingWriters runs f while nobody writes the set.
func (s *Store) HoldingWriters(name []byte, f func() error) error {
	st, err := s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer s.sets.release(st)
	return s.holding(st, f)
}

// Queued returns how many requests wait for the writers of a set.
func (s *Store) Queued(name []byte) (int, error) {
	st, err := s.sets.acquire(name)
	if err != nil {
		return 0, err
	}
	defer s.sets.release(st)
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	return len(st.queue), nil
}

// CheckSpace asks the disk for its free space now.
func (s *Store) CheckSpace() { s.db.CheckSpace() }

// KeptRequests returns how many requests are kept on disk.
func (s *Store) KeptRequests() (int, error) {
	kept, err := s.keptRequests(context.Background())
	return len(kept), err
}

// TablesOf makes stores that are opened with these options take portions with at least that many new keys as tables.
func (o *Options) TablesOf(keysMin int) { o.tableKeysMin = keysMin }

// PortionFacts returns what a span says.
func PortionFacts(portion *bigset.Portion) (bigset.Facts, error) { return portion.Facts() }

// ForgetSpace has the next look at the disk happen at once.
func (s *Store) ForgetSpace() { s.db.ForgetSpace() }

const LateKeysMax = lateKeysMax

// CorruptionOf says where the damage is that Pebble reports.
var CorruptionOf = lsm.CorruptionOf

// Held reports whether what the open had to write is in memory.
func (s *Store) Held() bool { return s.db.Holds() }

// StopExcising leaves the filters that are dropped from now on as they are, until the next open.
func (s *Store) StopExcising() { s.filters.Stop() }

// FiltersExcised waits until the filters that were dropped are excised.
func (s *Store) FiltersExcised() {
	began := time.Now()
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			panic(fmt.Sprintf("%d slices of dropped filters are not excised", left))
		}
		left = 0
		err := s.EachKey(keyscheme.Directory(), func(k *keyscheme.Key) {
			if e, _ := keyscheme.DecodeDirectoryKey(k.Rest); e.Kind == keyscheme.EntryLeft {
				left++
			}
		})
		if err != nil {
			panic(err)
		}
	}
}

// FilterKeys counts the keys that the store has of a filter, by generation.
func (s *Store) FilterKeys(name []byte) (keys map[uint64]int, err error) {
	keys = map[uint64]int{}
	err = s.EachKey(keyscheme.NewFilterPrefix(name, 0).All(), func(k *keyscheme.Key) {
		f, _ := keyscheme.DecodeFilterKey(k.Rest)
		keys[f.Generation]++
	})
	return keys, err
}

// EachKey calls f for all keys within some bounds.
func (s *Store) EachKey(b keyscheme.Bounds, f func(*keyscheme.Key)) error {
	return s.db.Each(b, func(raw, _ []byte) error {
		k, err := keyscheme.Decode(raw)
		if err == nil {
			f(&k)
		}
		return err
	})
}

// DB returns the store's Pebble.
func (s *Store) DB() *pebble.DB { return s.db.Pebble() }

// MissesRequest reports whether the store says of a request, without a look at the disk, that nothing is kept of it.
func (s *Store) MissesRequest(set, id []byte) bool {
	return !s.requestLog.mayHave(keyscheme.NewPrefix(set).Request(id).Lower)
}

// RequestOnDisk reports whether the disk has what is kept of a request, however old.
func (s *Store) RequestOnDisk(set, id []byte) (found bool, err error) {
	err = s.db.Each(keyscheme.NewPrefix(set).Request(id), func(_, _ []byte) error {
		found = true
		return nil
	})
	return found, err
}

// SkippedMemTables returns how many elements were looked up in tables alone.
func (s *Store) SkippedMemTables() uint64 { return s.db.Unflushed.Skipped.Load() }

// InsideGate makes the caller a writer that is in the middle of a write, until it calls leave.
func (s *Store) InsideGate() (leave func()) {
	s.gate.mu.RLock()
	return s.gate.mu.RUnlock
}

// Age makes a moment older.
func (m *Moment) Age(by time.Duration) { m.opened = m.opened.Add(-by) }

// Readers returns how many readers of a set are registered.
func (s *Store) Readers(name []byte) (n int64) {
	_ = s.usingSet(context.Background(), name, func(st *set) error {
		n = st.readers.active[0].Load() + st.readers.active[1].Load()
		return nil
	})
	return n
}

// KeyOrder returns the places of elements in the order of their keys.
func KeyOrder(elements [][]byte) []int {
	return keyOrder(len(elements), func(i int) []byte { return elements[i] })
}
