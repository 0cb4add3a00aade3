package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/keyscheme"
)

// Add adds elements to a set, in one atomic batch; each gets a dot of its own. It reads none of the set's elements, but
// for the dots that policy coordinator asks for. An element that is present already gets a new dot in place of those that
// the context names: skipping it would let a concurrent remove that saw only the old dot win.
func (s *Store) Add(ctx context.Context, name []byte, elements [][]byte, o WriteOptions) (Result, error) {
	return s.Write(ctx, name, opsOf(keyscheme.OpAdd, elements), o)
}

// Remove removes elements from a set, in one atomic batch. Removing what is absent is no event; Result.Removed counts the
// others.
func (s *Store) Remove(ctx context.Context, name []byte, elements [][]byte, o WriteOptions) (Result, error) {
	return s.Write(ctx, name, opsOf(keyscheme.OpRemove, elements), o)
}

func opsOf(kind keyscheme.Op, elements [][]byte) []Op {
	ops := make([]Op, len(elements))
	for i, e := range elements {
		ops[i] = Op{Kind: kind, Element: e}
	}
	return ops
}

// Write does operations, each with a context of its own, in order and in one atomic batch: all of it or, with an error,
// nothing. An error after the batch was applied wraps ErrFailed and says nothing about whether it happened. It may be
// called by any number of goroutines; those that write one set at the same time share a batch.
func (s *Store) Write(ctx context.Context, name []byte, ops []Op, o WriteOptions) (Result, error) {
	if err := checkOps(name, ops); err != nil {
		return Result{}, err
	}
	if err := s.checkRequest(o); err != nil {
		return Result{}, err
	}
	r := requests.Get().(*request)
	r.ops, r.opt = ops, o
	err := s.writeTo(ctx, name, r)
	result := r.result
	r.ops, r.result, r.err = nil, Result{}, nil
	requests.Put(r)
	return result, err
}

func (s *Store) writeTo(ctx context.Context, name []byte, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.opt.Durability > NoSync || r.opt.Policy > PolicyRequired {
		return fmt.Errorf("%w: durability %d, policy %d", ErrRequest, r.opt.Durability, r.opt.Policy)
	}
	if r.opt.Durability == DefaultDurability {
		r.opt.Durability = s.opt.Durability
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.writable(); err != nil {
		return err
	}
	if r.adds() {
		if err := s.disk.room(); err != nil {
			return err
		}
	}
	if err := s.disk.stalled(); err != nil {
		return err
	}
	st, err := s.sets.acquire(name)
	if err != nil {
		return s.metIn(name, err)
	}
	defer s.sets.release(st)
	st.lead.Take()
	s.submit(st, r)
	st.lead.Leave()
	return s.metIn(name, r.err)
}

// adds reports whether a request would add anything.
func (r *request) adds() bool {
	for i := range r.ops {
		if r.ops[i].Kind == keyscheme.OpAdd {
			return true
		}
	}
	if r.facts != nil {
		return len(r.facts.Keys) > 0
	}
	if r.delta == nil {
		return false
	}
	for i := range r.delta.Items {
		if r.delta.Items[i].Kind == keyscheme.OpAdd {
			return true
		}
	}
	return false
}

func checkOps(name []byte, ops []Op) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(ops) > BatchOpsMax {
		return &LimitError{"operations in a batch", len(ops), BatchOpsMax}
	}
	total, dots := 0, 0
	for i := range ops {
		op := &ops[i]
		if op.Kind != keyscheme.OpAdd && op.Kind != keyscheme.OpRemove {
			return fmt.Errorf("%w: operation %d is of kind %q: it is add or remove", ErrRequest, i, op.Kind)
		}
		if err := checkElement(op.Element); err != nil {
			return err
		}
		if err := checkContext(op.Context); err != nil {
			return err
		}
		total += len(op.Element) + wideBytes(op.Context.Wide)
		dots += len(op.Context.Dots)
	}
	if total > BatchBytesMax {
		return &LimitError{"bytes of elements in a batch", total, BatchBytesMax}
	}
	return checkBatch(name, len(ops), total, dots)
}

