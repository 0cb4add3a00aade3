package engine

import (
	"slices"

	"bigset/clock"
	"bigset/comparator"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// deadRuns are the long runs of dead keys that readers of one set have met, so that later readers seek over them: an
// iterator steps over dead keys one by one, including those that the drop filter hides. They are kept in memory only.
//
// A run states: of the keys in [from, to) that were applied by now, none is live by the Dead of its version or a
// later one.
// What keeps a reader from skipping a key that is live for it:
//
//   - A run is used by readers whose view has its version or a later one. Dead only grows: what was dead then is dead in
//     their view, although they may have opened their iterator before the run was found.
//   - Writers split the runs at the key that they are about to write, before it is applied. A reader opens its iterator
//     before it takes the runs: a key that the iterator shows is in no run that it takes.
//   - A run that is found is kept only if nothing was written inside since the iterator that found it was opened. Finders
//     register before they open it. From then on they receive each batch that splits runs. A batch that has split them
//     but is not applied yet is given to a finder when it registers.
//   - What the drop filter hides from an iterator is dead in the view of its reader (see publisher). A key with an unresolved context
//     counts as live, whatever its dot.
//
// If the head of a queue is read, and what was read is then removed, the next reader would step over all of it once.
// So the last chunk read after a run is kept with the dots of its live keys. For a reader whose Dead contains all of
// them it is a run.
//
// The set begins to keep runs when a reader meets the first long one (set.watchRuns), at a moment when no batch is
// under way.
type deadRuns struct {
	keysMin int // keys that a run must hold
	mu      lockorder.Mutex[lockorder.DeadRunsMu]
	list    []deadRun // ascending, disjoint, not adjacent
	head    *headRun  // a range that may become a run; may be nil
	finders []*runFinder
	writing keyRange // the keys of a batch that may not be applied yet; zero if there is none
	bytes   int64
}

// deadRun is a range of element keys without a live one. Its bounds lie between elements and are never changed.
type deadRun struct {
	from, to []byte
	version  uint64 // of the set's Dead
	keys     int    // about how many an iterator steps over here
}

// headRun is a range whose live keys, by the Dead of its version, have dots in live alone.
type headRun struct {
	deadRun
	live *clock.Clock
}

// keyRange is a closed range of keys.
type keyRange struct{ first, last []byte }

const (
	// runKeysMin is how many keys a run must hold to be remembered: stepping over them costs several times a seek.
	// Where a known run continues, a quarter of that is enough.
	runKeysMin = 64
	// runsMax and runBytesMax bound the runs of a set, and the bounds of one run, in bytes.
	runsMax     = 64
	runBytesMax = 4 << 10
	// findersMax is how many readers of a set may look for runs at the same time; others use the runs without looking
	// for new ones.
	findersMax = 16
	// writtenMax is how many ranges of written keys a finder stores separately.
	writtenMax = 16
)

// runFinder is a reader that may find runs.
type runFinder struct {
	written []keyRange // approximately the keys written since it registered
}

// wrote records written keys. When a finder has many ranges, wrote replaces them by the range of all of them.
func (f *runFinder) wrote(s keyRange) {
	if len(f.written) == writtenMax {
		all := f.written[0]
		for _, o := range f.written[1:] {
			all.first, all.last = sooner(all.first, o.first), later(all.last, o.last)
		}
		f.written = append(f.written[:0], all)
	}
	f.written = append(f.written, s)
}

// wroteIn reports whether a key in [from, to) may have been written.
func (f *runFinder) wroteIn(from, to []byte) bool {
	return slices.ContainsFunc(f.written, func(s keyRange) bool {
		return comparator.Compare(s.last, from) >= 0 && comparator.Compare(s.first, to) < 0
	})
}

// find registers a finder. It must be called before the finder's iterator is opened, and undone by leave. It returns
// nil if enough finders are registered.
func (d *deadRuns) find() *runFinder {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.finders) == findersMax {
		return nil
	}
	f := &runFinder{}
	if d.writing.first != nil {
		f.wrote(d.writing)
	}
	d.finders = append(d.finders, f)
	return f
}

// leave undoes find.
func (d *deadRuns) leave(f *runFinder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.finders, f); i >= 0 {
		d.finders = slices.Delete(d.finders, i, i+1)
	}
}

// split removes element keys that are about to be written from the runs. The set's leader calls it before the batch
// is applied, and applied afterwards. The keys must not change any more.
func (d *deadRuns) split(prefixLen int, keys []keptKey) {
	if len(keys) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = keyRange{keys[0].key, keys[0].key}
	for _, kept := range keys {
		k := kept.key
		d.writing.first, d.writing.last = sooner(d.writing.first, k), later(d.writing.last, k)
		d.splitKey(prefixLen, k)
		if d.head != nil && comparator.Compare(k, d.head.from) >= 0 && comparator.Compare(k, d.head.to) < 0 {
			d.setHead(nil)
		}
	}
	for _, f := range d.finders {
		f.wrote(d.writing)
	}
}

