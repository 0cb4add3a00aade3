package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

func ownCommands() []command {
	return []command{
		{"bs.range", -2, reads, 1, 1, 1, aboutOwn, "Returns a page of a set: BS.RANGE key [FROM e] [TO e] [PREFIX p] [REV] [LIMIT n] [AFTER page] [R n] [WITHCONTEXTS]", asksRead, false, (*conn).bsRange},
		{"bs.prefix", -3, reads, 1, 1, 1, aboutOwn, "Returns a page of the elements with a prefix: BS.PREFIX key prefix and what BS.RANGE takes", asksRead, false, (*conn).bsPrefix},
		{"bs.count", -2, reads, 1, 1, 1, aboutOwn, "Counts the elements of a range: BS.COUNT key [FROM e] [TO e] [PREFIX p] [R n]", asksRead, false, (*conn).bsCount},
		{"bs.fetch", -2, reads, 1, 1, 1, aboutOwn, "Returns the context of a set, or for each of some elements whether the set contains it, and its context", asksRead, false, (*conn).bsFetch},
		{"bs.add", -4, writes, 1, 1, 1, aboutOwn, "Adds elements: BS.ADD key [CONTEXT set] [REQUEST id] [RETRY] [W n] [DW n] ELEMENTS e [e ...] | PAIRS e context [...]", asksWrite, false, (*conn).bsAdd},
		{"bs.rem", -4, writes, 1, 1, 1, aboutOwn, "Removes elements: BS.REM key and what BS.ADD takes", asksWrite, false, (*conn).bsRem},
		{"bs.changes", -3, reads, 1, 1, 1, aboutOwn, "Returns what was added and removed since a token: BS.CHANGES key token [LIMIT n] [WAIT milliseconds] [R n]", asksRead, false, (*conn).bsChanges},
		{"bs.stat", 2, reads, 1, 1, 1, aboutOwn, "Returns figures of a set", asksRead, false, (*conn).bsStat},
	}
}

// pageDefault is the default number of elements of a page.
const pageDefault = 1000

// token reads a context in the form of BS commands.
func token(arg []byte) (door.Token, error) {
	if len(arg) == 0 {
		return nil, nil
	}
	return keyscheme.DecodeText(string(arg))
}

func (c *conn) token(t door.Token) { c.text(t.Text()) }

// count reads a number for an option.
func count(arg []byte) (int, error) {
	n, ok := number(arg)
	if !ok || n < 0 || n > 1<<31-1 {
		return 0, refusal(errInteger)
	}
	return int(n), nil
}

// rangeArgs reads the arguments that select elements. Options for pages are refused unless pages is set.
func rangeArgs(r *door.Read, args [][]byte, pages bool) (err error) {
	for i := 0; i < len(args) && err == nil; i++ {
		var value []byte
		has := i+1 < len(args)
		if has {
			value = args[i+1]
		}
		switch word := args[i]; {
		case pages && is(word, "REV"):
			r.Reverse = true
			continue
		case pages && is(word, "WITHCONTEXTS"):
			r.Contexts = true
			continue
		case !has:
			return refusal(errSyntax)
		case is(word, "FROM"):
			r.From = value
		case is(word, "TO"):
			r.To = value
		case is(word, "PREFIX"):
			r.Prefix = value
		case is(word, "R"):
			r.R, err = count(value)
		case pages && is(word, "LIMIT"):
			if r.Limit, err = count(value); r.Limit == 0 && err == nil {
				err = refusal(errPositive)
			}
		case pages && is(word, "AFTER"):
			r.After, err = token(value)
		default:
			return refusal(errSyntax)
		}
		i++
	}
	for _, e := range [][]byte{r.From, r.To, r.Prefix} {
		if err == nil {
			err = checkElement(e)
		}
	}
	return err
}

func (c *conn) bsRange(ctx context.Context, args [][]byte) {
	c.page(ctx, "bs.range", door.Read{Limit: pageDefault}, args[1], args[2:])
}

func (c *conn) bsPrefix(ctx context.Context, args [][]byte) {
	c.page(ctx, "bs.prefix", door.Read{Limit: pageDefault, Prefix: args[2]}, args[1], args[3:])
}

// page answers with the start of the next page, empty if there is none, and the elements, each with its context if requested.
func (c *conn) page(ctx context.Context, cmd string, r door.Read, key []byte, args [][]byte) {
	c.MayWait()
	r.Set = nameOf(key)
	err := c.s.forSet(ctx, key)
	if err == nil {
		err = rangeArgs(&r, args, true)
	}
	if err != nil {
		c.failed(cmd, key, err)
		return
	}
	if r.Bare = true; r.Contexts {
		r.Batch = door.ContextsMax
	}
	g := c.gather(cmd)
	defer g.release()
	n, after, err := c.readPage(ctx, g, r)
	if err != nil {
		c.failed(cmd, key, err)
		return
	}
	c.header(typeArray, 2)
	c.token(after)
	c.header(typeArray, n)
	g.send(c)
}

