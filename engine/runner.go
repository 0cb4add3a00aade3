package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/compaction"
	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// runner does the background work that is not Pebble's: it cuts out emptied sets and rewrites spans when the strategy says
// so, in one goroutine, and forgets unused sets, in another.
type runner struct {
	s      *Store
	cancel context.CancelFunc
	done   chan struct{}

	mu      lockorder.Mutex[lockorder.RunnerMu]
	emptied []*set // pinned

	surveyed uint64               // the state of the tables when they were last looked at; 0 is never
	tables   []lsm.Table          // what was found then
	resting  map[string]time.Time // sets not to be looked at before
	judged   map[string]uint64    // the survey by which a set was last looked at
	wanted   map[string]time.Time // since when the strategy wants a set rewritten
	spared   map[string]time.Time // sets that are not to be rewritten before while they are written, see spare
	sweeps   sweepPicker
	idle     atomic.Bool // the last tick found nothing to do
}

// A burst of removes is waited out: what is copied while elements die is copied again and again. A set that is being
// written waits this long from when the strategy first wants it, unless it has this many times more garbage than life.
const (
	burstMax        = 3 * time.Second
	burstGarbageMax = 4
)

// due reports whether a set that the strategy wants rewritten is to be worked on now.
func (r *runner) due(prefix string, l compaction.Load, now time.Time) bool {
	since, ok := r.wanted[prefix]
	if !ok {
		r.wanted[prefix], since = now, now
	}
	if l.Quiet > compaction.QuietEnough || l.Garbage() > burstGarbageMax*l.Live {
		return true
	}
	return now.Sub(since) > burstMax && !now.Before(r.spared[prefix])
}

// heldShare: writers of a set are held for swaps at most one in so many parts of the time, so that few of them notice.
const heldShare = 200

// spare leaves a set that is being written alone for a while, after its writers were held. When that is over it need not
// wait for a burst to end again.
func (r *runner) spare(prefix string, held time.Duration, now time.Time) {
	r.wanted[prefix], r.spared[prefix] = now.Add(-burstMax), now.Add(heldShare*held)
}

// restAfterVain is how long a set rests after a look that found no span worth copying, or one that was being written;
// restAfterError after one that failed.
const (
	restAfterVain  = 2 * time.Second
	restAfterError = time.Minute
)

func (r *runner) start(s *Store) {
	r.s, r.done = s, make(chan struct{})
	r.resting, r.wanted, r.judged = map[string]time.Time{}, map[string]time.Time{}, map[string]uint64{}
	r.spared = map[string]time.Time{}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go r.run(ctx)
}

func (r *runner) stop() {
	r.cancel()
	<-r.done
	for _, st := range r.emptied {
		r.s.sets.release(st)
	}
}

func (r *runner) run(ctx context.Context) {
	defer close(r.done)
	if r.s.opt.BackgroundInterval < 0 {
		<-ctx.Done()
		return
	}
	var trimming sync.WaitGroup
	trimming.Go(func() { r.s.sets.trimming(ctx) })
	defer trimming.Wait()
	t := time.NewTicker(r.s.opt.BackgroundInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r.s.db.HasFailed() {
			_ = r.s.db.Room()
			continue
		}
		if err := r.tick(ctx); err != nil && ctx.Err() == nil {
			r.s.db.Counters.BackgroundErrors.Add(1)
			r.s.event(Event{Kind: EventBackground, Err: lsm.DiskError(err)})
		}
	}
}

// tick does what is due.
func (r *runner) tick(ctx context.Context) error {
	r.idle.Store(true)
	_ = r.s.db.Room() // it tells by events
	if r.s.filters.Owes() && !r.s.db.Holds() {
		if err := r.s.filters.Flush(ctx); err != nil {
			return err
		}
	}
	if r.s.db.FlushFull() || r.s.db.Stalled() != nil { // all that follows writes, or waits for flushes
		return nil
	}
	if err := r.s.db.FlushSmallMemTables(r.s.counters.lookUps.Load()); err != nil {
		return err
	}
	err := errors.Join(r.s.forgetRequests(ctx), r.exciseSome(ctx))
	if r.s.strategy.Rewrites() {
		err = errors.Join(err, r.rewriteSome(ctx), r.sweepSome(ctx))
	}
	return err
}

// reclaims reports whether the strategy ever takes anything off the disk.
func (s *Store) reclaims() bool {
	return s.strategy.Filters() || s.strategy.Deletes() || s.strategy.Rewrites()
}

// dropped notes a set that may have become empty: whatever the strategy's way with single keys, a whole set is cut out.
func (r *runner) dropped(st *set) {
	if !r.s.reclaims() {
		return
	}
	r.s.sets.pin(st)
	r.mu.Lock()
	r.emptied = append(r.emptied, st)
	r.mu.Unlock()
}

