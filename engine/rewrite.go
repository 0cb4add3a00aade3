package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/comparator"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// The rewriter removes dead keys that have settled in the bottom level, where the drop filter is not asked again. It
// copies the live keys of a span of one set to new tables and swaps them in; no delete is written.
//
//	1 log what is written into the span from now on,                 writers held, microseconds
//	  take Seen and Dead, open an iterator
//	2 copy what is not dead into tables; what contexts of unresolved keys
//	  kill goes to Dead (see foldpass.go)
//	3 sync the log: what was read is visible, not yet durable, and the swap is durable
//	4 merge what was logged into the tables that it belongs to       writers held, milliseconds
//	  and swap: IngestAndExcise
//
// Everything that step 1 takes is of one moment. A dot in Seen has its key among those read, or is in Dead. A dead
// key has its successor, if any, among the keys read or among those logged. No key is both.

// lateKeysMax is how many keys, and lateBytesMax how many bytes of keys and values, may be written into a span while
// it is copied. If more are written, the span is left for later.
const (
	lateKeysMax  = 2000
	lateBytesMax = 4 << 20
)

// lateWrites logs the keys written into a span. It belongs to the set's leader.
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
	copied // what the pass keeps
	st     *set
	bounds keyscheme.Bounds
	it     *pebble.Iterator // of the moment at which seen and dead were taken
	seen   *clock.Clock
	dead   *clock.Clock
	heals  *healing // keys to restore or to leave out; nil for none
	holed  bool     // part of the span cannot be read: see holes.go

	last       []byte      // the current element
	element    []keptKey   // keys of last, except those that are resolved and dead
	unresolved bool        // one of them is unresolved
	killed     []clock.Dot // dots killed by the contexts of keys that this pass resolves
	resolved   int         // keys that were unresolved and have been resolved or left out
	read       int         // keys read
	hidden     int         // approximate number of keys that the drop filter hid from the iterator; includes those hidden from other readers of the set
}

// passResult reports what a pass did.
type passResult struct {
	Upper    []byte        // where the span ended: the next one begins there
	Keys     int           // element keys read
	Dropped  int           // of Keys, those left out
	Resolved int           // unresolved keys that were resolved or left out
	Bytes    int64         // bytes of tables written
	Held     time.Duration // how long writers were held for the swap
	Swapped  bool          // false if there was nothing to drop, or if the span is being written
	Left     bool          // the span is being written: try later
}

// rewriteSpan copies the keys of a set from bounds.Lower on, until about SpanBytes or bounds.Upper, and swaps them in
// if worth accepts what was read. A span without a dead key is never worth it.
func (s *Store) rewriteSpan(
	ctx context.Context, st *set, bounds keyscheme.Bounds, worth func(compaction.Span) bool,
) (res passResult, err error) {
	return s.newPass(st, bounds, nil).run(ctx, worth)
}

func (s *Store) newPass(st *set, bounds keyscheme.Bounds, heals *healing) *pass {
	return &pass{copied: copied{s: s, SpanFiles: s.db.SpanFiles()}, st: st, bounds: bounds, heals: heals}
}

// run runs a pass. A pass that heals a key is always worth it.
func (p *pass) run(ctx context.Context, worth func(compaction.Span) bool) (res passResult, err error) {
	began, s, st := time.Now(), p.s, p.st
	s.passes.RLock()
	defer s.passes.RUnlock()
	st.passes.Lock()
	defer st.passes.Unlock()
	s.counters.rewriting.Add(1)
	defer s.counters.rewriting.Add(-1)
	err = p.logging(func() error {
		if err := p.collect(ctx); err != nil {
			return fmt.Errorf("engine: rewrite %q: %w", st.name, lsm.DiskError(err))
		}
		res = p.collected()
		s.counters.rewriteKeys.Add(uint64(res.Keys))
		garbage := max(res.Dropped, res.Resolved)
		span := compaction.Span{Set: string(st.prefix), Lower: p.bounds.Lower, Upper: p.bounds.Upper, Keys: uint64(res.Keys), Dead: uint64(garbage)}
		if !p.heals.some() && (garbage == 0 || !worth(span)) {
			return nil
		}
		if len(p.killed) > 0 { // before the keys whose contexts kill them are removed
			if err := s.holding(st, func() error { return s.amend(st, p.killed, 0) }); err != nil {
				return err
			}
		}
		if err := p.install(ctx, &res); err != nil {
			return err
		}
		s.report(st.name, &res, time.Since(began))
		return nil
	})
	return res, err
}

