package engine

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"

	"bigset"
	"bigset/clock"
	"bigset/engine/internal/lockorder"
)

// A look-up of an element searches memtables and tables, which are larger than the caches of a processor, and steps over all its keys, those of
// dead dots too. So a store remembers the live dots of the elements that were looked up last, and look-ups of the present answer from these.
//
//	look-up in the keys ─► keep ─► entry: the dots of an element ─► look-ups: those that are not in Dead
//	batch               ─► put, before Seen and Dead: the dots that it adds join the entries of their elements
//
// An entry has every live dot of its element, as of what is published. It may have dead ones, too. Look-ups leave those out by Dead, which
// only grows while a set is in memory; DropRange, which empties it, forgets the entries. So a death changes no entry. The key of an add that
// becomes visible does. These make keys visible:
//
//	a group of writers: Write, ApplyDelta, ApplyFacts    publish puts the dots of builder.put
//	a batch that failed                                  may have been applied: land forgets them
//	IngestPortion                                        publish forgets them
//	Heal, which restores lost keys, fills holes, and     pass.swap forgets them, whether or not the swap has failed
//	  takes away live keys under wrong elements
//	DropRange                                            set.forget forgets them: Dead begins again
//	a set that is loaded again                           is another set in memory, without entries
//
// All other work only takes away keys of dead dots, or moves keys: flushes, compactions, passes, sweeps, excises of emptied sets,
// point deletes, records of requests. A whole-set delete is a growth of Dead.
//
// Entries are found by the number of their set (hotSet). A set that forgets them takes another number: the old entries are found no more, not
// those either that a look-up makes that had begun before.
//
// The context of an unresolved key kills dots that are not in Dead yet. A set that has such a key has no entries, and gets none.
//
// A look-up reads hotDots.puts, opens its iterator, and makes an entry only if no later batch has put a key into the entry's place (hotShard.puts):
// then no key of the element has become visible in between. Several elements share such a place. So an add may keep the look-up of another
// element that is under way from making its entry, and does so rarely. A group makes the entries of its own look-ups at once, as the element was before
// the group: until the group is published only its leader changes what is visible.
//
// Reads of another moment (chunks, Moments, DotStatus) use no entries: only look-ups of queries (lookUp) and of batches (builder) do.
//
// An entry costs more than nothing, and gains nothing if its element is not looked up again before it is overwritten. So at first, and while few look-ups are
// answered from entries, only the elements of few shards are remembered. These tell when it would gain again: such a part of the elements has the same part of the
// memory, and as many look-ups find their entries as would if all elements were remembered. Other elements whose look-ups step over many dead keys
// tell it, too.
type hotDots struct {
	seed   maphash.Seed
	most   int64      // bytes
	shards []hotShard // none: nothing is remembered
	mode   atomic.Pointer[hotMode]

	_     [64]byte      // what follows is written at each look-up or batch
	puts  atomic.Uint64 // counts the batches that have put keys of adds
	sets  atomic.Uint64 // the last number of a set
	hits  atomic.Uint64 // look-ups that were answered from entries
	bytes atomic.Int64  // of all shards
}

// hotSet is under which number a set has its entries, and in which shards. A set that takes other shards takes another number.
type hotSet struct {
	number uint64
	actor  clock.Actor // of most dots: this store's
	mode   *hotMode
}

// hotMode says which shards are used, and counts for how much gain.
type hotMode struct {
	shards       uint64        // the first ones
	asked, found atomic.Uint64 // look-ups in these shards since they were judged, and adds without look-ups; and those that found an entry
	judged       atomic.Uint64 // they are judged after this many look-ups
	steps        atomic.Uint64 // of look-ups in other shards that stepped over more than hotStepsFew keys
}

// hotShard is a part of the table: a ring of entries, in which the youngest overwrites the oldest, and chains of entries that have the same hash.
// The garbage collector finds no pointers in it. Positions count all bytes that were ever written, from 1 on. A position modulo the size of the ring
// is where its entry is, if fewer bytes were written since than the ring has.
type hotShard struct {
	mu     lockorder.Mutex[lockorder.HotDotsMu]
	ring   []byte
	chains []uint32 // the position of the youngest entry of each, 0 if it never had one
	next   uint32   // the position of the next entry
	last   uint32   // the position from which on the ring begins again without entries
	most   int      // bytes of ring
	puts   [64]uint64
}

