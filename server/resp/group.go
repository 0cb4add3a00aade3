package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

// Limits of a group. A single request may be larger: its own limits bound it.
const (
	groupOpsMax   = 1024
	groupAsksMax  = 128 // questions: the loop answers them itself, while others wait
	groupBytesMax = 1 << 20
	groupKept     = 64 // operations for which a connection keeps memory
)

// group is a run of requests to one set that arrived together. The backend does them in one call: changes in one batch with one sync, or
// questions in one look-up. Each has its own answer, in its place. Its elements point into the buffer of the connection. In an event loop,
// groups of several connections are done in one call: together.
type group struct {
	key      []byte
	asks     bool      // the requests ask about elements; otherwise ops change them
	ops      []door.Op // for changes
	elements [][]byte  // for questions
	most     int       // operations or elements, of several requests
	bytes    int
	requests []grouped
	began    time.Time // when the first request came

	deferred bool // the group is done with those of other connections; yes or err is then the result
	yes      []bool
	err      error
}

// grouped is a request of a group.
type grouped struct {
	cmd      string
	elements int
	many     bool // a question about several elements
}

func (g *group) len() int { return len(g.ops) + len(g.elements) }

// callBytes returns how many bytes the group adds to a call: a batch has the key for each change.
func (g *group) callBytes() int { return g.bytes + len(g.ops)*len(g.key) }

func (c *conn) sadd(_ context.Context, args [][]byte) { c.change("sadd", keyscheme.OpAdd, args) }

func (c *conn) srem(_ context.Context, args [][]byte) { c.change("srem", keyscheme.OpRemove, args) }

func (c *conn) sismember(_ context.Context, args [][]byte) { c.ask("sismember", false, args) }

func (c *conn) smismember(_ context.Context, args [][]byte) { c.ask("smismember", true, args) }

// change adds a request that adds or removes elements to the group.
func (c *conn) change(cmd string, kind keyscheme.Op, args [][]byte) {
	if !c.join(cmd, false, false, args) {
		return
	}
	c.group.ops = slices.Grow(c.group.ops, len(args)-2)
	for _, e := range args[2:] {
		c.group.ops = append(c.group.ops, door.Op{Kind: kind, Element: e})
	}
}

// ask adds a question to the group.
func (c *conn) ask(cmd string, many bool, args [][]byte) {
	if c.join(cmd, true, many, args) {
		c.group.elements = append(c.group.elements, args[2:]...)
	}
}

// joins reports whether the next request may be done with the group, which may be empty. A request that will be refused may not.
func (c *conn) joins(cmd *command) bool {
	g, key, elements := &c.group, c.args[1], c.args[2:]
	if len(g.requests) == 0 {
		return true
	}
	size := sizeOf(elements)
	return g.asks == cmd.looks() && bytes.Equal(g.key, key) && g.len()+len(elements) <= g.most && g.bytes+size <= groupBytesMax && checkRequest(key, elements, size, g.asks) == nil
}

// looks reports whether a command that groups asks about elements.
func (cmd *command) looks() bool { return cmd.reads() }

// join adds a request to the group, which must have room for it, and reports false if the request was refused. The caller adds its
// elements.
func (c *conn) join(cmd string, asks, many bool, args [][]byte) bool {
	g, key, elements := &c.group, args[1], args[2:]
	size := sizeOf(elements)
	if len(g.requests) == 0 {
		if err := checkRequest(key, elements, size, asks); err != nil {
			c.fail(err.Error())
			return false
		}
		if g.most = groupAsksMax; !asks {
			g.most = min(groupOpsMax, c.Portion())
		}
	}
	if len(g.requests) == 0 {
		g.began = time.Now()
	}
	g.key, g.asks = key, asks
	g.bytes += size
	g.requests = append(g.requests, grouped{cmd, len(elements), many})
	return true
}

func sizeOf(elements [][]byte) (size int) {
	for _, e := range elements {
		size += len(e)
	}
	return size
}

// checkRequest returns an error if a request with size bytes of elements is invalid: a refused request must not affect its neighbours.
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

// Kinds of work that is done together.
const (
	kindAsk uint8 = iota
	kindChange
)