// logging runs f while writes into the span are logged. The pass's files are removed at the end.
func (p *pass) logging(f func() error) (err error) {
	if err := p.s.holding(p.st, p.begin); err != nil {
		return err
	}
	defer func() { // whatever happens, writers stop logging
		if e := p.s.holding(p.st, p.end); err == nil {
			err = e
		}
		p.RemoveFiles()
	}()
	return f()
}

// collected returns what collect has found.
func (p *pass) collected() passResult {
	keys := p.read + p.hidden
	return passResult{Upper: p.bounds.Upper, Keys: keys, Dropped: keys + len(p.heals.puts()) - len(p.ends), Resolved: p.resolved}
}

// install writes the kept keys to tables and swaps them in.
func (p *pass) install(ctx context.Context, res *passResult) error {
	s, st := p.s, p.st
	if err := p.writeTables(); err != nil {
		return fmt.Errorf("engine: rewrite %q: %w", st.name, lsm.DiskError(err))
	}
	if err := s.flushFor(ctx, st.lastWrite.Load()); err != nil {
		return err
	}
	if err := p.syncLog(); err != nil {
		return err
	}
	if p.resolved > 0 { // the next open must detect a crash between the swap and the update of the count
		if err := s.db.Mark(); err != nil {
			return err
		}
	}
	held := time.Now()
	if err := s.holding(st, func() error { return p.swap(ctx, res) }); err != nil {
		return fmt.Errorf("engine: swap a span of %q: %w", st.name, lsm.DiskError(err))
	}
	res.Held = time.Since(held)
	return nil
}

// flushFor flushes the memtable if it may have keys that were last written at that time: a swap over them would flush it while writers
// are held.
func (s *Store) flushFor(ctx context.Context, lastWrite int64) error {
	if lastWrite < s.db.FlushBegan() {
		return nil
	}
	return s.db.FlushTables(ctx)
}

// report counts a pass and sends its event. A sweep has no set name.
func (s *Store) report(name []byte, res *passResult, took time.Duration) {
	s.counters.held.Add(res.Held)
	e := Event{Kind: EventRewrite, Set: name, Keys: res.Keys, Dropped: res.Dropped, Resolved: res.Resolved, BytesOut: res.Bytes, Took: took, Held: res.Held}
	if res.Left {
		e.Kind = EventRewriteLeft
		s.counters.rewritesLeft.Add(1)
	} else {
		s.counters.rewrites.Add(1)
		s.counters.rewriteDrops.Add(uint64(res.Dropped))
		s.counters.rewriteBytes.Add(uint64(res.Bytes))
		if name == nil {
			s.counters.sweepBytes.Add(uint64(res.Bytes))
		}
	}
	s.event(e)
}

// begin starts to log late writes and takes Seen, Dead and an iterator. Writers are held.
func (p *pass) begin() (err error) {
	v := p.st.view()
	p.seen, p.dead = v.seen, v.dead
	p.it, err = p.s.db.NewIter(&pebble.IterOptions{LowerBound: p.bounds.Lower, UpperBound: p.bounds.Upper})
	if err != nil {
		return fmt.Errorf("engine: rewrite %q: %w", p.st.name, lsm.DiskError(err))
	}
	p.st.late = &lateWrites{bounds: p.bounds}
	return nil
}

// end stops logging late writes. Writers are held.
func (p *pass) end() error {
	p.st.late = nil
	return nil
}

