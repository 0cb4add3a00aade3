package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bigset/server/wire"
)

// After a round over all nodes the client pauses. The pause doubles from pauseLeast to pauseMost and varies at random by up to a quarter.
const (
	pauseLeast = 20 * time.Millisecond
	pauseMost  = 320 * time.Millisecond
)

// bound returns ctx with a deadline. If ctx has none, the deadline is c.timeout from now.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// settled wraps the error of a try that ends the call, whatever the wrapped error says.
type settled struct{ error }

// ask calls try for one node after another, until one node has done the request or an error says that no node would do it. lost says why it
// is unknown whether some node has done the request; it is nil if that is known. Each try gets the current lost. If lost is not nil, err is
// either lost or the error that ended the call.
func (c *Client) ask(ctx context.Context, try func(to wire.Caller, lost error) error) (lost, err error) {
	began := time.Now()
	end := began.Add(c.timeout) // of the rounds, if ctx has no deadline
	for pause := pauseLeast; ; pause = min(2*pause, pauseMost) {
		var failed nodesError
		hope, away := false, false
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
				away = away || errors.Is(err, ErrMembersAway) // whatever the others answer: it takes all of them
			}
			if ctx.Err() != nil {
				break
			}
		}
		if err = lost; lost == nil {
			err = failed
		}
		if c.closed.Load() || lost == nil && (away || !(hope && c.reached.Load())) {
			return lost, err
		}
		if !c.sleep(ctx, end, pause) {
			return lost, err
		}
		if c.again != nil {
			c.again(began, err)
		}
	}
}

// sleep waits for a pause and reports whether time is left. The time ends with the deadline of ctx or, if ctx has none, at end.
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

// get sends a request that changes nothing and has one answer.
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

// stream sends a request whose answer comes in parts. If a node fails before its first part, another node is asked.
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

// readFailure returns the error of a request that changes nothing. A lost answer is then only an unavailable node.
func readFailure(err error) error {
	if err == nil || fateOf(err) != unsure || errors.Is(err, ErrUnavailable) {
		return err
	}
	return nodesError{err}
}
