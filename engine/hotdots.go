package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"bigset/clock"
	"bigset/engine/internal/lockorder"
)

// A look-up of an element steps over all its keys. Those of dead dots stay in a memtable until it is flushed, and in tables that the drop
// filter has passed too early until they are compacted. The drop filter hides them from the iterator, which steps over them all the same: an
// element that is added again ten thousand times costs ten thousand steps at each look-up. So a look-up that has stepped over many keys
// makes its element hot: the set remembers the element's dots, and look-ups of the present answer from these. An element that is not
// hot costs a look-up the count of its steps, and, in a set that has hot ones, a lock and a search of two maps. A batch that looks elements up,
// or whose set has hot ones, lists the keys of its adds, and searches the maps for each when it is published.
//
//	look-up that steps far ─► keep ─► entry: the dots of an element ─► look-ups: those that are not in Dead
//	batch                  ─► publish, together with Seen and Dead: the dots that it adds join the entries of their elements
//
// An entry has every live dot of its element, as of what is published. It may have dead ones, too. Look-ups leave those out by Dead, which
// only grows while a set is in memory; DropRange, which empties it, forgets the entries. So a death changes no entry. The key of an add that
// becomes visible does. These make keys visible:
//
//	a group of writers: Write, ApplyDelta, ApplyFacts    publish adds the dots of builder.put. A group that did not record them
//	                                                     forgets the set's entries
//	a batch that failed                                  may have been applied: land forgets them
//	IngestPortion                                        publish forgets them
//	Heal, which restores lost keys, fills holes, and     pass.swap forgets them, whether or not the swap has failed
//	  takes away live keys under wrong elements
//	DropRange                                            set.forget forgets them: Dead begins again. It waits for look-ups to end
//	a set that is loaded again                           is another set in memory, without entries
//
// All other work only takes away keys of dead dots, or moves keys: flushes, compactions, passes, sweeps, excises of emptied sets,
// point deletes, records of requests. A whole-set delete is a growth of Dead.
//
// The context of an unresolved key kills dots that are not in Dead yet. A set that has such a key has no entries, and gets none.
//
// A look-up reads hotDots.puts, opens its iterator, and makes an entry only if puts is still the same: then no key has become visible in
// between. puts is of the whole set. An add to any element keeps the look-ups that are under way from making entries; later look-ups of the
// same elements try again. A group makes the entries of its own look-ups when it is published. Until then only its leader changes what is
// visible, and later operations of the group use what it has found (builder.hotLooks).
//
// Reads of another moment (chunks, Moments, DotStatus) use no entries: only look-ups of queries (lookUpOnce) and of batches (builder) do.
// An iterator may show a batch a moment before it is published. An entry, like Count and a Moment, does not. So for that moment a look-up may
// lack what an earlier read has shown.
type hotDots struct {
	some atomic.Bool // there may be entries; false if there are none
	puts uint64      // counts what made keys of adds visible, under set.mu

	mu         lockorder.RWMutex[lockorder.HotDotsMu]
	young, old hotEntries
}

// hotEntries are entries by element.
type hotEntries struct {
	of    map[string]*hotEntry
	bytes int64
}

// hotEntry is what a set remembers of an element.
type hotEntry struct {
	element string
	dots    []clock.Dot // in order
	one     [1]clock.Dot
}

// hotSets bounds the entries of all sets of a store. They have two generations: an entry that is made or written joins the young one. When
// that takes half of the bound, the old one is forgotten, the young one becomes old, and a new one begins.
type hotSets struct {
	most    int64         // bytes of both generations
	steps   int           // over how many keys a look-up must step to make its element hot
	young   atomic.Int64  // bytes of the young generation
	bytes   atomic.Int64  // of both
	turning atomic.Bool   // a goroutine is in turn
	hits    atomic.Uint64 // look-ups that were answered from remembered dots
	sets    sync.Map      // *set -> nothing: those that have entries
}

