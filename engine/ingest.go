package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"bigset"
	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// A portion of another store is ingested as tables, which is faster than key by key.
//
//	1 leave out the keys whose dots are seen or dead, write the rest to tables    no lock is held: the caller's pace may make it slow
//	2 if a dot has been seen since then, begin again at 1                         writers held, milliseconds
//	  sync the log; clock and tombstone go to a table, too
//	3 ingest all tables at once; then Seen and Dead in memory
//
// So key and dot enter together (R0), and no table holds a key that the store has, not even for a moment: of two
// copies of a key the drop filter could leave out one and not the other (Pebble issue 6168). The log is synced
// because Seen, which is durable with the tables, names the dots of batches that may not be durable.

// ingestKeysMin is the number of new keys below which a portion is applied as facts.
const ingestKeysMin = 1000

// ingestTries is how often keys are chosen again, because some of them arrived in between, before writers are held
// for it.
const ingestTries = 3

// Pace says how fast a portion is ingested.
type Pace = func(ctx context.Context, part float64) error

// IngestPortion ingests a portion of another store, by the rules of ApplyFacts: each key is checked against what this
// store has seen at the moment at which it enters, and portion.Dead is added to Dead. The portion is durable when
// IngestPortion returns, and a crash leaves all of it or nothing. Portions may come in any order and any number of
// times.
//
// IngestPortion returns bigset.ErrFacts for a portion that is malformed or names dots that this store has never
// issued, and bigset.ErrLimit for one that is too large. With these errors, and with any other that does not wrap
// bigset.ErrFailed, nothing has changed.
//
// pace, if not nil, is called before each part of a new table is written, with how much of the keys is then written, up to 1. It may wait. It
// is not called for keys that are applied as facts, nor for a table that is written again.
func (r Replica) IngestPortion(ctx context.Context, portion *bigset.Portion, pace Pace) (res bigset.FactsResult, err error) {
	if err := bigset.CheckName(portion.Set); err != nil {
		return res, err
	}
	if err := bigset.CheckClock(portion.Dead); err != nil {
		return res, err
	}
	err = r.s.usingSet(ctx, portion.Set, func(st *set) error {
		in := &ingestion{copied: copied{s: r.s, SpanFiles: r.s.db.SpanFiles()}, st: st, dead: portion.Dead}
		if err := in.unpack(portion); err != nil {
			return err
		}
		if err := errors.Join(r.s.db.Writable(), r.s.db.Room()); err != nil {
			return err
		}
		res, err = in.run(ctx, pace)
		return err
	})
	return res, err
}

// ingestion is one IngestPortion.
type ingestion struct {
	copied  // the chosen keys
	st      *set
	dead    *clock.Clock
	keys    []byte              // the portion's keys, one after the other
	keyEnds []int               // where each key ends in keys
	dots    []bigset.PortionDot // of each key
	actors  []clock.Actor
	all     *clock.Clock
	brought *clock.Clock
}

// unpack copies the portion's keys and checks them.
func (in *ingestion) unpack(portion *bigset.Portion) error {
	r := bigset.NewPortionReader(portion.Keys)
	count := max(0, min(portion.Count, len(portion.Keys)/bigset.PortionKeyBytesMin))
	in.keyEnds, in.dots = make([]int, 0, count), make([]bigset.PortionDot, 0, count)
	for n := 0; r.More(); n++ {
		element, dot, err := r.Next()
		if err != nil {
			return err
		}
		from := len(in.keys)
		in.keys = in.st.prefix.AppendElement(in.keys, element, r.Dot(dot), keyscheme.OpAdd)
		if n == 0 { // the others may be about as long
			in.keys = slices.Grow(in.keys, min(count*len(in.keys), 2*bigset.PortionBytesMax))
		}
		if n := len(in.keys); n > 2*bigset.PortionBytesMax {
			return &bigset.LimitError{What: "bytes of keys in a portion", Got: n, Max: 2 * bigset.PortionBytesMax}
		}
		if n > 0 && (r.Order() < 0 || r.Order() == 0 && comparator.Compare(in.inKey(n-1), in.keys[from:]) >= 0) {
			return fmt.Errorf("%w: a portion's keys are not in order", bigset.ErrFacts)
		}
		in.keyEnds, in.dots = append(in.keyEnds, len(in.keys)), append(in.dots, dot)
	}
	if len(in.dots) != portion.Count {
		return fmt.Errorf("%w: a portion of %d keys holds %d", bigset.ErrFacts, portion.Count, len(in.dots))
	}
	in.actors = r.Actors()
	return in.gather()
}

