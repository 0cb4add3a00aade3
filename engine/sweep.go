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
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A sweep is a pass of the rewriter over many small sets, one range of keys from the first key of a set to the last
// key of another: a swap for each of them would cost more than all that they hold. It works like a pass over a span
// (see rewrite.go), but clocks and tombstones lie within the range, too:
//
//	1 log which sets of the range are written from now on, open an iterator    nobody inside the range gate, microseconds
//	2 copy each set: clock, tombstone and pages folded, the elements that this
//	  tombstone leaves, and unresolved keys
//	3 sync the log
//	4 copy again the sets that were logged, including new ones,                writers of the range held, milliseconds
//	  into the tables that they belong to, sync the log, and swap
//
// Seen and Dead are those on disk, of the moment at which the iterator was opened; no set is loaded for it. A sweep
// resolves no context: sets with unresolved keys are left to a pass of their own, and so are sets too large to be
// copied again in step 4.
type sweep struct {
	s *Store
	lsm.SpanFiles
	bounds keyscheme.Bounds // guarded by the range gate
	late   lateSets

	it         *pebble.Iterator
	read       int    // bytes of keys and values
	arena      []byte // keys and values of the records to keep, one after another
	ends       []int  // where each key and each value ends in arena
	sets       []sweptSet
	tables     []sweptTable
	found      sweepCount
	unresolved int // unresolved keys of the sets that were passed over because of them
}

// sweptSet is a set as it will be kept: its records, by their numbers.
type sweptSet struct {
	prefix      keyscheme.Prefix
	first, last int // last is exclusive
	bytes       int
}

// sweptTable is a new table with whole sets.
type sweptTable struct {
	sets []sweptSet
	path string
}

// sweepCount counts element keys: those read, and of these those left out. For a sample it also counts the bytes
// read.
type sweepCount struct{ keys, dropped, read int }

// sweepResult reports what a sweep did. Its Upper is where the next one begins.
type sweepResult struct {
	passResult
	Sets int    // sets read
	Read int64  // bytes of keys and values
	Own  []byte // a set at the end of the range that needs passes of its own; may be nil
}

// ownBytes is the maximum of bytes of keys and values, dead or not, of a set that is copied together with others.
func (s *Store) ownBytes() int { return min(tableKeysBytes, s.opt.SpanBytes/8) }

// rewriteSets copies small sets from bounds.Lower on, until about SpanBytes, a set that needs passes of its own, or
// bounds.Upper, and swaps them in if worth accepts what was read. Bounds lie between sets. A range without a dead key
// is never worth it.
func (s *Store) rewriteSets(ctx context.Context, bounds keyscheme.Bounds, worth func(compaction.Span) bool) (res sweepResult, err error) {
	began := time.Now()
	s.passes.Lock()
	defer s.passes.Unlock()
	s.counters.rewriting.Add(1)
	defer s.counters.rewriting.Add(-1)
	w := &sweep{s: s, SpanFiles: s.db.SpanFiles(), bounds: bounds}
	if err := s.gate.begin(w, w.open); err != nil {
		return res, fmt.Errorf("engine: rewrite small sets: %w", lsm.DiskError(err))
	}
	defer func() {
		s.gate.end()
		w.RemoveFiles()
	}()
	upper, err := w.collect(ctx, &res)
	if err != nil {
		return res, fmt.Errorf("engine: rewrite small sets: %w", lsm.DiskError(err))
	}
	res.Sets, res.Read, res.Keys, res.Dropped = len(w.sets), int64(w.read), w.found.keys, w.found.dropped
	s.counters.rewriteKeys.Add(uint64(res.Keys))
	span := compaction.Span{Lower: bounds.Lower, Upper: upper, Keys: uint64(res.Keys), Dead: uint64(res.Dropped)}
	if res.Dropped == 0 || !worth(span) {
		return res, nil
	}
	if err := w.writeTables(); err != nil {
		return res, fmt.Errorf("engine: rewrite small sets: %w", lsm.DiskError(err))
	}
	if err := s.flushForSweep(ctx); err != nil {
		return res, err
	}
	if err := s.db.SyncLog(); err != nil {
		return res, err
	}
	held := time.Now()
	if err := s.gate.holding(upper, func() error { return w.swap(ctx, &res) }); err != nil {
		return res, fmt.Errorf("engine: swap small sets: %w", lsm.DiskError(err))
	}
	res.Held = time.Since(held)
	s.report(nil, &res.passResult, time.Since(began))
	return res, nil
}

// flushForSweep flushes the memtable if something was written since the last sweep flushed it: a swap over keys in it
// would flush it while writers are held. A sweep calls it.
func (s *Store) flushForSweep(ctx context.Context) error {
	applied := s.db.Applied()
	if applied == s.swept {
		return nil
	}
	s.swept = applied
	return s.db.FlushTables(ctx)
}

