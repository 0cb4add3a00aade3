package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/keyscheme"
)

// The rewriter takes away what has settled at the bottom, where no filter is asked again. It copies the live keys of a
// span of one set to new tables and swaps them in; no delete is written.
//
//	1 note what is written into the span from now on,                writers held, microseconds
//	  take Seen and Dead, open an iterator
//	2 copy what is not dead into tables; what contexts of open keys
//	  kill goes to Dead (see foldpass.go)
//	3 sync the log: what was read is visible, not yet durable, and the swap is durable
//	4 merge what was written meanwhile into the tables it falls in   writers held, milliseconds
//	  and swap: IngestAndExcise
//
// All that 1 takes is of one moment: a dot in Seen has its key among those read, or is in Dead; a dead key has its successor,
// if any, among the keys read or among those noted; and no key is both.

// tableKeysBytes is about how many bytes of keys go into one new table. Small tables make it cheap to write one again when
// a late write falls in it.
const tableKeysBytes = 2 << 20

// lateKeysMax is how many keys, and lateBytesMax how many bytes of keys and values, may be written into a span while it is
// copied. With more it is left for later.
const (
	lateKeysMax  = 2000
	lateBytesMax = 4 << 20
)

// keptKey is an element key with its value.
type keptKey struct{ key, value []byte }

// newKept copies an element key, and its value if it is open.
func newKept(key, value []byte) keptKey {
	if !keyscheme.IsOpen(value) {
		return keptKey{append([]byte(nil), key...), keyscheme.ClosedValue}
	}
	return keptKey{append([]byte(nil), key...), append([]byte(nil), value...)}
}

// lateWrites notes the keys written into a span. It belongs to the set's leader.
type lateWrites struct {
	bounds keyscheme.Bounds
	keys   []keptKey
	bytes  int
	over   bool // too many
}

func (l *lateWrites) add(keys []keptKey) {
	for _, k := range keys {
		if comparator.Compare(k.key, l.bounds.Lower) < 0 || comparator.Compare(k.key, l.bounds.Upper) >= 0 {
			continue
		}
		l.bytes += len(k.key) + len(k.value)
		if len(l.keys) == lateKeysMax || l.bytes > lateBytesMax {
			l.over = true
			return
		}
		l.keys = append(l.keys, k)
	}
}

// pass is one run of the rewriter over one span.
type pass struct {
	spanFiles
	st     *set
	bounds keyscheme.Bounds
	it     *pebble.Iterator // of the moment at which seen and dead were taken
	seen   *clock.Clock
	dead   *clock.Clock

	arena    []byte         // the keys to be kept, one after the other
	ends     []int          // where each ends in arena
	values   map[int][]byte // of those of them that stay open, by number
	element  []keptKey      // the keys of the element at hand, but for those that are closed and dead
	open     bool           // one of them is open
	killed   []clock.Dot    // what the contexts of closing keys kill
	resolved int            // keys that were open and are not any more, or are left out
	read     int            // keys read
	last     []byte         // the element at hand
	heals    bool           // it puts keys back: see Heal
	lost     []keptKey      // keys to be put back where they are not found, ascending, those still to come
	lostAt   int            // keys read when the last of them came
	put      []keptKey      // those of them that were
	wrong    [][]byte       // keys to be left out, though they are live: see Heal
	taken    int            // those of them that were
	holed    bool           // part of the span can't be read: see holes.go
	died     int            // those of them whose dots have died meanwhile
	unseen   int            // those of them whose dots have not been seen
	hidden   int            // keys that the filter kept out of the iterator's sight, about: those of other readers of the set count, too
	tables   []copiedTable
}

// copiedTable is a new table: the keys it holds, by their numbers.
type copiedTable struct {
	first, last int // last is exclusive
	path        string
}

// passResult says what a pass did.
type passResult struct {
	Upper   []byte        // where the span ended: the next one starts there
	Keys    int           // element keys read
	Dropped int           // of them those left out
	Closed  int           // of them those that were open and are closed or left out
	Bytes   int64         // bytes of tables written
	Held    time.Duration // how long writers were held for the swap
	Swapped bool          // false when there was nothing to drop, or when the span is being written
	Left    bool          // the span is being written: try later
}

