package cluster

import (
	"context"
	"errors"

	"bigset"
	"bigset/clock"
	"bigset/server/coord"
	"bigset/server/door"
)

var _ door.ManyWriter = (*Backend)(nil)

// writing is a client's write, with what its last try has opened.
type writing struct {
	b      *Backend
	w      door.Write
	retry  bool // a try may have done it
	tokens *bigset.Tokens
	ops    []bigset.Op
}

// Write implements door.Backend.
func (b *Backend) Write(ctx context.Context, w door.Write) (door.Result, error) {
	taken, err := b.m.conf.Limits.TakeBatch(&w)
	if err != nil {
		return door.Result{}, err
	}
	if taken > 0 {
		defer b.m.conf.Limits.GiveLong(taken)
	}
	x := &writing{b: b, w: w, retry: w.Retry}
	out, err := again(ctx, b, x.repeat, func(l *live) (door.Result, error) { return x.try(ctx, l) })
	return out, door.Retried(w.Retry, err)
}

// WriteMany implements door.ManyWriter. The first tries go to the coordinator together; what members of another epoch refuse is repeated by itself.
func (b *Backend) WriteMany(calls []door.WriteCall) {
	l, err := b.ready()
	all := make([]coord.WriteCall, 0, len(calls))
	for i := range calls {
		call := &calls[i]
		if err := b.take(call); err != nil {
			call.Done(door.Result{}, err)
			continue
		}
		x := &writing{b: b, w: call.Write, retry: call.Write.Retry}
		var w coord.Write
		opened := err
		if opened == nil {
			w, opened = x.open(l)
		}
		if opened != nil {
			call.Done(door.Result{}, door.Retried(x.w.Retry, failure(opened)))
			continue
		}
		all = append(all, coord.WriteCall{Context: call.Context, Write: w, Done: func(r coord.Result, err error) { x.ended(l, call, r, err) }})
	}
	b.m.co.WriteMany(all)
}

// take takes memory for the batch of a write until it is done.
func (b *Backend) take(call *door.WriteCall) error {
	taken, err := b.m.conf.Limits.TakeBatch(&call.Write)
	if taken > 0 {
		done := call.Done
		call.Done = func(out door.Result, err error) {
			b.m.conf.Limits.GiveLong(taken)
			done(out, err)
		}
	}
	return err
}

// answerInPlaceMost is the largest number of operations whose answer is made where their outcome is learned, which may be the goroutine that
// reads the acknowledgements of another member.
const answerInPlaceMost = 256

// ended answers a call of WriteMany after its first try, or goes on with it.
func (x *writing) ended(l *live, call *door.WriteCall, r coord.Result, err error) {
	if len(x.ops) > answerInPlaceMost {
		x.b.m.run.Go(func() { x.goOn(l, call, r, err) })
		return
	}
	x.goOn(l, call, r, err)
}

func (x *writing) goOn(l *live, call *door.WriteCall, r coord.Result, err error) {
	var out door.Result
	if err == nil {
		out, err = x.written(r)
	}
	if !refusedEpoch(l, err) {
		call.Done(out, door.Retried(x.w.Retry, failure(err)))
		return
	}
	x.b.m.run.Go(func() {
		out, err := tried(call.Context, x.b, l, out, err, x.repeat, func(l *live) (door.Result, error) { return x.try(call.Context, l) })
		call.Done(out, door.Retried(x.w.Retry, err))
	})
}

// repeat reports whether the write may be repeated after an error.
func (x *writing) repeat(err error) bool {
	begun := errors.Is(err, coord.ErrUnknown)
	x.retry = x.retry || begun
	return !begun || len(x.w.Request) > 0
}

// try does the write by some routes.
func (x *writing) try(ctx context.Context, l *live) (door.Result, error) {
	w, err := x.open(l)
	if err != nil {
		return door.Result{}, err
	}
	r, err := x.b.m.co.Write(ctx, w)
	if err != nil {
		return door.Result{}, err
	}
	return x.written(r)
}

// open returns the write in the form for the coordinator.
func (x *writing) open(l *live) (w coord.Write, err error) {
	q, err := x.b.change(l, x.w.Quorum)
	if err != nil {
		return w, err
	}
	x.tokens = l.tokens(x.w.Set)
	if x.ops, err = x.w.Opened(x.tokens); err != nil {
		return w, err
	}
	return coord.Write{Set: x.w.Set, Ops: x.ops, Policy: x.w.Policy, Request: x.w.Request, Retry: x.retry, Quorum: q, Later: x.w.Later}, nil
}

// written returns the result for the client.
func (x *writing) written(r coord.Result) (door.Result, error) {
	out := door.Result{Removed: r.Removed, Acked: r.Acked, Durable: r.Durable}
	if r.Later != nil {
		out.Later = r.Later
	}
	if x.w.Changes {
		out.Changed = door.ChangesOf(&r.Result)
	}
	if !x.w.Contexts {
		return out, nil
	}
	out.Contexts = make([]door.Token, len(x.ops))
	for i, d := range r.Dots {
		if d == (clock.Dot{}) {
			continue
		}
		var err error
		if out.Contexts[i], err = x.tokens.Narrow(x.ops[i].Element, []clock.Dot{d}); err != nil {
			return door.Result{}, &door.UnknownError{Acked: r.Acked, Durable: r.Durable, Err: err}
		}
	}
	return out, nil
}
