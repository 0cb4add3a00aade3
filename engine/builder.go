package engine

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// builder makes the batch of one group: element keys, tombstone growth, clock. It works on the leader's view of the set:
// next (Seen with what this batch adds) and killed (what this batch adds to Dead). Readers see nothing of it before
// publish.
type builder struct {
	s       *Store
	st      *set
	batch   *pebble.Batch
	iters   elementIters // for policy coordinator, opened once a group
	err     error        // the disk failed: the group can't be written
	spoiled bool         // a request was refused after some of it was taken in: the batch must be made again, without that request

	stored  [][]clock.Dot   // what this store has of the element of each operation of a request, if they were looked up in advance
	looksUp bool            // a request looks elements up
	entered *lsm.Generation // the generation that knows the elements of the batch; nil before the first one

	actor      clock.Actor                   // this store's, for the set
	first      uint64                        // the last dot of actor before this batch
	counter    uint64                        // the last dot of actor that was minted
	learned    []clock.Dot                   // what else enters Seen
	killed     dotBag                        // what enters Dead
	cleared    *clock.Clock                  // what a whole-set delete puts into Seen and Dead, or nil
	brought    *clock.Clock                  // what enters Seen with tables that are ingested with the batch, or nil
	sibling    bool                          // an element may have two live dots after the batch
	requests   map[string]*keyscheme.Request // what the batch keeps of requests, by their ids
	remembers  []keptRequest                 // their records
	aged       bool                          // some records are of another store, and older than what this one has kept since
	forgets    []keptRequest                 // older records that the batch deletes, taken off the request log
	flags      keyscheme.ClockFlags          // the flags that the batch sets in the clock: which records have pages, whether a tombstone exists
	unresolved int64                         // by how much the count of unresolved keys grows

	sole           bool                      // the group has one request
	overlay        bool                      // an operation may need what an earlier one of the group did
	adds           []addKey                  // its resolved keys, which finish writes
	written        int                       // how many of them are written
	minted         map[string][]clock.Dot    // element -> its keys in this batch that may be live
	unresolvedDots map[clock.Dot]struct{}    // the dots of its unresolved keys in this batch
	wides          map[string][]*clock.Clock // element -> the contexts of its unresolved keys in this batch
	runs           *deadRuns                 // the set's, nil when it has none
	puts           []keptKey                 // element keys in this batch, for a rewriter that copies the span and for dead runs
	recent         []byte                    // those of puts that are resolved adds, for the log of recent writes
	removed        []byte                    // keys of dots that die by an operation on their element, for Removed
	added          int
	buf            []byte
	scratch        []byte
}

var builders = sync.Pool{New: func() any { return &builder{} }}

func (s *Store) newBuilder(st *set, group []*request) *builder {
	b := builders.Get().(*builder)
	b.s, b.st, b.batch, b.actor = s, st, s.db.NewBatch(), s.actorOf(st)
	b.runs = st.runs.Load()
	b.first = st.next.Max(b.actor)
	b.counter = b.first
	looksUp := slices.ContainsFunc(group, func(r *request) bool { return r.looksUp(r.opt.Policy) })
	b.looksUp = looksUp
	b.sole, b.overlay = len(group) == 1, looksUp && several(group)
	return b
}

// several reports whether a group has at least two operations. If one of them looks up its element, it may need the keys that an earlier
// one wrote.
func several(group []*request) bool {
	all := 0
	for _, r := range group {
		keys, _ := r.size(0)
		all += keys
	}
	return all > 1
}

// release gives the builder back. The batch is the committer's by now, unless nothing was written.
func (b *builder) release() {
	_ = b.iters.Close() // they are checked where they are used
	if b.entered != nil {
		b.s.db.Unflushed.Leave(b.entered, 0)
	}
	if b.batch != nil {
		_ = b.batch.Close()
	}
	if len(b.forgets) > 0 { // the batch was not written
		b.s.requestLog.putBack(b.forgets)
	}
	if b.batch != nil && len(b.remembers) > 0 { // nor were these
		b.s.requestLog.gone(b.remembers)
	}
	b.killed.reset()
	clear(b.adds)
	if cap(b.adds) > addKeysKept {
		b.adds = nil
	}
	*b = builder{recent: reusable(b.recent), removed: reusable(b.removed), buf: b.buf[:0], scratch: b.scratch[:0], learned: b.learned[:0], killed: b.killed,
		adds: b.adds[:0]}
	builders.Put(b)
}

// empty reports whether the batch changes nothing.
func (b *builder) empty() bool {
	return b.counter == b.first && len(b.learned) == 0 && len(b.killed.dots) == 0 && b.cleared == nil && b.unresolved == 0 &&
		len(b.remembers) == 0 && b.brought.Empty()
}

