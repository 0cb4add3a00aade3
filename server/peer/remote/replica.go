package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/wire"
)

// Options configure a Replica: whom it asks, and for whom.
type Options struct {
	// Member is the replica as the map knows it. Its node is required; its incarnation and state are what Member returns until the replica
	// answers.
	Member peer.Member
	// Caller calls the node of the replica.
	Caller wire.Caller
	// Self returns the member of this process, the sender of the requests.
	Self func() peer.Member
	// Epoch returns the epoch of the map by which requests are routed; the default is 0.
	Epoch func() uint64
	// Frames, which replicas may share, keeps frames of deltas; the default is none.
	Frames *Frames
	// Priority is the priority of all calls that would be more urgent by their verb: for hints, repairs and copies. The default is none.
	Priority wire.Priority
}

// Replica is a replica in another process.
type Replica struct {
	opt  Options
	last atomic.Pointer[peer.Member]
}

var (
	_ peer.Replica       = (*Replica)(nil)
	_ peer.Stamper       = (*Replica)(nil)
	_ peer.RequestLister = (*Replica)(nil)
	_ peer.DeltaSender   = (*Replica)(nil)
	_ peer.ManyDeltas    = (*Replica)(nil)
	_ peer.DeltasSender  = (*Replica)(nil)
)

// New returns a replica in another process. It does no I/O.
func New(o Options) (*Replica, error) {
	switch {
	case o.Member.Node == "" || len(o.Member.Node) > peer.NodeBytesMax:
		return nil, fmt.Errorf("%w: name of a node of %d bytes", peer.ErrMember, len(o.Member.Node))
	case o.Caller == nil || o.Self == nil:
		return nil, errors.New("remote: Caller or Self is missing")
	}
	r := &Replica{opt: o}
	r.last.Store(&o.Member)
	return r, nil
}

// Member implements peer.Replica.
func (r *Replica) Member() peer.Member { return *r.last.Load() }

// Is records the state of the replica, as learned elsewhere. A coordinator does not ask a replica that is joining, so its own answers could
// not say that it is complete again.
func (r *Replica) Is(s peer.MemberState) {
	m := *r.last.Load()
	m.State = s
	r.heard(m)
}

// heard records the member that has answered.
func (r *Replica) heard(m peer.Member) {
	if last := r.last.Load(); *last != m {
		r.last.Store(&m)
	}
}

func (r *Replica) node() string { return r.opt.Member.Node }

func unavailable(err error) error { return fmt.Errorf("%w: %w", peer.ErrUnavailable, err) }

// call returns a request in the form that the wire takes.
func (r *Replica) call(v wire.Verb, body func(version byte) ([]byte, error)) wire.Call {
	c := wire.Call{Verb: v, Priority: max(priorityOf(v), r.opt.Priority), Encode: body}
	if r.opt.Epoch != nil {
		c.Epoch = r.opt.Epoch()
	}
	return c
}

// failed returns the meaning of a call's error, and the member that it is from.
func (r *Replica) failed(err error) (peer.Member, error) {
	var far *peer.ReplicaError
	switch {
	case errors.As(err, &far) && far.Member.Node == r.node():
		r.heard(far.Member)
		return far.Member, fmt.Errorf("%s: %w", r.node(), far.Err)
	case far != nil: // another member's word about what has happened does not count
		return r.Member(), fmt.Errorf("%w: an error of %v, expected one of %s: %v", peer.ErrAnswer, far.Member, r.node(), far.Err)
	case errors.Is(err, wire.ErrNotSent):
		return r.Member(), fmt.Errorf("%w: %s: %w", peer.ErrUnavailable, r.node(), err)
	}
	return r.Member(), fmt.Errorf("%s: %w", r.node(), err)
}

// strange returns the error for an invalid answer. It wraps nothing that says what has happened.
func (r *Replica) strange(format string, args ...any) error {
	return fmt.Errorf("%w: from %s: %s", peer.ErrAnswer, r.node(), fmt.Sprintf(format, args...))
}

// ask sends a request whose answer is a message of type A.
func ask[A peer.Message](ctx context.Context, r *Replica, v wire.Verb, request peer.Message) (answer A, by peer.Member, err error) {
	return askFrame[A](ctx, r, v, r.frame(request))
}

// frame returns a function that encodes a request for the version of the connection.
func (r *Replica) frame(request peer.Message) func(version byte) ([]byte, error) {
	return func(version byte) ([]byte, error) { return encode(version, r.opt.Self(), request) }
}

func askFrame[A peer.Message](ctx context.Context, r *Replica, v wire.Verb, body func(version byte) ([]byte, error)) (answer A, by peer.Member, err error) {
	b, err := r.opt.Caller.Do(ctx, r.call(v, body))
	return answered[A](r, b, err)
}

