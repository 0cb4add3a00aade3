package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// operation is an operation in progress: replicas must acknowledge what one of them did, or what the coordinator asks for.
type operation struct {
	c       *Coordinator
	name    []byte // of the set or the filter
	q       Quorum
	lists   [][]string // of nodes, each of which must reach the quorum by itself; nil if there is only one
	settled Signal     // for a caller that waits; nil if reports is set
	reports *reports   // for a caller that does not wait
	// count counts another replica's acknowledgement in the result; nil means countOne. It is called with mu held.
	count func(node string)
	left  bool // its task has ended; under the coordinator's lock
	later bool // its caller wants Result.Later

	mu        sync.Mutex
	result    Result
	began     bool     // a replica was asked: it may have happened
	abandoned bool     // the caller has stopped waiting: nothing may begin
	over      bool     // it was refused, or no replica could do it: see err
	spreading bool     // the others were sent what one replica has applied and not yet synced
	sent      int      // replicas that were asked
	answered  int      // replicas that have answered
	ackedBy   []string // nodes that have acknowledged, if there are lists
	err       error
}

func (c *Coordinator) newOperation(name []byte, q Quorum, lists [][]string) *operation {
	return &operation{c: c, name: name, q: q, lists: lists, settled: c.run.NewSignal()}
}

// settle records that the outcome of the operation is known.
func (o *operation) settle() {
	if o.reports != nil {
		o.answer(nil)
		return
	}
	o.settled.Set()
}

// await runs f in the background and returns the outcome of the operation when it is known, or when the time is up. The context of f ends
// then, too, unless what one replica did is spreading. In that case the replica may still answer in the remaining time, though the others
// are enough: to cut it off would cost it a hint.
func (o *operation) await(ctx context.Context, f func(context.Context)) (Result, error) {
	if !o.c.enter() {
		return Result{}, ErrClosed
	}
	ctx, cancel := Deadline(ctx, o.c.run, o.c.opt.Timeout)
	defer cancel()
	work, end := Deadline(context.WithoutCancel(ctx), o.c.run, o.c.opt.Timeout)
	if ctx.Err() != nil {
		end()
	}
	o.c.run.Go(func() {
		defer o.c.leaveOperation(o) // Close waits, so that what a replica did for a caller that has returned still becomes hints
		defer end()
		f(work)
	})
	waited := o.settled.Wait(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = true
	if o.spreading {
		o.c.goesOn(o, end)
	} else {
		end()
	}
	return o.outcome(waited)
}

// outcome returns the results of the operation for its caller. waited is why the caller does not wait any longer, or nil. It is called with mu held.
func (o *operation) outcome(waited error) (Result, error) {
	switch {
	case o.over:
		return o.result, o.err
	case o.reached():
		if o.later && o.answered < o.sent {
			o.result.Later = &Acks{run: o.c.run, acked: o.result.Acked, open: o.sent - o.answered}
		}
		return o.result, nil
	case !o.began:
		return o.result, &QuorumError{Set: o.name, Of: o.q.W, Err: errors.Join(waited, o.err)}
	}
	return o.result, &UnknownError{Set: o.name, Acked: o.result.Acked, Durable: o.result.Durable, W: o.q.W, DW: max(0, o.q.DW),
		Unanswered: o.sent - o.answered, Err: errors.Join(waited, o.err)}
}

// reached reports whether enough replicas have acknowledged.
func (o *operation) reached() bool {
	if o.lists != nil { // if any replica must answer durably, all do
		return reached(o.lists, max(o.q.W, o.q.DW), o.ackedBy)
	}
	return o.result.Acked >= o.q.W && o.result.Durable >= o.q.DW
}

// begin records that a replica is about to be asked, unless the caller has stopped waiting.
func (o *operation) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = o.began || !o.abandoned
	return !o.abandoned
}

// nothing records that no replica has done anything.
func (o *operation) nothing() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = false
}

// fail ends the operation without an event: as unknown, if a replica may have done something.
func (o *operation) fail(err error) {
	o.mu.Lock()
	unknown := o.began
	o.mu.Unlock()
	o.finish(!unknown, err)
}

// finish ends the operation: as refused, as unknown, or without an event.
func (o *operation) finish(over bool, err error) {
	o.mu.Lock()
	o.over, o.err = over, errors.Join(o.err, err)
	o.mu.Unlock()
	o.settle()
}

// ack counts one replica's answer.
func (o *operation) ack(node string, err error) {
	o.mu.Lock()
	o.answered++
	if err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("%s: %w", node, err))
	} else {
		o.counts(node)
	}
	done, later := o.reached() || o.answered == o.sent, o.result.Later
	o.mu.Unlock()
	if later != nil {
		later.answered(err == nil)
	}
	if done {
		o.settle()
	}
}

// counts counts a replica's acknowledgement. It is called with mu held.
func (o *operation) counts(node string) {
	if o.count != nil {
		o.count(node)
		return
	}
	o.countOne(node)
}

// countOne counts one replica.
func (o *operation) countOne(node string) {
	if o.lists != nil {
		o.ackedBy = append(o.ackedBy, node)
	}
	o.result.Acked++
	if o.q.DW != None {
		o.result.Durable++
	}
}
