package engine

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/comparator"
	"bigset/fold"
)

// skipper moves a reader's iterator over the keys of its bounds, in either direction. It seeks over known dead runs
// and notices unknown ones. Pebble steps over keys that the drop filter hides without showing them: only the
// iterator's own count of steps includes them.
type skipper struct {
	it      *pebble.Iterator
	reverse bool
	ok      bool // the iterator is at a key

	ahead []deadRun // in the order of reading

	// A gap is what lies between two live keys, or between one and the end of the bounds.
	live  []byte // the last live key; empty when none has been met
	start []byte // where the read began: the start of the gap before the first live key
	steps int    // the iterator's count of steps when it was last read
	known int    // keys of this gap that are in known runs

	lives      int  // live keys shown while the set remembers no runs
	passed     int  // runs seeked over
	first      bool // the first chunk of the iterator is being read
	headed     bool // the read began with a run
	unresolved bool // a key with an unresolved context was met
	keysMin    int  // keys that a gap must hold to be remembered
	prefixLen  int
}

// begin goes to the first key of a reader's bounds. The runs ahead are in ascending order.
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

// pass removes the next run from those ahead and returns the bound after it.
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

// limit returns where the next run begins: the iterator pauses there. Nil means no limit.
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
		if at := k.pass(); k.beyond(at) { // Pebble may pass a limit: do not go back
			state = k.step()
		} else {
			state = k.seek(at)
		}
	}
	k.ok = state == pebble.IterValid
}

// beyond reports whether the last live key lies after a bound.
func (k *skipper) beyond(at []byte) bool {
	if len(k.live) == 0 {
		return false
	}
	c := comparator.Compare(k.live, at)
	return k.reverse && c < 0 || !k.reverse && c >= 0
}

// skipped returns how many keys the iterator has stepped over since the last call, if there were enough of them for
// the gap to be worth remembering, or 0.
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
	before, after := elementBounds(k.prefixLen, key)
	if leaves != k.reverse {
		return after
	}
	return before
}

// gap returns the current gap up to a bound. It is empty between two keys of one element.
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

// lookForGaps makes the set remember dead runs from now on if the iterator has recently stepped over many more keys
// than it has shown. Readers of sets that remember no runs call it once in a while: a call at each key costs a third
// of a read.
func (r *reader) lookForGaps() {
	if n := r.skip.skipped(); n > 0 && (r.skip.lives <= 1 || n >= 3*r.skip.keysMin) {
		r.st.watchRuns(r.skip.keysMin)
	}
}

// learnGap remembers the gap that ends at the current key, or with the bounds if the keys have ended, if it is long.
func (r *reader) learnGap() {
	if n := r.skip.skipped(); n > 0 {
		r.learn(n, r.gapEnd())
	}
}

// gapEnd returns the bound before the current key, or the end of the bounds if the keys have ended.
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
	r.skip.known += n // the gap may continue
	r.s.sets.account(r.st)
}

// learnHead remembers the first chunk of an iterator that began with a run: it may be the head of a queue, soon to be
// removed. A chunk of so few keys that no gap is remembered for them is not worth it: they are stepped over until
// there are more.
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
