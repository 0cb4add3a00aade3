package system

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
)

// Checkpoint implements System.
func (b *Bigset) Checkpoint(ctx context.Context, dir string) error {
	return b.store.Checkpoint(ctx, dir)
}

// Bottom implements System. It compacts everything; with strategy none, that reaches the bottommost level.
func (b *Bigset) Bottom(ctx context.Context) error {
	_, err := b.store.Compact(ctx, engine.CompactOptions{})
	return err
}

// received counts the events of other replicas.
type received struct {
	mu     sync.Mutex
	events map[string]uint64 // by replica and set
}

// Receive implements Receiver.
func (s *BigsetSet) Receive(replica int, elements [][]byte, dots []uint64) error {
	actor := clock.Actor(fmt.Sprintf("replica%05d", replica)) // as long as a store's own
	d := bigset.Delta{Set: s.name, Actor: actor}
	for _, e := range elements {
		d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: e})
	}
	r := s.sys.received
	r.mu.Lock()
	key := string(actor) + string(s.name)
	d.First = r.events[key] + 1
	r.events[key] += uint64(len(elements))
	r.mu.Unlock()
	first := s.sys.number(clock.Dot{Actor: actor, Counter: d.First})
	for i := range dots {
		dots[i] = first + uint64(i)
	}
	return s.sys.store.Replica().ApplyDelta(s.sys.ctx, d, bigset.ApplyOptions{Durability: s.sys.durability})
}

// TakeFirst implements Set.
func (s *BigsetSet) TakeFirst(n int) error {
	took := 0
	if err := s.Take(n, func([]byte) { took++ }); err != nil {
		return err
	}
	return Expect("elements taken off", took, n)
}

// Take implements Set.
func (s *BigsetSet) Take(n int, each func(element []byte)) error {
	s.begin()
	defer s.end()
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, bigset.ReadOptions{Limit: n, BatchSize: n}) {
		if err != nil {
			return unlessNotFound(err)
		}
		for _, el := range chunk.Elements {
			s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpRemove, Element: el.Name, Context: bigset.Saw(el.Dots...)})
		}
	}
	if len(s.ops) == 0 {
		return nil
	}
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	for _, op := range s.ops {
		if each != nil {
			each(op.Element)
		}
	}
	return Expect("elements taken off", r.Removed, len(s.ops))
}

// See implements Set.
func (s *BigsetSet) See() (err error) {
	s.seen, err = s.sys.store.Seen(s.sys.ctx, s.name)
	if errors.Is(err, bigset.ErrNotFound) {
		s.seen, err = &clock.Clock{}, nil
	}
	return err
}

// knows returns the context of an operation on a present element. It may use the i-th place of s.context.
func (s *BigsetSet) knows(c *Change, dots []uint64, i int) bigset.Context {
	switch c.Known {
	case KnownClock:
		return bigset.SawAll(s.seen)
	case KnownNothing:
		return bigset.Context{}
	}
	s.context = append(s.context, s.sys.dot(dots[i]))
	return bigset.Saw(s.context[len(s.context)-1:]...)
}

// Change implements Set.
func (s *BigsetSet) Change(c *Change) error {
	s.begin()
	defer s.end()
	if n := len(c.Again) + len(c.Gone); cap(s.context) < n {
		s.context = make([]clock.Dot, 0, n) // contexts point into it
	}
	none := bigset.Saw()
	if c.Known == KnownNothing {
		none = bigset.Context{}
	}
	for _, e := range c.Fresh {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: none})
	}
	for i, e := range c.Again {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e, Context: s.knows(c, c.AgainDots, i)})
	}
	for i, e := range c.Gone {
		s.ops = append(s.ops, bigset.Op{Kind: keyscheme.OpRemove, Element: e, Context: s.knows(c, c.GoneDots, i)})
	}
	r, err := s.sys.store.Write(s.sys.ctx, s.name, s.ops, bigset.WriteOptions{})
	if err != nil {
		return err
	}
	s.sys.note(c.FreshDots, r.Dots)
	s.sys.note(c.AgainDots, r.Dots[min(len(c.Fresh), len(r.Dots)):])
	if c.Known == KnownClock || len(c.Gone) == 0 { // what is unresolved is not counted yet
		return nil
	}
	return Expect("elements removed", r.Removed, len(c.Gone))
}

// Scan implements Set.
func (s *BigsetSet) Scan(q Query, dst []byte) (n int, first []byte, err error) {
	o := bigset.ReadOptions{From: q.From, To: q.To, Prefix: q.Prefix, Limit: q.Limit}
	if q.Limit == 1 {
		o.BatchSize = firstChunk
	}
	for chunk, err := range s.sys.store.Read(s.sys.ctx, s.name, o) {
		if err != nil {
			return n, dst, unlessNotFound(err)
		}
		if n == 0 && len(chunk.Elements) > 0 {
			dst = append(dst, chunk.Elements[0].Name...)
		}
		n += len(chunk.Elements)
	}
	return n, dst, nil
}

// Count implements Set.
func (s *BigsetSet) Count() (int, error) {
	c, err := s.sys.store.Count(s.sys.ctx, s.name, engine.CountOptions{})
	if errors.Is(err, bigset.ErrNotFound) {
		return 0, nil
	}
	return int(c.Elements), err
}

// Live returns the number of live dots. Only the engine knows it.
func (s *BigsetSet) Live() (int, error) {
	n, err := s.sys.store.Live(s.sys.ctx, s.name)
	if errors.Is(err, bigset.ErrNotFound) {
		return 0, nil
	}
	return int(n), err
}

// Look implements Set.
func (s *BigsetSet) Look(element []byte, _ uint64) (bool, error) { return s.Contains(element) }