// gather makes a clock of the portion's dots.
func (in *ingestion) gather() error {
	in.all = &clock.Clock{}
	counters := make([][]uint64, len(in.actors))
	if len(counters) == 1 {
		counters[0] = make([]uint64, 0, len(in.dots))
	}
	for _, d := range in.dots {
		counters[d.Actor] = append(counters[d.Actor], d.Counter)
	}
	for i, a := range in.actors {
		in.all.AddAll(a, counters[i])
	}
	if in.all.Len() != uint64(len(in.dots)) {
		return fmt.Errorf("%w: a dot comes twice in a portion", bigset.ErrFacts)
	}
	return nil
}

func (in *ingestion) dot(i int) clock.Dot {
	return clock.Dot{Actor: in.actors[in.dots[i].Actor], Counter: in.dots[i].Counter}
}

func (in *ingestion) inKey(i int) []byte {
	from := 0
	if i > 0 {
		from = in.keyEnds[i-1]
	}
	return in.keys[from:in.keyEnds[i]]
}

func (in *ingestion) run(ctx context.Context, pace Pace) (bigset.FactsResult, error) {
	defer func() { in.RemoveFiles() }()
	in.s.passes.RLock() // not in the middle of a drop, when the actor is new and the view is not yet
	actor := in.s.actorOf(in.st)
	in.s.passes.RUnlock()
	tables, err := in.prepare(ctx, pace)
	if err != nil {
		return bigset.FactsResult{}, err
	}
	in.s.passes.RLock() // a concurrent pass or sweep would copy its span without these keys
	defer in.s.passes.RUnlock()
	in.st.passes.Lock()
	defer in.st.passes.Unlock()
	for try := 1; ; try++ {
		if try > 1 || in.s.actorOf(in.st) != actor { // in a range that was dropped since, no key is left out as seen
			if tables, err = in.prepare(ctx, nil); err != nil {
				return bigset.FactsResult{}, err
			}
		}
		if !tables {
			return in.apply(ctx)
		}
		if err := errors.Join(in.s.flushFor(ctx, in.st.lastWrite.Load()), in.s.db.SyncLog()); err != nil {
			return bigset.FactsResult{}, err
		}
		in.Warm(in.st.prefix) // now, because writers wait for what is read below
		var res bigset.FactsResult
		var again bool
		err := in.s.holding(in.st, func() (err error) {
			if again = in.st.next.Intersects(in.brought); again && try < ingestTries {
				return nil
			} else if again {
				in.Whole = true
				if in.choose(in.st.next); len(in.ends) > 0 {
					err = in.writeKeys(ctx, nil)
				}
			}
			again = false
			if err == nil {
				res, err = in.ingest(ctx)
			}
			return err
		})
		if err != nil {
			return bigset.FactsResult{}, fmt.Errorf("engine: ingest into %q: %w", in.st.name, lsm.DiskError(err))
		}
		if !again {
			return res, nil
		}
	}
}

// prepare writes the keys that are new to a table. It reports false, and writes none, if they are few.
func (in *ingestion) prepare(ctx context.Context, pace Pace) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	in.choose(in.st.view().seen)
	if len(in.ends) < in.s.opt.tableKeysMin {
		return false, nil
	}
	if err := in.writeKeys(ctx, pace); err != nil {
		return false, fmt.Errorf("engine: ingest into %q: %w", in.st.name, lsm.DiskError(err))
	}
	return true, nil
}

// choose picks the keys whose dots are neither seen nor dead.
func (in *ingestion) choose(seen *clock.Clock) {
	in.tables, in.brought = nil, in.all.Clone()
	in.brought.Subtract(seen)
	in.brought.Subtract(in.dead)
	n := int(in.brought.Len())
	if n == len(in.dots) {
		in.arena, in.ends = in.keys, in.keyEnds
		return
	}
	in.arena, in.ends = make([]byte, 0, (len(in.keys)/len(in.dots)+1)*n), make([]int, 0, n)
	for i := range in.dots {
		if in.brought.Contains(in.dot(i)) {
			in.keep(keptKey{in.inKey(i), keyscheme.ResolvedValue})
		}
	}
}

// paceBytes is how many bytes of keys are written between two calls of a Pace.
const paceBytes = 256 << 10

// writeKeys writes the chosen keys to one table.
func (in *ingestion) writeKeys(ctx context.Context, pace Pace) (err error) {
	t := copiedTable{last: len(in.ends)}
	keys := in.merging(t, nil)
	if pace != nil {
		keys = in.paced(ctx, keys, pace)
	}
	t.path, err = in.WriteTable(keys)
	in.tables = []copiedTable{t}
	return err
}

// paced yields keys at a pace.
func (in *ingestion) paced(ctx context.Context, keys func(func(key, value []byte) error) error, pace Pace) func(func(key, value []byte) error) error {
	return func(yield func(key, value []byte) error) error {
		done, next := 0, 0
		return keys(func(key, value []byte) error {
			if done >= next {
				next = min(len(in.arena), next+paceBytes)
				if err := pace(ctx, float64(next)/float64(len(in.arena))); err != nil {
					return err
				}
			}
			done += len(key)
			return yield(key, value)
		})
	}
}