// clear puts a whole clock into Seen and Dead. A clock that is already dead is no event: a delta may arrive any
// number of times.
func (b *builder) clear(k *clock.Clock) {
	if b.st.dead.Descends(k) {
		return
	}
	if b.cleared == nil {
		b.cleared = k.Clone()
	} else {
		b.cleared.Union(k)
	}
	b.st.next.Union(k)
}

// learn puts a dot into Seen. It reports whether it is new. By rule R0 the same batch must hold its key or kill it.
func (b *builder) learn(dot clock.Dot) bool {
	if !b.st.next.Add(dot) {
		return false
	}
	b.learned = append(b.learned, dot)
	return true
}

// addDead puts a dot into Dead. It reports whether it is new there.
func (b *builder) addDead(dot clock.Dot) bool {
	if b.st.dead.Contains(dot) || b.cleared != nil && b.cleared.Contains(dot) {
		return false
	}
	return b.killed.add(dot)
}

// kill puts the dots of an element's context into Seen and Dead. It writes no point delete if keys may be unresolved:
// the context of an unresolved key counts even after the key is dead.
func (b *builder) kill(element []byte, dots []clock.Dot) {
	for _, dot := range dots {
		unseen := b.learn(dot)
		if !b.addDead(dot) {
			continue
		}
		b.remove(element, dot)
		if !unseen && b.s.deletes && b.st.unresolved+b.unresolved == 0 {
			b.delete(element, dot)
		}
	}
}

// killsAny reports whether one of the dots is not dead yet.
func (b *builder) killsAny(dots []clock.Dot) bool {
	for _, d := range dots {
		if !b.dead(d) {
			return true
		}
	}
	return false
}

func (b *builder) dead(d clock.Dot) bool {
	return b.st.dead.Contains(d) || b.killed.contains(d) || b.cleared != nil && b.cleared.Contains(d)
}

// addKey is the key of an add, which is resolved.
type addKey struct {
	element []byte
	dot     clock.Dot
	only    bool // the batch kills all dots of the element that it has found; later operations may add others
}

// addKeysKept is for how many of them a builder keeps the room for its next batch.
const addKeysKept = 1 << 14

// put puts the key of an add into the batch. An element key is written once and never again.
func (b *builder) put(k addKey) {
	b.adds = append(b.adds, k)
	b.mint(k.element, k.dot)
	if b.s.deletes { // a point delete of the key may follow
		b.writeAdds()
	}
}

// putUnresolved puts a key with a wide context into the batch.
func (b *builder) putUnresolved(element []byte, dot clock.Dot, kind keyscheme.Op, wide *clock.Clock) {
	b.unresolved++
	b.writeKey(element, dot, kind, wide)
	if b.mint(element, dot); !b.overlay {
		return
	}
	if b.wides == nil {
		b.wides, b.unresolvedDots = map[string][]*clock.Clock{}, map[clock.Dot]struct{}{}
	}
	b.unresolvedDots[dot] = struct{}{}
	b.wides[string(element)] = append(b.wides[string(element)], wide)
}

// mint shows later operations of the group the dot of a key.
func (b *builder) mint(element []byte, dot clock.Dot) {
	if !b.overlay {
		return
	}
	if b.minted == nil {
		b.minted = map[string][]clock.Dot{}
	}
	b.minted[string(element)] = append(b.minted[string(element)], dot)
}

// writeAdds writes the keys of adds that are not written yet, in their order: a memtable takes them faster so.
func (b *builder) writeAdds() {
	adds := b.adds[b.written:]
	b.written = len(b.adds)
	if len(adds) < orderedMin {
		for _, k := range adds {
			b.writeKey(k.element, k.dot, keyscheme.OpAdd, nil)
		}
		return
	}
	for _, i := range keyOrder(len(adds), func(i int) []byte { return adds[i].element }) {
		b.writeKey(adds[i].element, adds[i].dot, keyscheme.OpAdd, nil)
	}
}

func (b *builder) writeKey(element []byte, dot clock.Dot, kind keyscheme.Op, wide *clock.Clock) {
	b.enter(element)
	b.buf = b.st.prefix.AppendElement(b.buf[:0], element, dot, kind)
	n, value := len(b.buf), keyscheme.ResolvedValue
	if wide != nil {
		b.buf = keyscheme.AppendElementValue(b.buf, wide)
		value = b.buf[n:]
	}
	b.check(b.s.writeElement(b.batch, b.buf[:n], value))
	b.added++
	if wide == nil && b.s.recent.on.Load() {
		b.recent = appendRecent(b.recent, b.buf[:n])
	}
	if b.st.late != nil || b.runs != nil {
		b.puts = append(b.puts, newKept(b.buf[:n], value))
	}
}