// answered returns the result of a call.
func answered[A peer.Message](r *Replica, b []byte, err error) (answer A, by peer.Member, _ error) {
	if err != nil {
		by, err = r.failed(err)
		return answer, by, err
	}
	m, by, err := peer.DecodeOwned(b)
	switch a, ok := m.(A); {
	case err != nil:
		return answer, r.Member(), r.strange("%v", err)
	case by.Node != r.node():
		return answer, r.Member(), r.strange("it is from %v", by)
	case !ok:
		return answer, r.Member(), r.strange("a %T", m)
	default:
		r.heard(by)
		return a, by, nil
	}
}

// fit returns an error for an answer that does not match its request.
func fit[A any](r *Replica, a A, by peer.Member, err error, fits bool, what string) (A, peer.Member, error) {
	if err == nil && !fits {
		var none A
		return none, by, r.strange("%s that was not asked for", what)
	}
	return a, by, err
}

// Write implements peer.Replica.
func (r *Replica) Write(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	if o.Applied != nil && o.Durability == bigset.Sync {
		result, by, err := r.writeAhead(ctx, set, ops, o)
		if !errors.Is(err, peer.ErrFrameKind) {
			return result, by, err
		}
		// It runs an older program, which does not know the verb: nothing has happened.
	}
	w, by, err := ask[peer.Written](ctx, r, VerbWrite, peer.Write{Set: set, Ops: ops, Options: o})
	return fit(r, bigset.Result(w), by, err, answers(&w, set, ops), "a result")
}

// answers reports whether a result can be that of a write.
func answers(w *peer.Written, set []byte, ops []bigset.Op) bool {
	return len(w.Dots) == len(ops) && (len(w.Delta.Set) == 0 || bytes.Equal(w.Delta.Set, set))
}

// writeAhead is Write that calls o.Applied with what the replica has applied, before that is on disk.
func (r *Replica) writeAhead(ctx context.Context, set []byte, ops []bigset.Op, o bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	var result bigset.Result
	reported := false
	err := r.stream(ctx, VerbWriteAhead, peer.Write{Set: set, Ops: ops, Options: o}, func(part []byte, from *sender) (bool, error) {
		w, err := decodePart[peer.Written](bytes.Clone(part), from) // the result refers to it
		switch {
		case err != nil:
			return true, err
		case reported || !answers(&w, set, ops):
			return true, errors.New("a result that was not asked for")
		}
		result, reported = bigset.Result(w), true
		if !result.Delta.Empty() {
			o.Applied(result, nil)
		}
		return true, nil
	})
	if err == nil && !reported {
		err = r.strange("no result")
	}
	return result, r.Member(), err
}

// Knows implements peer.Replica.
func (r *Replica) Knows(ctx context.Context, set, request []byte, try uint64) (bool, peer.Member, error) {
	known, by, err := ask[peer.Known](ctx, r, VerbKnows, peer.Knows{Set: set, Request: request, Try: try})
	return bool(known), by, err
}

// Apply implements peer.Replica.
func (r *Replica) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	if durability > bigset.NoSync {
		return r.Member(), fmt.Errorf("%w: durability %d", bigset.ErrRequest, durability)
	}
	_, by, err := askFrame[peer.Done](ctx, r, VerbApply+wire.Verb(durability), r.deltaFrame(&d))
	return by, err
}

// deltaFrame returns a function that encodes a delta for the version of the connection.
func (r *Replica) deltaFrame(d *bigset.Delta) func(version byte) ([]byte, error) {
	return func(version byte) ([]byte, error) { return r.opt.Frames.delta(version, r.opt.Self(), d) }
}

// SendDelta implements peer.DeltaSender.
func (r *Replica) SendDelta(ctx context.Context, d bigset.Delta, durability bigset.Durability, done func(error)) bool {
	to, ok := r.opt.Caller.(wire.Sender)
	if !ok || durability > bigset.NoSync {
		return false
	}
	return to.Send(ctx, r.call(VerbApply+wire.Verb(durability), r.deltaFrame(&d)), func(b []byte, err error) {
		_, _, err = answered[peer.Done](r, b, err)
		done(err)
	})
}

// ApplyFacts implements peer.Replica.
func (r *Replica) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	if durability > bigset.NoSync {
		return bigset.FactsResult{}, r.Member(), fmt.Errorf("%w: durability %d", bigset.ErrRequest, durability)
	}
	a, by, err := ask[peer.FactsResult](ctx, r, VerbApplyFacts+wire.Verb(durability), peer.Facts(f))
	return bigset.FactsResult(a), by, err
}

// Heal implements peer.Replica.
func (r *Replica) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, peer.Member, error) {
	a, by, err := ask[peer.HealResult](ctx, r, VerbHeal, peer.Heal{Facts: f, Wrong: wrong})
	return bigset.HealResult(a), by, err
}

// Lost implements peer.Replica.
func (r *Replica) Lost(ctx context.Context, set []byte) (*clock.Clock, peer.Member, error) {
	a, by, err := ask[peer.Lost](ctx, r, VerbLost, peer.AskLost{Set: set})
	return fit(r, a.Dots, by, err, bytes.Equal(a.Set, set), "lost dots of a set")
}

