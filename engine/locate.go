package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/fold"
	"bigset/keyscheme"
)

// Bounds of what one step of Locate yields: keys, bytes of their elements, and runs of counters in Dead.
const (
	locateKeysMax  = 1000
	locateBytesMax = 1 << 20
	locateRunsMax  = 10_000
)

// Locate looks up dots of a set. For each it yields the key, or that the dot is dead, or nothing. A dot that is not
// named may be unknown here, or its key may be lost. Answers come in chunks of at most 1,000 keys, each right by
// itself. Keys come before deaths, so a receiver that applies them in order stores the replacement before it drops
// the replaced dot. A dot that dies during the call may be in both.
//
// Locate searches the log of recent writes, which is in memory (KeepRecent). If some keys are not in it, one scan of
// the set follows. It ends with the last of those keys and skips blocks that are known to hold none. Locate returns
// bigset.ErrNotFound if the store does not know the set, and bigset.ErrUnresolved for a requested key with an
// unresolved context. The clock must not change during the call.
func (r Replica) Locate(ctx context.Context, name []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		r.KeepRecent()
		stopped := false
		err := r.s.withSet(ctx, name, func(st *set) error {
			l := &locating{s: r.s, st: st, yield: func(f bigset.Facts) bool {
				f.Set = st.name
				stopped = !yield(f, nil)
				return !stopped
			}}
			if err := l.run(ctx, dots); err != nil {
				return fmt.Errorf("engine: locate dots of %q: %w", st.name, lsm.DiskError(err))
			}
			return nil
		})
		if err != nil && !stopped {
			yield(bigset.Facts{}, err)
		}
	}
}

// locating is one Locate.
type locating struct {
	s     *Store
	st    *set
	want  *clock.Clock // dots whose keys are searched for
	got   *clock.Clock // those of want that were found
	left  uint64       // how many were not found
	keys  []fold.Element
	bytes int // bytes of elements
	yield func(bigset.Facts) bool
}

func (l *locating) run(ctx context.Context, dots *clock.Clock) error {
	v := l.st.view()
	dead := v.dead.Clone()
	dead.Intersect(dots)
	l.want = v.seen.Clone()
	l.want.Intersect(dots)
	l.want.Subtract(dead)
	if l.got, l.left = (&clock.Clock{}), l.want.Len(); l.left > 0 {
		if on, err := l.yieldLive(ctx); !on || err != nil {
			return err
		}
	}
	if l.left > 0 { // a dot that was not found may have died since
		l.want.Subtract(l.got)
		died := l.st.view().dead.Clone()
		died.Intersect(l.want)
		dead.Union(died)
	}
	l.yieldDead(dead)
	return nil
}

// yieldLive searches for the keys and yields them. It reports whether to continue.
func (l *locating) yieldLive(ctx context.Context) (bool, error) {
	if !l.lookInLog() {
		return false, nil
	}
	if l.left == 0 {
		return true, nil
	}
	return l.scan(ctx)
}

// yieldDead yields a clock of dead dots in parts. It reports whether to continue.
func (l *locating) yieldDead(dead *clock.Clock) bool {
	part, runs := &clock.Clock{}, 0
	for run := range dead.Runs() {
		part.AddRange(run.Actor, run.First, run.Last)
		if runs++; runs%locateRunsMax == 0 {
			if !l.yield(bigset.Facts{Dead: part}) {
				return false
			}
			part = &clock.Clock{}
		}
	}
	return part.Empty() || l.yield(bigset.Facts{Dead: part})
}

// found records the key of a wanted dot. It reports whether the chunk is full.
func (l *locating) found(element []byte, dot clock.Dot) (full bool) {
	if !l.got.Add(dot) {
		return false
	}
	l.left--
	l.bytes += len(element)
	if n := len(l.keys); n > 0 && string(l.keys[n-1].Name) == string(element) {
		l.keys[n-1].Dots = append(l.keys[n-1].Dots, dot)
	} else {
		l.keys = append(l.keys, fold.Element{Name: slices.Clone(element), Dots: []clock.Dot{dot}})
	}
	return len(l.keys) >= locateKeysMax || l.bytes >= locateBytesMax
}

