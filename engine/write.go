package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
)

// Add adds elements to a set, in one atomic batch; each gets a dot of its own. It reads none of the set's elements,
// except for the dots that PolicyCoordinator asks for. An element that is already present gets a new dot, which
// replaces those that the context names: skipping it would let a concurrent remove win that saw only the old dot. Only
// bigset.WriteOptions.SkipPresent skips it.
func (s *Store) Add(ctx context.Context, name []byte, elements [][]byte, o bigset.WriteOptions) (bigset.Result, error) {
	return s.Write(ctx, name, opsOf(keyscheme.OpAdd, elements), o)
}

// Remove removes elements from a set, in one atomic batch. Removing an absent element is no event; Result.Removed
// counts the others.
func (s *Store) Remove(ctx context.Context, name []byte, elements [][]byte, o bigset.WriteOptions) (bigset.Result, error) {
	return s.Write(ctx, name, opsOf(keyscheme.OpRemove, elements), o)
}

func opsOf(kind keyscheme.Op, elements [][]byte) []bigset.Op {
	ops := make([]bigset.Op, len(elements))
	for i, e := range elements {
		ops[i] = bigset.Op{Kind: kind, Element: e}
	}
	return ops
}

// Write applies operations, each with a context of its own, in order and in one atomic batch: all of them or, with an
// error, none. An error after the batch was applied wraps bigset.ErrFailed, and it is then unknown whether the
// operations are stored. Write may be called by any number of goroutines; those that write one set at the same time
// share a batch.
func (s *Store) Write(ctx context.Context, name []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, error) {
	if err := bigset.CheckOps(name, ops); err != nil {
		return bigset.Result{}, err
	}
	if err := s.checkRequest(o); err != nil {
		return bigset.Result{}, err
	}
	r := newWrite(ops, o)
	err := s.writeTo(ctx, name, r)
	result := r.result
	r.reuse()
	return result, err
}

// WriteAll is Write for several requests to one set, which share a batch and a sync as far as these take them. Each has its own outcome: an error says what that
// of Write says, and does not affect the others. WriteAll returns when all requests are done.
func (s *Store) WriteAll(ctx context.Context, name []byte, all []bigset.WriteRequest) []bigset.WriteOutcome {
	out := make([]bigset.WriteOutcome, len(all))
	if len(all) == 1 {
		out[0].Result, out[0].Err = s.Write(ctx, name, all[0].Ops, all[0].WriteOptions)
		return out
	}
	writes := make([]*request, len(all))
	for i := range all {
		w := newWrite(all[i].Ops, all[i].WriteOptions)
		if w.err = bigset.CheckOps(name, w.ops); w.err == nil {
			w.err = s.checkRequest(w.opt)
		}
		writes[i] = w
	}
	s.writeAll(ctx, name, writes)
	for i, w := range writes {
		out[i] = bigset.WriteOutcome{Result: w.result, Err: w.err}
		w.reuse()
	}
	return out
}

// newWrite returns the request of a Write, which ends with reuse.
func newWrite(ops []bigset.Op, o bigset.WriteOptions) *request {
	r := requests.Get().(*request)
	r.ops, r.opt = ops, o
	return r
}

// reuse ends the use of a request that nothing refers to.
func (r *request) reuse() {
	r.ops, r.opt, r.result, r.err = nil, bigset.WriteOptions{}, bigset.Result{}, nil
	requests.Put(r)
}