// ElementDigests implements peer.Replica.
func (r *Replica) ElementDigests(ctx context.Context, set []byte, e bigset.ElementRange) (bigset.ElementDigests, peer.Member, error) {
	a, by, err := ask[peer.ElementDigests](ctx, r, VerbElementDigests, peer.ElementRange{Set: set, Range: e})
	return bigset.ElementDigests(a), by, err
}

// State implements peer.Replica.
func (r *Replica) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	a, by, err := ask[peer.State](ctx, r, VerbState, peer.AskState{Set: set})
	return bigset.State(a), by, err
}

// Lookup implements peer.Replica.
func (r *Replica) Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, peer.Member, error) {
	a, by, err := ask[peer.Contexts](ctx, r, VerbLookup, peer.Lookup{Set: set, Elements: elements})
	return fit(r, []bigset.Context(a), by, err, len(a) == len(elements), "contexts")
}

// CountParts implements peer.Replica.
func (r *Replica) CountParts(ctx context.Context, set []byte, c bigset.CountRange) (bigset.PartCounts, peer.Member, error) {
	a, by, err := ask[peer.PartCounts](ctx, r, VerbCountParts, peer.AskCount{Set: set, Range: c})
	return fit(r, bigset.PartCounts(a), by, err, (a.Clock != nil) == c.Clock, "a clock, or none,")
}

// DotStatus implements peer.Replica.
func (r *Replica) DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, peer.Member, error) {
	a, by, err := ask[peer.DotStatuses](ctx, r, VerbDotStatus, peer.Ask{Set: set, Element: element, Dots: dots})
	return fit(r, bigset.DotStatuses(a), by, err, len(a.Statuses) == len(dots), "statuses of dots")
}

// Export implements peer.Replica.
func (r *Replica) Export(ctx context.Context, set, after []byte, bytesMax int) (*bigset.Portion, peer.Member, error) {
	a, by, err := ask[peer.Portion](ctx, r, VerbExport, peer.Export{Set: set, After: after, Bytes: bytesMax})
	if err != nil {
		return nil, by, err
	}
	return fit(r, (*bigset.Portion)(&a), by, nil, bytes.Equal(a.Set, set), "a portion of a set")
}

// RangeDigests implements peer.Replica.
func (r *Replica) RangeDigests(ctx context.Context, first, last keyscheme.Slot, parts int) ([]bigset.RangeDigest, peer.Member, error) {
	a, by, err := ask[peer.RangeDigests](ctx, r, VerbRangeDigests, peer.AskRangeDigests{First: first, Last: last, Parts: parts})
	return fit(r, []bigset.RangeDigest(a), by, err, peer.CheckSplit(a, first, last, len(keyscheme.SplitSlots(first, last, parts))) == nil, "a range")
}

// sender checks the parts of a stream: all must be from the member that was asked, in one incarnation.
type sender struct {
	r     *Replica
	first peer.Member
}

func (s *sender) check(by peer.Member) error {
	if by.Node != s.r.node() || s.first.Node != "" && !by.Is(s.first) {
		return fmt.Errorf("a part is from %v", by)
	}
	s.first = by
	s.r.heard(by)
	return nil
}

// stream sends a request that is answered in parts. Each part but the last is passed to take, which checks its sender before it shows the
// part to the consumer, and returns whether the consumer wants more. The last part says that the stream is complete. If the consumer has
// stopped, the error is nil.
func (r *Replica) stream(ctx context.Context, v wire.Verb, request peer.Message, take func(part []byte, from *sender) (more bool, err error)) error {
	from, whole := &sender{r: r}, false
	for part, err := range r.opt.Caller.Stream(ctx, r.call(v, r.frame(request))) {
		if err != nil {
			_, err = r.failed(err)
			return err
		}
		if whole {
			return r.strange("a part after the last")
		}
		more, err := take(part, from)
		if errors.Is(err, peer.ErrFrameKind) {
			whole, err = lastPart(part, from)
			more = true
		}
		if err != nil {
			return r.strange("%v", err)
		}
		if !more {
			return nil
		}
	}
	if !whole {
		return r.strange("a stream that was cut")
	}
	return nil
}

// lastPart decodes the end of a stream.
func lastPart(part []byte, from *sender) (whole bool, err error) {
	m, by, err := peer.Decode(part)
	if err != nil {
		return false, err
	}
	if _, whole = m.(peer.Done); !whole {
		return false, fmt.Errorf("a %T", m)
	}
	return true, from.check(by)
}

// decodePart decodes a part of a stream; the error for a part of another type is peer.ErrFrameKind.
func decodePart[P peer.Message](part []byte, from *sender) (p P, err error) {
	m, by, err := peer.Decode(part)
	if err != nil {
		return p, err
	}
	p, ok := m.(P)
	if !ok {
		return p, peer.ErrFrameKind
	}
	return p, from.check(by)
}
