package sim

import (
	"context"
	"errors"
	"fmt"

	"bigset/convergence"
	"bigset/engine"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// step does one operation of a client.
func (c *cluster) step() {
	c.stats.Operations++
	c.facts.step++
	p := c.procs[c.rng.IntN(len(c.procs))]
	switch c.rng.IntN(12) {
	case 0, 1, 2:
		c.read(p)
	case 3, 4:
		c.lookup(p)
	case 5:
		if c.rng.IntN(3) == 0 {
			c.drop(p)
			return
		}
		c.gossip(p)
	default:
		c.write(p)
	}
}

func (c *cluster) element() string { return string(rune('a' + c.rng.IntN(5))) }

// quorum draws one. DW is None, or as large as W.
func (c *cluster) quorum() coord.Quorum {
	n := len(c.members)
	q := coord.Quorum{N: n, R: 1 + c.rng.IntN(n), W: 1 + c.rng.IntN(n)}
	if q.DW = q.W; c.rng.IntN(4) == 0 {
		q.DW = coord.None
	}
	return q
}

// context draws one for an operation on an element.
func (c *cluster) context(element string) engine.Context {
	if len(c.contexts) == 0 || c.rng.IntN(2) == 0 {
		return engine.Context{}
	}
	if h := c.contexts[c.rng.IntN(len(c.contexts))]; h.element == "" || h.element == element {
		return h.Context
	}
	return engine.Context{}
}

// write adds and removes, and tries again what may have happened.
func (c *cluster) write(p *process) {
	w := coord.Write{Set: c.set, Quorum: c.quorum()}
	used := map[string]bool{}
	for range 1 + c.rng.IntN(2) {
		element := c.element()
		if used[element] {
			continue
		}
		used[element] = true
		op := engine.Op{Kind: keyscheme.OpAdd, Element: []byte(element), Context: c.context(element)}
		if c.rng.IntN(3) == 0 {
			op.Kind = keyscheme.OpRemove
		}
		w.Ops = append(w.Ops, op)
	}
	if c.rng.IntN(2) == 0 {
		c.requests++
		w.Request = fmt.Append(nil, "request ", c.requests)
	}
	for try := 0; ; try++ {
		epoch := c.facts.epoch
		r, err := p.Write(context.Background(), w)
		c.answered(r, err, w.Quorum, epoch)
		if w.Retry = true; try == 2 || w.Request == nil || !errors.Is(err, coord.ErrUnknown) {
			return
		}
		c.some["retried"]++
		p = c.procs[c.rng.IntN(len(c.procs))]
	}
}

// drop deletes the whole set.
func (c *cluster) drop(p *process) {
	q, epoch := c.quorum(), c.facts.epoch
	r, err := p.Drop(context.Background(), coord.Drop{Set: c.set, Quorum: q})
	c.answered(r, err, q, epoch)
}

// answered takes the answer to a change.
func (c *cluster) answered(r coord.Result, err error, q coord.Quorum, epoch int) {
	switch {
	case err == nil:
		c.some["acknowledged"]++
		if c.facts.epoch == epoch || q.DW != coord.None {
			c.facts.promise(r.Delta, q.W, q.DW != coord.None)
		}
	case errors.Is(err, coord.ErrUnknown):
		c.some["unknown"]++
	default:
		c.failed("change", err)
	}
}

// failed takes an error that says that nothing was done.
func (c *cluster) failed(what string, err error) {
	for _, expected := range []error{coord.ErrNoQuorum, coord.ErrClosed, coord.ErrUnsettled, engine.ErrBehind, engine.ErrNotFound, peer.ErrUnavailable} {
		if errors.Is(err, expected) {
			c.some["no "+what]++
			return
		}
	}
	c.facts.violated(convergence.Failed, "%s: %v", what, err)
}

// hold keeps a context for later operations.
func (c *cluster) hold(element string, known engine.Context) {
	const most = 12
	h := held{element, known}
	if len(c.contexts) < most {
		c.contexts = append(c.contexts, h)
		return
	}
	c.contexts[c.rng.IntN(most)] = h
}

// read reads the set at a quorum.
func (c *cluster) read(p *process) {
	q := c.quorum()
	ask := c.facts.ask(q.N, q.R)
	var shown []fold.Element
	o := engine.ReadOptions{BatchSize: 1 + c.rng.IntN(3)}
	for part, err := range p.Read(context.Background(), coord.Read{Set: c.set, Options: o, Quorum: q}) {
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			c.failed("read", err)
			return
		}
		shown = append(shown, part.Elements...)
		if part.Context != nil {
			c.hold("", engine.SawAll(part.Context))
		}
	}
	for _, el := range shown {
		c.hold(string(el.Name), engine.Saw(el.Dots...))
	}
	c.some["read"]++
	ask.answered(shown, nil)
}

// lookup asks a quorum for elements.
func (c *cluster) lookup(p *process) {
	q := c.quorum()
	ask := c.facts.ask(q.N, q.R)
	about := []string{c.element(), c.element()}
	found, err := p.Lookup(context.Background(), coord.Lookup{Set: c.set, Elements: [][]byte{[]byte(about[0]), []byte(about[1])}, Quorum: q})
	if err != nil {
		c.failed("lookup", err)
		return
	}
	var shown []fold.Element
	for i, known := range found {
		shown = append(shown, fold.Element{Name: []byte(about[i]), Dots: known.Dots})
		c.hold(about[i], known)
	}
	c.some["looked up"]++
	ask.answered(shown, about)
}

// gossip has two replicas exchange what they have, through links that may fail.
func (c *cluster) gossip(p *process) {
	slot, n := keyscheme.SetSlot(c.set), len(p.links)
	a := c.rng.IntN(n)
	b := (a + 1 + c.rng.IntN(n-1)) % n
	ctx, cancel := context.WithCancel(context.Background())
	defer c.turns.After(operationLimit, cancel)()
	defer cancel()
	if e, _ := coord.Exchange(ctx, p.links[a], p.links[b], slot, slot); e.Lost > 0 {
		c.facts.violated(convergence.Failed, "exchange of %s and %s: %+v", p.links[a].node, p.links[b].node, e)
	}
}
