package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/keyscheme"
)

// bigsetSystem is the engine.
type bigsetSystem struct {
	ctx    context.Context
	store  *engine.Store
	record compaction.Record
	actor  clock.Actor
	stalls atomic.Uint64 // times that writes waited for flushes or compactions
}

func openBigset(ctx context.Context, dir, name string, o openOptions) (*bigsetSystem, error) {
	strategy, err := compaction.ByName(name)
	if err != nil {
		return nil, err
	}
	durability := bigset.NoSync
	if o.sync {
		durability = bigset.Sync
	}
	b := &bigsetSystem{ctx: ctx, record: o.record}
	b.store, err = engine.Open(dir, &engine.Options{
		Record: o.record, Strategy: strategy, Durability: durability, MemTableBytes: o.memTable,
		OpenContexts: o.openContexts, BlockCacheBytes: o.cache, SetCacheBytes: o.setCache,
		FilterCacheBytes: o.filterCache, Logger: slog.New(slog.DiscardHandler), Events: b.event,
	})
	if err != nil {
		return nil, err
	}
	b.actor = b.store.Actor()
	return b, nil
}

func (b *bigsetSystem) event(e engine.Event) {
	if e.Kind == engine.EventStall {
		b.stalls.Add(1)
	}
}

func (b *bigsetSystem) set(name string) set { return b.handle(name) }

func (b *bigsetSystem) handle(name string) *bigsetSet { return &bigsetSet{sys: b, name: []byte(name)} }

func (b *bigsetSystem) dir() string { return b.store.Dir() }

func (b *bigsetSystem) close() error { return b.store.Close() }

func (b *bigsetSystem) label(r *Row) {
	r.System, r.Record, r.Strategy = systemBigset, b.record.String(), b.store.Strategy().Name()
}

func (b *bigsetSystem) fill(elements [][]byte) error {
	name := []byte(warmName())
	if err := b.handle(string(name)).insert(elements, nil); err != nil {
		return err
	}
	if err := b.store.Flush(b.ctx); err != nil {
		return err
	}
	if _, err := b.store.Drop(b.ctx, name, nil, bigset.Sync); err != nil {
		return err
	}
	_, err := b.store.Compact(b.ctx, engine.CompactOptions{Set: name}) // cuts it out
	return err
}

func (b *bigsetSystem) settle(ctx context.Context) (time.Time, error) {
	if err := b.store.Flush(ctx); err != nil {
		return time.Time{}, err
	}
	return b.rest(ctx, restEnough)
}

// state is what changes when a store does something in the background.
type state struct{ flushes, compactions, rewrites, debt, tables uint64 }

// rest waits until nothing has happened in the background for as long as quiet.
func (b *bigsetSystem) rest(ctx context.Context, quiet time.Duration) (time.Time, error) {
	return resting(ctx, quiet, func() (state, bool, error) {
		st, err := b.store.Stats()
		busy := st.FlushesInProgress+st.CompactionsInProgress+st.RewritesInProgress > 0
		return state{st.Flushes, st.Compactions, st.Rewrites + st.RewritesLeft, st.CompactionDebt, st.BytesTables}, busy, err
	})
}

// restFully waits until the strategy wants nothing more, or finds nothing to do that is worth it.
func (b *bigsetSystem) restFully(ctx context.Context) error {
	if !b.store.Strategy().Rewrites() {
		return nil // it never does anything by itself
	}
	for began := time.Now(); ; {
		if _, err := b.rest(ctx, churnRest); err != nil {
			return err
		}
		u, err := b.usage()
		if err != nil {
			return err
		}
		load := compaction.Load{Keys: u.keys, Live: u.live, Quiet: time.Since(began)}
		if time.Since(began) > churnRestMax || !b.store.Strategy().Wants(load) {
			return nil
		}
	}
}

func (b *bigsetSystem) usage() (usage, error) {
	st, err := b.store.Stats()
	if err != nil {
		return usage{}, err
	}
	u := usage{
		wal: st.BytesWAL, flush: st.BytesFlush, compact: st.BytesCompact, rewrite: st.BytesRewrite,
		read: st.BytesRead, tables: st.BytesTables, counted: true, keys: st.KeysInTables,
	}
	for info, err := range b.store.Sets(b.ctx, false) {
		if err != nil {
			return usage{}, err
		}
		u.live += info.Live
	}
	return u, nil
}

func (b *bigsetSystem) compact(ctx context.Context, name string) error {
	_, err := b.store.Compact(ctx, engine.CompactOptions{Set: []byte(name)})
	return err
}

func (b *bigsetSystem) drop(name string) error {
	_, err := b.store.Drop(b.ctx, []byte(name), nil, bigset.Sync)
	return err
}

func (b *bigsetSystem) verify(name string, elements int) error {
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
	if err := expect("elements that verify found", rep.Elements, c.Elements); err != nil {
		return err
	}
	return expect("elements", c.Elements, uint64(elements))
}

// bigsetSet is a set of the engine.
type bigsetSet struct {
	sys     *bigsetSystem
	name    []byte
	ops     []bigset.Op
	context []clock.Dot
}

func (s *bigsetSet) insert(elements [][]byte, dots []uint64) error {
	s.ops = s.ops[:0]
	for _, e := range elements {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: bigset.Saw()})
	}
	return s.write(dots)
}

// write does s.ops and notes the dots of the first of them.
func (s *bigsetSet) write(dots []uint64) error {
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	for i := range dots {
		dots[i] = r.Dots[i].Counter
	}
	return nil
}

func (s *bigsetSet) observe(element []byte, _ uint64) error {
	s.ops = append(s.ops[:0], bigset.Op{Kind: keyscheme.OpAdd, Element: element})
	return s.write(nil)
}

func (s *bigsetSet) exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	s.ops, s.context = s.ops[:0], s.context[:0]
	for _, d := range goneDots {
		s.context = append(s.context, clock.Dot{Actor: s.sys.actor, Counter: d})
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
	for i := range freshDots {
		freshDots[i] = r.Dots[i].Counter
	}
	return expect("elements removed", r.Removed, len(gone))
}

func (s *bigsetSet) contains(element []byte) (bool, error) {
	c, err := s.sys.store.Contains(s.sys.ctx, s.name, element)
	return c.Present(), err
}

func (s *bigsetSet) read(limit int, each func(n int)) error {
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, bigset.ReadOptions{Limit: limit}) {
		if err != nil {
			return err
		}
		each(len(chunk.Elements))
	}
	return nil
}

func (s *bigsetSet) first(q query) (bool, error) {
	o := bigset.ReadOptions{From: q.from, To: q.to, Prefix: q.prefix, Limit: q.limit, BatchSize: firstChunk}
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, o) {
		if err != nil {
			return false, err
		}
		if len(chunk.Elements) > 0 { // or it is full of keys that are dead
			return true, nil
		}
	}
	return false, nil
}

// firstChunk is the size of the chunk in which a client that waits for the first element asks for it.
const firstChunk = 1

func (s *bigsetSet) takeFirst(n int) error {
	s.ops = s.ops[:0]
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, bigset.ReadOptions{Limit: n, BatchSize: n}) {
		if err != nil {
			return err
		}
		for _, el := range chunk.Elements {
			s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpRemove, Element: el.Name, Context: bigset.Saw(el.Dots...)})
		}
	}
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	return expect("elements taken off", r.Removed, n)
}