func (c *conn) readPage(ctx context.Context, g *gathered, r door.Read) (n int, after door.Token, err error) {
	defer c.EndParts()
	for part, err := range c.s.sets.Read(ctx, r) {
		if errors.Is(err, bigset.ErrNotFound) {
			return 0, nil, nil
		}
		if err != nil {
			return 0, nil, err
		}
		for i := range part.Elements {
			e := &part.Elements[i]
			if err := g.bulk(e.Name); err != nil {
				return 0, nil, err
			}
			n++
			if !r.Contexts {
				continue
			}
			if err := g.bulk([]byte(e.Context.Text())); err != nil {
				return 0, nil, err
			}
			n++
		}
		after = part.After
		if !part.Done {
			c.nextPart()
		}
	}
	return n, after, nil
}

func (c *conn) bsCount(ctx context.Context, args [][]byte) {
	c.MayWait()
	r := door.Read{Set: nameOf(args[1]), Bare: true}
	err := c.s.forSet(ctx, args[1])
	if err == nil {
		err = rangeArgs(&r, args[2:], false)
	}
	var n door.Count
	r.Part = c.nextPart
	defer c.EndParts()
	if err == nil {
		n, err = c.s.sets.Count(ctx, r)
	}
	if err != nil && !isUnheard(err) {
		c.failed("bs.count", args[1], err)
		return
	}
	c.int(int64(n.Elements))
}

func (c *conn) bsFetch(ctx context.Context, args [][]byte) {
	c.MayWait()
	err := c.s.forSet(ctx, args[1])
	for _, e := range args[2:] {
		if err == nil {
			err = checkElement(e)
		}
	}
	switch {
	case err != nil:
	case len(args) == 2:
		err = c.fetchSet(ctx, args[1])
	default:
		err = c.fetchElements(ctx, args[1], args[2:])
	}
	if err != nil {
		c.failed("bs.fetch", args[1], err)
	}
}

// fetchSet answers with the context of a set, or null if no replica has heard of the set.
func (c *conn) fetchSet(ctx context.Context, key []byte) error {
	t, err := c.s.sets.Context(ctx, nameOf(key), 0)
	if isUnheard(err) {
		c.null()
		return nil
	}
	if err != nil {
		return err
	}
	g := c.gather("bs.fetch")
	defer g.release()
	if err := g.bulk([]byte(t.Text())); err != nil {
		return err
	}
	g.send(c)
	return nil
}

// fetchMost bounds the elements of one BS.FETCH.
const fetchMost = 1000

// fetchElements answers for each element whether it is present, and its context. It asks for a few contexts at a time, because their memory is not
// counted before they are in the answer: the context of one element may be long, and a client may name that element again and again.
func (c *conn) fetchElements(ctx context.Context, key []byte, elements [][]byte) error {
	if len(elements) > fetchMost {
		return refusal(fmt.Sprintf("ERR at most %d elements in one command", fetchMost))
	}
	g := c.gather("bs.fetch")
	defer g.release()
	for some := range slices.Chunk(elements, door.ContextsMax) {
		found, err := c.s.sets.Subset(ctx, door.Subset{Set: nameOf(key), Elements: some})
		if isUnheard(err) {
			found, err = make([]door.Presence, len(some)), nil
		}
		for i := 0; i < len(found) && err == nil; i++ {
			yes := 0
			if found[i].Present {
				yes = 1
			}
			if _, err = g.keep(fmt.Appendf(nil, "*2\r\n:%d\r\n", yes)); err == nil {
				err = g.bulk([]byte(found[i].Context.Text()))
			}
		}
		if err != nil {
			return err
		}
	}
	c.header(typeArray, len(elements))
	g.send(c)
	return nil
}