const (
	// hotBytesMax bounds the entries of a store.
	hotBytesMax = 32 << 20
	// hotStepsMin is how many keys a look-up steps over if it makes its element hot. One that finds an element once steps over one to three.
	hotStepsMin = 8
	// hotDotsMax is how many live dots an element may have that is remembered: an entry is searched at each write of its element.
	hotDotsMax = 16
	// hotPutsKept is for how many keys of adds a builder keeps the room for its next batch.
	hotPutsKept = 1 << 14
	// hotEntryBytes is about what an entry costs, apart from its element, its second and later dots, and their actors: itself and its place in
	// the map.
	hotEntryBytes = 144
)

func (e *hotEntry) heapBytes() int64 {
	n := hotEntryBytes + len(e.element)
	if cap(e.dots) > 1 {
		n += 24 * cap(e.dots)
	}
	for _, d := range e.dots { // this store's own actor is in memory once, and is counted all the same
		n += len(d.Actor)
	}
	return int64(n)
}

// add adds a dot, and removes those that are dead.
func (e *hotEntry) add(d clock.Dot, dead *clock.Clock) {
	e.dots = slices.DeleteFunc(e.dots, dead.Contains)
	if at, found := slices.BinarySearchFunc(e.dots, d, clock.Dot.Compare); !found && !dead.Contains(d) {
		e.dots = slices.Insert(e.dots, at, d)
	}
}

// dotsOf returns the dots that are remembered of an element, which include all live ones. The caller holds set.mu, or leads the set. The
// result is the caller's.
func (h *hotDots) dotsOf(element []byte) (dots []clock.Dot, ok bool) {
	if !h.some.Load() {
		return nil, false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.find(element)
	if e == nil {
		return nil, false
	}
	return slices.Clone(e.dots), true
}

func (h *hotDots) find(element []byte) *hotEntry {
	if e := h.young.of[string(element)]; e != nil {
		return e
	}
	return h.old.of[string(element)]
}

// hotLive returns the live dots of an element, if they are remembered. held says that the caller holds mu.
func (st *set) hotLive(element []byte, held bool) (live []clock.Dot, ok bool) {
	if !st.hot.some.Load() {
		return nil, false
	}
	if !held {
		st.mu.RLock()
		defer st.mu.RUnlock()
	}
	live, ok = st.hot.dotsOf(element)
	return slices.DeleteFunc(live, st.dead.Contains), ok
}

// keepHot remembers the live dots of an element. They are those of this moment: the caller holds mu, and nothing became visible since before
// they were looked up.
func (s *Store) keepHot(st *set, element []byte, live []clock.Dot) {
	if st.unresolved != 0 || len(live) > hotDotsMax {
		return
	}
	h := &st.hot
	h.mu.Lock()
	if h.find(element) == nil {
		e := &hotEntry{element: string(element)}
		e.dots = append(e.one[:0], live...)
		if !h.some.Load() {
			h.some.Store(true)
			s.hot.sets.Store(st, nil)
		}
		h.renew(&s.hot, e)
	}
	h.mu.Unlock()
	s.hot.turn()
}

// renew puts an entry that is in no generation into the young one. mu is locked.
func (h *hotDots) renew(t *hotSets, e *hotEntry) {
	if h.young.of == nil {
		h.young.of = map[string]*hotEntry{}
	}
	h.young.of[e.element] = e
	h.grow(t, &h.young, e.heapBytes())
}

// put adds a dot to the entry of an element, if it has one. mu is locked.
func (h *hotDots) put(t *hotSets, element []byte, d clock.Dot, dead *clock.Clock) {
	e := h.young.of[string(element)]
	if e == nil {
		if e = h.old.of[string(element)]; e == nil {
			return
		}
		delete(h.old.of, e.element)
		h.grow(t, &h.old, -e.heapBytes())
		h.renew(t, e)
	}
	before := e.heapBytes()
	e.add(d, dead)
	h.grow(t, &h.young, e.heapBytes()-before)
	if len(e.dots) > hotDotsMax {
		delete(h.young.of, e.element)
		h.grow(t, &h.young, -e.heapBytes())
	}
}

// grow counts by how much a generation has grown.
func (h *hotDots) grow(t *hotSets, g *hotEntries, bytes int64) {
	g.bytes += bytes
	t.bytes.Add(bytes)
	if g == &h.young {
		t.young.Add(bytes)
	}
}

// drop forgets a generation.
func (h *hotDots) drop(t *hotSets, g *hotEntries) {
	h.grow(t, g, -g.bytes)
	g.of = nil
}

// turn begins a new generation if the young one is full.
func (t *hotSets) turn() {
	full := func() bool { return t.young.Load() > t.most/2 }
	if !full() || !t.turning.CompareAndSwap(false, true) {
		return
	}
	defer t.turning.Store(false)
	if !full() { // another goroutine has just done it
		return
	}
	for key := range t.sets.Range {
		st := key.(*set)
		h := &st.hot
		h.mu.Lock()
		h.drop(t, &h.old)
		t.young.Add(-h.young.bytes)
		h.old, h.young = h.young, hotEntries{}
		h.end(t, st)
		h.mu.Unlock()
	}
}

// end records that the set has no entries, if that is so. mu is locked.
func (h *hotDots) end(t *hotSets, st *set) {
	if len(h.young.of)+len(h.old.of) == 0 {
		h.some.Store(false)
		t.sets.Delete(st)
	}
}

// forget forgets the entries of a set. While it runs, nobody may add any: the caller holds set.mu, or nobody uses the set.
func (t *hotSets) forget(st *set) {
	h := &st.hot
	if !h.some.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(t, &h.young)
	h.drop(t, &h.old)
	h.end(t, st)
}

// voidHot forgets the entries of a set, because keys may have become visible.
func (s *Store) voidHot(st *set) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.hot.puts++
	s.hot.forget(st)
}