func (w *sweep) covers(prefix keyscheme.Prefix) bool {
	return comparator.Compare(prefix, w.bounds.Lower) >= 0 && comparator.Compare(prefix, w.bounds.Upper) < 0
}

func (w *sweep) open() (err error) {
	w.it, err = w.s.db.NewIter(&pebble.IterOptions{LowerBound: w.bounds.Lower, UpperBound: w.bounds.Upper})
	return err
}

// collect reads sets and keeps their live keys. It returns where they end, and sets in res where to continue.
func (w *sweep) collect(ctx context.Context, res *sweepResult) (upper []byte, err error) {
	defer lsm.Closing(w.it, &err)
	upper = w.bounds.Upper
	res.Upper = upper
	for ok := w.it.First(); ok; ok = w.it.Valid() {
		key, err := keyscheme.Decode(w.it.Key())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
		}
		if key.PrefixLen() == 0 { // a slot's own keys stay in place
			upper, res.Upper = keyscheme.SlotSets(key.Slot).Upper, w.bounds.Upper
			if key.Slot < keyscheme.SlotMax {
				res.Upper = sooner(res.Upper, keyscheme.AppendSlot(nil, key.Slot+1))
			}
			return upper, nil
		}
		prefix := keyscheme.NewPrefix(key.Set)
		if key.Kind != keyscheme.KindClock { // damage, which verify reports
			res.Upper = prefix.AppendEnd(nil)
			return prefix, nil
		}
		if w.read >= w.s.opt.SpanBytes {
			res.Upper = prefix
			return prefix, nil
		}
		set, ok, err := w.set(ctx, prefix, w.s.ownBytes())
		if err != nil {
			return nil, err
		}
		if !ok {
			res.Upper, res.Own = prefix.AppendEnd(nil), prefix.Set()
			return prefix, nil
		}
		w.sets = append(w.sets, set)
	}
	return upper, w.it.Error()
}

// set reads one set to its end; the iterator is at the set's first key. If it returns false the set is not for a
// sweep, and nothing of it is kept.
func (w *sweep) set(ctx context.Context, prefix keyscheme.Prefix, bytesMax int) (_ sweptSet, ok bool, err error) {
	start, first, before := len(w.arena), len(w.ends), w.found
	not := func() (sweptSet, bool, error) {
		w.arena, w.ends, w.found = w.arena[:start], w.ends[:first], before
		return sweptSet{}, false, w.it.Error()
	}
	hidden := w.s.registry.Load().Hits(prefix)
	r, readMax := records{seen: &clock.Clock{}, dead: &clock.Clock{}}, w.read+bytesMax
	for it := w.it; it.Valid() && len(it.Key()) > len(prefix) && string(it.Key()[:len(prefix)]) == string(prefix); it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return sweptSet{}, false, err
		}
		keep, err := w.keeps(&r, prefix, value)
		if err != nil {
			return sweptSet{}, false, err
		}
		// Keys that are left out count, too: a large set with few live keys takes long to read, and is read again
		// while writers are held.
		if w.read += len(it.Key()) + len(value); r.value.Seen == nil || r.value.Unresolved != 0 || w.read > readMax {
			w.unresolved += int(r.value.Unresolved)
			return not()
		}
		if !keep {
			continue
		}
		w.arena = append(w.arena, it.Key()...)
		w.ends = append(w.ends, len(w.arena))
		w.arena = append(w.arena, value...)
		w.ends = append(w.ends, len(w.arena))
	}
	if err := ctx.Err(); err != nil {
		return sweptSet{}, false, err
	}
	if r.deadPages.paged() && liveDots(r.seen, r.dead) == 0 {
		return not() // its tombstone can become small again
	}
	n := w.s.hiddenFrom(prefix, hidden)
	w.found.keys, w.found.dropped = w.found.keys+n, w.found.dropped+n
	return sweptSet{prefix, first / 2, len(w.ends) / 2, len(w.arena) - start}, true, w.it.Error()
}

// keeps decodes a record of a set into r if it is not an element, and reports whether to keep the record.
func (w *sweep) keeps(r *records, prefix keyscheme.Prefix, value []byte) (keep bool, err error) {
	key, err := keyscheme.Decode(w.it.Key())
	if err != nil {
		return false, fmt.Errorf("%w: %w", bigset.ErrCorrupt, err)
	}
	switch key.Kind {
	case keyscheme.KindElement:
		w.found.keys++
		if !keyscheme.IsUnresolved(value) && r.dead.ContainsBytes(key.Actor, key.Counter) {
			w.found.dropped++
			return false, nil
		}
	case keyscheme.KindClock:
		if r.value, err = keyscheme.DecodeClockValue(value); err != nil {
			return false, fmt.Errorf("%w: clock of %q: %w", bigset.ErrCorrupt, prefix.Set(), err)
		}
		r.seen = r.value.Seen
	default:
		if err := r.add(&key, value); err != nil {
			return false, fmt.Errorf("%w: %v of %q: %w", bigset.ErrCorrupt, key.Kind, prefix.Set(), err)
		}
	}
	return true, nil
}

