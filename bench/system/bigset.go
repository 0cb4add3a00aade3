package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// Bigset is the engine.
type Bigset struct {
	ctx          context.Context
	store        *engine.Store
	record       compaction.Record
	actor        clock.Actor
	actors       atomic.Pointer[[]clock.Actor] // of dots, by their generation; copied on write
	keepContexts bool                          // wide contexts are kept unresolved
	stalls       atomic.Uint64                 // times that writes waited for flushes or compactions

	durability bigset.Durability
	received   *received
}

// OpenBigset opens the engine in a folder, which it creates. ctx is the context of all operations.
func OpenBigset(ctx context.Context, dir, name string, o Options) (*Bigset, error) {
	strategy := o.Strategy
	if strategy == nil {
		var err error
		if strategy, err = compaction.ByName(name); err != nil {
			return nil, err
		}
	}
	durability := bigset.NoSync
	if o.Sync {
		durability = bigset.Sync
	}
	b := &Bigset{ctx: ctx, record: o.Record, keepContexts: o.KeepContexts, durability: durability, received: &received{events: map[string]uint64{}}}
	tuning, err := tuned(o.Pebble)
	if err != nil {
		return nil, err
	}
	eo := &engine.Options{
		LSM:    tuning,
		Record: o.Record, Strategy: strategy, Durability: durability, MemTableBytes: o.MemTableBytes,
		KeepContexts: o.KeepContexts, BlockCacheBytes: o.CacheBytes, SetCacheBytes: o.SetCacheBytes,
		FilterCacheBytes: o.FilterCacheBytes, Logger: slog.New(slog.DiscardHandler), Events: b.event,
	}
	if b.store, err = engine.Open(dir, eo); err != nil {
		return nil, err
	}
	b.actor = b.store.Replica().Actor()
	b.actors.Store(&[]clock.Actor{b.actor})
	if old, ok := o.Before.(*Bigset); ok {
		b.actors.Store(old.actors.Load())
		b.received = old.received
	}
	return b, nil
}

func (b *Bigset) event(e engine.Event) {
	if e.Kind == engine.EventStall {
		b.stalls.Add(1)
	}
}

// Set implements System.
func (b *Bigset) Set(name string) Set { return b.Handle(name) }

// Handle returns a handle of a set, as Set does.
func (b *Bigset) Handle(name string) *BigsetSet { return &BigsetSet{sys: b, name: []byte(name)} }

// Store returns the engine's store, for operations that only it has.
func (b *Bigset) Store() *engine.Store { return b.store }

// Actor returns the actor of the store's dots.
func (b *Bigset) Actor() clock.Actor { return b.actor }

// Stalls returns how often writes have waited for flushes or compactions.
func (b *Bigset) Stalls() uint64 { return b.stalls.Load() }

// Record returns the kind of the store's records.
func (b *Bigset) Record() compaction.Record { return b.record }

// Context returns the context of all operations.
func (b *Bigset) Context() context.Context { return b.ctx }

// Dir implements System.
func (b *Bigset) Dir() string { return b.store.Dir() }

// Close implements System.
func (b *Bigset) Close() error { return b.store.Close() }

// Label implements System.
func (b *Bigset) Label() (system, record, strategy string) {
	return NameBigset, b.record.String(), b.store.Strategy().Name()
}

// Fill implements System.
func (b *Bigset) Fill(elements [][]byte) error {
	name := []byte(WarmName())
	if err := b.Handle(string(name)).Insert(elements, nil); err != nil {
		return err
	}
	if err := b.store.Flush(b.ctx); err != nil {
		return err
	}
	if _, err := b.store.Drop(b.ctx, name, bigset.DropOptions{Durability: bigset.Sync}); err != nil {
		return err
	}
	_, err := b.store.Compact(b.ctx, engine.CompactOptions{Set: name}) // this removes the set
	return err
}

// Settle implements System.
func (b *Bigset) Settle(ctx context.Context) (time.Time, error) {
	if err := b.store.Flush(ctx); err != nil {
		return time.Time{}, err
	}
	return b.Rest(ctx, restEnough)
}