// rewriteSpan copies the keys of a set from bounds.Lower on, until about SpanBytes or bounds.Upper, and swaps them in when
// what was read is worth it. A span without a dead key never is.
func (s *Store) rewriteSpan(
	ctx context.Context, st *set, bounds keyscheme.Bounds, worth func(compaction.Span) bool,
) (res passResult, err error) {
	return s.runPass(ctx, &pass{spanFiles: spanFiles{s: s}, st: st, bounds: bounds}, worth)
}

// runPass runs a pass. One that puts keys back is always worth it.
func (s *Store) runPass(ctx context.Context, p *pass, worth func(compaction.Span) bool) (res passResult, err error) {
	began, st := time.Now(), p.st
	s.passes.RLock()
	defer s.passes.RUnlock()
	st.passes.Lock()
	defer st.passes.Unlock()
	s.counters.rewriting.Add(1)
	defer s.counters.rewriting.Add(-1)
	if err := s.holding(st, p.begin); err != nil {
		return res, err
	}
	defer func() { // whatever happens, writers stop noting
		if e := s.holding(st, p.end); err == nil {
			err = e
		}
		p.removeFiles()
	}()
	if err := p.collect(ctx); err != nil {
		return res, fmt.Errorf("engine: rewrite %q: %w", st.name, diskError(err))
	}
	res = passResult{Upper: p.bounds.Upper, Keys: p.read + p.hidden, Dropped: p.read + p.hidden + len(p.put) - len(p.ends), Closed: p.resolved}
	s.counters.rewriteKeys.Add(uint64(res.Keys))
	garbage := max(res.Dropped, res.Closed)
	span := compaction.Span{Set: string(st.prefix), Lower: p.bounds.Lower, Upper: p.bounds.Upper, Keys: uint64(res.Keys), Dead: uint64(garbage)}
	if len(p.put) == 0 && p.taken == 0 && (garbage == 0 || !worth(span)) {
		return res, nil
	}
	if len(p.killed) > 0 { // before the keys go that say so
		if err := s.holding(st, func() error { return s.amend(st, p.killed, 0) }); err != nil {
			return res, err
		}
	}
	if err := p.writeTables(); err != nil {
		return res, fmt.Errorf("engine: rewrite %q: %w", st.name, diskError(err))
	}
	if err := s.flushFor(ctx, st); err != nil {
		return res, err
	}
	if err := s.syncLog(); err != nil {
		return res, err
	}
	if p.resolved > 0 { // a crash between the swap and the count of it must be known for one
		if err := s.mark(); err != nil {
			return res, err
		}
	}
	held := time.Now()
	if err := s.holding(st, func() error { return p.swap(ctx, &res) }); err != nil {
		return res, fmt.Errorf("engine: swap a span of %q: %w", st.name, diskError(err))
	}
	res.Held = time.Since(held)
	s.told(st.name, &res, time.Since(began))
	return res, nil
}

// flushFor flushes the memtable if the set may have keys in it: a swap over them would flush it while writers are held.
func (s *Store) flushFor(ctx context.Context, st *set) error {
	if st.lastWrite.Load() < s.flushBegan.Load() {
		return nil
	}
	return s.flushTables(ctx)
}

// told counts a pass and tells of it. A sweep has no name of a set.
func (s *Store) told(name []byte, res *passResult, took time.Duration) {
	s.counters.held.add(res.Held)
	e := Event{Kind: EventRewrite, Set: name, Keys: res.Keys, Dropped: res.Dropped, Closed: res.Closed, BytesOut: res.Bytes, Took: took, Held: res.Held}
	if res.Left {
		e.Kind = EventRewriteLeft
		s.counters.rewritesLeft.Add(1)
	} else {
		s.counters.rewrites.Add(1)
		s.counters.rewriteDrops.Add(uint64(res.Dropped))
		s.counters.rewriteBytes.Add(uint64(res.Bytes))
	}
	s.event(e)
}

