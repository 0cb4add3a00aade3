package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"bigset"
	"bigset/server/peer"
)

// Write is a client's request to change a set.
type Write struct {
	Set []byte
	// Ops are done in order and in one atomic batch at each replica. An element's context is what the client had seen of it; see
	// bigset.Context.
	Ops    []bigset.Op
	Policy bigset.Policy
	// Request, if not empty, is a unique id of this request, chosen by the client, of at most peer.RequestBytesMax bytes. A request that is
	// sent again with it is done once. Without an id it is done again, as another event: an add brings back what has been removed since.
	Request []byte
	// Retry says that the request may have been done before. All replicas are asked for it first, and all must answer if none has it. While
	// a replica that may have it does not answer, the outcome stays unknown, since a request that is done twice is two events, and a remove
	// may have seen only one of them. A client that would rather have it done twice gives it another id. Without Retry only the replica
	// that does the request looks for it, unless that finds that a retry has asked for it: then the write goes on as with Retry.
	Retry  bool
	Quorum Quorum
	Later  bool // asks for Result.Later
}

// Result is the outcome of a write.
type Result struct {
	bigset.Result
	By      peer.Member // the replica that did it
	Acked   int         // replicas that have it
	Durable int         // how many of these have it on disk
	Later   *Acks       // counts on, if requested; nil if no other replica can acknowledge it, or it has failed
}

// Write does operations at one replica of the set, and sends the result to the others to apply. It answers when W of them have it and DW of
// them have it on disk: see the package comment for its errors. With an *UnknownError the result is returned too: it is what is known.
//
// If a context is the clock of a whole set, and the replica has not seen all of it, Write tries other replicas, or sends the replica what
// it has missed. The error is bigset.ErrBehind if no replica has that.
//
// Removing an element that the replica does not have is no event, and guarantees nothing: give the context of what was seen.
func (c *Coordinator) Write(ctx context.Context, w Write) (Result, error) {
	q, l, err := c.planWrite(&w)
	if err != nil {
		return Result{}, err
	}
	w.Set, w.Ops = bytes.Clone(w.Set), cloneOps(w.Ops) // deltas refer to them, perhaps after the caller has returned
	o := &setOperation{operation: c.newOperation(w.Set, q, l.lists), at: l}
	o.later = w.Later
	return o.await(ctx, func(ctx context.Context) { o.write(ctx, w) })
}

// planWrite checks a write, and returns its quorum and the replicas that take part in it.
func (c *Coordinator) planWrite(w *Write) (Quorum, placed[peer.Replica], error) {
	q, l, err := c.plan(w.Set, w.Quorum)
	if err != nil {
		return q, l, err
	}
	if len(w.Request) > peer.RequestBytesMax {
		return q, l, fmt.Errorf("%w: request id of %d bytes, at most %d", ErrRequest, len(w.Request), peer.RequestBytesMax)
	}
	if w.Retry && len(w.Request) == 0 {
		return q, l, fmt.Errorf("%w: a retry without a request id", ErrRequest)
	}
	if short, of := l.short(q.W); of > 0 {
		return q, l, &QuorumError{Set: w.Set, Answered: short, Of: of}
	}
	if n := frameBytes(w); n > peer.FrameBytesMax {
		return q, l, fmt.Errorf("%w: about %d bytes of a delta, at most %d", ErrRequest, n, peer.FrameBytesMax)
	}
	return q, l, nil
}

// frameBytes returns the approximate size of the frame of a write's delta, with the given contexts.
func frameBytes(w *Write) int {
	n := len(w.Set) + itemBytes*len(w.Ops)
	for i := range w.Ops {
		n += len(w.Ops[i].Element) + (dotBytes+itemBytes)*len(w.Ops[i].Context.Dots)
	}
	return n
}

func cloneOps(ops []bigset.Op) []bigset.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Element = bytes.Clone(ops[i].Element)
		ops[i].Context.Dots = slices.Clone(ops[i].Context.Dots)
	}
	return ops
}

// setOperation is a request to change a set, in progress.
type setOperation struct {
	*operation
	at   placed[peer.Replica]
	late lateSends
	try  uint64 // of a request with an id: bigset.WriteOptions.Try
	held uint64 // the largest number of a try that has overtaken this one; that one may have done the request. 0 if none has
}

// durability returns the durability that replicas are asked for.
func (o *setOperation) durability() bigset.Durability {
	if o.q.DW == None {
		return bigset.NoSync
	}
	return bigset.Sync
}