// delete writes a point delete of a key that was killed: the classical way, on stores of Set records only.
func (b *builder) delete(element []byte, dot clock.Dot) {
	b.enter(element)
	b.buf = b.st.prefix.AppendElement(b.buf[:0], element, dot, keyscheme.OpAdd)
	b.check(b.batch.Delete(b.buf, nil))
}

// enter makes the batch's key of an element known to look-ups.
func (b *builder) enter(element []byte) {
	u := &b.s.db.Unflushed
	if b.entered == nil {
		b.entered = u.Enter()
	}
	b.buf = b.st.prefix.AppendElementBound(b.buf[:0], element)
	u.Add(b.entered, b.buf)
}

func (b *builder) check(err error) {
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("engine: batch for %q: %w", b.st.name, lsm.DiskError(err))
	}
}

// writeElement writes an element key in the store's kind of record.
func (s *Store) writeElement(batch *pebble.Batch, key, value []byte) error {
	if s.record == compaction.Set {
		return batch.Set(key, value, nil)
	}
	return batch.Merge(key, value, nil)
}

// lookUpAll looks up the elements of a request's operations in the order of their keys, if the request has enough of
// them.
func (b *builder) lookUpAll(r *request) {
	b.stored = nil
	if len(r.ops) < orderedMin || !r.looksUp(r.opt.Policy) {
		return
	}
	order := keyOrder(len(r.ops), func(i int) []byte { return r.ops[i].Element })
	apart := b.sole // no operation needs what another one of the group did
	var last []byte // element
	var stored [][]clock.Dot
	var ask []int      // the operations whose elements are looked up
	var again [][2]int // operations on the element of an earlier one that is in ask, and that one
	asked := -1
	if b.st.next.HasMore(b.st.dead) {
		stored, ask = make([][]clock.Dot, len(r.ops)), make([]int, 0, len(r.ops))
	}
	for n, i := range order {
		element, c := r.ops[i].Element, &r.ops[i].Context
		same := n > 0 && bytes.Equal(element, last)
		if same || c.Wide != nil {
			apart = false
		}
		if last = element; !same {
			asked = -1
		}
		if stored != nil && (c.Wide != nil && !b.s.opt.KeepContexts || !c.Given && r.opt.Policy == bigset.PolicyCoordinator) {
			if asked >= 0 {
				again = append(again, [2]int{i, asked})
			} else if dots, ok := b.remembered(element); ok {
				stored[i] = dots
			} else {
				ask, asked = append(ask, i), i
			}
		}
	}
	before := b.iters.waited() // for earlier requests of the group
	for n, i := range ask {
		if b.iters.cold(n, len(ask)-n, before) {
			b.check(b.lookUpShared(r, ask[n:], stored))
			break
		}
		stored[i] = b.lookUp(r.ops[i].Element, b.sole && r.replaces(i))
	}
	for _, a := range again {
		stored[a[0]] = slices.Clone(stored[a[1]])
	}
	b.stored = stored
	b.overlay = b.overlay && !apart
}

