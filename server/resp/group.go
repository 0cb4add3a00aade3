package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

// Limits of a group. A single request may be larger: its own limits bound it.
const (
	groupOpsMax   = 1024
	groupBytesMax = 1 << 20
	groupKept     = 64 // operations that a connection keeps room for
)

// group is a run of requests to one set that came together and of which the backend does all in one call: changes in one batch with one sync, or questions in
// one look-up. Each has its own answer, in its place. Its elements are in the buffer of the connection.
type group struct {
	key      []byte
	asks     bool      // elements are asked about; otherwise ops change them
	ops      []door.Op // of changes
	elements [][]byte  // of questions
	bytes    int
	requests []grouped
}

// grouped is a request of a group.
type grouped struct {
	cmd      string
	elements int
	many     bool // a question about several
}

func (g *group) len() int { return len(g.ops) + len(g.elements) }

func (c *conn) sadd(ctx context.Context, args [][]byte) { c.change(ctx, "sadd", keyscheme.OpAdd, args) }

func (c *conn) srem(ctx context.Context, args [][]byte) {
	c.change(ctx, "srem", keyscheme.OpRemove, args)
}

func (c *conn) sismember(ctx context.Context, args [][]byte) { c.ask(ctx, "sismember", false, args) }

func (c *conn) smismember(ctx context.Context, args [][]byte) { c.ask(ctx, "smismember", true, args) }

// change adds a request that adds or removes elements to the group.
func (c *conn) change(ctx context.Context, cmd string, kind keyscheme.Op, args [][]byte) {
	if !c.join(ctx, cmd, false, false, args) {
		return
	}
	for _, e := range args[2:] {
		c.group.ops = append(c.group.ops, door.Op{Kind: kind, Element: e})
	}
}

// ask adds a question to the group.
func (c *conn) ask(ctx context.Context, cmd string, many bool, args [][]byte) {
	if c.join(ctx, cmd, true, many, args) {
		c.group.elements = append(c.group.elements, args[2:]...)
	}
}

// join makes a request one of the group, after what stands in its way is executed, and reports false where it was answered. Its elements are still to be added.
func (c *conn) join(ctx context.Context, cmd string, asks, many bool, args [][]byte) bool {
	g, key, elements := &c.group, args[1], args[2:]
	size := 0
	for _, e := range elements {
		size += len(e)
	}
	if len(g.requests) > 0 && (g.asks != asks || !bytes.Equal(g.key, key) || g.len()+len(elements) > groupOpsMax || g.bytes+size > groupBytesMax) {
		c.finishGroup(ctx)
		c.WriteIfFull()
	}
	if err := checkRequest(key, elements, size, asks); err != nil {
		c.finishGroup(ctx)
		c.fail(err.Error())
		return false
	}
	g.key, g.asks = key, asks
	g.bytes += size
	g.requests = append(g.requests, grouped{cmd, len(elements), many})
	return true
}

// checkRequest returns what is wrong with a request for so many bytes of elements: one that is refused must not take its neighbours along.
func checkRequest(key []byte, elements [][]byte, size int, asks bool) error {
	if err := checkKey(key); err != nil {
		return err
	}
	for _, e := range elements {
		if err := checkElement(e); err != nil {
			return err
		}
	}
	if !asks && (len(elements) > bigset.BatchOpsMax || size > bigset.BatchBytesMax) {
		return refusal(fmt.Sprintf("ERR %d elements of %d bytes, at most %d of %d bytes in one command", len(elements), size, bigset.BatchOpsMax, bigset.BatchBytesMax))
	}
	return nil
}

// finishGroup executes the group and answers its requests.
func (c *conn) finishGroup(ctx context.Context) {
	g := &c.group
	if len(g.requests) == 0 {
		return
	}
	c.Settle()
	c.s.counters.elements.Add(uint64(g.len()))
	if g.asks {
		c.answerAsked(ctx)
	} else {
		c.answerChanged(ctx)
	}
	c.clearGroup()
}

func (c *conn) clearGroup() {
	g := &c.group
	clear(g.ops)
	clear(g.elements)
	if cap(g.ops)+cap(g.elements)+cap(g.requests) > groupKept {
		*g = group{}
		return
	}
	*g = group{ops: g.ops[:0], elements: g.elements[:0], requests: g.requests[:0]}
}

func (c *conn) answerChanged(ctx context.Context) {
	g := &c.group
	changed, err := c.write(ctx, door.Write{Set: nameOf(g.key), Ops: g.ops, Changes: true})
	for _, r := range g.requests {
		if err != nil {
			c.failed(r.cmd, g.key, err)
			continue
		}
		n := int64(0)
		for _, yes := range changed[:r.elements] {
			if yes {
				n++
			}
		}
		changed = changed[r.elements:]
		c.int(n)
	}
}

// write changes a set, unless its key is a filter.
func (c *conn) write(ctx context.Context, w door.Write) (changed []bool, err error) {
	if err := c.forSet(ctx, c.group.key); err != nil {
		return nil, err
	}
	written, err := c.s.sets.Write(ctx, w)
	if err != nil {
		return nil, err
	}
	if len(written.Changed) != len(w.Ops) {
		return nil, fmt.Errorf("resp: %d answers to %d operations", len(written.Changed), len(w.Ops))
	}
	c.acked = written.Acked
	return written.Changed, nil
}

func (c *conn) answerAsked(ctx context.Context) {
	g := &c.group
	present, err := c.present(ctx)
	for _, r := range g.requests {
		if err != nil {
			c.failed(r.cmd, g.key, err)
			continue
		}
		if r.many {
			c.header(typeArray, r.elements)
		}
		for _, p := range present[:r.elements] {
			c.bit(p.Present)
			c.WriteIfFull()
		}
		present = present[r.elements:]
	}
}

// askMost is how many elements a backend is asked about at a time.
const askMost = 1000

// present asks about the elements of the group.
func (c *conn) present(ctx context.Context) ([]door.Presence, error) {
	g := &c.group
	if err := c.forSet(ctx, g.key); err != nil {
		return nil, err
	}
	return c.subset(ctx, g.key, g.elements)
}

// subset asks about elements of a set.
func (c *conn) subset(ctx context.Context, key []byte, elements [][]byte) ([]door.Presence, error) {
	var all []door.Presence
	for len(elements) > 0 {
		some := elements[:min(len(elements), askMost)]
		elements = elements[len(some):]
		p, err := c.s.sets.Subset(ctx, door.Subset{Set: nameOf(key), Elements: some, Bare: true})
		if errors.Is(err, bigset.ErrNotFound) {
			p, err = make([]door.Presence, len(some)), nil
		}
		switch {
		case err != nil:
			return nil, err
		case len(p) != len(some):
			return nil, fmt.Errorf("resp: %d answers to %d questions", len(p), len(some))
		case all == nil && len(elements) == 0:
			return p, nil
		}
		all = append(all, p...)
	}
	return all, nil
}
