package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/readcore"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
)

// Backend is a door.Backend over the cluster: the answers of any member to clients.
type Backend struct{ m *Member }

var _ door.Backend = (*Backend)(nil)

// Remote implements door.Backend.
func (*Backend) Remote() bool { return true }

// Backend returns the backend that answers clients through this member.
func (m *Member) Backend() *Backend { return &Backend{m} }

// ready returns the current routes, or an error that says what this member waits for.
func (b *Backend) ready() (*live, error) {
	l := b.m.live.Load()
	if l == nil {
		return nil, fmt.Errorf("%w: node %s waits for %s", door.ErrUnavailable, b.m.conf.Node, b.m.membership.Waits())
	}
	return l, nil
}

// tokens makes and opens the tokens of a set. Its keys are those of the cluster, which every member knows.
func (l *live) tokens(set []byte) *bigset.Tokens {
	k := keyscheme.Keyring{}
	copy(k.Current[:], l.view.Record.Seal)
	copy(k.Domain[:], l.view.Record.Domain)
	return bigset.NewTokens(k, set)
}

// triesMax is how often an operation is tried if the epoch keeps changing.
const triesMax = 8

// again does an operation and repeats it if members refused it because they are at another epoch. A refused operation has done nothing
// there; repeat says whether it may be repeated. If an earlier try may have done something, an error is a *door.UnknownError, whatever the
// last try says.
func again[T any](ctx context.Context, b *Backend, repeat func(err error) bool, f func(l *live) (T, error)) (r T, err error) {
	l, err := b.ready()
	if err == nil {
		r, err = f(l)
	}
	return tried(ctx, b, l, r, err, repeat, f)
}

// tried is again after the first try, with its routes and results. Without routes there was no try.
func tried[T any](ctx context.Context, b *Backend, l *live, r T, err error, repeat func(err error) bool, f func(l *live) (T, error)) (T, error) {
	var begun error // of the first try that may have done something
	for try := 1; try < triesMax && refusedEpoch(l, err) && repeat(err); try++ {
		if begun == nil && errors.Is(err, coord.ErrUnknown) {
			begun = err
		}
		b.m.membership.Wake()
		b.m.await(ctx, l)
		if l, err = b.ready(); err == nil {
			r, err = f(l)
		}
	}
	return r, failureSince(begun, err)
}

// refusedEpoch reports whether members have refused a try because they are at another epoch than its routes.
func refusedEpoch(l *live, err error) bool {
	return l != nil && err != nil && errors.Is(err, peer.ErrNotMine)
}

// failureSince is failure for the last try of an operation. begun is the error of an earlier try that may have done something, or nil. An
// error that the filter was dropped is returned unchanged: nothing of the filter is left.
func failureSince(begun, err error) error {
	err = failure(err)
	if err == nil || begun == nil || errors.Is(err, door.ErrUnknown) || errors.Is(err, bigset.ErrNoFilter) {
		return err
	}
	u := &door.UnknownError{}
	errors.As(failure(begun), &u)
	return &door.UnknownError{Acked: u.Acked, Durable: u.Durable, W: u.W, DW: u.DW, Err: fmt.Errorf("%w; asked again: %v", begun, err)}
}

func always(error) bool { return true }