// checkBatch bounds what a batch comes to on disk: each operation writes the set's name again. Pebble panics at 4 GiB.
func checkBatch(name []byte, ops, elementBytes, dots int) error {
	if n := ops*(len(name)+keyBytes) + elementBytes + dots*dotBytes; n > BatchKeysBytesMax {
		return &LimitError{"bytes of keys in a batch", n, BatchKeysBytesMax}
	}
	return nil
}

func checkName(name []byte) error {
	if len(name) == 0 {
		return fmt.Errorf("%w: a set has no name", ErrRequest)
	}
	if len(name) > SetNameBytesMax {
		return &LimitError{"bytes of a set name", len(name), SetNameBytesMax}
	}
	return nil
}

func checkElement(e []byte) error {
	if len(e) > ElementBytesMax {
		return &LimitError{"bytes of an element", len(e), ElementBytesMax}
	}
	return nil
}

// wideBytes returns the size of a wide context in memory, 0 without one.
func wideBytes(wide *clock.Clock) int {
	if wide == nil {
		return 0
	}
	return wide.HeapBytes()
}

func checkContext(c Context) error {
	if n := wideBytes(c.Wide); n > WideContextBytesMax {
		return &LimitError{"bytes of a wide context", n, WideContextBytesMax}
	}
	return checkDots(c.Dots)
}

func checkDots(dots []clock.Dot) error {
	if len(dots) > ContextDotsMax {
		return &LimitError{"dots in a context", len(dots), ContextDotsMax}
	}
	for _, d := range dots {
		if d.Counter == 0 || len(d.Actor) == 0 || len(d.Actor) > clock.ActorBytesMax {
			return fmt.Errorf("%w: %v is no dot", ErrContext, d)
		}
	}
	return nil
}

// writeGroup builds and applies one batch for the group, and returns how to wait for it to be durable, nil when nobody
// asked for that. It is called by the set's leader. Errors are left in the requests.
func (s *Store) writeGroup(st *set, group []*request) (wait func() error) {
	b := s.newBuilder(st, group)
	defer b.release()
	sync := false
	for _, r := range group {
		if r.err = b.add(r); r.err == nil {
			sync = sync || r.opt.Durability == Sync
		}
	}
	if b.err == nil && !b.empty() {
		b.finish()
	}
	if b.err != nil { // the disk failed in the middle: nothing of the group is written, its dots were never shown
		st.resetNext()
		failAll(group, b.err)
		return nil
	}
	if b.empty() {
		if err := s.writable(); err != nil {
			failAll(group, err)
			return nil
		}
		if sync { // what was found must be durable before it is acknowledged
			return s.waitDurable(s.applied.Load())
		}
		return nil
	}
	if b.runs != nil {
		b.runs.cut(len(st.prefix), b.puts)
	}
	wait, err := s.commit(b.batch, sync)
	if err != nil {
		st.resetNext()
		failAll(group, err)
		return nil
	}
	b.publish()
	st.touch()
	return wait
}

func failAll(group []*request, err error) {
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
	}
}

// commit applies a batch to Pebble. It returns how to wait for it to be durable, nil when that was not asked for; the batch
// is closed when nobody needs it any more. A failure fails the store for good.
func (s *Store) commit(batch *pebble.Batch, sync bool) (wait func() error, err error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := s.disk.stalled(); err != nil {
		return nil, err
	}
	if err := s.mark(); err != nil { // which writes: only where this batch may follow
		return nil, err
	}
	applied := s.applied.Load()
	if err := s.guard(func() error {
		if sync {
			return s.db.ApplyNoSyncWait(batch, pebble.Sync)
		}
		return s.db.Apply(batch, pebble.NoSync)
	}); err != nil {
		return nil, err
	}
	s.applied.Add(1)
	if !sync {
		return nil, batch.Close()
	}
	began := time.Now()
	return func() error {
		defer s.counters.synced.note(began)
		if err := s.guard(batch.SyncWait); err != nil {
			return err
		}
		s.durableUpTo(applied)
		return batch.Close()
	}, nil
}