// state is what changes when a store works in the background.
type state struct{ flushes, compactions, rewrites, debt, tables uint64 }

// Rest waits until nothing has happened in the background for as long as quiet.
func (b *Bigset) Rest(ctx context.Context, quiet time.Duration) (time.Time, error) {
	return Resting(ctx, quiet, func() (state, bool, error) {
		st, err := b.store.Stats()
		busy := st.FlushesInProgress+st.CompactionsInProgress+st.RewritesInProgress > 0
		return state{st.Flushes, st.Compactions, st.Rewrites + st.RewritesLeft, st.CompactionDebt, st.BytesTables}, busy, err
	})
}

// RestQuiet is how long a store must be idle to count as at rest if its strategy has nothing more to do. It is longer than the engine takes
// to look for work. RestMax is the same if the strategy would rewrite, but finds nothing worth rewriting: it is longer than the engine
// waits after a look without result.
const (
	RestQuiet = 250 * time.Millisecond
	RestMax   = 3 * time.Second
)

// RestFully waits until the strategy has nothing more to do, or finds nothing worth doing.
func (b *Bigset) RestFully(ctx context.Context) error {
	if !b.store.Strategy().Rewrites() {
		return nil // it never does anything by itself
	}
	for began := time.Now(); ; {
		if _, err := b.Rest(ctx, RestQuiet); err != nil {
			return err
		}
		u, err := b.Usage()
		if err != nil {
			return err
		}
		load := compaction.Load{Keys: u.Keys, Live: u.Live, Quiet: time.Since(began)}
		if time.Since(began) > RestMax || !b.store.Strategy().Wants(load) {
			return nil
		}
	}
}

// Usage implements System.
func (b *Bigset) Usage() (Usage, error) {
	st, err := b.store.Stats()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{
		WAL: st.BytesWAL, Flush: st.BytesFlush, Compact: st.BytesCompact, Rewrite: st.BytesRewrite,
		Read: st.BytesRead, Tables: st.BytesTables, Stalls: b.stalls.Load(), KeysTabled: st.KeysTabled, Counted: true, Keys: st.KeysInTables,
	}
	for info, err := range b.store.Sets(b.ctx, bigset.SetsOptions{}) {
		if err != nil {
			return Usage{}, err
		}
		u.Live += info.Live
	}
	return u, nil
}

// Compact implements System.
func (b *Bigset) Compact(ctx context.Context, name string) error {
	_, err := b.store.Compact(ctx, engine.CompactOptions{Set: []byte(name)})
	return err
}

// Drop implements System.
func (b *Bigset) Drop(name string) error {
	_, err := b.store.Drop(b.ctx, []byte(name), bigset.DropOptions{Durability: bigset.Sync})
	return err
}

// Verify implements System.
func (b *Bigset) Verify(name string, elements int) error {
	rep, err := b.store.Verify(b.ctx, engine.VerifyOptions{Set: []byte(name)})
	if err != nil {
		return err
	}
	if !rep.OK() {
		return fmt.Errorf("%w: verify: %d problems, the first is %+v", ErrWrong, rep.ProblemCount, rep.Problems[0])
	}
	c, err := b.store.Count(b.ctx, []byte(name), engine.CountOptions{})
	if err != nil {
		return err
	}
	if err := Expect("elements that verify found", rep.Elements, c.Elements); err != nil {
		return err
	}
	return Expect("elements", c.Elements, uint64(elements))
}

// BigsetSet is a set of the engine.
type BigsetSet struct {
	sys  *Bigset
	name []byte
	*scratch
	seen *clock.Clock // by See
}

