package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bigset/server/wire"
)

// The pause from one round over all nodes to the next doubles from the least to the most, a quarter more or less by chance.
const (
	pauseLeast = 20 * time.Millisecond
	pauseMost  = 320 * time.Millisecond
)

// bound gives a call without a deadline one.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// settled is the error of a try that ends the call, whatever the error within says.
type settled struct{ error }

// ask asks node after node until one has done what try asks of it, or an error says that none would. lost is why nobody knows whether one of
// them has done it, nil where that is known; try is given it, too. Where it is not nil, err is lost or the error that ended the call.
func (c *Client) ask(ctx context.Context, try func(to wire.Caller, lost error) error) (lost, err error) {
	end := time.Now().Add(c.timeout) // of the rounds, where ctx has no deadline
	for pause := pauseLeast; ; pause = min(2*pause, pauseMost) {
		var failed nodesError
		hope := false
		at := int(c.first.Load())
		for i := range c.nodes {
			n := (at + i) % len(c.nodes)
			err := try(c.nodes[n].to, lost)
			if err == nil {
				c.first.Store(int32(n))
				c.reached.Store(true)
				return lost, nil
			}
			if s, ok := err.(settled); ok {
				return lost, s.error
			}
			if !unreached(err) {
				c.reached.Store(true)
			}
			named := fmt.Errorf("%s: %w", c.nodes[n].name, err)
			switch fateOf(err) {
			case final:
				return lost, err
			case unsure:
				lost, hope = named, true
			case untouched:
				failed, hope = append(failed, named), hope || !hopeless(err)
			}
			if ctx.Err() != nil {
				break
			}
		}
		if err = lost; lost == nil {
			err = failed
		}
		if lost == nil && !(hope && c.reached.Load()) || !c.sleep(ctx, end, pause) {
			return lost, err
		}
	}
}

// sleep waits for a pause, and reports whether there is time for more: of the context or, where that has no end, until the given one.
func sleep(ctx context.Context, end time.Time, pause time.Duration) bool {
	pause = pause*3/4 + rand.N(pause/2)
	if at, bounded := ctx.Deadline(); bounded {
		end = at
	}
	if ctx.Err() != nil || time.Until(end) <= pause {
		return false
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// get asks for one answer that changes nothing.
func (c *Client) get(ctx context.Context, verb wire.Verb, body []byte) (answer []byte, err error) {
	_, err = c.ask(ctx, func(to wire.Caller, _ error) (err error) {
		answer, err = to.Do(ctx, wire.Call{Verb: verb, Body: body})
		return err
	})
	if err != nil {
		return nil, readFailure(err)
	}
	return answer, nil
}

// stream asks for an answer in parts. Another node takes the place of one that fails before it has given a part.
func (c *Client) stream(ctx context.Context, verb wire.Verb, body []byte, part func([]byte) (more bool, err error)) error {
	_, err := c.ask(ctx, func(to wire.Caller, _ error) error {
		begun := false
		for b, err := range to.Stream(ctx, wire.Call{Verb: verb, Priority: wire.PriorityRead, Body: body}) {
			switch {
			case err != nil && begun && fateOf(err) != final:
				return settled{brokenError{err}}
			case err != nil:
				return err
			}
			begun = true
			if more, err := part(b); err != nil {
				return settled{err}
			} else if !more {
				return nil
			}
		}
		return nil
	})
	return readFailure(err)
}

// readFailure is the error of a request that changes nothing: a lost answer is only one that did not come.
func readFailure(err error) error {
	if err == nil || fateOf(err) != unsure || errors.Is(err, ErrUnavailable) {
		return err
	}
	return nodesError{err}
}