func (s *Store) writeTo(ctx context.Context, name []byte, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.resolve(&r.opt); err != nil {
		return err
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
	if err := s.db.Held(); err != nil { // checked even if nothing needs to be written
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

// resolve checks options, and replaces defaults by the store's own values.
func (s *Store) resolve(o *bigset.WriteOptions) error {
	if o.Durability > bigset.NoSync || o.Policy > bigset.PolicyRequired {
		return fmt.Errorf("%w: durability %d, policy %d", bigset.ErrRequest, o.Durability, o.Policy)
	}
	if o.Durability == bigset.DefaultDurability {
		o.Durability = s.opt.Durability
	}
	return nil
}

// writeAll is writeTo for several requests on one set. It skips those that have an error. Each has its own error
// afterwards.
func (s *Store) writeAll(ctx context.Context, name []byte, all []*request) {
	if err := s.writeFit(ctx, name, all); err != nil {
		failAll(all, err)
	}
}

// writeFit does the requests that can be done. A returned error applies to all requests that have no error of their
// own.
func (s *Store) writeFit(ctx context.Context, name []byte, all []*request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := s.db.Writable(); err != nil {
		return err
	}
	room := sync.OnceValue(s.db.Room)
	fit := make([]*request, 0, len(all))
	for _, r := range all {
		if r.err == nil {
			r.err = s.resolve(&r.opt)
		}
		if r.err == nil && r.adds() {
			r.err = room()
		}
		if r.err == nil {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	if err := s.db.Held(); err != nil { // checked even if nothing needs to be written
		return err
	}
	st, err := s.sets.acquire(name)
	if err != nil {
		return s.metIn(name, err)
	}
	defer s.sets.release(st)
	st.lead.Take()
	s.submitAll(st, fit)
	st.lead.Leave()
	for _, r := range fit {
		r.err = s.metIn(name, r.err)
	}
	return nil
}

// operations are the work of a Write.
type operations []bigset.Op

func (ops *operations) adds() bool {
	return slices.ContainsFunc(*ops, func(op bigset.Op) bool { return op.Kind == keyscheme.OpAdd })
}

func (ops *operations) size(prefixBytes int) (keys, bytes int) {
	for i := range *ops {
		op := &(*ops)[i]
		bytes += prefixBytes + len(op.Element) + bigset.BatchDotBytes*len(op.Context.Dots) + op.Context.WideBytes()
	}
	return len(*ops), bytes
}

func (ops *operations) looksUp(policy bigset.Policy) bool {
	for i := range *ops {
		if c := &(*ops)[i].Context; c.Wide != nil || !c.Given && policy == bigset.PolicyCoordinator {
			return true
		}
	}
	return false
}

// replaces reports whether an operation is an add that finds the live dots of its element, and puts its own in their place.
func (r *request) replaces(op int) bool {
	o := &r.ops[op]
	return o.Kind == keyscheme.OpAdd && !o.Context.Given && o.Context.Wide == nil && r.opt.Policy == bigset.PolicyCoordinator && !r.opt.SkipPresent
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

// checkContexts refuses contexts that could not have come from here: a dot of this store's actor above the last
// issued one would make the next one dead on arrival.
func (b *builder) checkContexts(r *request) error {
	for i := range r.ops {
		c := r.ops[i].Context
		if !c.Given && r.opt.Policy == bigset.PolicyRequired {
			return fmt.Errorf("%w for %q", bigset.ErrContextRequired, r.ops[i].Element)
		}
		for _, d := range c.Dots {
			if d.Actor == b.actor && d.Counter > b.counter {
				return fmt.Errorf("%w: dot %v of this store was never issued, the last is %d", bigset.ErrContext, d, b.counter)
			}
		}
		if n := c.Wide.Max(b.actor); n > b.counter {
			return fmt.Errorf("%w: dot %d of this store was never issued, the last is %d", bigset.ErrContext, n, b.counter)
		}
		if c.Wide != nil && !b.s.opt.KeepContexts && !b.st.next.Descends(c.Wide) {
			return fmt.Errorf("%w of %q: deliver to it what the context's author had read", bigset.ErrBehind, b.st.name)
		}
	}
	return nil
}

// tooManyDots refuses an operation that would name more dots than replicas take in one event.
func (b *builder) tooManyDots(element []byte, n int, d *bigset.Delta) error {
	b.spoiled = d.First != 0 // by the events that the request has already
	return fmt.Errorf("element %.64q: %w", element, &bigset.LimitError{What: "dots of an element that an operation finds", Got: n, Max: b.s.eventDotsMax})
}

// coordinate gives each operation that is an event its dot.
func (b *builder) coordinate(r *request) error {
	r.result.Dots = make([]clock.Dot, len(r.ops))
	d := &r.result.Delta
	b.lookUpAll(r)
	for i := range r.ops {
		op := &r.ops[i]
		seen, wide := op.Context.Dots, op.Context.Wide
		switch {
		case wide != nil && b.s.opt.KeepContexts:
			seen = nil
		case wide != nil || !op.Context.Given && r.opt.Policy == bigset.PolicyCoordinator:
			if seen = b.liveDots(i, op.Element, wide); b.err != nil {
				return b.err
			}
			wide = nil
		}
		if len(seen) > b.s.eventDotsMax {
			return b.tooManyDots(op.Element, len(seen), d)
		}
		// A dot that is dead here may still be live elsewhere: a remove that names it is an event, for the sake of
		// the other replicas.
		if op.Kind == keyscheme.OpRemove && len(seen) == 0 && wide.Empty() {
			continue
		}
		if op.Kind == keyscheme.OpAdd && len(seen) > 0 && r.opt.SkipPresent && !op.Context.Given {
			continue
		}
		finds := op.Kind == keyscheme.OpRemove && (b.killsAny(seen) || !wide.Empty())
		b.counter++
		dot := clock.Dot{Actor: b.actor, Counter: b.counter}
		if d.First == 0 {
			*d = bigset.Delta{Set: bytes.Clone(b.st.name), Actor: b.actor, First: b.counter, Items: make([]bigset.Item, 0, len(r.ops)-i)}
		}
		d.Items = append(d.Items, bigset.Item{Kind: op.Kind, Element: op.Element, Context: seen, Wide: wide})
		r.result.Dots[i] = dot
		b.kill(op.Element, seen)
		b.st.next.Add(dot)
		if op.Kind == keyscheme.OpAdd {
			b.sibling = b.sibling || op.Context.Given || r.opt.Policy != bigset.PolicyCoordinator
			if wide != nil {
				b.putUnresolved(op.Element, dot, op.Kind, wide)
			} else {
				b.put(addKey{op.Element, dot, r.replaces(i)})
			}
			continue
		}
		if finds {
			r.result.Removed++
		}
		b.killed.add(dot)
		if wide != nil {
			b.putUnresolved(op.Element, dot, op.Kind, wide)
		}
	}
	return nil
}