// begin notes late writes from now on and takes Seen, Dead and an iterator. Writers are held.
func (p *pass) begin() (err error) {
	v := p.st.view()
	p.seen, p.dead = v.seen, v.dead
	p.it, err = p.s.db.NewIter(&pebble.IterOptions{LowerBound: p.bounds.Lower, UpperBound: p.bounds.Upper})
	if err != nil {
		return fmt.Errorf("engine: rewrite %q: %w", p.st.name, diskError(err))
	}
	p.st.late = &lateWrites{bounds: p.bounds}
	return nil
}

// end stops noting late writes. Writers are held.
func (p *pass) end() error {
	p.st.late = nil
	return nil
}

// collect reads the span and keeps the live keys. When the span is large it ends it early, before an element.
func (p *pass) collect(ctx context.Context) (err error) {
	it := p.it
	defer closing(it, &err)
	hidden := p.s.hidden(p.st)
	defer func() { p.hidden = p.s.hiddenSince(p.st, hidden) }()
	prefixLen, size := len(p.st.prefix), 0
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		element, actor, counter, _, ok := keyscheme.DecodeElement(prefixLen, key)
		if !ok {
			return fmt.Errorf("%w: key %x", bigset.ErrCorrupt, key)
		}
		if string(element) != string(p.last) && (size >= p.s.opt.SpanBytes || p.strays()) {
			p.bounds.Upper = p.st.prefix.AppendElementBound(nil, element)
			break
		}
		if err := p.putBack(key); err != nil {
			return err
		}
		if err := p.beginElement(element); err != nil {
			return err
		}
		if p.read++; p.read%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		size += len(key) + len(value)
		isOpen := keyscheme.IsOpen(value)
		if !isOpen && p.dead.ContainsBytes(actor, counter) {
			continue
		}
		if slices.ContainsFunc(p.wrong, func(k []byte) bool { return bytes.Equal(k, key) }) {
			p.taken++
			continue
		}
		p.gather(key, value)
		p.open = p.open || isOpen
	}
	if err := it.Error(); err != nil {
		return err
	}
	if err := p.putBack(p.bounds.Upper); err != nil {
		return err
	}
	return p.endElement()
}

// beginElement ends the element at hand if this is another one.
func (p *pass) beginElement(element []byte) error {
	if string(element) == string(p.last) {
		return nil
	}
	p.last = append(p.last[:0], element...)
	return p.endElement()
}

// gather copies a key of the element at hand. The memory of the keys before is used again.
func (p *pass) gather(key, value []byte) {
	n := len(p.element)
	if n == cap(p.element) {
		p.element = append(p.element, keptKey{})
	}
	p.element = p.element[:n+1]
	k := &p.element[n]
	k.key, k.value = append(k.key[:0], key...), keyscheme.ClosedValue
	if keyscheme.IsOpen(value) {
		k.value = append([]byte(nil), value...)
	}
}

// key returns the i-th key to be kept.
func (p *pass) key(i int) []byte {
	start := 0
	if i > 0 {
		start = p.ends[i-1]
	}
	return p.arena[start:p.ends[i]]
}

// value returns the value of the i-th key to be kept.
func (p *pass) value(i int) []byte {
	if v, open := p.values[i]; open {
		return v
	}
	return keyscheme.ClosedValue
}

