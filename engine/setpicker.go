package engine

import (
	"context"
	"maps"
	"time"

	"bigset/compaction"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// setPicker finds the next set to rewrite among those that tables name. It remembers by prefix what earlier looks
// found.
type setPicker struct {
	resting  map[string]time.Time // sets that must not be looked at before a time
	lookedAt map[string]uint64    // the survey at which a set was last looked at
	wanted   map[string]time.Time // since when the strategy wants a set rewritten
	spared   map[string]time.Time // sets that must not be rewritten before a time while they are written, see spare
}

func newSetPicker() setPicker {
	return setPicker{
		resting: map[string]time.Time{}, lookedAt: map[string]uint64{}, wanted: map[string]time.Time{}, spared: map[string]time.Time{},
	}
}

// restAfterVain is how long a set rests after a look that found no span worth copying, or a span that was being
// written; restAfterError is how long it rests after a look that failed.
const (
	restAfterVain  = 2 * time.Second
	restAfterError = time.Minute
)

func (p *setPicker) rest(prefix keyscheme.Prefix, d time.Duration) {
	p.resting[string(prefix)] = time.Now().Add(d)
}

// rests reports whether a set must not be looked at yet.
func (p *setPicker) rests(prefix string, now time.Time) bool {
	until, ok := p.resting[prefix]
	if ok && !now.Before(until) {
		delete(p.resting, prefix)
		return false
	}
	return ok
}

// The rewriter waits for a burst of removes to end: spans that are copied while elements die are copied again and
// again. A set that is being written waits burstMax from when the strategy first wants it, unless its garbage is more
// than burstGarbageMax times its live keys.
const (
	burstMax        = 3 * time.Second
	burstGarbageMax = 4
)

// due reports whether a set that the strategy wants rewritten should be rewritten now.
func (p *setPicker) due(prefix string, l compaction.Load, now time.Time) bool {
	since, ok := p.wanted[prefix]
	if !ok {
		p.wanted[prefix], since = now, now
	}
	if l.Quiet > compaction.QuietEnough || l.Garbage() > burstGarbageMax*l.Live {
		return true
	}
	return now.Sub(since) > burstMax && !now.Before(p.spared[prefix])
}

// heldShare: swaps hold the writers of a set for at most one part in heldShare of the time, so that few writers
// notice.
const heldShare = 200

// spare leaves a set that is being written alone for a while, after its writers were held. After that it need not
// wait for the end of a burst again.
func (p *setPicker) spare(prefix string, held time.Duration, now time.Time) {
	p.wanted[prefix], p.spared[prefix] = now.Add(-burstMax), now.Add(heldShare*held)
}

// forgetAllBut forgets what was recorded of sets that no table names any more.
func (p *setPicker) forgetAllBut(keys map[string]uint64) {
	gone := func(prefix string) bool { _, there := keys[prefix]; return !there }
	maps.DeleteFunc(p.lookedAt, func(prefix string, _ uint64) bool { return gone(prefix) })
	maps.DeleteFunc(p.wanted, func(prefix string, _ time.Time) bool { return gone(prefix) })
	maps.DeleteFunc(p.spared, func(prefix string, _ time.Time) bool { return gone(prefix) })
	maps.DeleteFunc(p.resting, func(prefix string, _ time.Time) bool { return gone(prefix) })
}

// rewriteSome looks for the set with the most garbage that the strategy wants rewritten, and works on its densest spans.
func (r *runner) rewriteSome(ctx context.Context) error {
	tables, err := r.survey()
	if err != nil {
		return err
	}
	st, load := r.choose(tables)
	if st == nil {
		return nil
	}
	defer r.s.sets.release(st)
	r.idle.Store(false)
	delete(r.picker.wanted, string(st.prefix))
	if err := r.rewriteDensest(ctx, st, load, tables); err != nil { // an error in this set must not stop the work on others
		r.picker.rest(st.prefix, restAfterError)
		return err
	}
	return nil
}

// choose returns, pinned, the set with the most garbage among those that the strategy wants rewritten, or nil.
func (r *runner) choose(tables []lsm.Table) (best *set, load compaction.Load) {
	keys := map[string]uint64{}
	for _, t := range tables {
		for _, sk := range t.Sets {
			keys[sk.Prefix] += sk.Keys
		}
	}
	p, now := &r.picker, time.Now()
	p.forgetAllBut(keys)
	for prefix, n := range keys {
		if p.rests(prefix, now) || n <= load.Garbage() {
			continue
		}
		if p.lookedAt[prefix] == r.surveyed && !r.s.sets.holds(prefix) {
			continue // nothing has changed since the last look
		}
		p.lookedAt[prefix] = r.surveyed
		st, err := r.s.sets.acquire(keyscheme.Prefix(prefix).Set())
		if err != nil {
			continue // damage is for verify to report, and must not stop the work on others
		}
		if l := st.weigh(n, now); r.wants(prefix, l, now) && l.Garbage() > load.Garbage() {
			st, best, load = best, st, l
		}
		if st != nil {
			r.s.sets.release(st)
		}
	}
	return best, load
}

// weigh returns the load of a set with the given number of keys in tables.
func (st *set) weigh(keys uint64, now time.Time) compaction.Load {
	quiet := now.Sub(time.Unix(0, st.lastWrite.Load()))
	return compaction.Load{Keys: keys, Live: st.live(), Unresolved: uint64(max(0, st.unresolvedKeys())), Quiet: quiet}
}

// wants reports whether a set should be rewritten now.
func (r *runner) wants(prefix string, l compaction.Load, now time.Time) bool {
	if !r.s.strategy.Wants(l) {
		delete(r.picker.wanted, prefix)
		delete(r.picker.spared, prefix)
		return false
	}
	if !r.picker.due(prefix, l, now) {
		r.idle.Store(false)
		return false
	}
	return true
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
			if worked {
				return nil
			}
			if err := r.s.recountOnce(ctx, st); err != nil {
				return err
			}
			r.picker.rest(st.prefix, restAfterVain)
			return nil
		}
		index.Remove(span.Lower)
		res, err := r.s.rewriteSpan(ctx, st, keyscheme.Bounds{Lower: span.Lower, Upper: span.Upper}, r.worth)
		if err != nil {
			return err
		}
		if res.Left {
			r.picker.rest(st.prefix, restAfterVain)
			return nil
		}
		load.Keys -= min(load.Keys, uint64(res.Dropped))
		load.Unresolved -= min(load.Unresolved, uint64(res.Resolved))
		if err := pause(ctx, int64(span.Bytes)+res.Bytes, r.s.opt.RewriteBytesPerSecond); err != nil {
			return err
		}
		if load.Quiet <= compaction.QuietEnough && res.Held > 0 {
			if r.picker.spare(string(st.prefix), res.Held, time.Now()); !r.picker.due(string(st.prefix), load, time.Now()) {
				return nil
			}
		}
	}
}