// splitKey splits the run that a key falls in around the key's element. Each half is assumed to hold half of the
// keys. So a run that is split again and again, such as the tail of a queue, is soon forgotten.
func (d *deadRuns) splitKey(prefixLen int, key []byte) {
	i, _ := slices.BinarySearchFunc(d.list, key, func(r deadRun, key []byte) int { // the first that ends after the key
		if comparator.Compare(r.to, key) <= 0 {
			return -1
		}
		return 1
	})
	if i == len(d.list) || comparator.Compare(key, d.list[i].from) < 0 {
		return
	}
	was := d.list[i]
	low, high := was, was
	low.to, high.from = elementBounds(prefixLen, key)
	var halves []deadRun
	for _, half := range []deadRun{low, high} {
		if half.keys /= 2; half.keys >= d.keysMin && comparator.Compare(half.from, half.to) < 0 {
			halves = append(halves, half)
		}
	}
	d.replace(i, i+1, halves...)
}

// applied declares that the batch of the last split is visible to iterators opened from now on.
func (d *deadRuns) applied() {
	d.mu.Lock()
	d.writing = keyRange{}
	d.mu.Unlock()
}

// learn remembers a run that a finder found with a view of the run's version. It is merged with the runs that it
// touches.
func (d *deadRuns) learn(f *runFinder, run deadRun) {
	if len(run.from)+len(run.to) > runBytesMax {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !f.wroteIn(run.from, run.to) {
		d.unite(run)
	}
}

// unite adds a run to the list and merges it with the runs that it touches.
func (d *deadRuns) unite(run deadRun) {
	i := slices.IndexFunc(d.list, func(r deadRun) bool { return comparator.Compare(r.to, run.from) >= 0 })
	if i < 0 {
		i = len(d.list)
	}
	end := i
	for ; end < len(d.list) && comparator.Compare(d.list[end].from, run.to) <= 0; end++ {
		other := d.list[end]
		run.from, run.to = sooner(run.from, other.from), later(run.to, other.to)
		run.version, run.keys = max(run.version, other.version), run.keys+other.keys
	}
	d.replace(i, end, run)
	for len(d.list) > runsMax { // the oldest have been halved most often
		for i := len(d.list) - 1; i >= 0; i-- {
			if d.list[i].keys /= 2; d.list[i].keys < d.keysMin/2 {
				d.replace(i, i+1)
			}
		}
	}
}

// learnHead remembers a range that a finder has read, unless the remembered head contains it.
func (d *deadRuns) learnHead(f *runFinder, h *headRun) {
	if len(h.from)+len(h.to) > runBytesMax {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.head
	if was != nil && comparator.Compare(was.from, h.from) <= 0 && comparator.Compare(was.to, h.to) >= 0 || f.wroteIn(h.from, h.to) {
		return
	}
	d.setHead(h)
}

func (d *deadRuns) setHead(h *headRun) {
	if d.head != nil {
		d.bytes -= d.head.heapBytes()
	}
	if d.head = h; h != nil {
		d.bytes += h.heapBytes()
	}
}

// replace replaces some runs of the list.
func (d *deadRuns) replace(i, end int, by ...deadRun) {
	for _, r := range d.list[i:end] {
		d.bytes -= r.heapBytes()
	}
	for _, r := range by {
		d.bytes += r.heapBytes()
	}
	d.list = slices.Replace(d.list, i, end, by...)
}

func (r deadRun) heapBytes() int64 { return int64(96 + len(r.from) + len(r.to)) }

func (h *headRun) heapBytes() int64 { return h.deadRun.heapBytes() + int64(h.live.HeapBytes()) }

func (d *deadRuns) heapBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 128 + d.bytes
}

// within returns the runs that overlap the bounds, for a reader with that view. It must be called after the reader's
// iterator was opened.
func (d *deadRuns) within(b keyscheme.Bounds, v *view) (runs []deadRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	version := v.version
	if h := d.head; h != nil && h.version <= version && v.dead.Descends(h.live) {
		h.version = version
		d.setHead(nil)
		d.unite(h.deadRun)
	}
	for _, r := range d.list {
		if r.version <= version && comparator.Compare(r.from, b.Upper) < 0 && comparator.Compare(r.to, b.Lower) > 0 {
			runs = append(runs, r)
		}
	}
	return runs
}

// elementBounds returns the bounds before and after all keys of the element of a key.
func elementBounds(prefixLen int, key []byte) (before, after []byte) {
	element, _, _, _, _ := keyscheme.DecodeElement(prefixLen, key)
	p := keyscheme.Prefix(key[:prefixLen])
	return p.AppendElementBound(nil, element), p.AppendElementAfter(nil, element)
}

// watchRuns makes the set remember dead runs of at least keysMin keys, from now on or from the end of the batch that
// is under way.
func (st *set) watchRuns(keysMin int) {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	if st.runs.Load() == nil {
		st.newRuns = &deadRuns{keysMin: keysMin}
	}
	if !st.led {
		st.beginRuns()
	}
}

// beginRuns starts to remember dead runs, if watchRuns asked for it. No batch of the set is under way, and queueMu is
// held.
func (st *set) beginRuns() {
	if st.newRuns != nil {
		st.runs.Store(st.newRuns)
		st.newRuns = nil
	}
}