// hotEntry is a part of a ring that begins with an entry. Numbers are little-endian.
//
//	older 4 | set 8 | element bytes 2 | room 2 | used 2 | element | room: the dots, in order, each: actor bytes 1 | actor | counter 8
//
// older is the position of the chain's next entry. set is 0 in an entry that was left. A dot of the actor of the set has no actor bytes.
type hotEntry []byte

const (
	// hotBytesDefault bounds the entries of a store.
	hotBytesDefault = 64 << 20
	// hotDotsMax is how many live dots an element may have that is remembered.
	hotDotsMax = 16
	// hotShardsMax is how many shards there are, unless they would have fewer than hotShardBytes.
	hotShardsMax  = 64
	hotShardBytes = 64 << 10
	// hotRingMost bounds a ring, so that positions rarely begin again.
	hotRingMost = 1 << 30
	// hotRingFirst is the size of a ring with its first entry. It doubles until it has its full size.
	hotRingFirst = 4 << 10
	// hotChainBytes is for how many bytes of a ring there is a chain.
	hotChainBytes = 32
	// hotShare is the share of a ring that an entry may take.
	hotShare = 8

	// hotFew is the part of the shards that is used while look-ups find few entries: fewer than one in hotLeast. All are used again when one
	// in hotAgain finds one.
	hotFew   = 16
	hotLeast = 16
	hotAgain = 8
	// hotJudged is how many look-ups are judged together. If all shards are used, the first judgement comes after one for each hotFirst bytes, when
	// the table is full.
	hotJudged = 1 << 10
	hotFirst  = 32
	// An element that is added again and again has many dead keys, and each look-up steps over them. All shards are used again after
	// hotStepsMost steps of look-ups that each took more than hotStepsFew.
	hotStepsFew  = 8
	hotStepsMost = 64 << 10

	hotHeaderBytes = 18
	hotDotBytes    = 9 // of a dot without actor
)

// init gives the table its bound. It takes no memory before there are entries. A negative bound is no table.
func (t *hotDots) init(most int64) {
	if t.seed, t.most = maphash.MakeSeed(), most; most < 0 {
		return
	}
	t.shards = make([]hotShard, min(max(most/hotShardBytes, 1), hotShardsMax))
	share := most / int64(len(t.shards))
	for i := range t.shards {
		s := &t.shards[i]
		s.most = int(min(share*hotChainBytes/(hotChainBytes+4), hotRingMost)) // each chain takes 4 bytes
		s.next, s.last = 1, math.MaxUint32-2*uint32(s.most)
	}
	t.mode.Store(t.newMode(t.few()))
}

// few returns how many shards are used while few look-ups are answered.
func (t *hotDots) few() int {
	if len(t.shards) < hotFew {
		return len(t.shards)
	}
	return len(t.shards) / hotFew
}

// newMode returns a mode that uses this number of shards.
func (t *hotDots) newMode(shards int) *hotMode {
	m := &hotMode{shards: uint64(shards)}
	if m.judged.Store(hotJudged); shards == len(t.shards) {
		m.judged.Store(max(hotJudged, uint64(t.most/hotFirst)))
	}
	return m
}

// count counts look-ups of entries, and those that found one, and changes the shards that are used.
func (t *hotDots) count(m *hotMode, asked, found int) {
	m.found.Add(uint64(found))
	n := m.asked.Add(uint64(asked))
	if n < m.judged.Load() || !m.asked.CompareAndSwap(n, 0) {
		return
	}
	m.judged.Store(hotJudged)
	had, all := m.found.Swap(0), uint64(len(t.shards))
	switch {
	case m.shards == all && had*hotLeast < n && t.few() < len(t.shards):
		t.mode.CompareAndSwap(m, t.newMode(t.few()))
	case m.shards < all && had*hotAgain >= n:
		t.mode.CompareAndSwap(m, t.newMode(len(t.shards)))
	}
}

// stepped counts the steps of a look-up of an element that is not remembered because few shards are used.
func (t *hotDots) stepped(m *hotMode, steps int) {
	if steps > hotStepsFew && m.steps.Add(uint64(steps)) >= hotStepsMost {
		t.mode.CompareAndSwap(m, t.newMode(len(t.shards)))
	}
}