// writeArgs reads the arguments after the key of BS.ADD and BS.REM.
func writeArgs(w *door.Write, kind keyscheme.Op, args [][]byte) (err error) {
	for i := 0; i < len(args) && err == nil; i++ {
		word, rest := args[i], args[i+1:]
		most := bigset.BatchOpsMax
		if is(word, "PAIRS") {
			most *= 2
		}
		switch {
		case (is(word, "ELEMENTS") || is(word, "PAIRS")) && len(rest) > most:
			return refusal(fmt.Sprintf("ERR more than %d elements in one command", bigset.BatchOpsMax))
		case is(word, "ELEMENTS") && len(rest) > 0:
			for _, e := range rest {
				w.Ops = append(w.Ops, door.Op{Kind: kind, Element: e})
			}
			return nil
		case is(word, "PAIRS") && len(rest) > 0 && len(rest)%2 == 0:
			for j := 0; j < len(rest); j += 2 {
				t, err := token(rest[j+1])
				if err != nil {
					return err
				}
				w.Ops = append(w.Ops, door.Op{Kind: kind, Element: rest[j], Context: t})
			}
			return nil
		case is(word, "RETRY"):
			w.Retry = true
			continue
		case len(rest) == 0:
			return refusal(errSyntax)
		case is(word, "CONTEXT"):
			w.Context, err = token(rest[0])
		case is(word, "REQUEST") && len(rest[0]) == 0: // it would be no id
			return refusal(fmt.Sprintf("ERR the id of REQUEST is empty, it has 1 to %d bytes", keyscheme.RequestIDBytesMax))
		case is(word, "REQUEST"):
			w.Request = rest[0]
		case is(word, "W"):
			w.Quorum.W, err = count(rest[0])
		case is(word, "DW"):
			if w.Quorum.DW, err = count(rest[0]); w.Quorum.DW == 0 {
				w.Quorum.DW = door.NotDurable
			}
		default:
			return refusal(errSyntax)
		}
		i++
	}
	if err == nil {
		err = refusal(errSyntax)
	}
	return err
}

// maybeRetry reports whether a request whose first arguments are these is a change that was sent before: while the request is not whole, RETRY may
// follow.
func maybeRetry(args [][]byte, whole bool) bool {
	if len(args) == 0 || !is(args[0], "BS.ADD") && !is(args[0], "BS.REM") {
		return false
	}
	for i := 2; i < len(args); i += 2 {
		switch word := args[i]; {
		case is(word, "RETRY"):
			return true
		case is(word, "ELEMENTS"), is(word, "PAIRS"):
			return false
		}
	}
	return !whole
}

// contextCopies is how often a context of a request is in memory beside the request: as bytes, and as a clock.
const contextCopies = 3

// act writes the changes of BS.ADD or BS.REM.
func (c *conn) act(ctx context.Context, cmd string, kind keyscheme.Op, args [][]byte) (w door.Result, ok bool) {
	c.MayWait()
	r := door.Write{Set: nameOf(args[1]), Contexts: kind == keyscheme.OpAdd}
	err := writeArgs(&r, kind, args[2:])
	size := len(r.Context)
	for i := range r.Ops {
		if size += len(r.Ops[i].Context); err == nil {
			err = checkElement(r.Ops[i].Element)
		}
	}
	defer c.Give()
	if err == nil && size > chunkBytes && !c.Take(contextCopies*size) {
		err = door.ErrNoRoom
	}
	if err == nil {
		err = c.s.forSet(ctx, args[1])
	}
	if err == nil {
		w, err = c.s.sets.Write(ctx, r)
	}
	if err != nil {
		c.failed(cmd, args[1], door.Retried(r.Retry, err))
		return w, false
	}
	c.acked = w.Acked
	return w, true
}

// bsAdd answers with the contexts of the added elements.
func (c *conn) bsAdd(ctx context.Context, args [][]byte) {
	w, ok := c.act(ctx, "bs.add", keyscheme.OpAdd, args)
	if !ok {
		return
	}
	c.header(typeArray, len(w.Contexts))
	for _, t := range w.Contexts {
		c.token(t)
		c.WriteIfFull()
	}
}

// bsRem answers with how many elements were removed.
func (c *conn) bsRem(ctx context.Context, args [][]byte) {
	if w, ok := c.act(ctx, "bs.rem", keyscheme.OpRemove, args); ok {
		c.int(int64(w.Removed))
	}
}

func (c *conn) bsStat(ctx context.Context, args [][]byte) {
	c.MayWait()
	err := c.s.forSet(ctx, args[1])
	var s door.Stats
	if err == nil {
		s, err = c.s.sets.Stats(ctx, nameOf(args[1]), 0)
	}
	if err != nil && !isUnheard(err) {
		c.failed("bs.stat", args[1], err)
		return
	}
	rows := []struct {
		name string
		n    uint64
	}{{"live", s.Live}, {"seen", s.Seen}, {"dead", s.Dead}, {"actors", s.Actors}, {"gaps", s.Gaps}, {"clock_bytes", s.ClockBytes}, {"tombstone_bytes", s.TombstoneBytes}}
	c.header(typeMap, len(rows))
	for _, r := range rows {
		c.text(r.name)
		c.int(int64(r.n))
	}
}