// yieldKeys yields the keys found so far, and counts them for the way in which they were found. It reports whether to
// continue.
func (l *locating) yieldKeys(way *atomic.Uint64) bool {
	keys := l.keys
	for i := range keys {
		slices.SortFunc(keys[i].Dots, clock.Dot.Compare) // the log has them in the order of writing
		way.Add(uint64(len(keys[i].Dots)))
	}
	l.keys, l.bytes = nil, 0
	return len(keys) == 0 || l.yield(bigset.Facts{Keys: keys})
}

// lookInLog searches the log of recent writes for keys. It reports whether to continue.
func (l *locating) lookInLog() bool {
	prefixLen := len(l.st.prefix)
	for key := range l.s.recent.of(l.st.prefix) {
		element, actor, counter, _, ok := keyscheme.DecodeElement(prefixLen, key)
		if !ok || !l.want.ContainsBytes(actor, counter) {
			continue
		}
		full := l.found(element, clock.Dot{Actor: clock.Actor(actor), Counter: counter})
		if full && !l.yieldKeys(&l.s.counters.locatedInLog) {
			return false
		}
		if l.left == 0 {
			break
		}
	}
	return l.yieldKeys(&l.s.counters.locatedInLog)
}

// scan searches the whole set for keys, until all are found. No iterator is open while a chunk is yielded. It reports
// whether to continue.
func (l *locating) scan(ctx context.Context) (bool, error) {
	l.s.counters.locateScans.Add(1)
	b := l.st.prefix.Elements()
	for len(b.Lower) > 0 && l.left > 0 {
		next, err := l.scanFrom(ctx, b)
		if err != nil {
			return false, err
		}
		if !l.yieldKeys(&l.s.counters.locatedByScan) {
			return false, nil
		}
		b.Lower = next
	}
	return true, nil
}

// filter returns a block filter for the dots that have not been found yet.
func (l *locating) filter() *lsm.DotFilter {
	missing := l.want.Clone()
	missing.Subtract(l.got)
	return lsm.NewDotFilter(missing, &l.s.counters.locateSkips)
}

// scanFrom reads keys until the chunk is full, or for as long as an iterator may live. It returns the bound to
// continue from, nil at the end.
func (l *locating) scanFrom(ctx context.Context, b keyscheme.Bounds) (next []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.s.db.Closed() {
		return nil, bigset.ErrClosed
	}
	// It need not register as a reader: a key that the drop filter hides from it has died, and run reports the death
	// at the end.
	it, err := l.s.db.OpenSet(l.st.prefix, &pebble.IterOptions{
		LowerBound: b.Lower, UpperBound: b.Upper,
		PointKeyFilters: append(make([]pebble.BlockPropertyFilter, 0, 2), l.filter()), // Pebble adds one of its own
	})
	if err != nil {
		return nil, err
	}
	defer lsm.Closing(it, &err)
	began, prefixLen, full := time.Now(), len(l.st.prefix), false
	for ok, n := it.First(), 1; ok; ok, n = it.Next(), n+1 {
		if full || n%4096 == 0 && time.Since(began) > iteratorAgeMax {
			return slices.Clone(it.Key()), nil
		}
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if l.s.db.Closed() {
				return nil, bigset.ErrClosed
			}
		}
		element, actor, counter, op, ok := keyscheme.DecodeElement(prefixLen, it.Key())
		if !ok {
			return nil, fmt.Errorf("%w: key %x", bigset.ErrCorrupt, it.Key())
		}
		if !l.want.ContainsBytes(actor, counter) || l.got.ContainsBytes(actor, counter) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		dot := clock.Dot{Actor: clock.Actor(actor), Counter: counter}
		if keyscheme.IsUnresolved(value) || op != keyscheme.OpAdd {
			return nil, fmt.Errorf("%w: dot %v of element %.64q", bigset.ErrUnresolved, dot, element)
		}
		if full = l.found(element, dot); l.left == 0 {
			return nil, nil
		}
	}
	return nil, it.Error()
}