// finishGroup executes the group and answers its requests, or defers it to be done with requests of other connections to the set. In that
// case it reports false, and Execute returns.
func (c *conn) finishGroup(ctx context.Context) (done bool) {
	g := &c.group
	if len(g.requests) == 0 {
		return true
	}
	c.s.counters.elements.Add(uint64(g.len()))
	w := door.Work{Set: g.key, Kind: kindAsk, Pieces: g.len(), Bytes: g.callBytes(), Waits: door.WaitsRarely}
	if !g.asks {
		w.Kind, w.Waits = kindChange, door.WaitsForTurn
		if c.s.opt.Durability == "always" {
			w.Waits = door.WaitsForDisk
		}
	}
	if c.s.sets.Remote() || c.s.filters.FindsWait() {
		w.Waits = door.WaitsForNodes
	}
	if g.deferred = c.Defer(w); g.deferred {
		return false
	}
	c.MayWait()
	c.s.doGroups(ctx, []door.Handler{c}, c.nextPart)
	c.EndParts()
	c.answerGroup()
	return true
}

// together does the groups of connections, which must be of one set and kind, by one call.
func (s *Server) together(ctx context.Context, list []door.Handler) { s.doGroups(ctx, list, nil) }

// doGroups is together. part is called between the parts of many questions; nil means not at all.
func (s *Server) doGroups(ctx context.Context, list []door.Handler, part func()) {
	first := &list[0].(*conn).group
	all := 0
	for _, h := range list {
		all += h.(*conn).group.len()
	}
	var yes []bool
	var done door.Result
	err := s.forSet(ctx, first.key)
	switch {
	case err != nil:
	case first.asks:
		elements := first.elements
		if len(list) > 1 {
			elements = make([][]byte, 0, all)
			for _, h := range list {
				elements = append(elements, h.(*conn).group.elements...)
			}
		}
		yes, err = s.present(ctx, first.key, elements, part)
	default:
		ops := first.ops
		if len(list) > 1 {
			ops = make([]door.Op, 0, all)
			for _, h := range list {
				ops = append(ops, h.(*conn).group.ops...)
			}
		}
		done, err = s.change(ctx, first.key, ops)
		yes = done.Changed
	}
	for _, h := range list {
		c := h.(*conn)
		if c.group.err = err; err != nil {
			continue
		}
		if !c.group.asks {
			c.acked.changed(done.Acked, done.Later)
		}
		n := c.group.len()
		c.group.yes, yes = yes[:n:n], yes[n:]
	}
}

// change changes a set. The result says for each operation whether it changed anything.
func (s *Server) change(ctx context.Context, key []byte, ops []door.Op) (door.Result, error) {
	written, err := s.sets.Write(ctx, door.Write{Set: nameOf(key), Ops: ops, Changes: true, Later: true})
	if err == nil && len(written.Changed) != len(ops) {
		err = fmt.Errorf("resp: %d answers to %d operations", len(written.Changed), len(ops))
	}
	return written, err
}

// answerGroup answers the requests of the finished group.
func (c *conn) answerGroup() {
	g := &c.group
	yes := g.yes
	for _, r := range g.requests {
		if g.err != nil {
			c.failed(r.cmd, g.key, g.err)
			continue
		}
		if g.asks {
			c.answerAsked(r, yes[:r.elements])
		} else {
			c.answerChanged(yes[:r.elements])
		}
		yes = yes[r.elements:]
	}
	timing := &c.s.counters.changes
	if g.asks {
		timing = &c.s.counters.questions
	}
	timing.Add(g.began, len(g.requests))
	c.clearGroup()
}

func (c *conn) answerAsked(r grouped, present []bool) {
	if r.many {
		c.header(typeArray, r.elements)
	}
	for _, yes := range present {
		c.bit(yes)
		c.WriteIfFull()
	}
}

func (c *conn) answerChanged(changed []bool) {
	n := int64(0)
	for _, yes := range changed {
		if yes {
			n++
		}
	}
	c.int(n)
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

// askMost is how many elements a backend is asked about at a time.
const askMost = 1000

// present reports for each of some elements whether a set contains it. part is called before all calls of the backend but the first; nil means not at
// all.
func (s *Server) present(ctx context.Context, key []byte, elements [][]byte, part func()) (present []bool, err error) {
	present = make([]bool, 0, len(elements))
	for len(elements) > 0 {
		some := elements[:min(len(elements), askMost)]
		elements = elements[len(some):]
		if part != nil && len(present) > 0 {
			part()
		}
		p, err := s.sets.Subset(ctx, door.Subset{Set: nameOf(key), Elements: some, Bare: true})
		if errors.Is(err, bigset.ErrNotFound) {
			p, err = make([]door.Presence, len(some)), nil
		}
		switch {
		case err != nil:
			return nil, err
		case len(p) != len(some):
			return nil, fmt.Errorf("resp: %d answers to %d questions", len(p), len(some))
		}
		for i := range p {
			present = append(present, p[i].Present)
		}
	}
	return present, nil
}
