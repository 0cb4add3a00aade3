package alone

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/server/door"
	"bigset/server/follow"
)

// Backend is a door.Backend over one store.
type Backend struct {
	store    *engine.Store
	unsynced bool // changes without a DW do not wait for the disk
	skips    bool // see SkipPresent
	kept     follow.Kept
	limits   *door.Limits // nil: the memory of batches is not counted
}

// New returns the backend of a store. The caller closes the store after all requests have ended. Changes without a DW are on disk when they
// are acknowledged.
func New(s *engine.Store) *Backend { return &Backend{store: s} }

// NewUnsynced is like New, but changes without a DW do not wait for the disk.
func NewUnsynced(s *engine.Store) *Backend { return &Backend{store: s, unsynced: true} }

// SkipPresent makes adds of elements that are present write nothing, unless they have a context, ask for one, or have the id of a request. It is called
// before the backend is used.
func (b *Backend) SkipPresent() { b.skips = true }

// Bound makes the batches of changes count among the memory of long requests. It is called before the backend is used.
func (b *Backend) Bound(l *door.Limits) { b.limits = l }

// NewOnce is New for a process that ends before its followers come back: no token expires, whatever its length, up to 1 MiB. A longer one is an error.
func NewOnce(s *engine.Store) *Backend {
	b := New(s)
	b.kept.TokenBytes = math.MaxInt
	return b
}

var _ door.Backend = (*Backend)(nil)

// Remote implements door.Backend.
func (*Backend) Remote() bool { return false }

// Write implements door.Backend. A store with unresolved contexts keeps no request ids: there, a retry returns door.ErrUnknown.
func (b *Backend) Write(ctx context.Context, w door.Write) (door.Result, error) {
	durability, err := b.quorum(w.Quorum)
	if err != nil {
		return door.Result{}, err
	}
	if w.Retry && len(w.Request) == 0 {
		return door.Result{}, fmt.Errorf("%w: a retry without a request id", bigset.ErrRequest)
	}
	taken, err := b.limits.TakeBatch(&w)
	if err != nil {
		return door.Result{}, err
	}
	if taken > 0 {
		defer b.limits.GiveLong(taken)
	}
	tokens := b.store.Tokens(w.Set)
	ops, err := w.Opened(tokens)
	if err != nil {
		return door.Result{}, err
	}
	o := bigset.WriteOptions{Policy: w.Policy, Durability: durability, Request: w.Request,
		SkipPresent: b.skips && !w.Contexts && len(w.Request) == 0}
	if b.store.Replica().KeepsContexts() {
		if w.Retry {
			return door.Result{}, &door.UnknownError{W: 1, DW: durable(durability), Err: errNoIDs}
		}
		o.Request = nil
	}
	r, err := b.store.Write(ctx, w.Set, ops, o)
	if err != nil {
		return door.Result{}, failure(err, durability)
	}
	out := door.Result{Removed: r.Removed, Acked: 1, Durable: durable(durability)}
	if w.Changes {
		out.Changed = door.ChangesOf(&r)
	}
	if !w.Contexts {
		return out, nil
	}
	out.Contexts = make([]door.Token, len(ops))
	for i, d := range r.Dots {
		if d == (clock.Dot{}) {
			continue
		}
		if out.Contexts[i], err = tokens.Narrow(ops[i].Element, []clock.Dot{d}); err != nil {
			return door.Result{}, &door.UnknownError{Acked: 1, W: 1, Err: err}
		}
	}
	return out, nil
}

var errNoIDs = errors.New("alone: a store with unresolved contexts keeps no ids of requests")

// quorum returns the durability that a quorum means on one node.
func (b *Backend) quorum(q door.Quorum) (bigset.Durability, error) {
	if q.W < 0 || q.DW < door.NotDurable {
		return 0, fmt.Errorf("%w: a quorum of W %d, DW %d", bigset.ErrRequest, q.W, q.DW)
	}
	if q.W > 1 || q.DW > 1 {
		return 0, fmt.Errorf("%w: this node is alone, so W and DW are at most 1, not %d and %d", door.ErrQuorum, q.W, q.DW)
	}
	if q.DW == door.NotDurable || q.DW == 0 && b.unsynced {
		return bigset.NoSync, nil
	}
	return bigset.Sync, nil
}

func replicas(r int) error {
	if r < 0 {
		return fmt.Errorf("%w: a quorum of R %d", bigset.ErrRequest, r)
	}
	if r > 1 {
		return fmt.Errorf("%w: this node is alone, so R is at most 1, not %d", door.ErrQuorum, r)
	}
	return nil
}

func durable(d bigset.Durability) int {
	if d == bigset.Sync {
		return 1
	}
	return 0
}

// failure classifies an error of a write.
func failure(err error, d bigset.Durability) error {
	switch {
	case errors.Is(err, bigset.ErrFailed):
		return &door.UnknownError{W: 1, DW: durable(d), Err: err}
	case errors.Is(err, bigset.ErrClosed):
		return fmt.Errorf("%w: %w", door.ErrUnavailable, err)
	}
	return err
}