// hotPut is the key of an add in a batch.
type hotPut struct {
	element []byte
	dot     clock.Dot
}

// publishHot changes the entries by a batch that is being published. set.mu is locked, and Dead is that after the batch.
func (b *builder) publishHot() {
	h, t := &b.st.hot, &b.s.hot
	if b.added > 0 {
		h.puts++
	}
	if b.st.unresolved != 0 || b.added > 0 && !b.recordsPuts || !b.brought.Empty() {
		t.forget(b.st)
		return
	}
	b.keepLookedUp()
	if len(b.hotPuts) == 0 || !h.some.Load() {
		return
	}
	h.mu.Lock()
	for _, p := range b.hotPuts {
		h.put(t, p.element, p.dot, b.st.dead)
	}
	h.end(t, b.st)
	h.mu.Unlock()
	t.turn()
}

// remembered returns the dots of an element's keys before the batch, if they are remembered, by the set or for this batch: all that were live,
// and perhaps dead ones. The result is the caller's.
func (b *builder) remembered(element []byte) (dots []clock.Dot, ok bool) {
	if len(b.hotLooks) > 0 {
		dots, ok = b.hotLooks[string(element)]
		dots = slices.Clone(dots)
	}
	if !ok {
		dots, ok = b.st.hot.dotsOf(element)
	}
	if ok {
		b.s.counters.lookUps.Add(1)
		b.s.hot.hits.Add(1)
	}
	return dots, ok
}

// lookedFar takes note of a look-up that stepped far, and found dots that were not dead before the batch.
func (b *builder) lookedFar(element []byte, dots []clock.Dot) {
	if len(dots) > hotDotsMax {
		return
	}
	if b.hotLooks == nil {
		b.hotLooks = map[string][]clock.Dot{}
	}
	b.hotLooks[string(element)] = slices.Clone(dots)
}

// keepLookedUp remembers the elements whose look-ups for this batch stepped far, as they were before it. The caller holds set.mu.
func (b *builder) keepLookedUp() {
	for element, dots := range b.hotLooks {
		b.s.keepHot(b.st, []byte(element), slices.DeleteFunc(dots, b.st.dead.Contains))
	}
	b.hotLooks = nil
}
