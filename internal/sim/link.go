package sim

import (
	"context"
	"fmt"
	"iter"
	"time"

	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// member is a replica of a cluster: an engine that crashes and comes back in a new incarnation.
type member struct {
	*peer.Local
	store *engineStore
	node  string
	down  bool
	lives int // how often it has crashed
}

// link is the way from a coordinator's process to a replica. What is sent waits for its turn, and so does the answer.
type link struct {
	*member
	c    *cluster
	from *process
	cut  bool // nothing reaches the replica
}

var _ peer.Replica = (*link)(nil)

func (l *link) Member() peer.Member { return l.Local.Member() }

// unreachable is an error while a call can't be made. It says that nothing has happened.
func (l *link) unreachable() error {
	if l.cut || l.down || l.from.dead {
		return fmt.Errorf("%w: no way to %s", peer.ErrUnavailable, l.node)
	}
	return nil
}

// over does a call through the network. What takes effect may do so after the caller has given up, twice, or without an answer.
func (l *link) over(ctx context.Context, do func() error) error {
	t, fault := l.c.turns, l.c.fault()
	t.Yield(nil)
	if l.cut && l.c.rng.IntN(2) == 0 {
		return l.silence(ctx)
	}
	switch fault {
	case "loss":
		return l.silence(ctx)
	case "delay":
		t.Sleep(l.c.moment())
	case "duplicate":
		t.Go(func() {
			t.Sleep(l.c.moment())
			if l.unreachable() == nil {
				_ = do()
			}
		})
	}
	if err := l.unreachable(); err != nil {
		return err
	}
	if fault == "crash" {
		l.c.crashIn(l.member, do)
		return l.silence(ctx)
	}
	err := do()
	switch fault {
	case "mute":
		return l.silence(ctx)
	case "late":
		t.Sleep(l.c.moment())
	}
	t.Yield(nil)
	return err
}

// silence waits until the caller gives up.
func (l *link) silence(ctx context.Context) error {
	for ctx.Err() == nil {
		l.c.turns.Yield(func() bool { return ctx.Err() != nil })
	}
	return context.Cause(ctx)
}

// moment is how long something is late: often longer than somebody waits for it.
func (c *cluster) moment() time.Duration { return time.Duration(c.rng.IntN(40)) * time.Second }

func (l *link) Write(ctx context.Context, set []byte, ops []engine.Op, o engine.WriteOptions) (r engine.Result, m peer.Member, err error) {
	first := true
	err = l.over(ctx, func() error {
		again, _, err := l.Local.Write(ctx, set, ops, o)
		l.c.made(again.Delta)
		if first {
			r, first = again, false
		}
		return err
	})
	if err != nil {
		return engine.Result{}, l.Member(), err
	}
	if o.Durability == engine.Sync {
		l.from.told = append(l.from.told, r.Delta)
	}
	return r, l.Member(), nil
}

func (l *link) Knows(ctx context.Context, set, request []byte) (known bool, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		known, m, err = l.Local.Knows(ctx, set, request)
		return err
	})
	return known, l.Member(), err
}

func (l *link) Apply(ctx context.Context, d engine.Delta, durability engine.Durability) (peer.Member, error) {
	l.c.facts.minted(d) // whole-set deletes, which no replica makes
	err := l.over(ctx, func() error {
		l.c.stats.Operations++
		_, err := l.Local.Apply(ctx, d, durability)
		return err
	})
	return l.Member(), err
}

func (l *link) ApplyFacts(ctx context.Context, f engine.Facts, durability engine.Durability) (r engine.FactsResult, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		l.c.stats.Operations++
		r, m, err = l.Local.ApplyFacts(ctx, f, durability)
		return err
	})
	return r, l.Member(), err
}

func (l *link) Heal(ctx context.Context, f engine.Facts, wrong []fold.Element) (r engine.HealResult, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		r, m, err = l.Local.Heal(ctx, f, wrong)
		return err
	})
	return r, l.Member(), err
}

func (l *link) Lost(ctx context.Context, set []byte) (lost *clock.Clock, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		lost, m, err = l.Local.Lost(ctx, set)
		return err
	})
	return lost, l.Member(), err
}

func (l *link) ElementDigests(ctx context.Context, set []byte, r engine.ElementRange) (d engine.ElementDigests, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		d, m, err = l.Local.ElementDigests(ctx, set, r)
		return err
	})
	return d, l.Member(), err
}

func (l *link) State(ctx context.Context, set []byte) (s engine.State, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		s, m, err = l.Local.State(ctx, set)
		return err
	})
	return s, l.Member(), err
}

func (l *link) Lookup(ctx context.Context, set []byte, elements [][]byte) (found []engine.Context, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		found, m, err = l.Local.Lookup(ctx, set, elements)
		return err
	})
	return found, l.Member(), err
}

func (l *link) Judge(ctx context.Context, set, element []byte, dots []clock.Dot) (j engine.Judgement, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		j, m, err = l.Local.Judge(ctx, set, element, dots)
		return err
	})
	return j, l.Member(), err
}

func (l *link) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) (d []engine.RangeDigest, m peer.Member, err error) {
	err = l.over(ctx, func() (err error) {
		d, m, err = l.Local.RangeDigests(ctx, first, last, parts)
		return err
	})
	return d, l.Member(), err
}

// Read streams from one incarnation: when that has crashed, the stream ends with an error.
func (l *link) Read(ctx context.Context, set []byte, o engine.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		next, stop := iter.Pull2(l.Local.Read(ctx, set, o))
		defer stop()
		for taken, life := 0, l.lives; ; taken++ {
			var chunk *fold.Chunk
			var more, asked bool
			err := l.over(ctx, func() (err error) {
				if asked { // a request that was doubled
					return nil
				}
				asked = true
				if life != l.lives {
					return fmt.Errorf("%w: %s has crashed", peer.ErrUnavailable, l.node)
				}
				chunk, err, more = next()
				return err
			})
			if err != nil {
				if chunk = nil; taken > 0 {
					l.c.count("stream-failover")
				}
			} else if !more {
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

func (l *link) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[engine.Facts, error] {
	return gathered(l, ctx, func() iter.Seq2[engine.Facts, error] { return l.Local.Locate(ctx, set, dots) })
}

func (l *link) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[engine.SetDigest, error] {
	return gathered(l, ctx, func() iter.Seq2[engine.SetDigest, error] { return l.Local.Digests(ctx, first, last) })
}

// gathered asks for all of a list at once and then hands it out.
func gathered[T any](l *link, ctx context.Context, list func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := l.over(ctx, func() error {
			all = all[:0:0]
			for v, err := range list() {
				if err != nil {
					return err
				}
				all = append(all, v)
			}
			return nil
		})
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}