// write lets one replica do the request, and sends the result to the others.
func (o *setOperation) write(ctx context.Context, w Write) {
	r, by, err := o.mint(ctx, w)
	o.minted(r, by, err)
	o.late.do()
}

// minted goes on with what a replica has done, or why none has done it. The caller runs o.late.
func (o *setOperation) minted(r bigset.Result, by peer.Replica, err error) {
	if o.spreading {
		o.synced(by, err)
		return
	}
	if err != nil {
		o.fail(err)
		return
	}
	o.made(r, by)
	if r.Delta.Empty() {
		o.finish(true, nil)
		return
	}
	o.spread(r.Delta, by, nil)
	o.ack(by.Member().Node, nil)
}

// made records what a replica did.
func (o *setOperation) made(r bigset.Result, by peer.Replica) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.Result, o.result.By = r, by.Member()
}

// spread sends a delta to all replicas but the one that made it, if one did, together with the deltas of its group of writers, if it has one.
// Those that the quorum does not need, the last in the order of reads, may receive it a little later: see Options.GatherTime. The caller runs o.late.
func (o *setOperation) spread(d bigset.Delta, by peer.Replica, g *bigset.Group) {
	from := o.at.write[0].Member()
	if by != nil {
		from = by.Member()
	}
	o.mu.Lock()
	o.sent = len(o.at.write)
	o.mu.Unlock()
	needed := max(o.q.W, o.q.DW)
	if by != nil {
		needed--
	}
	for _, rep := range o.at.write {
		if rep == by {
			continue
		}
		needed--
		one := bundled{o, sizeOf(&d), needed >= 0 || o.lists != nil}
		if o.c.bundle(g, one, from, rep, d) || o.c.gather(one, from, rep, d) {
			continue
		}
		node := rep.Member().Node
		o.late.add(o.c.send(from, deltaTo(rep, d, o.durability()), func(err error) { o.ack(node, err) }))
	}
}

// synced ends the part of the replica that made a delta, while the others have already been sent it. If its disk has failed, it has not
// acknowledged: the others may be enough.
func (o *setOperation) synced(by peer.Replica, err error) {
	if err != nil {
		d := deltaTo(by, o.result.Delta, o.durability())
		o.c.missed(by.Member(), &d, err)
	}
	o.ack(by.Member().Node, err)
}

// mintsMax is how often a write begins in all, if other tries of its request overtake it.
const mintsMax = 3

// mint lets the first replica that can do the request do so. An error, as long as nothing has begun, means that nothing has happened. If another try of
// the request has overtaken this one, mint goes on as a retry.
func (o *setOperation) mint(ctx context.Context, w Write) (r bigset.Result, by peer.Replica, err error) {
	for range mintsMax {
		r, by, err = o.mintOnce(ctx, w)
		if o.spreading || !errors.Is(err, peer.ErrOvertaken) {
			break
		}
		w.Retry = true
	}
	return r, by, err
}

// tryBits are the bits of the number of a retry that are drawn at random. The others are the time in milliseconds. So the later of two retries has the
// larger number if the clocks agree.
const tryBits = 22

// firstTry is the number of all first tries. They ask no replica, so it is enough that no retry has it.
const firstTry = 1

// draw draws the number of a try of a request, if that has an id. That of a retry is above those of the tries that are known to have overtaken it.
func (o *setOperation) draw(w *Write) {
	switch {
	case w.Retry:
		o.mu.Lock()
		defer o.mu.Unlock()
		now, above := uint64(max(0, o.c.run.Now().UnixMilli()))<<tryBits, max(firstTry, min(o.held, math.MaxUint64-1<<tryBits))+1
		o.try = max(now, above) + o.c.opt.Rand()>>(64-tryBits)
	case len(w.Request) > 0:
		o.try = firstTry
	}
}

// doubt records that another try of the request may have done it, if err says so. It reports whether this or a former error said so.
func (o *setOperation) doubt(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(err, peer.ErrOvertaken) {
		held := uint64(1) // a member of an older version does not say the number
		var other *peer.OvertakenError
		if errors.As(err, &other) {
			held = max(held, other.Held)
		}
		o.held, o.began = max(o.held, held), true
	}
	return o.held > 0
}

