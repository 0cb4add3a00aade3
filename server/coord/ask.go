package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bigset/server/peer"
)

// ask asks the first enough replicas, and one more for each that fails or does not answer within Options.HedgeTime. If HedgeTime is not
// set, ask asks all replicas at once. It returns the first answers when there are enough of them.
func ask[R interface{ Member() peer.Member }, T any](ctx context.Context, c *Coordinator, name []byte, enough int, replicas []R, f func(context.Context, R) (T, error)) ([]T, error) {
	return askOthers(ctx, c, name, enough, nil, replicas, f)
}

// askOthers is ask when some replicas have answered already: have counts towards enough, and those replicas are not in replicas.
func askOthers[R interface{ Member() peer.Member }, T any](ctx context.Context, c *Coordinator, name []byte, enough int, have []T, replicas []R, f func(context.Context, R) (T, error)) ([]T, error) {
	if len(have) >= enough {
		return have, nil
	}
	ctx, cancel := Deadline(ctx, c.run, c.opt.Timeout)
	defer cancel()
	a := &asking[R, T]{c: c, ctx: ctx, f: f, left: replicas, answers: have, enough: enough, of: len(have) + len(replicas), settled: c.run.NewSignal()}
	first := len(replicas)
	if c.opt.HedgeTime > 0 && enough-len(have) < first {
		first = enough - len(have)
		stop := c.run.After(c.opt.HedgeTime, func() {
			if n := a.hedge(); n > 0 {
				c.opt.Events(Event{Kind: EventHedged, Set: name, Count: n})
			}
		})
		defer stop()
	}
	a.mu.Lock()
	a.more(first)
	a.mu.Unlock()
	if len(replicas) == 0 {
		a.settled.Set()
	}
	waited := a.settled.Wait(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = nil
	if len(a.answers) < enough {
		return nil, &QuorumError{Set: name, Answered: len(a.answers), Of: enough, Err: errors.Join(append(a.errs, waited)...)}
	}
	return a.answers[:enough:enough], nil
}

// asking is a question in progress.
type asking[R interface{ Member() peer.Member }, T any] struct {
	c       *Coordinator
	ctx     context.Context
	f       func(context.Context, R) (T, error)
	enough  int
	of      int
	settled Signal

	mu      sync.Mutex
	left    []R // not asked yet
	answers []T
	errs    []error
}

// more asks n more replicas, or as many as are left. It is called with mu held.
func (a *asking[R, T]) more(n int) {
	for ; n > 0 && len(a.left) > 0; n-- {
		rep := a.left[0]
		a.left = a.left[1:]
		a.c.run.Go(func() { a.one(rep) })
	}
}

// hedge asks as many more replicas as there are answers missing, and returns how many those are.
func (a *asking[R, T]) hedge() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(a.enough-len(a.answers), len(a.left))
	a.more(n)
	return n
}

// one asks one replica.
func (a *asking[R, T]) one(rep R) {
	answer, err := a.f(a.ctx, rep)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("%s: %w", rep.Member().Node, err))
		a.more(1)
	} else if len(a.answers) < a.enough {
		a.answers = append(a.answers, answer)
	}
	if len(a.answers) == a.enough || len(a.answers)+len(a.errs) == a.of {
		a.settled.Set()
	}
}
