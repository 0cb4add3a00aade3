package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"bigset"
	"bigset/internal/history"
	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

func setName(i int) string { return fmt.Sprint("set", i) }

// setClient is a client that works on sets.
type setClient struct {
	r     *run
	rng   *rand.Rand
	h     *history.Client
	node  *node
	named bool       // reads ask for the contexts of elements
	mine  []owned    // elements that it has added
	sent  []*request // that it may send again
}

// owned is an element that one client alone adds and removes.
type owned struct{ set, element string }

// request is a change of a set. Its id stays the same when it is sent again.
type request struct {
	write door.Write
	first *history.Op
	began uint64 // how many requests there had been
	known bool   // a try was acknowledged
	tries int    // without an answer that makes the outcome known
}

// Nodes remember a request for ten minutes, and until they have done 65,536 others. So a request is no longer sent again when there were half as
// many others since.
const (
	repeatsWithin = 1 << 15
	triesMost     = 20
	sentMost      = 64 // requests that a client may send again
)

// work does operations until the run has ended.
func (c *setClient) work(ctx context.Context) {
	for !c.r.over.Load() && ctx.Err() == nil {
		c.turn()
		set := setName(c.rng.IntN(sets))
		switch n := c.rng.IntN(12); {
		case n == 0:
			_ = c.read(ctx, set)
		case n < 3:
			c.lookup(ctx, false)
		case n == 3:
			c.lookup(ctx, true)
		case n == 4:
			c.replace(ctx)
		case n == 5 && len(c.sent) > 0:
			_ = c.again(ctx, c.take())
		default:
			c.add(ctx, set)
		}
	}
}

// turn turns to any node.
func (c *setClient) turn() { c.node = c.r.ns.all[c.rng.IntN(len(c.r.ns.all))] }

// operationTime is how long a client waits for an answer.
const operationTime = 4 * time.Second

func (c *setClient) do(ctx context.Context, verb wire.Verb, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	return c.node.link.Do(ctx, wire.Call{Verb: verb, Body: body})
}

// outcome returns what is known of an operation that changes something.
func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, wire.ErrNotSent):
		return history.Fail
	}
	return history.Unknown
}

// slow keeps a refused client from asking again at once.
func (c *setClient) slow(ctx context.Context, err error) {
	if err != nil {
		c.r.note(err)
		pause(ctx, 10*time.Millisecond)
	}
}

// request returns a request with an id of its own.
func (c *setClient) request(set string, first *history.Op, ops ...door.Op) *request {
	n := c.r.requests.Add(1)
	return &request{first: first, began: n, write: door.Write{Set: []byte(set), Ops: ops, Contexts: true, Request: fmt.Appendf(nil, "r%08d-%d", n, c.r.o.Seed)}}
}

// send sends a request to the client's node, as one try of it. A share of the requests is sent again later, most of those of which nothing is known.
func (c *setClient) send(ctx context.Context, q *request, try *history.Op) (removed int, err error) {
	b, err := c.do(ctx, api.VerbWrite, api.AppendWrite(nil, &q.write))
	var result door.Result
	if err == nil {
		if result, err = api.DecodeResult(b); err == nil && len(result.Contexts) != len(q.write.Ops) {
			err = fmt.Errorf("torture: an answer with %d contexts to %d operations", len(result.Contexts), len(q.write.Ops))
		}
	}
	for i, context := range result.Contexts {
		if op := &q.write.Ops[i]; op.Kind == keyscheme.OpAdd {
			try.Event(string(op.Element), string(context))
		}
	}
	try.End(outcome(err), err)
	q.write.Retry = true
	if err == nil && !q.known {
		q.known = true
		if q.write.Ops[0].Kind == keyscheme.OpAdd {
			c.mine = append(c.mine, owned{string(q.write.Set), string(q.write.Ops[0].Element)})
		}
	} else if err != nil {
		q.tries++
	}
	if q.tries < triesMost && len(c.sent) < sentMost && (!q.known || c.rng.IntN(6) == 0) && (outcome(err) != history.Fail || c.rng.IntN(2) == 0) {
		c.sent = append(c.sent, q)
	}
	c.slow(ctx, err)
	return result.Removed, err
}

// take takes any request that is to be sent again.
func (c *setClient) take() *request {
	i := c.rng.IntN(len(c.sent))
	q := c.sent[i]
	c.sent = slices.Delete(c.sent, i, i+1)
	return q
}

// again sends a request again, to the client's node.
func (c *setClient) again(ctx context.Context, q *request) error {
	if c.r.requests.Load()-q.began > repeatsWithin {
		return nil
	}
	_, err := c.send(ctx, q, c.h.Again(q.first))
	return err
}

// settleTries is how often a request is sent again at the end: a machine that does something else for seconds may be too late for one answer.
const settleTries = 5