// lookUpShared looks up the elements of the operations ask, which wait for the disk, several at a time. The group holds
// the set's writers, so all iterators see the same keys of it.
func (b *builder) lookUpShared(r *request, ask []int, stored [][]clock.Dot) error {
	b.s.counters.lookUps.Add(uint64(len(ask)))
	return shared(len(ask), func(from, to int) (err error) {
		iters := b.s.elementIters(b.st)
		defer lsm.Closing(&iters, &err)
		for _, i := range ask[from:to] {
			if stored[i], err = b.look(&iters, r.ops[i].Element, b.sole && r.replaces(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// lookUp returns the dots of an element's keys in this store that were not dead before the batch. They are remembered at once, unless the batch
// replaces them and does not look the element up again.
func (b *builder) lookUp(element []byte, replaces bool) []clock.Dot {
	if b.iters.st == nil {
		b.iters = b.s.elementIters(b.st)
	}
	b.s.counters.lookUps.Add(1)
	dots, err := b.look(&b.iters, element, replaces)
	b.check(err)
	return dots
}

// look is lookUp with given iterators.
func (b *builder) look(iters *elementIters, element []byte, replaces bool) ([]clock.Dot, error) {
	dots, err := iters.appendDots(nil, element, b.actor)
	if err != nil {
		return nil, err
	}
	dots = slices.DeleteFunc(dots, b.st.dead.Contains)
	b.keep(element, dots, iters, replaces)
	return dots, nil
}

// notStored stands for an operation whose element was not looked up in advance.
const notStored = -1

// liveDots returns the live dots of an operation's element in this store, including what earlier operations of the
// group did. If within is not nil, it returns only those that within contains.
func (b *builder) liveDots(op int, element []byte, within *clock.Clock) []clock.Dot {
	var dots []clock.Dot
	if b.stored != nil && op != notStored {
		dots = b.stored[op]
	} else if b.st.next.HasMore(b.st.dead) { // an empty set has none
		var ok bool
		if dots, ok = b.remembered(element); !ok {
			dots = b.lookUp(element, false)
		}
	}
	if b.err != nil {
		return nil
	}
	if minted := b.minted[string(element)]; len(minted) > 0 { // a dot that is dead by now is not looked at again
		b.minted[string(element)] = slices.DeleteFunc(minted, b.dead)
		dots = append(dots, b.minted[string(element)]...)
	}
	return slices.DeleteFunc(dots, func(d clock.Dot) bool {
		return b.dead(d) || within != nil && !within.Contains(d) || b.superseded(element, d)
	})
}

// superseded reports whether an unresolved key that an earlier operation of the group wrote supersedes a dot.
func (b *builder) superseded(element []byte, d clock.Dot) bool {
	for _, wide := range b.wides[string(element)] {
		if wide.Contains(d) {
			return true
		}
	}
	return false
}

// finish writes keys of adds, tombstone growth and the clock key.
func (b *builder) finish() {
	b.writeAdds()
	if len(b.killed.dots) > 0 || b.cleared != nil {
		b.writeTombstone()
	}
	b.writeClock()
}

// land commits the batch and publishes it. With sync it returns a function that waits until the batch is durable. After an error
// memory is as it was before the batch.
func (b *builder) land(sync bool) (wait func() error, err error) {
	if b.s.deletes { // a Moment opens no iterator between the commit, which deletes keys, and the publication
		b.s.deleting.RLock()
		defer b.s.deleting.RUnlock()
	}
	wait, err = b.s.db.CommitElements(b.batch, sync, b.entered)
	b.entered = nil // the commit has taken it over
	if err != nil {
		b.st.resetNext()
		b.st.forgetHot()
		return nil, err
	}
	b.publish()
	return wait, nil
}

// accountEvery is the number of batches of a set after which its size in memory is measured again.
const accountEvery = 256

// countEvery is the number of batches of a set after which the bytes of its tombstone are counted again.
const countEvery = 16

// publish lets readers see what the batch did. It is called after the batch was applied, so that what readers take as
// Seen and Dead is never newer than the keys they find.
func (b *builder) publish() {
	st := b.st
	if len(b.forgets) > 0 {
		b.s.requestLog.gone(b.forgets)
	}
	if len(b.remembers) > 0 { // before Seen: a copy that finds the events in Seen finds their record, too
		b.s.requestLog.add(b.remembers, b.aged)
	}
	b.batch, b.forgets = nil, nil // the committer's, and written
	kills := len(b.killed.dots) > 0 || b.cleared != nil
	b.s.removed.add(b.removed) // before Dead: a reader that finds a dot in Dead finds the name, too
	b.putHot()
	st.mu.Lock()
	st.seen.AddRange(b.actor, b.first+1, b.counter)
	for _, d := range b.learned {
		st.seen.Add(d)
	}
	if b.cleared != nil {
		st.seen.Union(b.cleared)
	}
	st.seen.Union(b.brought)
	st.exists, st.shown, st.unresolved = true, nil, st.unresolved+b.unresolved
	st.flags |= b.flags
	if b.sibling {
		st.flags |= keyscheme.FlagSiblings
		st.raises++
	}
	if kills {
		b.addDeadTo(st.dead)
		st.version++
	}
	b.publishHot()
	st.changed()
	had := st.counted.live.Load() > 0
	b.s.sets.count(st, kills && st.batches%countEvery == 0)
	has := st.counted.live.Load() > 0
	st.mu.Unlock()
	if has && !had {
		b.s.countChange(st, 1)
	} else if had && !has {
		b.s.countChange(st, -1)
	}
	if b.runs != nil {
		b.runs.applied()
	}
	if st.late != nil {
		st.late.add(b.puts)
	}
	b.s.recent.add(b.recent)
	b.s.counters.added.Add(uint64(b.added))
	if st.batches++; st.batches%accountEvery == 0 {
		st.recordBytes.Store(st.seenRecord.heapBytes() + st.deadRecord.heapBytes())
		b.s.sets.account(st)
	}
	if kills {
		b.s.publisher.grew(st)
	}
	if b.cleared != nil {
		b.s.runner.dropped(st)
	}
}