// writeTables writes the keys to be kept to new tables.
func (p *pass) writeTables() error {
	for first := 0; first < len(p.ends); {
		last := first
		for size := 0; last < len(p.ends) && size <= tableKeysBytes; last++ {
			size += len(p.key(last)) + len(p.value(last))
		}
		t := copiedTable{first: first, last: last}
		var err error
		if t.path, err = p.writeTable(func(yield func(key, value []byte) error) error {
			for i := first; i < last; i++ {
				if err := yield(p.key(i), p.value(i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		p.tables = append(p.tables, t)
		first = last
	}
	return nil
}

// swap puts the new tables in place of the span. Writers are held.
func (p *pass) swap(ctx context.Context, res *passResult) error {
	late := p.st.late
	if late.over {
		res.Left = true
		return nil
	}
	if err := p.mergeLate(late.keys); err != nil {
		return err
	}
	if len(p.put) > 0 { // an element may have two live dots again
		if err := p.s.raiseSiblings(p.st); err != nil {
			return err
		}
	}
	// The log must hold the late keys' dots and all that killed them before the swap, which is durable, takes effect.
	if err := p.s.syncLog(); err != nil {
		return err
	}
	paths := make([]string, len(p.tables))
	for i, t := range p.tables {
		paths[i] = t.path
	}
	if runs := p.st.runs.Load(); runs != nil && len(p.put) > 0 {
		runs.cut(len(p.st.prefix), p.put)
		defer runs.applied()
	}
	if err := p.s.swapIn(ctx, p.bounds, paths, p.resolved, p.holed); err != nil {
		return err
	}
	if len(p.put) > 0 {
		p.st.keepSiblings()
	}
	res.Swapped, res.Bytes = true, p.bytes
	if p.resolved > 0 { // after the swap: a crash between them leaves a count that is too high
		return p.s.amend(p.st, nil, -int64(p.resolved))
	}
	return nil
}

// cut runs an excise of a span after the blocks at both of its ends were read in every level. Pebble cuts the tables that
// reach over an end, and there it takes an error of reading a block for the end of the table: what lies behind would be lost
// without a word (excise.go, determineRightTableBounds, v2.1.7). Damage is found by reading before. What can't be read a
// second time ends the process, as does a MANIFEST that can't be written: the excise runs in a goroutine of its own, so
// that nothing that the caller has deferred, and that may wait for the caller, keeps a panic from that. Of a span with a hole only
// what stays is read, as Pebble does: what lies before it and behind it.
func (s *Store) cut(span keyscheme.Bounds, holed bool, excise func() error) (err error) {
	seeks := []func(*pebble.Iterator){
		func(it *pebble.Iterator) { it.SeekLT(span.Lower) },
		func(it *pebble.Iterator) { it.SeekGE(span.Upper) },
	}
	if !holed {
		seeks = append(seeks, func(it *pebble.Iterator) { it.SeekGE(span.Lower) }, func(it *pebble.Iterator) { it.SeekLT(span.Upper) })
	}
	for _, seek := range seeks {
		var it *pebble.Iterator
		if it, err = s.db.NewIter(nil); err != nil {
			return err
		}
		defer closing(it, &err)
		if seek(it); it.Error() != nil {
			return it.Error()
		}
	}
	done := make(chan error, 1)
	go func() { done <- excise() }()
	return <-done
}

// mergeLate writes those tables again into which late keys fall.
func (p *pass) mergeLate(late []keptKey) error {
	late = slices.DeleteFunc(late, func(k keptKey) bool { return comparator.Compare(k.key, p.bounds.Upper) >= 0 })
	if len(late) == 0 {
		return nil
	}
	slices.SortFunc(late, func(a, b keptKey) int { return comparator.Compare(a.key, b.key) })
	if len(p.tables) == 0 {
		p.tables = []copiedTable{{}}
	}
	for i := range p.tables {
		t := &p.tables[i]
		n := len(late)
		if i+1 < len(p.tables) { // those before the next table's first key; the last table takes the rest
			next := p.key(p.tables[i+1].first)
			n, _ = slices.BinarySearchFunc(late, next, func(k keptKey, key []byte) int { return comparator.Compare(k.key, key) })
		}
		if n == 0 {
			continue
		}
		var err error
		if t.path, err = p.writeTable(p.merging(*t, late[:n])); err != nil {
			return err
		}
		late = late[n:]
	}
	return nil
}

// merging yields a table's keys and late ones in order.
func (p *pass) merging(t copiedTable, late []keptKey) func(yield func(key, value []byte) error) error {
	return func(yield func(key, value []byte) error) error {
		for i := t.first; i < t.last || len(late) > 0; {
			var next keptKey
			if len(late) == 0 || i < t.last && comparator.Compare(p.key(i), late[0].key) < 0 {
				next = keptKey{p.key(i), p.value(i)}
				i++
			} else {
				next, late = late[0], late[1:]
			}
			if err := yield(next.key, next.value); err != nil {
				return err
			}
		}
		return nil
	}
}