// scratch is the memory of a change. All handles of a process share it: a client has a handle for each of many sets, and changes one at a time.
type scratch struct {
	ops     []bigset.Op
	context []clock.Dot
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// begin gives the handle memory for a change, until end.
func (s *BigsetSet) begin() {
	s.scratch = scratches.Get().(*scratch)
	s.ops, s.context = s.ops[:0], s.context[:0]
}

func (s *BigsetSet) end() {
	scratches.Put(s.scratch)
	s.scratch = nil
}

// Name returns the name of the set.
func (s *BigsetSet) Name() []byte { return s.name }

// Reuse makes the handle one of another set, and returns it. The name is not copied.
func (s *BigsetSet) Reuse(name []byte) *BigsetSet {
	s.name = name
	return s
}

// System returns the system that the set is in.
func (s *BigsetSet) System() *Bigset { return s.sys }

// Insert implements Set.
func (s *BigsetSet) Insert(elements [][]byte, dots []uint64) error {
	s.begin()
	defer s.end()
	for _, e := range elements {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: bigset.Saw()})
	}
	return s.write(dots)
}

// write does s.ops and records the dots of the first of them.
func (s *BigsetSet) write(dots []uint64) error {
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	s.sys.note(dots, r.Dots)
	return nil
}

// note records dots.
func (b *Bigset) note(to []uint64, dots []clock.Dot) {
	for i := range to {
		to[i] = b.number(dots[i])
	}
}

// generationShift is the position of the actor's generation in the number of a dot: a store that was opened from a checkpoint writes as
// another actor.
const generationShift = 48

// number returns the number of a dot: its counter and, if the store has had several actors, the index of the actor.
func (b *Bigset) number(d clock.Dot) uint64 {
	actors := b.actors.Load()
	if (*actors)[0] == d.Actor { // the common case: there may be many others
		return d.Counter
	}
	for {
		for i := len(*actors) - 1; i >= 0; i-- {
			if (*actors)[i] == d.Actor {
				return d.Counter | uint64(i)<<generationShift
			}
		}
		more := append(slices.Clone(*actors), d.Actor)
		if b.actors.CompareAndSwap(actors, &more) {
			actors = &more
		} else {
			actors = b.actors.Load()
		}
	}
}

// dot inverts number.
func (b *Bigset) dot(number uint64) clock.Dot {
	return clock.Dot{Actor: (*b.actors.Load())[number>>generationShift], Counter: number & (1<<generationShift - 1)}
}

// Exchange implements Set.
func (s *BigsetSet) Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	s.begin()
	defer s.end()
	for _, d := range goneDots {
		s.context = append(s.context, s.sys.dot(d))
	}
	for _, e := range fresh {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: bigset.Saw()})
	}
	for i, e := range gone {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpRemove, Element: e, Context: bigset.Saw(s.context[i : i+1]...)})
	}
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	s.sys.note(freshDots, r.Dots)
	return Expect("elements removed", r.Removed, len(gone))
}

// Contains implements Set.
func (s *BigsetSet) Contains(element []byte) (bool, error) {
	c, err := s.sys.store.Look(s.sys.ctx, s.name, element)
	if errors.Is(err, bigset.ErrNotFound) { // nothing was ever in it
		return false, nil
	}
	return c.Present, err
}

// unlessNotFound returns nil for the error of a set to which nothing was ever added: it is empty.
func unlessNotFound(err error) error {
	if errors.Is(err, bigset.ErrNotFound) {
		return nil
	}
	return err
}

// Read implements Set.
func (s *BigsetSet) Read(limit int, each func(n int)) error {
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, bigset.ReadOptions{Limit: limit}) {
		if err != nil {
			return unlessNotFound(err)
		}
		each(len(chunk.Elements))
	}
	return nil
}

// First implements Set.
func (s *BigsetSet) First(q Query) (bool, error) {
	o := bigset.ReadOptions{From: q.From, To: q.To, Prefix: q.Prefix, Limit: q.Limit, BatchSize: firstChunk}
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, o) {
		if err != nil {
			return false, unlessNotFound(err)
		}
		if len(chunk.Elements) > 0 { // otherwise it is full of dead keys
			return true, nil
		}
	}
	return false, nil
}

// firstChunk is the chunk size that a client requests when it waits for the first element.
const firstChunk = 1