// settle sends all requests again whose outcome is unknown, after all nodes have become whole. Then each must be answered.
func (c *setClient) settle(ctx context.Context) error {
	for len(c.sent) > 0 {
		q := c.take()
		if q.tries = triesMost; q.known { // no further try
			continue
		}
		var err error
		for range settleTries {
			c.turn()
			if err = c.again(ctx, q); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("a change repeated at the end, at node %s: %w", c.node.id, err)
		}
	}
	return nil
}

func (c *setClient) add(ctx context.Context, set string) {
	var ops []door.Op
	var elements []string
	for range 1 + c.rng.IntN(3) {
		e := fmt.Sprintf("e%08d", c.r.next.Add(1))
		elements = append(elements, e)
		ops = append(ops, door.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	op := c.h.Add(set, elements...)
	q := c.request(set, op, ops...)
	if _, err := c.send(ctx, q, op); err != nil && c.rng.IntN(2) == 0 { // as package client does it: at once, elsewhere
		c.turn()
		c.sent = slices.DeleteFunc(c.sent, func(o *request) bool { return o == q })
		_ = c.again(ctx, q)
	}
}

// own draws an element that this client has added.
func (c *setClient) own() (i int, o owned) {
	i = c.rng.IntN(len(c.mine))
	return i, c.mine[i]
}

// present asks for an element. It returns the operation, and the context of the element if it is present.
func (c *setClient) present(ctx context.Context, o owned) (*history.Op, door.Token) {
	op := c.h.Lookup(o.set)
	b, err := c.do(ctx, api.VerbSubset, api.AppendSubset(nil, &door.Subset{Set: []byte(o.set), Elements: [][]byte{[]byte(o.element)}}))
	var found []door.Presence
	if err == nil {
		if found, err = api.DecodePresences(b); err == nil && len(found) != 1 {
			err = fmt.Errorf("torture: %d answers about one element", len(found))
		}
	}
	var context door.Token
	if err == nil {
		if op.Answered(o.element, found[0].Present); found[0].Present {
			context = found[0].Context
			op.Event(o.element, string(context))
		}
	}
	op.End(outcome(err), err)
	c.slow(ctx, err)
	return op, context
}

// lookup asks for an element that this client has added, and may remove it with the context that it got.
func (c *setClient) lookup(ctx context.Context, remove bool) {
	if len(c.mine) == 0 {
		return
	}
	i, o := c.own()
	op, context := c.present(ctx, o)
	if len(context) == 0 || !remove {
		return
	}
	c.mine = slices.Delete(c.mine, i, i+1)
	gone := c.h.Remove(o.set, op, o.element)
	_, _ = c.send(ctx, c.request(o.set, gone, door.Op{Kind: keyscheme.OpRemove, Element: []byte(o.element), Context: context}), gone)
}

// replace removes an element without a context and adds it again by another request. Then it may send the remove again, which must not take the
// later add. A remove that has found nothing was no event: no node remembers it.
func (c *setClient) replace(ctx context.Context) {
	if len(c.mine) == 0 {
		return
	}
	i, o := c.own()
	c.mine = slices.Delete(c.mine, i, i+1)
	gone := c.h.Remove(o.set, nil, o.element)
	q := c.request(o.set, gone, door.Op{Kind: keyscheme.OpRemove, Element: []byte(o.element)})
	removed, err := c.send(ctx, q, gone)
	if removed == 0 {
		c.sent = slices.DeleteFunc(c.sent, func(o *request) bool { return o == q && err == nil })
		return
	}
	c.turn()
	added := c.h.Add(o.set, o.element)
	if _, err := c.send(ctx, c.request(o.set, added, door.Op{Kind: keyscheme.OpAdd, Element: []byte(o.element)}), added); err == nil && c.rng.IntN(2) == 0 {
		c.turn()
		_ = c.again(ctx, q)
		c.turn()
		_, _ = c.present(ctx, o)
	}
}

// read reads a set at the default quorum.
func (c *setClient) read(ctx context.Context, set string) error { return c.readFrom(ctx, set, 0) }

// readFrom reads a set from a number of replicas; 0 means the default.
func (c *setClient) readFrom(ctx context.Context, set string, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, 4*operationTime)
	defer cancel()
	op := c.h.Read(set)
	var err error
	var part door.Part
	done := false
	for b, failed := range c.node.link.Stream(ctx, wire.Call{Verb: api.VerbRead, Priority: wire.PriorityRead,
		Body: api.AppendRead(nil, &door.Read{Set: []byte(set), R: replicas, Contexts: c.named})}) {
		if err = failed; err != nil {
			break
		}
		if err = api.DecodePart(&part, b); err != nil {
			break
		}
		for _, e := range part.Elements {
			op.Saw(string(e.Name))
			if c.named {
				op.Event(string(e.Name), string(e.Context))
			}
		}
		done = part.Done
	}
	if err == nil && !done {
		err = errors.New("torture: a read that is not done")
	}
	if errors.Is(err, bigset.ErrNotFound) { // nothing was added yet
		err = nil
	}
	op.End(outcome(err), err)
	c.slow(ctx, err)
	return err
}