// mintOnce is mint as a first try or as a retry.
func (o *setOperation) mintOnce(ctx context.Context, w Write) (bigset.Result, peer.Replica, error) {
	var errs []error
	var behind []peer.Replica
	candidates, known := o.at.read, false
	o.draw(&w)
	if w.Retry {
		knowing, err := o.knowing(ctx, w.Request)
		if err != nil {
			return bigset.Result{}, nil, err
		}
		if len(knowing) > 0 {
			candidates, known = knowing, true // other replicas would do it again
		}
	}
	try := func(rep peer.Replica, ops []bigset.Op) (bigset.Result, error) {
		if !o.begin() {
			return bigset.Result{}, peer.ErrUnavailable
		}
		r, m, err := rep.Write(ctx, w.Set, ops, o.options(&w, rep))
		return r, o.tried(m, err, known)
	}
	for _, rep := range candidates {
		r, err := try(rep, w.Ops)
		if o.decided(err) {
			return r, rep, err
		}
		if errors.Is(err, bigset.ErrBehind) {
			behind = append(behind, rep)
		}
		errs = append(errs, err)
	}
	for _, rep := range behind {
		if err := o.catchUp(ctx, rep, w.Ops); err != nil {
			errs = append(errs, err)
			continue
		}
		if r, err := try(rep, w.Ops); o.decided(err) {
			return r, rep, err
		}
	}
	if len(behind) > 0 {
		return bigset.Result{}, nil, errors.Join(errs...)
	}
	return bigset.Result{}, nil, &QuorumError{Set: w.Set, Of: 1, Err: errors.Join(errs...)}
}

// decided reports whether no other replica may do the request after one has answered err.
func (o *setOperation) decided(err error) bool {
	return o.spreading || errors.Is(err, peer.ErrOvertaken) || !errors.Is(err, bigset.ErrBehind) && !errors.Is(err, peer.ErrUnavailable)
}

// options returns the options with which a replica does the request.
func (o *setOperation) options(w *Write, rep peer.Replica) bigset.WriteOptions {
	return bigset.WriteOptions{Policy: w.Policy, Durability: o.durability(), Request: w.Request, Try: o.try, Applied: func(r bigset.Result, g *bigset.Group) {
		o.mu.Lock()
		o.spreading = true
		o.mu.Unlock()
		o.made(r, rep)
		o.spread(r.Delta, rep, g)
	}}
}

// tried returns the error of a replica with its name, and records if it says that nothing has happened, or that another try may have done the request.
// known means that the replica may have done it before.
func (o *setOperation) tried(m peer.Member, err error, known bool) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", m.Node, err)
	if o.spreading {
		return err // the other replicas may do it
	}
	if overtaken := o.doubt(err); peer.Refused(err) || !overtaken && !known && (errors.Is(err, peer.ErrUnavailable) || errors.Is(err, bigset.ErrBehind)) {
		o.nothing()
	}
	return err
}

// errMaybeDone is the error for a retry that is not done.
var errMaybeDone = errors.New("coord: the request may have been done at a replica that does not answer, or has lost its disk: send it again when all answer, or with another id, which may do it twice")

// knowing returns replicas that have a request already: one or more as soon as one says so, none if no replica has it. It waits for a part
// of the available time. It fails if a replica has not answered, since that one may have done the request, and it would be done a second
// time. It also fails if the replicas that acknowledged it may all have lost their disks.
func (o *setOperation) knowing(ctx context.Context, request []byte) ([]peer.Replica, error) {
	ctx, cancel := Deadline(ctx, o.c.run, o.c.opt.Timeout/4)
	defer cancel()
	var mu sync.Mutex
	var knowing []peer.Replica
	var without []string // nodes that do not know it, and have lost nothing
	var errs []error
	answers, settled := 0, o.c.run.NewSignal()
	number := o.try // the next question has another one
	for _, rep := range o.at.write {
		o.c.run.Go(func() {
			known, by, err := rep.Knows(ctx, o.name, request, number)
			o.doubt(err)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", rep.Member().Node, err))
			case known:
				knowing = append(knowing, rep)
			case by.State == peer.Normal:
				without = append(without, by.Node)
			}
			if answers++; len(knowing) > 0 || answers == len(o.at.write) {
				settled.Set()
			}
		})
	}
	waited := settled.Wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	switch most := max(o.q.W, o.q.DW); {
	case len(knowing) > 0:
		return slices.Clone(knowing), nil
	case len(errs) > 0 || answers < len(o.at.write):
		return nil, &QuorumError{Set: o.name, Answered: answers - len(errs), Of: len(o.at.write), Err: errors.Join(append([]error{errMaybeDone, waited}, errs...)...)}
	case !o.at.rulesOut(most, without):
		return nil, &QuorumError{Set: o.name, Answered: len(without), Of: len(o.at.write) - min(most, len(o.at.write)) + 1, Err: errMaybeDone}
	}
	return nil, nil
}
