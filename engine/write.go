package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"

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
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := s.db.Writable(); err != nil {
		return err
	}
	if r.adds() {
		if err := s.db.Room(); err != nil {
			return err
		}
	}
	if err := s.db.Held(); err != nil { // though nothing may have to be written
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

// operations are the work of a Write.
type operations []Op

func (ops *operations) adds() bool {
	return slices.ContainsFunc(*ops, func(op Op) bool { return op.Kind == keyscheme.OpAdd })
}

func (ops *operations) size(prefixBytes int) (keys, bytes int) {
	for i := range *ops {
		op := &(*ops)[i]
		bytes += prefixBytes + len(op.Element) + dotBytes*len(op.Context.Dots) + wideBytes(op.Context.Wide)
	}
	return len(*ops), bytes
}

func (ops *operations) looksUp(policy Policy) bool {
	for i := range *ops {
		if c := &(*ops)[i].Context; c.Wide != nil || !c.Given && policy == PolicyCoordinator {
			return true
		}
	}
	return false
}

func (ops *operations) into(b *builder, r *request) error {
	if len(r.opt.Request) > 0 {
		if known := b.recall(r.opt.Request); known != nil || b.err != nil {
			if b.err != nil {
				return b.err
			}
			return b.repeat(r, known)
		}
	}
	if err := b.checkContexts(r); err != nil {
		return err
	}
	if err := b.coordinate(r); err != nil {
		return err
	}
	if d := &r.result.Delta; len(r.opt.Request) > 0 && !d.Empty() {
		d.Request = bytes.Clone(r.opt.Request)
		b.remember(d)
	}
	return b.err
}

// checkContexts refuses what could not have come from here: a dot of this store's actor above the last that it issued
// would make the next one dead on arrival.
func (b *builder) checkContexts(r *request) error {
	for i := range r.ops {
		c := r.ops[i].Context
		if !c.Given && r.opt.Policy == PolicyRequired {
			return fmt.Errorf("%w for %q", ErrContextRequired, r.ops[i].Element)
		}
		for _, d := range c.Dots {
			if d.Actor == b.actor && d.Counter > b.counter {
				return fmt.Errorf("%w: dot %v of this store was never issued, the last is %d", ErrContext, d, b.counter)
			}
		}
		if n := c.Wide.Max(b.actor); n > b.counter {
			return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", ErrContext, n, b.counter)
		}
		if c.Wide != nil && !b.s.opt.OpenContexts && !b.st.next.Descends(c.Wide) {
			return fmt.Errorf("%w of %q: deliver to it what the context's author had read", ErrBehind, b.st.name)
		}
	}
	return nil
}

// coordinate gives each operation that is an event its dot.
func (b *builder) coordinate(r *request) error {
	r.result.Dots = make([]clock.Dot, len(r.ops))
	d := &r.result.Delta
	for i := range r.ops {
		op := &r.ops[i]
		seen, wide := op.Context.Dots, op.Context.Wide
		switch {
		case wide != nil && b.s.opt.OpenContexts:
			seen = nil
		case wide != nil || !op.Context.Given && r.opt.Policy == PolicyCoordinator:
			if seen = b.liveDots(op.Element, wide); b.err != nil {
				return b.err
			}
			wide = nil
		}
		// What is dead here already may live elsewhere: a remove that names it is an event, for the other replicas' sake.
		if op.Kind == keyscheme.OpRemove && len(seen) == 0 && wide.Empty() {
			continue
		}
		finds := b.killsAny(seen) || !wide.Empty()
		b.counter++
		dot := clock.Dot{Actor: b.actor, Counter: b.counter}
		if d.First == 0 {
			*d = Delta{Set: bytes.Clone(b.st.name), Actor: b.actor, First: b.counter, Items: make([]Item, 0, len(r.ops)-i)}
		}
		d.Items = append(d.Items, Item{op.Kind, op.Element, seen, wide})
		r.result.Dots[i] = dot
		b.kill(op.Element, seen)
		b.st.next.Add(dot)
		if op.Kind == keyscheme.OpAdd {
			b.sibling = b.sibling || op.Context.Given || r.opt.Policy != PolicyCoordinator
			b.put(op.Element, dot, op.Kind, wide)
			continue
		}
		if finds {
			r.result.Removed++
		}
		b.killed.add(dot)
		if wide != nil {
			b.put(op.Element, dot, op.Kind, wide)
		}
	}
	return nil
}