// writeTables writes the sets to new tables.
func (w *sweep) writeTables() error {
	for first := 0; first < len(w.sets); {
		last := first
		for size := 0; last < len(w.sets) && size <= tableKeysBytes; last++ {
			size += w.sets[last].bytes
		}
		t := sweptTable{sets: w.sets[first:last]}
		if err := w.write(&t); err != nil {
			return err
		}
		w.tables = append(w.tables, t)
		first = last
	}
	return nil
}

// write writes the sets of a table.
func (w *sweep) write(t *sweptTable) (err error) {
	t.path, err = w.WriteTable(func(yield func(key, value []byte) error) error {
		for _, st := range t.sets {
			for i := st.first; i < st.last; i++ {
				if err := yield(w.record(i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// record returns the i-th record to keep.
func (w *sweep) record(i int) (key, value []byte) {
	start := 0
	if i > 0 {
		start = w.ends[2*i-1]
	}
	return w.arena[start:w.ends[2*i]], w.arena[w.ends[2*i]:w.ends[2*i+1]]
}

// swap replaces the range by the new tables. Writers of the range are held.
func (w *sweep) swap(ctx context.Context, res *sweepResult) error {
	late, ok, err := w.lateSets(ctx)
	if err != nil {
		return err
	}
	if !ok {
		res.Left = true
		return nil
	}
	if err := w.mergeLate(late); err != nil {
		return err
	}
	// The log must hold everything that the copies hold, and what killed the keys that they leave out, before the
	// swap takes effect.
	if err := w.s.db.SyncLog(); err != nil {
		return err
	}
	paths := make([]string, len(w.tables))
	for i, t := range w.tables {
		paths[i] = t.path
	}
	if err := w.s.swapIn(ctx, w.bounds, paths, 0, false); err != nil {
		return err
	}
	res.Swapped, res.Bytes = true, w.Bytes
	return nil
}

// lateSetsMax is how many sets of a sweep may be written while they are copied. If more are written, the sweep is
// left for later.
const lateSetsMax = 2000

// lateSets reads again, in order, the sets that were written since the sweep began. It reports false if they are too
// many or too large. Writers are held.
func (w *sweep) lateSets(ctx context.Context) (late []sweptSet, ok bool, err error) {
	var prefixes []keyscheme.Prefix
	for p := range w.late.prefixes {
		if w.covers(keyscheme.Prefix(p)) {
			prefixes = append(prefixes, keyscheme.Prefix(p))
		}
	}
	if w.late.over || len(prefixes) > lateSetsMax {
		return nil, false, nil
	}
	slices.SortFunc(prefixes, func(a, b keyscheme.Prefix) int { return comparator.Compare(a, b) })
	if err := w.open(); err != nil {
		return nil, false, err
	}
	defer lsm.Closing(w.it, &err)
	readMax := w.read + lateBytesMax
	for _, p := range prefixes {
		w.it.SeekGE(p)
		set, ok, err := w.set(ctx, p, readMax-w.read)
		if err != nil || !ok {
			return nil, false, err
		}
		late = append(late, set)
		// The write may have added keys of the set's slot (requests.go), which no copy holds: the next sweep ends
		// before them.
		if own := keyscheme.SlotSets(p.Slot()).Upper; w.it.SeekGE(own) && string(w.it.Key()[:keyscheme.SlotBytes]) == string(own[:keyscheme.SlotBytes]) {
			return nil, false, nil
		}
	}
	return late, true, nil
}

// mergeLate writes again the tables into which late sets fall. Late sets replace their earlier copies.
func (w *sweep) mergeLate(late []sweptSet) error {
	byPrefix := func(a, b sweptSet) int { return comparator.Compare(a.prefix, b.prefix) }
	for i := range w.tables {
		t, n := &w.tables[i], len(late)
		if i+1 < len(w.tables) { // those before the next table's first set; the last table takes the rest
			n, _ = slices.BinarySearchFunc(late, w.tables[i+1].sets[0], byPrefix)
		}
		if n == 0 {
			continue
		}
		all := append(slices.Clone(late[:n]), t.sets...)
		slices.SortStableFunc(all, byPrefix)
		t.sets = slices.CompactFunc(all, func(a, b sweptSet) bool { return byPrefix(a, b) == 0 })
		if err := w.write(t); err != nil {
			return err
		}
		late = late[n:]
	}
	return nil
}
