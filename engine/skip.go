package engine

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/comparator"
	"bigset/fold"
)

// skipper moves a reader's iterator over the keys of its bounds, in either direction. It seeks over dead runs that are
// known, and notices those that are not. What the drop filter hides is stepped over inside of Pebble: the iterator's own count
// of steps tells.
type skipper struct {
	it      *pebble.Iterator
	reverse bool
	ok      bool // the iterator is at a key

	ahead []deadRun // in the order of reading

	// A gap is what lies between two live keys, or between one and the end of the bounds.
	live  []byte // the last live key; empty when none has been met
	start []byte // where the read began: the end of the gap before the first live key
	steps int    // of the iterator when it was last asked
	known int    // keys of this gap that are in runs

	lives      int  // keys shown where no runs are remembered
	passed     int  // runs seeked over
	first      bool // the first chunk of the iterator is being read
	headed     bool // the read began with a run
	unresolved bool // a key with an unresolved context was met
	keysMin    int  // that a gap must hold to be remembered
	prefixLen  int
}

// begin goes to the first key of a reader's bounds. The runs ahead come in ascending order.
func (k *skipper) begin(r *reader, ahead []deadRun) {
	*k = skipper{it: r.it, reverse: r.fold.Reverse, ahead: ahead, live: k.live[:0], start: r.bounds.Lower,
		first: true, keysMin: r.s.opt.runKeysMin, prefixLen: len(r.st.prefix)}
	if k.reverse {
		k.start = r.bounds.Upper
		slices.Reverse(k.ahead)
	}
	at := k.start
	for len(k.ahead) > 0 && k.reaches(at) {
		at, k.headed = k.pass(), true
	}
	k.went(k.seek(at))
}

// reaches reports whether the next run begins at a bound or before it.
func (k *skipper) reaches(at []byte) bool {
	if k.reverse {
		return comparator.Compare(k.ahead[0].to, at) >= 0
	}
	return comparator.Compare(k.ahead[0].from, at) <= 0
}

// pass takes the next run off those ahead and returns the bound behind it.
func (k *skipper) pass() []byte {
	run := k.ahead[0]
	k.ahead = k.ahead[1:]
	k.known += run.keys
	k.passed++
	if k.reverse {
		return run.from
	}
	return run.to
}

// limit returns where the next run begins: the iterator pauses there. Nil is nowhere.
func (k *skipper) limit() []byte {
	switch {
	case len(k.ahead) == 0:
		return nil
	case k.reverse:
		return k.ahead[0].to
	}
	return k.ahead[0].from
}

func (k *skipper) seek(at []byte) pebble.IterValidityState {
	if k.reverse {
		return k.it.SeekLTWithLimit(at, k.limit())
	}
	return k.it.SeekGEWithLimit(at, k.limit())
}

func (k *skipper) step() pebble.IterValidityState {
	if k.reverse {
		return k.it.PrevWithLimit(k.limit())
	}
	return k.it.NextWithLimit(k.limit())
}

// next goes to the next key.
func (k *skipper) next() { k.went(k.step()) }

// went seeks over the run at which the iterator has paused.
func (k *skipper) went(state pebble.IterValidityState) {
	for state == pebble.IterAtLimit {
		if at := k.pass(); k.beyond(at) { // Pebble may go over a limit: never back
			state = k.step()
		} else {
			state = k.seek(at)
		}
	}
	k.ok = state == pebble.IterValid
}

// beyond reports whether the last live key lies behind a bound.
func (k *skipper) beyond(at []byte) bool {
	if len(k.live) == 0 {
		return false
	}
	c := comparator.Compare(k.live, at)
	return k.reverse && c < 0 || !k.reverse && c >= 0
}

// skipped returns how many keys the iterator has stepped over since the last call, if they are so many that the gap is worth
// remembering, or 0.
func (k *skipper) skipped() (n int) {
	stats := k.it.Stats()
	steps := stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall]
	n, k.steps = steps-k.steps, steps
	if n >= k.keysMin || k.known > 0 && n >= k.keysMin/4 {
		return n
	}
	return 0
}

// bound returns the bound at which a reader enters the element of a key, or leaves it.
func (k *skipper) bound(key []byte, leaves bool) []byte {
	before, behind := elementBounds(k.prefixLen, key)
	if leaves != k.reverse {
		return behind
	}
	return before
}

// gap returns the gap at hand up to a bound. It is empty between two keys of one element.
func (k *skipper) gap(end []byte) (from, to []byte) {
	from, to = k.start, end
	if len(k.live) > 0 {
		from = k.bound(k.live, true)
	}
	if k.reverse {
		from, to = to, from
	}
	return from, to
}

// lookForGaps has the set remember dead runs from now on if the iterator has lately stepped over many more keys than it has
// shown. It is asked once in a while by readers of sets that remember none: asking at each key costs a third of a read.
func (r *reader) lookForGaps() {
	if n := r.skip.skipped(); n > 0 && (r.skip.lives <= 1 || n >= 3*r.skip.keysMin) {
		r.st.watchRuns(r.skip.keysMin)
	}
}

// learnGap remembers the gap that ends at the key at hand, or with the bounds when the keys have ended, if it is long.
func (r *reader) learnGap() {
	if n := r.skip.skipped(); n > 0 {
		r.learn(n, r.gapEnd())
	}
}

// gapEnd returns the bound before the key at hand, or the end of the bounds when the keys have ended.
func (r *reader) gapEnd() []byte {
	if r.skip.ok {
		return r.skip.bound(r.it.Key(), false)
	}
	return r.end()
}

// metLive ends a gap and begins the next one: the iterator is at a live key, or at one with an unresolved context.
func (r *reader) metLive(unresolved bool) {
	r.skip.unresolved = r.skip.unresolved || unresolved
	r.learnGap()
	r.skip.live, r.skip.known = append(r.skip.live[:0], r.it.Key()...), 0
}

// learn remembers the gap up to a bound, over which the iterator has stepped in n steps.
func (r *reader) learn(n int, end []byte) {
	from, to := r.skip.gap(end)
	if r.finder == nil || comparator.Compare(from, to) >= 0 {
		return
	}
	r.skip.headed = r.skip.headed || len(r.skip.live) == 0
	r.runs.learn(r.finder, deadRun{from: from, to: to, version: r.view.version, keys: n})
	r.skip.known += n // the gap may go on
	r.s.sets.account(r.st)
}

// learnHead remembers the first chunk of an iterator that began with a run: it may be the head of a queue, soon to be removed.
// It is not worth it for so few keys that no gap is remembered for them: they are stepped over until there are more.
func (r *reader) learnHead(chunk *fold.Chunk) {
	first := r.skip.first
	r.skip.first = false
	if r.finder == nil || !first || !r.skip.headed || r.skip.unresolved || chunk.Scanned < r.skip.keysMin/4 || len(chunk.Elements) == 0 {
		return
	}
	h := &headRun{deadRun{from: r.skip.start, to: r.gapEnd(), version: r.view.version, keys: chunk.Scanned}, &clock.Clock{}}
	if r.fold.Reverse {
		h.from, h.to = h.to, h.from
	}
	for _, e := range chunk.Elements {
		for _, d := range e.Dots {
			h.live.Add(d)
		}
	}
	r.runs.learnHead(r.finder, h)
}