// collect reads the span and keeps the live keys. If the span is large, collect ends it early, before an element.
func (p *pass) collect(ctx context.Context) (err error) {
	it := p.it
	defer lsm.Closing(it, &err)
	hidden := p.s.hidden(p.st)
	defer func() { p.hidden = p.s.hiddenSince(p.st, hidden) }()
	prefixLen, size := len(p.st.prefix), 0
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		element, actor, counter, _, ok := keyscheme.DecodeElement(prefixLen, key)
		if !ok {
			return fmt.Errorf("%w: key %x", bigset.ErrCorrupt, key)
		}
		if string(element) != string(p.last) && (size >= p.s.opt.SpanBytes || p.heals.strays(p.read)) {
			p.bounds.Upper = p.st.prefix.AppendElementBound(nil, element)
			break
		}
		if err := p.inject(key); err != nil {
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
		isUnresolved := keyscheme.IsUnresolved(value)
		if !isUnresolved && p.dead.ContainsBytes(actor, counter) {
			continue
		}
		if p.heals.takes(key) {
			continue
		}
		p.gather(key, value)
		p.unresolved = p.unresolved || isUnresolved
	}
	if err := it.Error(); err != nil {
		return err
	}
	if err := p.inject(p.bounds.Upper); err != nil {
		return err
	}
	return p.endElement()
}

// beginElement ends the current element if this is another one.
func (p *pass) beginElement(element []byte) error {
	if string(element) == string(p.last) {
		return nil
	}
	p.last = append(p.last[:0], element...)
	return p.endElement()
}

// gather copies a key of the current element. The memory of earlier keys is reused.
func (p *pass) gather(key, value []byte) {
	n := len(p.element)
	if n == cap(p.element) {
		p.element = append(p.element, keptKey{})
	}
	p.element = p.element[:n+1]
	k := &p.element[n]
	k.key, k.value = append(k.key[:0], key...), keyscheme.ResolvedValue
	if keyscheme.IsUnresolved(value) {
		k.value = append([]byte(nil), value...)
	}
}

// swap replaces the span by the new tables. Writers are held.
func (p *pass) swap(ctx context.Context, res *passResult) error {
	late := p.st.late
	if late.over {
		res.Left = true
		return nil
	}
	if err := p.mergeLate(late.keys, p.bounds.Upper); err != nil {
		return err
	}
	put := p.heals.puts()
	if len(put) > 0 { // an element may have two live dots again
		if err := p.s.raiseSiblings(p.st); err != nil {
			return err
		}
	}
	// The log must hold the late keys' dots, and everything that killed them, before the swap, which is durable,
	// takes effect.
	if err := p.syncLog(); err != nil {
		return err
	}
	if runs := p.st.runs.Load(); runs != nil && len(put) > 0 {
		runs.split(len(p.st.prefix), put)
		defer runs.applied()
	}
	err := p.s.swapIn(ctx, p.bounds, p.tablePaths(), p.resolved, p.holed)
	if p.heals != nil { // live keys have come and gone
		p.st.forgetHot()
	}
	if err != nil {
		return err
	}
	if len(put) > 0 {
		p.st.keepSiblings()
	}
	res.Swapped, res.Bytes = true, p.Bytes
	if p.resolved > 0 { // after the swap: a crash between them leaves a count that is too high
		return p.s.amend(p.st, nil, -int64(p.resolved))
	}
	return nil
}

// syncLog makes durable what the swap, which is durable at once, relies on.
func (p *pass) syncLog() error { return p.s.db.SyncLog() }

// swapIn replaces everything in a span by tables; resolved is the number of unresolved keys that this resolves.
// Writers of the span are held, and the log is synced. A holed span has blocks that cannot be read.
func (s *Store) swapIn(ctx context.Context, bounds keyscheme.Bounds, paths []string, resolved int, holed bool) error {
	s.swapping.RLock() // readers of many sets wait
	defer s.swapping.RUnlock()
	err := s.db.Swap(ctx, bounds, paths, holed)
	if err == nil {
		s.counters.rewriteResolved.Add(uint64(resolved)) // while Verify, which counts unresolved keys, waits
	}
	return err
}