// hotOf returns under which number a set has its entries, or nil if nothing is remembered. The caller holds set.mu, or leads the set.
func (s *Store) hotOf(st *set) *hotSet {
	m, hs := s.hot.mode.Load(), st.hot.Load()
	if m == nil || hs != nil && hs.mode == m {
		return hs
	}
	st.hot.CompareAndSwap(hs, &hotSet{s.hot.sets.Add(1), s.actorOf(st), m})
	return st.hot.Load()
}

// forgetHot forgets the entries of the set. The caller holds mu, or leads the set.
func (st *set) forgetHot() { st.hot.Store(nil) }

// hash returns the hash of an element of a set.
func (t *hotDots) hash(set uint64, element []byte) uint64 {
	return (maphash.Bytes(t.seed, element) ^ set) * 0x9e3779b97f4a7c15
}

// place returns the shard of an element, and its hash. The shard is nil if such elements are not remembered.
func (t *hotDots) place(hs *hotSet, element []byte) (*hotShard, uint64) {
	h := t.hash(hs.number, element)
	if i := h >> 32 % uint64(len(t.shards)); i < hs.mode.shards {
		return &t.shards[i], h
	}
	return nil, h
}

// chain returns the chain of a hash.
func (s *hotShard) chain(h uint64) *uint32 {
	return &s.chains[h&math.MaxUint32*uint64(len(s.chains))>>32]
}

// putsOf returns the place in puts of a hash.
func (s *hotShard) putsOf(h uint64) *uint64 { return &s.puts[h>>58] }