func (r *runner) exciseSome(ctx context.Context) error {
	r.mu.Lock()
	all := r.emptied
	r.emptied = nil
	r.mu.Unlock()
	var errs []error
	for _, st := range all {
		err := ctx.Err()
		if err == nil {
			err = r.s.exciseEmptied(ctx, st)
		}
		if err == nil {
			r.s.sets.release(st)
			continue
		}
		errs = append(errs, err) // the others go on
		r.mu.Lock()
		r.emptied = append(r.emptied, st)
		r.mu.Unlock()
	}
	return errors.Join(errs...)
}

// rewriteSome looks for the set with the most garbage that the strategy wants rewritten, and works on its densest spans.
func (r *runner) rewriteSome(ctx context.Context) error {
	tables, err := r.s.survey()
	if err != nil {
		return err
	}
	st, load, err := r.choose(tables)
	if st == nil || err != nil {
		return err
	}
	defer r.s.sets.release(st)
	r.idle.Store(false)
	delete(r.wanted, string(st.prefix))
	if err := r.rewriteDensest(ctx, st, load, tables); err != nil { // what is wrong with it must not stop the work on others
		r.resting[string(st.prefix)] = time.Now().Add(restAfterError)
		return err
	}
	return nil
}

// rewriteDensest works on the densest spans of a set.
func (r *runner) rewriteDensest(ctx context.Context, st *set, load compaction.Load, tables []lsm.Table) error {
	index, err := r.s.sample(ctx, st, tables, load.Quiet > compaction.QuietEnough)
	if err != nil {
		return err
	}
	for worked := false; ; worked = true {
		span, ok := index.Densest()
		if !ok || !r.worth(span) || !r.s.strategy.Wants(load) {
			if !worked {
				if err := r.s.recountOnce(ctx, st); err != nil {
					return err
				}
				r.resting[string(st.prefix)] = time.Now().Add(restAfterVain)
			}
			return nil
		}
		index.Remove(span.Lower)
		res, err := r.s.rewriteSpan(ctx, st, keyscheme.Bounds{Lower: span.Lower, Upper: span.Upper}, r.worth)
		if err != nil {
			return err
		}
		if res.Left {
			r.resting[string(st.prefix)] = time.Now().Add(restAfterVain)
			return nil
		}
		load.Keys -= min(load.Keys, uint64(res.Dropped))
		load.Open -= min(load.Open, uint64(res.Closed))
		if err := pause(ctx, int64(span.Bytes)+res.Bytes, r.s.opt.RewriteBytesPerSecond); err != nil {
			return err
		}
		if load.Quiet <= compaction.QuietEnough && res.Held > 0 {
			if r.spare(string(st.prefix), res.Held, time.Now()); !r.due(string(st.prefix), load, time.Now()) {
				return nil
			}
		}
	}
}

// worth reports whether a span is worth copying now. The copy takes room before the span gives it back: when there is little, only
// one is that gives back more than it takes.
func (r *runner) worth(span compaction.Span) bool {
	return r.s.strategy.Worth(span) && (!r.s.db.Tight() || span.Dead > span.Keys-span.Dead)
}