// await waits until requests are routed by another epoch, but at most about half a second.
func (m *Member) await(ctx context.Context, l *live) {
	for range 100 {
		if now := m.live.Load(); now != nil && now.epoch != l.epoch {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// failure turns an error of the coordinator into one that doors know.
func failure(err error) error {
	var u *coord.UnknownError
	switch {
	case err == nil, errors.Is(err, door.ErrUnavailable):
		return err
	case errors.As(err, &u):
		if err == error(u) {
			err = unsaid{u}
		}
		return &door.UnknownError{Acked: u.Acked, Durable: u.Durable, W: u.W, DW: max(0, u.DW), Err: err}
	case errors.Is(err, coord.ErrUnknown):
		return &door.UnknownError{Err: err}
	case errors.Is(err, coord.ErrRequest):
		return fmt.Errorf("%w: %w", bigset.ErrRequest, err)
	case errors.Is(err, coord.ErrNoQuorum), errors.Is(err, coord.ErrClosed), errors.Is(err, coord.ErrBusy),
		errors.Is(err, coord.ErrUnsettled), errors.Is(err, peer.ErrUnavailable):
		return fmt.Errorf("%w: %w", door.ErrUnavailable, err)
	}
	return err
}

// unsaid is a coordinator's error as the cause of a door.UnknownError, which contains the numbers: its text is the rest.
type unsaid struct{ of *coord.UnknownError }

func (u unsaid) Error() string {
	text := fmt.Sprintf("%.64q", u.of.Set)
	if u.of.Unanswered > 0 {
		text += fmt.Sprintf(", %d have not answered", u.of.Unanswered)
	}
	if u.of.Err != nil {
		text += ": " + u.of.Err.Error()
	}
	return text
}

func (u unsaid) Unwrap() error { return u.of }

// quorum returns the quorum of a request in the form for the coordinator.
func (b *Backend) quorum(l *live, q door.Quorum, r int) (coord.Quorum, error) {
	n := l.view.Record.Settings.N
	if q.W < 0 || q.DW < door.NotDurable || r < 0 {
		return coord.Quorum{}, fmt.Errorf("%w: a quorum of W %d, DW %d, R %d", bigset.ErrRequest, q.W, q.DW, r)
	}
	if max(q.W, q.DW, r) > n {
		return coord.Quorum{}, fmt.Errorf("%w: each range has %d replicas, so W, DW and R are at most %d, not %d, %d and %d", door.ErrQuorum, n, n, q.W, q.DW, r)
	}
	out := coord.Quorum{W: q.W, DW: q.DW, R: r}
	if q.DW == door.NotDurable {
		out.DW = coord.None
	}
	return out, nil
}

// change is quorum for a change of a set.
func (b *Backend) change(l *live, q door.Quorum) (coord.Quorum, error) {
	if q.DW == 0 && b.m.conf.Unsynced {
		q.DW = door.NotDurable
	}
	return b.quorum(l, q, 0)
}

// Subset implements door.Backend.
func (b *Backend) Subset(ctx context.Context, s door.Subset) ([]door.Presence, error) {
	return again(ctx, b, always, func(l *live) ([]door.Presence, error) {
		q, err := b.quorum(l, door.Quorum{}, s.R)
		if err != nil {
			return nil, err
		}
		found, err := b.m.co.Lookup(ctx, coord.Lookup{Set: s.Set, Elements: s.Elements, Quorum: q})
		if err != nil {
			return nil, err
		}
		tokens := l.tokens(s.Set)
		out := make([]door.Presence, len(found))
		for i, c := range found {
			if out[i].Present = c.Present(); s.Bare {
				continue
			}
			if out[i].Context, err = tokens.Narrow(s.Elements[i], c.Dots); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// Read implements door.Backend. If the epoch changes during a read, the read continues after the last element.
func (b *Backend) Read(ctx context.Context, r door.Read) iter.Seq2[door.Part, error] {
	return func(yield func(door.Part, error) bool) {
		if err := r.Check(); err != nil {
			yield(door.Part{}, err)
			return
		}
		p := &page{Page: door.Page{Read: &r}}
		stopped := false
		_, err := again(ctx, b, always, func(l *live) (struct{}, error) {
			q, err := b.quorum(l, door.Quorum{}, r.R)
			if err != nil {
				return struct{}{}, err
			}
			p.Tokens = l.tokens(r.Set)
			o, err := p.options()
			if err != nil {
				return struct{}{}, err
			}
			for part, err := range b.m.co.Read(ctx, coord.Read{Set: r.Set, Options: o, Quorum: q, Passing: true}) {
				if err != nil {
					return struct{}{}, err
				}
				if err := p.parts(&part, func(out door.Part) bool {
					stopped = !yield(out, nil)
					return !stopped
				}); err != nil {
					return struct{}{}, err
				}
				if stopped || p.done {
					return struct{}{}, nil
				}
			}
			return struct{}{}, nil
		})
		if err != nil && !stopped {
			yield(door.Part{}, err)
		}
	}
}

// page is a read in progress.
type page struct {
	door.Page
	done bool
	room []door.Element // reused for the elements of each part
}

// partBytesMax is about the largest size of a part in bytes, without its last element.
const partBytesMax = 1 << 20

// options returns the options for the replicas.
func (p *page) options() (o bigset.ReadOptions, err error) {
	r := p.Read
	o = bigset.ReadOptions{From: r.From, To: r.To, Prefix: r.Prefix, Reverse: r.Reverse, Limit: p.Ask()}
	if o.After = p.Last(); o.After == nil {
		o.After, err = p.Tokens.After(r.After, r.Reverse)
	}
	return o, err
}

// parts passes the contents of a result to the client, in parts of the requested size.
func (p *page) parts(r *readcore.Result, give func(door.Part) bool) error {
	defer p.Keep() // the result's memory is reused
	out, bytes := door.Part{Elements: p.room[:0]}, 0
	if r.Context != nil {
		if err := p.Begin(&out, r.Context); err != nil {
			return err
		}
	}
	size := p.Read.Batch
	if size == 0 {
		size = door.BatchMax
	}
	for _, e := range r.Elements {
		if err := p.Add(&out, e.Name, e.Dots); err != nil {
			return err
		}
		if out.Done {
			break
		}
		n := len(out.Elements)
		if bytes += len(e.Name) + len(out.Elements[n-1].Context); n == size || bytes >= partBytesMax {
			if !give(out) {
				return nil
			}
			out, bytes = door.Part{Elements: out.Elements[:0]}, 0
		}
	}
	p.room = out.Elements
	out.Done = out.Done || r.Done
	p.done = out.Done
	if out.Done || len(out.Elements) > 0 || len(out.Context) > 0 {
		give(out)
	}
	return nil
}

// Count implements door.Backend. If the epoch changes during a count, the count starts again.
func (b *Backend) Count(ctx context.Context, r door.Read) (door.Count, error) {
	if err := r.Check(); err != nil {
		return door.Count{}, err
	}
	return again(ctx, b, always, func(l *live) (door.Count, error) {
		q, err := b.quorum(l, door.Quorum{}, r.R)
		if err != nil {
			return door.Count{}, err
		}
		tokens := l.tokens(r.Set)
		o := bigset.ReadOptions{From: r.From, To: r.To, Prefix: r.Prefix, Reverse: r.Reverse, Limit: r.Limit}
		if o.After, err = tokens.After(r.After, r.Reverse); err != nil {
			return door.Count{}, err
		}
		n, err := b.m.co.Count(ctx, coord.Read{Set: r.Set, Options: o, Quorum: q})
		if err != nil {
			return door.Count{}, err
		}
		if r.Bare {
			return door.Count{Elements: n.Elements}, nil
		}
		token, err := tokens.Wide(n.Context)
		return door.Count{Elements: n.Elements, Context: token}, err
	})
}

// Context implements door.Backend.
func (b *Backend) Context(ctx context.Context, set []byte, r int) (door.Token, error) {
	return again(ctx, b, always, func(l *live) (door.Token, error) {
		q, err := b.quorum(l, door.Quorum{}, r)
		if err != nil {
			return nil, err
		}
		seen, err := b.m.co.Seen(ctx, set, q)
		if err != nil {
			return nil, err
		}
		return l.tokens(set).Wide(seen)
	})
}

// Stats implements door.Backend.
func (b *Backend) Stats(ctx context.Context, set []byte, r int) (door.Stats, error) {
	return again(ctx, b, always, func(l *live) (door.Stats, error) {
		q, err := b.quorum(l, door.Quorum{}, r)
		if err != nil {
			return door.Stats{}, err
		}
		s, err := b.m.co.State(ctx, set, q)
		if err != nil {
			return door.Stats{}, err
		}
		return door.StatsOf(&s), nil
	})
}

// Drop implements door.Backend. The number left counts the dots that the context has not seen, as a read quorum knows them; without a read
// quorum, as one replica does.
func (b *Backend) Drop(ctx context.Context, d door.Drop) (door.Dropped, error) {
	return again(ctx, b, always, func(l *live) (out door.Dropped, err error) {
		q, err := b.change(l, d.Quorum)
		if err != nil {
			return out, err
		}
		seen, err := l.tokens(d.Set).Seen(d.Context)
		if err != nil {
			return out, err
		}
		if seen != nil {
			s, err := b.m.co.State(ctx, d.Set, q)
			if errors.Is(err, coord.ErrNoQuorum) {
				s, err = b.state(ctx, d.Set)
			}
			if err != nil && !errors.Is(err, bigset.ErrNotFound) {
				return out, fmt.Errorf("%w: what is in %.64q is not known: %w", door.ErrUnavailable, d.Set, err)
			}
			out.Left = d.Leaves(&s, seen)
		}
		r, err := b.m.co.Drop(ctx, coord.Drop{Set: d.Set, Seen: seen, Quorum: q, Later: d.Later})
		if err != nil {
			return door.Dropped{}, err
		}
		if out.Acked = r.Acked; r.Later != nil {
			out.Later = r.Later
		}
		return out, nil
	})
}

// state returns the state of a set as one replica knows it. The state is empty if the replica has never heard of the set.
func (b *Backend) state(ctx context.Context, set []byte) (bigset.State, error) {
	s, err := b.m.co.State(ctx, set, coord.Quorum{R: 1})
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.State{}, nil
	}
	return s, err
}