// appendDots appends the dots that are remembered of an element, which include all live ones. asked is 1 if the element's shard was asked.
func (t *hotDots) appendDots(dst []clock.Dot, hs *hotSet, element []byte) (dots []clock.Dot, ok bool, asked int) {
	if hs == nil {
		return dst, false, 0
	}
	s, h := t.place(hs, element)
	if s == nil {
		return dst, false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(h, hs.number, element)
	if e == nil {
		return dst, false, 1
	}
	return e.appendDots(dst, hs.actor), true, 1
}

// keep remembers the live dots of an element. The caller read puts before it looked them up by iters; a leader knows that nothing has become visible
// since.
func (t *hotDots) keep(hs *hotSet, element []byte, live []clock.Dot, puts uint64, iters *elementIters) {
	if hs == nil || len(live) > hotDotsMax {
		return
	}
	s, h := t.place(hs, element)
	if s == nil {
		t.stepped(hs.mode, iters.stepped())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.putsOf(h) <= puts && s.find(h, hs.number, element) == nil {
		t.insert(s, h, hs, element, live)
	}
}

// put adds the dot of a key that has become visible to the entry of its element, if it has one, and removes those that are dead after the batch. A dot that
// replaces all others makes an entry, too.
// batch is what puts was after the commit. asked and found are 1 if the element's shard was asked, and had an entry.
//
// The deaths of the batch are not published yet. So a dot that is dead itself removes no others: the entry would be empty until the put of a later dot, and
// a look-up would miss the element.
func (t *hotDots) put(hs *hotSet, k addKey, dead func(clock.Dot) bool, batch uint64) (asked, found int) {
	s, h := t.place(hs, k.element)
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.putsOf(h) = max(*s.putsOf(h), batch)
	e := s.find(h, hs.number, k.element)
	if e != nil {
		found = 1
	}
	if e == nil && !k.only || dead(k.dot) {
		return 1, found
	}
	var room [hotDotsMax + 1]clock.Dot
	dots := room[:0]
	if !k.only {
		dots = slices.DeleteFunc(e.appendDots(dots, hs.actor), dead)
	}
	if at, found := slices.BinarySearchFunc(dots, k.dot, clock.Dot.Compare); !found {
		dots = slices.Insert(dots, at, k.dot)
	}
	if e != nil {
		if hotDotsBytes(dots, hs.actor) <= e.room() {
			e.setDots(dots, hs.actor)
			return 1, found
		}
		e.leave()
	}
	if len(dots) <= hotDotsMax {
		t.insert(s, h, hs, k.element, dots)
	}
	return 1, found
}

// find returns the entry of an element, or nil.
func (s *hotShard) find(h uint64, set uint64, element []byte) hotEntry {
	if len(s.ring) == 0 {
		return nil
	}
	for at := *s.chain(h); s.has(at); {
		e := s.entry(at)
		if e.set() == set && string(e.element()) == string(element) {
			return e
		}
		at = e.older()
	}
	return nil
}

// has reports whether the ring still has what was written at a position.
func (s *hotShard) has(at uint32) bool { return at != 0 && s.next-at <= uint32(len(s.ring)) }

func (s *hotShard) entry(at uint32) hotEntry { return hotEntry(s.ring[at%uint32(len(s.ring)):]) }

// insert writes an entry of an element that has none. An entry that is too large is not written. mu is locked.
func (t *hotDots) insert(s *hotShard, h uint64, hs *hotSet, element []byte, dots []clock.Dot) {
	room := max(hotDotBytes, hotDotsBytes(dots, hs.actor))
	n := hotHeaderBytes + len(element) + room
	if n > s.most/hotShare || len(element) > math.MaxUint16 {
		return
	}
	for int(s.next)+n > len(s.ring) && len(s.ring) < s.most {
		t.grow(s)
	}
	at := s.take(uint32(n))
	e, chain := s.entry(at), s.chain(h)
	binary.LittleEndian.PutUint32(e, *chain)
	binary.LittleEndian.PutUint64(e[4:], hs.number)
	binary.LittleEndian.PutUint16(e[12:], uint16(len(element)))
	binary.LittleEndian.PutUint16(e[14:], uint16(room))
	copy(e[hotHeaderBytes:], element)
	e.setDots(dots, hs.actor)
	*chain = at
}

// take returns the position of n bytes in one piece.
func (s *hotShard) take(n uint32) (at uint32) {
	size := uint32(len(s.ring))
	if s.next > s.last {
		clear(s.chains)
		s.next = 1
	}
	if left := size - s.next%size; left < n {
		s.next += left
	}
	at = s.next
	s.next += n
	return at
}

// grow makes a ring larger that has not begun again yet, so that its entries keep their positions.
func (t *hotDots) grow(s *hotShard) {
	ring := make([]byte, min(max(2*len(s.ring), hotRingFirst), s.most))
	copy(ring, s.ring)
	chains := make([]uint32, len(ring)/hotChainBytes)
	t.bytes.Add(int64(len(ring) - len(s.ring) + 4*(len(chains)-len(s.chains))))
	s.ring, s.chains = ring, chains
	for at := uint32(1); at < s.next; {
		e := s.entry(at)
		if e.set() != 0 {
			chain := s.chain(t.hash(e.set(), e.element()))
			binary.LittleEndian.PutUint32(e, *chain)
			*chain = at
		}
		at += uint32(hotHeaderBytes + len(e.element()) + e.room())
	}
}

func (e hotEntry) older() uint32   { return binary.LittleEndian.Uint32(e) }
func (e hotEntry) set() uint64     { return binary.LittleEndian.Uint64(e[4:]) }
func (e hotEntry) leave()          { binary.LittleEndian.PutUint64(e[4:], 0) }
func (e hotEntry) room() int       { return int(binary.LittleEndian.Uint16(e[14:])) }
func (e hotEntry) element() []byte { return e[hotHeaderBytes:][:binary.LittleEndian.Uint16(e[12:])] }

// dots returns the used part of the room for dots.
func (e hotEntry) dots() []byte {
	return e[hotHeaderBytes+len(e.element()):][:binary.LittleEndian.Uint16(e[16:])]
}

func (e hotEntry) appendDots(dst []clock.Dot, own clock.Actor) []clock.Dot {
	for b := e.dots(); len(b) > 0; {
		d, n := clock.Dot{Actor: own}, int(b[0])
		if n > 0 {
			d.Actor = clock.Actor(b[1 : 1+n])
		}
		d.Counter = binary.LittleEndian.Uint64(b[1+n:])
		dst, b = append(dst, d), b[hotDotBytes+n:]
	}
	return dst
}

// setDots writes dots that fit in the room.
func (e hotEntry) setDots(dots []clock.Dot, own clock.Actor) {
	at := hotHeaderBytes + len(e.element())
	b := e[at:at]
	for _, d := range dots {
		if d.Actor == own {
			d.Actor = ""
		}
		b = append(b, byte(len(d.Actor)))
		b = append(b, d.Actor...)
		b = binary.LittleEndian.AppendUint64(b, d.Counter)
	}
	binary.LittleEndian.PutUint16(e[16:], uint16(len(b)))
}

func hotDotsBytes(dots []clock.Dot, own clock.Actor) int {
	n := hotDotBytes * len(dots)
	for _, d := range dots {
		if d.Actor != own {
			n += len(d.Actor)
		}
	}
	return n
}

// hotBatch is how many elements fromHot answers at a time, so that writers do not wait long.
const hotBatch = 64

// fromHot answers the elements whose dots are remembered, and returns how many it leaves.
func (s *Store) fromHot(st *set, elements [][]byte, found []bigset.Context) (left int) {
	left = len(elements)
	var mode *hotMode
	asked := 0
	for from := 0; from < len(elements) && st.hot.Load() != nil; from += hotBatch {
		part := elements[from:min(from+hotBatch, len(elements))]
		var dots []clock.Dot
		st.mu.RLock()
		hs := st.hot.Load()
		if hs != nil {
			mode = hs.mode
		}
		for i, e := range part {
			live, ok, in := s.hot.appendDots(dots, hs, e)
			if asked += in; !ok {
				continue
			}
			if dots == nil {
				live = slices.Grow(live, len(part)) // most elements have one or none
			}
			n := len(dots)
			dots = live[:n+len(slices.DeleteFunc(live[n:], st.dead.Contains))]
			found[from+i] = bigset.Saw(dots[n:len(dots):len(dots)]...)
			left--
		}
		st.mu.RUnlock()
	}
	if asked > 0 {
		s.hot.hits.Add(uint64(len(elements) - left))
		s.hot.count(mode, asked, len(elements)-left)
	}
	return left
}

// putHot changes the entries by the adds of a batch that is committed and not published yet. An iterator shows these already, too.
func (b *builder) putHot() {
	hs := b.st.hot.Load()
	if b.looksUp {
		hs = b.s.hotOf(b.st)
	}
	if len(b.adds) == 0 || hs == nil {
		return
	}
	batch := b.s.hot.puts.Add(1)
	asked, found := 0, 0
	for _, k := range b.adds {
		a, f := b.s.hot.put(hs, k, b.dead, batch)
		asked, found = asked+a, found+f
	}
	if !b.looksUp {
		b.s.hot.count(hs.mode, asked, found)
	}
	if hs.mode != b.s.hot.mode.Load() { // a set that is looked up takes the new one then
		b.st.forgetHot()
	}
}

// publishHot forgets the entries of the set if putHot could not change them by a batch that is being published. set.mu is locked.
func (b *builder) publishHot() {
	if b.st.unresolved != 0 || !b.brought.Empty() {
		b.st.forgetHot()
	}
}

// remembered returns the dots of an element's keys before the batch, if they are remembered: all that were live, and perhaps dead ones. The result is
// the caller's.
func (b *builder) remembered(element []byte) (dots []clock.Dot, ok bool) {
	hs := b.st.hot.Load()
	dots, ok, asked := b.s.hot.appendDots(nil, hs, element)
	if ok {
		b.s.counters.lookUps.Add(1)
		b.s.hot.hits.Add(1)
		b.s.hot.count(hs.mode, 1, 1)
	} else if asked > 0 {
		b.s.hot.count(hs.mode, 1, 0)
	}
	return dots, ok
}

// keep remembers what a look-up for the batch has found: the element as it was before the batch. If the batch replaces that, putHot makes the entry.
func (b *builder) keep(element []byte, dots []clock.Dot, iters *elementIters, replaces bool) {
	switch hs := b.s.hotOf(b.st); {
	case b.st.unresolved != 0 || hs == nil:
	case !replaces:
		b.s.hot.keep(hs, element, dots, math.MaxUint64, iters)
	case hs.mode.shards < uint64(len(b.s.hot.shards)):
		b.s.hot.stepped(hs.mode, iters.stepped())
	}
}