// pause waits for as long as so many bytes take at a rate.
func pause(ctx context.Context, bytes, bytesPerSecond int64) error {
	d := time.Duration(float64(bytes) / float64(bytesPerSecond) * float64(time.Second))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// survey looks at all tables' own counts, if something has changed since the last time.
func (s *Store) survey() ([]lsm.Table, error) {
	c, l := &s.counters, &s.db.Counters
	state := 1 + l.Flushes.Load() + l.Compactions.Load() + c.rewrites.Load() + c.excises.Load()
	if state == s.runner.surveyed {
		return s.runner.tables, nil
	}
	tables, err := s.db.ReadTables()
	if err != nil {
		return nil, err
	}
	s.runner.surveyed, s.runner.tables = state, tables
	return tables, nil
}

// choose returns the set, pinned, with the most garbage of those that the strategy wants rewritten, or nil.
func (r *runner) choose(tables []lsm.Table) (best *set, load compaction.Load, err error) {
	keys := map[string]uint64{}
	for _, t := range tables {
		for _, sk := range t.Sets {
			keys[sk.Prefix] += sk.Keys
		}
	}
	r.forgetAllBut(keys)
	now := time.Now()
	for prefix, n := range keys {
		if until, ok := r.resting[prefix]; ok {
			if now.Before(until) {
				continue
			}
			delete(r.resting, prefix)
		}
		if n <= load.Garbage() || r.judged[prefix] == r.surveyed && !r.s.sets.holds(prefix) {
			continue // nothing has changed since it was looked at
		}
		r.judged[prefix] = r.surveyed
		st, err := r.s.sets.acquire(keyscheme.Prefix(prefix).Set())
		if err != nil {
			continue // damage is for verify to report, and must not stop the work on others
		}
		l := compaction.Load{Keys: n, Live: st.live(), Open: uint64(max(0, st.openKeys())), Quiet: now.Sub(time.Unix(0, st.lastWrite.Load()))}
		wanted := r.s.strategy.Wants(l)
		if !wanted {
			delete(r.wanted, prefix)
			delete(r.spared, prefix)
		} else if !r.due(prefix, l, now) {
			r.idle.Store(false)
			wanted = false
		}
		if l.Garbage() <= load.Garbage() || !wanted {
			r.s.sets.release(st)
			continue
		}
		if best != nil {
			r.s.sets.release(best)
		}
		best, load = st, l
	}
	return best, load, nil
}

// forgetAllBut forgets what was noted of sets that no table names any more.
func (r *runner) forgetAllBut(keys map[string]uint64) {
	gone := func(prefix string) bool { _, there := keys[prefix]; return !there }
	maps.DeleteFunc(r.judged, func(prefix string, _ uint64) bool { return gone(prefix) })
	maps.DeleteFunc(r.wanted, func(prefix string, _ time.Time) bool { return gone(prefix) })
	maps.DeleteFunc(r.resting, func(prefix string, _ time.Time) bool { return gone(prefix) })
}

// samplesPerTable is how many keys of each table of a set are looked at to guess where its garbage is densest.
const samplesPerTable = 64

// sample cuts a set into spans along the bounds of its bottommost tables and guesses each one's density. With all, keys
// count that the filter would drop by itself at the next compaction: nobody writes the set, so there may be none.
func (s *Store) sample(ctx context.Context, st *set, tables []lsm.Table, all bool) (_ *compaction.Index, err error) {
	var cuts []lsm.Table
	for _, t := range tables {
		if len(t.Smallest) >= len(st.prefix) && string(t.Smallest[:len(st.prefix)]) == string(st.prefix) && t.Level == 6 {
			cuts = append(cuts, t)
		}
	}
	slices.SortFunc(cuts, func(a, b lsm.Table) int { return comparator.Compare(a.Smallest, b.Smallest) })
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, lsm.DiskError(err)
	}
	defer lsm.Closing(it, &err)
	elements := st.prefix.Elements()
	span := compaction.Span{Set: string(st.prefix), Lower: elements.Lower}
	index := compaction.NewIndex()
	sampler := sampler{s: s, st: st, view: st.view(), it: it, all: all}
	sampler.look(elements.Lower, &span)
	for _, t := range cuts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := t.Smallest[:comparator.Split(t.Smallest)]
		if span.Bytes >= uint64(s.opt.SpanBytes)/2 && comparator.Compare(at, span.Lower) > 0 {
			span.Upper = at
			index.Put(span)
			span = compaction.Span{Set: span.Set, Lower: at}
		}
		sampler.look(at, &span)
		span.Bytes += t.Bytes
	}
	span.Upper = elements.Upper
	index.Put(span)
	return index, it.Error()
}

// hidden returns how often the filter has left out a key of the set, for readers and for tables.
func (s *Store) hidden(st *set) uint64 { return s.registry.Load().Hits(st.prefix) }

// hiddenSince returns how much hidden has grown. The count starts again when the set leaves the filter.
func (s *Store) hiddenSince(st *set, before uint64) int { return s.hiddenFrom(st.prefix, before) }

// hiddenFrom is hiddenSince of a set that may not be in memory.
func (s *Store) hiddenFrom(prefix keyscheme.Prefix, before uint64) int {
	if now := s.registry.Load().Hits(prefix); now > before {
		return int(now - before)
	}
	return 0
}

// sampler looks at a few keys from a place on.
type sampler struct {
	s    *Store
	st   *set
	view *view
	it   *pebble.Iterator
	all  bool
}

func (p *sampler) look(from []byte, span *compaction.Span) {
	hidden := p.s.hidden(p.st)
	n := 0
	for ok := p.it.SeekGE(from); ok && n < samplesPerTable; ok = p.it.Next() {
		_, actor, counter, _, isElement := keyscheme.DecodeElement(len(p.st.prefix), p.it.Key())
		if !isElement || string(p.it.Key()[:len(p.st.prefix)]) != string(p.st.prefix) {
			break
		}
		n++
		span.Keys++
		if p.garbage(actor, counter) {
			span.Dead++
		}
	}
	if p.all {
		n := uint64(p.s.hiddenSince(p.st, hidden))
		span.Keys += n
		span.Dead += n
	}
}

// garbage reports whether a rewriter could take the key at hand away, or the context that keeps it open.
func (p *sampler) garbage(actor []byte, counter uint64) bool {
	value, err := p.it.ValueAndErr()
	if err != nil || !keyscheme.IsOpen(value) { // an error is found again where the span is read
		return p.view.dead.ContainsBytes(actor, counter)
	}
	wide, err := keyscheme.DecodeElementValue(value)
	return err == nil && p.view.seen.Descends(wide)
}
