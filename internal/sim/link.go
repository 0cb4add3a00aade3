package sim

import (
	"context"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/coord/turns"
	"bigset/server/peer"
)

// link is the path from a process to a replica. A request waits for its turn, and so does the answer.
type link struct {
	*member
	turns.Link
	c      *cluster
	from   *process
	cut    bool    // nothing reaches the replica
	calls  int     // calls since cut was set
	faults []*step // of the next calls
}

var _ peer.Replica = (*link)(nil)

// WriteMany does nothing: the replica of a link is in another process, and takes one write at a time.
func (l *link) WriteMany(context.Context, []byte, []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	return nil, l.Member(), peer.ErrUnavailable
}

func (l *link) Member() peer.Member { return l.Replica.Member() }

// unreachable returns an error while a call can't be made. The error says that nothing has happened.
func (l *link) unreachable() error {
	if l.cut || l.down || l.from.dead {
		return fmt.Errorf("%w to %s", errNoWay, l.node)
	}
	return nil
}

// fault takes the next fault of a call: its kind ("" is none), and the step that asked for it.
func (l *link) fault() (kind string, t *step) {
	if len(l.faults) == 0 {
		return "", nil
	}
	t, l.faults = l.faults[0], l.faults[1:]
	if t.kind != "power" { // a power cut may not be due yet, and is counted when it happens
		l.c.count(t.kind)
	}
	return t.kind, t
}

// blocked returns the outcome of a call while the path is cut: every other call is refused, the others are never answered.
func (l *link) blocked(ctx context.Context) error {
	if l.from.cut {
		l.from.cut = false
		l.c.count("partition")
	}
	if l.calls++; l.calls%2 == 0 {
		return l.silence(ctx)
	}
	return l.unreachable()
}

// over makes a call through the network. Its effect may happen after the caller has given up, twice, or without an answer.
func (l *link) over(ctx context.Context, do func() error) error {
	fault, by := l.fault()
	return l.through(ctx, fault, by, do)
}

// through makes a call with the given fault, which the step by asked for.
func (l *link) through(ctx context.Context, fault string, by *step, do func() error) error {
	t := l.c.turns
	t.Yield(nil)
	if l.cut {
		return l.blocked(ctx)
	}
	switch fault {
	case "refuse":
		return fmt.Errorf("%w to %s", errNoWay, l.node)
	case "loss":
		return l.silence(ctx)
	case "delay":
		t.Sleep(by.late())
	case "duplicate":
		t.Go(func() {
			t.Sleep(by.late())
			if l.unreachable() == nil {
				_ = do()
			}
		})
	}
	if err := l.unreachable(); err != nil {
		return err
	}
	if fault == "power" && l.c.mayCrash(l.member, true) {
		l.c.crashIn(l.member, by, do)
		return l.silence(ctx)
	}
	err := do()
	switch fault {
	case "mute":
		return l.silence(ctx)
	case "late":
		t.Sleep(by.late())
	}
	t.Yield(nil)
	return err
}

func (t *step) late() time.Duration { return time.Duration(t.args["seconds"]) * time.Second }

// silence waits until the caller gives up.
func (l *link) silence(ctx context.Context) error {
	for ctx.Err() == nil {
		l.c.turns.Yield(func() bool { return ctx.Err() != nil })
	}
	return context.Cause(ctx)
}

func (l *link) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (r bigset.Result, m peer.Member, err error) {
	o.Applied = nil // no network carries it
	first, wipes := true, 0
	err = l.over(ctx, func() error {
		again, by, err := l.Replica.Write(context.WithoutCancel(ctx), set, ops, o) // a request that is late does not know that nobody waits
		l.c.made(again.Delta)
		l.c.refused(err)
		if first {
			r, m, first, wipes = again, by, false, l.c.facts.loss.wipes
		}
		return err
	})
	if err != nil {
		return bigset.Result{}, l.Member(), err
	}
	if o.Durability == bigset.Sync && l.c.facts.loss.wipes == wipes {
		l.from.told = append(l.from.told, told{r.Delta, map[*member]bool{}})
	}
	return r, m, nil
}

func (l *link) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	l.c.facts.minted(d) // whole-set deletes, which no replica makes
	m := l.Member()
	err := l.over(ctx, func() (err error) {
		m, err = l.Replica.Apply(ctx, d, durability)
		return err
	})
	return m, err
}

// ApplyMany is Apply of several deltas, which share what becomes of them on the way.
func (l *link) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) (each []error, m peer.Member, err error) {
	for _, d := range all {
		l.c.facts.minted(d)
	}
	m = l.Member()
	err = l.over(ctx, func() (err error) {
		each, m, err = l.Replica.ApplyMany(ctx, all, durability)
		return err
	})
	return each, m, err
}

// Read streams from one incarnation: when it has crashed, the stream ends with an error.
func (l *link) Read(ctx context.Context, set []byte, o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		next, stop := iter.Pull2(l.Replica.Read(ctx, set, o))
		defer stop()
		for taken, life := 0, l.lives; ; taken++ {
			var chunk *fold.Chunk
			var more, asked bool
			err := l.over(ctx, func() (err error) {
				if asked { // a duplicated request
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
				chunk = nil
			} else if taken == 0 && more && o.After != nil { // a stream that continues an earlier one
				l.c.count("stream-failover")
			}
			if err == nil && !more {
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

func (l *link) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return gathered(l, ctx, func() iter.Seq2[bigset.Facts, error] { return l.Replica.Locate(ctx, set, dots) })
}

func (l *link) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	l.c.count("digests")
	return gathered(l, ctx, func() iter.Seq2[bigset.SetDigest, error] { return l.Replica.Digests(ctx, first, last) })
}

// gathered requests all of a list at once and then yields it.
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
