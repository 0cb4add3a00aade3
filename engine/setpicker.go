package engine

import (
	"context"
	"maps"
	"time"

	"bigset/compaction"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

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
