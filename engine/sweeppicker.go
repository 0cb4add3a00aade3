package engine

import (
	"context"
	"time"

	"bigset/compaction"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// sweepPicker finds ranges of small sets that are worth a sweep. Tables do not name small sets, and most small sets
// are not in memory. But a bottommost table records how many keys it has of all of them, and neighbours in it are a
// fair sample of them. sweepPicker looks at one table each tick, and looks again only after something was written.
type sweepPicker struct {
	looked map[string]uint64 // smallest key of a table -> number of batches applied when it was looked at, plus one
	rest   keyscheme.Bounds  // what remains of the current range; may be zero
	after  time.Time         // no sweep before this time: writers were held
	large  largeSets
}

// largeSets are the sets that were found too large for a sweep, and when. To find that out a sweep reads as much of a
// set as it copies. Without largeSets it would read a set that is being written at each tick.
type largeSets map[string]time.Time

const (
	largeTime = time.Minute // how long a set counts as large; then it is read again
	largeMax  = 4096        // sets that are remembered
)

// has reports whether a set counts as large.
func (l largeSets) has(prefix keyscheme.Prefix) bool {
	found, ok := l[string(prefix)]
	if ok && time.Since(found) >= largeTime {
		delete(l, string(prefix))
		ok = false
	}
	return ok
}

// note remembers a large set.
func (l *largeSets) note(prefix keyscheme.Prefix) {
	if *l == nil || len(*l) >= largeMax {
		*l = largeSets{}
	}
	(*l)[string(prefix)] = time.Now()
}

// sweepSome sweeps one span of the current range, or of the next one.
func (r *runner) sweepSome(ctx context.Context) error {
	p := &r.sweeps
	if time.Now().Before(p.after) {
		return nil
	}
	if p.rest.Lower == nil {
		tables, err := r.survey()
		if err != nil {
			return err
		}
		if p.rest, err = r.pickSweep(ctx, p.next(tables, r.s.db.Applied()+1)); err != nil || p.rest.Lower == nil {
			return err
		}
	}
	r.idle.Store(false)
	res, err := r.s.rewriteSets(ctx, p.rest, r.worth)
	if err == nil && res.Own != nil {
		err = r.resolveOwn(ctx, res.Own)
	}
	if p.rest.Lower = res.Upper; err != nil || comparator.Compare(p.rest.Lower, p.rest.Upper) >= 0 {
		p.rest = keyscheme.Bounds{}
	}
	if err != nil {
		p.after = time.Now().Add(restAfterError)
		return err
	}
	p.after = time.Now().Add(heldShare * res.Held)
	return pause(ctx, res.Read+res.Bytes, r.s.opt.RewriteBytesPerSecond)
}

// resolveOwn runs the passes of its own that a set with unresolved keys needs. If the sweep ended at the set because
// of its size, or of its tombstone, the set is left to the passes over sets that tables name.
func (r *runner) resolveOwn(ctx context.Context, name []byte) error {
	st, err := r.s.sets.acquire(name)
	if err != nil {
		return err
	}
	defer r.s.sets.release(st)
	if st.unresolvedKeys() == 0 {
		return nil
	}
	return r.s.rewriteAll(ctx, st, &CompactReport{}, func(CompactReport) {})
}

// next returns the table that was looked at least recently, or nil if nothing was written since all were.
func (p *sweepPicker) next(tables []lsm.Table, now uint64) (best *lsm.Table) {
	looked := map[string]uint64{}
	for i := range tables {
		t := &tables[i]
		if t.Level != 6 || smallKeys(t) == 0 {
			continue
		}
		at := p.looked[string(t.Smallest)]
		looked[string(t.Smallest)] = at
		if at != now && (best == nil || at < looked[string(best.Smallest)]) {
			best = t
		}
	}
	if p.looked = looked; best != nil {
		looked[string(best.Smallest)] = now
	}
	return best
}

// smallKeys returns the approximate number of element keys of sets that a table does not name.
func smallKeys(t *lsm.Table) uint64 {
	n := t.Keys
	for _, sk := range t.Sets {
		n -= min(n, sk.Keys)
	}
	return n
}

// wholeSets returns the bounds of the sets that have keys in a table.
func wholeSets(t *lsm.Table) (b keyscheme.Bounds, ok bool) {
	first, err := keyscheme.Decode(t.Smallest)
	if err != nil {
		return b, false // damage, which verify reports
	}
	last, err := keyscheme.Decode(t.Largest)
	if err != nil || last.Kind == keyscheme.KindStoreMeta {
		return b, false
	}
	b = keyscheme.Bounds{Lower: keyscheme.AppendSlot(nil, first.Slot), Upper: keyscheme.SlotSets(last.Slot).Upper}
	if first.PrefixLen() > 0 {
		b.Lower = keyscheme.NewPrefix(first.Set)
	}
	if last.PrefixLen() > 0 {
		b.Upper = keyscheme.NewPrefix(last.Set).AppendEnd(nil)
	}
	return b, true
}

// pickSweep looks at some small sets of a table and returns the range of the table's sets, if the strategy wants them
// rewritten.
func (r *runner) pickSweep(ctx context.Context, t *lsm.Table) (b keyscheme.Bounds, err error) {
	if t == nil {
		return b, nil
	}
	of, ok := wholeSets(t)
	if !ok {
		return b, nil
	}
	n, err := r.s.sampleSets(ctx, of, &r.sweeps.large)
	if err != nil || n.dropped == 0 {
		return b, err
	}
	span := compaction.Span{Lower: of.Lower, Upper: of.Upper, Keys: uint64(n.keys), Dead: uint64(n.dropped), Bytes: t.Bytes}
	keys := smallKeys(t)
	load := compaction.Load{Keys: keys, Live: keys - uint64(float64(keys)*span.Density())}
	if r.s.strategy.Wants(load) && r.worth(span) {
		return of, nil
	}
	return b, nil
}

// sampleSets counts the keys of the first sets of a range. It passes over sets that count as large.
func (s *Store) sampleSets(ctx context.Context, of keyscheme.Bounds, large *largeSets) (n sweepCount, err error) {
	s.passes.RLock() // so that no sweep swaps during the count
	defer s.passes.RUnlock()
	w := &sweep{s: s, SpanFiles: s.db.SpanFiles(), bounds: of}
	if err := w.open(); err != nil {
		return n, lsm.DiskError(err)
	}
	defer lsm.Closing(w.it, &err)
	ok := w.it.First()
	for looked := 0; ok && looked < samplesPerTable; looked++ {
		key, err := keyscheme.Decode(w.it.Key())
		if err != nil || key.Kind != keyscheme.KindClock {
			break
		}
		prefix := keyscheme.NewPrefix(key.Set)
		if large.has(prefix) {
			ok = w.it.SeekGE(prefix.AppendEnd(nil))
			continue
		}
		opens := w.unresolved
		_, small, err := w.set(ctx, prefix, s.ownBytes())
		if err != nil {
			return n, lsm.DiskError(err)
		}
		if ok = w.it.Valid(); !small {
			if w.unresolved == opens { // it is too large, and not only unresolved
				large.note(prefix)
			}
			ok = w.it.SeekGE(prefix.AppendEnd(nil))
		}
		w.arena, w.ends = w.arena[:0], w.ends[:0]
	}
	w.found.keys, w.found.dropped = w.found.keys+w.unresolved, w.found.dropped+w.unresolved // unresolved keys may be garbage
	w.found.read = w.read
	return w.found, lsm.DiskError(w.it.Error())
}