// apply applies the portion as facts: little of it is new.
func (in *ingestion) apply(ctx context.Context) (bigset.FactsResult, error) {
	f := bigset.Facts{Set: in.st.name, Dead: in.dead}
	for i := range in.dots {
		dot := in.dot(i)
		if !in.brought.Contains(dot) {
			continue // seen or dead, which never changes
		}
		element, _, _, _, _ := keyscheme.DecodeElement(len(in.st.prefix), in.inKey(i))
		f.Keys = append(f.Keys, fold.Element{Name: element, Dots: []clock.Dot{dot}})
	}
	own := in.s.actorOf(in.st)
	if err := in.checkOwn(own, in.st.view().seen.Max(own)); err != nil { // also for keys that are left out
		return bigset.FactsResult{}, err
	}
	return in.s.Replica().ApplyFacts(ctx, f, bigset.ApplyOptions{Durability: bigset.Sync})
}

// checkOwn refuses a portion with dots of this store's own actor after the last one that it issued.
func (in *ingestion) checkOwn(own clock.Actor, last uint64) error {
	if named := max(in.all.Max(own), in.dead.Max(own)); named > last {
		return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", bigset.ErrFacts, named, last)
	}
	return nil
}

// ingest adds the tables, together with clock and tombstone, to the store. Writers are held.
func (in *ingestion) ingest(ctx context.Context) (res bigset.FactsResult, err error) {
	s, st := in.s, in.st
	b := s.newBuilder(st, nil)
	defer b.release()
	if err := in.checkOwn(b.actor, b.counter); err != nil {
		return res, err
	}
	defer func() {
		if err != nil {
			st.resetNext()
		}
	}()
	res.Dead = b.addAllDead(in.dead)
	res.Keys = uint64(len(in.ends))
	b.brought, b.sibling, b.added = in.brought, true, len(in.ends)
	if st.next.Union(in.brought); b.empty() {
		return res, nil
	}
	if b.finish(); b.err != nil {
		return res, b.err
	}
	if err := errors.Join(s.db.Writable(), s.db.Mark(), s.db.SyncLog()); err != nil {
		return res, err
	}
	causal, err := in.writeBatch(b.batch)
	if err != nil {
		return res, err
	}
	paths := append([]string{causal}, in.tablePaths()...)
	if b.runs != nil && len(in.ends) > 0 {
		b.runs.splitRange(keyRange{in.key(0), in.key(len(in.ends) - 1)})
	}
	// Pebble calls only one error fatal here: a MANIFEST that cannot be written. It cannot be recovered from, and the
	// process ends.
	if err := s.db.Ingest(ctx, &in.SpanFiles, paths); err != nil {
		if b.runs != nil {
			b.runs.applied()
		}
		st.forgetHot()
		return res, err
	}
	batch := b.batch
	b.publish()
	st.touch(false)
	s.sets.account(st)
	s.counters.ingests.Add(1)
	s.counters.ingestBytes.Add(uint64(in.Bytes))
	return res, batch.Close()
}

// writeBatch writes the records of a batch to a table.
func (in *ingestion) writeBatch(batch *pebble.Batch) (path string, err error) {
	type record struct {
		kind       pebble.InternalKeyKind
		key, value []byte
	}
	var records []record
	for r := batch.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return "", err
		}
		if !ok {
			break
		}
		records = append(records, record{kind, key, value})
	}
	slices.SortFunc(records, func(a, b record) int { return comparator.Compare(a.key, b.key) })
	return in.WriteRecords(func(w *sstable.Writer) (err error) {
		for _, r := range records {
			switch r.kind {
			case pebble.InternalKeyKindSet:
				err = errors.Join(err, w.Set(r.key, r.value))
			case pebble.InternalKeyKindMerge:
				err = errors.Join(err, w.Merge(r.key, r.value))
			default:
				err = errors.Join(err, fmt.Errorf("engine: a record of kind %v beside a portion", r.kind))
			}
		}
		return err
	})
}

// splitRange is split for all keys of a closed range.
func (d *deadRuns) splitRange(s keyRange) {
	s.first, s.last = slices.Clone(s.first), slices.Clone(s.last)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = s
	for i := len(d.list) - 1; i >= 0; i-- {
		if r := d.list[i]; comparator.Compare(r.to, s.first) > 0 && comparator.Compare(r.from, s.last) <= 0 {
			d.replace(i, i+1)
		}
	}
	if h := d.head; h != nil && comparator.Compare(h.to, s.first) > 0 && comparator.Compare(h.from, s.last) <= 0 {
		d.setHead(nil)
	}
	for _, f := range d.finders {
		f.wrote(s)
	}
}