// Subset implements door.Backend.
func (b *Backend) Subset(ctx context.Context, s door.Subset) ([]door.Presence, error) {
	if err := replicas(s.R); err != nil {
		return nil, err
	}
	found, err := b.store.Subset(ctx, s.Set, s.Elements)
	if err != nil {
		return nil, failure(err, 0)
	}
	tokens := b.store.Tokens(s.Set)
	out := make([]door.Presence, len(found))
	for i, p := range found {
		if out[i].Present = p.Present; s.Bare {
			continue
		}
		if out[i].Context, err = tokens.Narrow(s.Elements[i], p.Context.Dots); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// options returns the engine's options for a read.
func (b *Backend) options(r *door.Read) (o bigset.ReadOptions, err error) {
	if err := r.Check(); err != nil {
		return o, err
	}
	if err := replicas(r.R); err != nil {
		return o, err
	}
	o = bigset.ReadOptions{From: r.From, To: r.To, Prefix: r.Prefix, Reverse: r.Reverse, BatchSize: r.Batch}
	if o.BatchSize == 0 {
		o.BatchSize = door.BatchMax
	}
	o.After, err = b.store.Tokens(r.Set).After(r.After, r.Reverse)
	return o, err
}

// Read implements door.Backend.
func (b *Backend) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		o, err := b.options(&r)
		if err != nil {
			yield(door.Part{}, err)
			return
		}
		p := &door.Page{Read: &r, Tokens: b.store.Tokens(r.Set)}
		o.Limit = p.Ask()
		var used *fold.Chunk
		o.Scrap = func() *fold.Chunk { return used }
		var elements []door.Element
		for chunk, err := range b.store.Read(ctx, r.Set, o) {
			if err != nil {
				yield(door.Part{}, failure(err, 0))
				return
			}
			part, err := part(p, chunk, elements)
			if err != nil {
				yield(door.Part{}, err)
				return
			}
			if !yield(part, nil) || part.Done {
				return
			}
			p.Keep()
			used, elements = chunk, part.Elements[:0] // the consumer is done with them
		}
		yield(door.Part{Done: true}, nil)
	}
}

// part makes a part from a chunk of the store, in the memory of elements.
func part(p *door.Page, chunk *fold.Chunk, elements []door.Element) (part door.Part, err error) {
	if err := p.Begin(&part, chunk.Clock); err != nil {
		return part, err
	}
	part.Elements = slices.Grow(elements, len(chunk.Elements))
	for _, e := range chunk.Elements {
		if err := p.Add(&part, e.Name, e.Dots); err != nil || part.Done {
			return part, err
		}
	}
	return part, nil
}

// Count implements door.Backend.
func (b *Backend) Count(ctx context.Context, r door.Read) (door.Count, error) {
	o, err := b.options(&r)
	if err != nil {
		return door.Count{}, err
	}
	o.Limit, o.BatchSize = r.Limit, 0
	count := engine.CountOptions{ReadOptions: o}
	if r.Part != nil {
		count.Progress = func(uint64) { r.Part() }
	}
	c, err := b.store.Count(ctx, r.Set, count)
	if err != nil {
		return door.Count{}, failure(err, 0)
	}
	if r.Bare {
		return door.Count{Elements: c.Elements}, nil
	}
	token, err := b.store.Tokens(r.Set).Wide(c.Context)
	return door.Count{Elements: c.Elements, Context: token}, err
}

// Context implements door.Backend.
func (b *Backend) Context(ctx context.Context, set []byte, r int) (door.Token, error) {
	if err := replicas(r); err != nil {
		return nil, err
	}
	seen, err := b.store.Seen(ctx, set)
	if err != nil {
		return nil, failure(err, 0)
	}
	return b.store.Tokens(set).Wide(seen)
}

// Stats implements door.Backend.
func (b *Backend) Stats(ctx context.Context, set []byte, r int) (door.Stats, error) {
	if err := replicas(r); err != nil {
		return door.Stats{}, err
	}
	s, err := b.store.Replica().State(ctx, set)
	if err != nil {
		return door.Stats{}, failure(err, 0)
	}
	return door.StatsOf(&s), nil
}

// Drop implements door.Backend.
func (b *Backend) Drop(ctx context.Context, d door.Drop) (out door.Dropped, err error) {
	durability, err := b.quorum(d.Quorum)
	if err != nil {
		return out, err
	}
	seen, err := b.store.Tokens(d.Set).Seen(d.Context)
	if err != nil {
		return out, err
	}
	if seen != nil {
		s, err := b.store.Replica().State(ctx, d.Set)
		switch {
		case err == nil:
			out.Left = d.Leaves(&s, seen)
		case !errors.Is(err, bigset.ErrNotFound):
			return out, failure(err, durability)
		}
	}
	if _, err := b.store.Drop(ctx, d.Set, bigset.DropOptions{Seen: seen, Durability: durability}); err != nil {
		return door.Dropped{}, failure(err, durability)
	}
	out.Acked = 1
	return out, nil
}

// CountSets implements door.Backend. The store counts apart by its engine.Options.CountApart.
func (b *Backend) CountSets(ctx context.Context) (bigset.SetCount, error) {
	n, err := b.store.CountSets(ctx, 0, math.MaxUint32)
	return n, failure(err, 0)
}

// Names implements door.Backend.
func (b *Backend) Names(ctx context.Context, all bool, after []byte) iter.Seq2[bigset.SetInfo, error] {
	return func(yield func(bigset.SetInfo, error) bool) {
		for s, err := range b.store.Sets(ctx, bigset.SetsOptions{Empty: all, After: after}) {
			if err != nil {
				yield(bigset.SetInfo{}, failure(err, 0))
				return
			}
			if !yield(bigset.SetInfo{Name: s.Name, Live: s.Live, Seen: s.Seen}, nil) {
				return
			}
		}
	}
}
