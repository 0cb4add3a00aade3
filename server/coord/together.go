package coord

import (
	"context"
	"errors"

	"bigset"
	"bigset/server/peer"
)

// WriteCall is a write for a caller that does not wait in a goroutine.
type WriteCall struct {
	// Context is that of Coordinator.Write. A Runner other than Goroutines needs contexts that don't end.
	Context context.Context
	// Write belongs to the coordinator: the caller must not change its memory afterwards.
	Write Write
	// Done is called once with the results of Coordinator.Write, possibly before WriteMany returns. It must not wait.
	Done func(Result, error)
}

// WriteMany does several writes, each independent of the others, with the outcome that Write would have. Writes to one set whose first replica is in this
// process are given to it in one call, so that they share its sync and one frame to each other replica. WriteMany may return before the last outcome is known.
func (c *Coordinator) WriteMany(calls []WriteCall) {
	b := &batch{c: c, all: make([]*call, 0, len(calls))}
	for i := range calls {
		b.add(&calls[i])
	}
	if len(b.all) > 0 {
		b.run()
	}
}

// batch is a call of WriteMany. Nothing refers to it when that returns: a write that takes long keeps no other one in memory.
type batch struct {
	c   *Coordinator
	all []*call
}

// call is one write of a batch.
type call struct {
	setOperation
	op operation
	to reports
	w  Write
}

// reports is how an operation gives its outcome to a caller that does not wait. The operation's lock guards the mutable fields.
type reports struct {
	ctx  context.Context
	done func(Result, error)

	told bool               // done was called, or is about to be
	late func()             // ends watching the time; nil before that begins
	stop func() bool        // ends watching ctx; nil before it begins, and for a context that never ends
	end  context.CancelFunc // ends the operation's own task; nil without one
}

// add adds a write, or answers it if it can't begin.
func (b *batch) add(w *WriteCall) {
	q, l, err := b.c.planWrite(&w.Write)
	if err != nil {
		w.Done(Result{}, err)
		return
	}
	x := &call{w: w.Write, to: reports{ctx: w.Context, done: w.Done}}
	x.op = operation{c: b.c, name: x.w.Set, q: q, lists: l.lists, reports: &x.to, later: x.w.Later}
	x.operation, x.at = &x.op, l
	b.all = append(b.all, x)
}

// run does the writes: those that a replica in this process can do together, by set, and the others one by one.
func (b *batch) run() {
	c := b.c
	var groups []*group
	bySet := map[string]*group{}
	for _, x := range b.all {
		x.watch()
		to, ok := x.here()
		if !ok {
			x.alone()
			continue
		}
		g := bySet[string(x.w.Set)]
		if g == nil || g.rep != x.at.read[0] {
			g = &group{c: c, rep: x.at.read[0], to: to}
			bySet[string(x.w.Set)], groups = g, append(groups, g)
		}
		g.calls = append(g.calls, x)
	}
	for i, g := range groups {
		if i < len(groups)-1 {
			c.run.Go(g.write)
		} else {
			g.write()
		}
	}
}

// watch begins to watch the time and the context of a call. A context that ends before the coordinator's own time needs no second timer.
func (x *call) watch() {
	x.mu.Lock()
	x.to.late = x.c.run.After(x.c.opt.Timeout, func() { x.answer(context.DeadlineExceeded) })
	x.mu.Unlock()
	ctx := x.to.ctx
	switch {
	case ctx.Err() != nil:
		x.answer(context.Cause(ctx))
	case ctx.Done() != nil:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.to.stop = context.AfterFunc(ctx, func() { x.answer(context.Cause(ctx)) })
	}
}

// here returns the replica in this process that is the first to be asked, if it is. A retry asks all replicas first.
func (x *call) here() (to peer.ManyWrites, ok bool) {
	if x.w.Retry || len(x.at.read) == 0 {
		return nil, false
	}
	to, ok = x.at.read[0].(peer.ManyWrites)
	return to, ok
}

// alone does a write by itself, like Write.
func (x *call) alone() {
	c := x.c
	if !c.enter() {
		x.fail(ErrClosed)
		return
	}
	ctx, end := Deadline(context.WithoutCancel(x.to.ctx), c.run, c.opt.Timeout)
	x.mu.Lock()
	if x.to.end = end; x.to.told {
		end()
	}
	x.mu.Unlock()
	c.run.Go(func() {
		defer c.leaveOperation(x.operation)
		defer end()
		x.write(ctx, x.w)
	})
}

// answer gives the outcome of an operation to its caller, once. waited is why the caller does not wait any longer, or nil.
func (o *operation) answer(waited error) {
	p := o.reports
	o.mu.Lock()
	if p.told {
		o.mu.Unlock()
		return
	}
	p.told, o.abandoned = true, true
	switch {
	case p.end == nil:
	case o.spreading:
		o.c.goesOn(o, p.end)
	default:
		p.end()
	}
	r, err := o.outcome(waited)
	late, stop := p.late, p.stop
	o.mu.Unlock()
	if late != nil {
		late()
	}
	if stop != nil {
		stop()
	}
	p.done(r, err)
}

// group is the writes of a batch that one replica does together.
type group struct {
	c     *Coordinator
	rep   peer.Replica
	to    peer.ManyWrites // the same replica
	calls []*call
}

// write lets the replica do the writes of a group. What it can't do now is done by itself, perhaps by another replica.
func (g *group) write() {
	if !g.c.enter() {
		for _, x := range g.calls {
			x.finish(true, ErrClosed)
		}
		return
	}
	defer g.c.leave()
	begun := make([]*call, 0, len(g.calls))
	requests := make([]bigset.WriteRequest, 0, len(g.calls))
	for _, x := range g.calls {
		if x.begin() {
			x.draw(&x.w)
			begun = append(begun, x)
			requests = append(requests, bigset.WriteRequest{Ops: x.w.Ops, WriteOptions: x.options(&x.w, g.rep)})
		}
	}
	if len(begun) == 0 {
		return
	}
	out, m, err := g.to.WriteMany(context.Background(), begun[0].w.Set, requests)
	done := begun[:0]
	for i, x := range begun {
		switch {
		case err != nil:
			x.nothing()
			x.alone()
		case x.did(&out[i], m, g.rep):
			done = append(done, x)
		default:
			x.alone()
		}
	}
	for _, x := range done {
		x.late.do()
	}
}

// did goes on with what a replica has done. It reports false if the write is to be done by itself: perhaps by another replica, or as a retry if another
// try of its request has overtaken it.
func (x *call) did(out *bigset.WriteOutcome, m peer.Member, rep peer.Replica) bool {
	err := x.tried(m, out.Err, false)
	if err != nil && !x.spreading && (errors.Is(err, peer.ErrUnavailable) || errors.Is(err, bigset.ErrBehind)) {
		x.w.Retry = errors.Is(err, peer.ErrOvertaken)
		return false
	}
	x.minted(out.Result, rep, err)
	return true
}
