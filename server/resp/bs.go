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

// form is how a command is used.
type form struct {
	usage string   // for COMMAND DOCS and errors
	alone []string // words without a value
	takes []string // words before a value
}

const (
	usagePage  = "[FROM e] [TO e] [REV] [LIMIT n] [AFTER page] [R n] [WITHCONTEXTS]"
	usageWrite = "key [CONTEXT set] [REQUEST id] [RETRY] [W n] [DW n] ELEMENTS e [e ...] | PAIRS e context [...]"
)

var (
	pageAlone, pageTakes   = []string{"REV", "WITHCONTEXTS"}, []string{"FROM", "TO", "PREFIX", "LIMIT", "AFTER", "R"}
	writeAlone, writeTakes = []string{"RETRY"}, []string{"CONTEXT", "REQUEST", "W", "DW"}

	rangeForm   = form{"BS.RANGE key [PREFIX p] " + usagePage, pageAlone, pageTakes}
	prefixForm  = form{"BS.PREFIX key prefix " + usagePage, pageAlone, pageTakes}
	countForm   = form{"BS.COUNT key [FROM e] [TO e] [PREFIX p] [R n]", nil, []string{"FROM", "TO", "PREFIX", "R"}}
	addForm     = form{"BS.ADD " + usageWrite, writeAlone, writeTakes}
	remForm     = form{"BS.REM " + usageWrite, writeAlone, writeTakes}
	changesForm = form{"BS.CHANGES key token [LIMIT n] [WAIT milliseconds] [R n]", nil, []string{"LIMIT", "WAIT", "R"}}
)

func ownCommands() []command {
	return []command{
		{"bs.range", -2, reads, 1, 1, 1, aboutOwn, "Returns a page of a set: " + rangeForm.usage, asksRead, false, (*conn).bsRange},
		{"bs.prefix", -3, reads, 1, 1, 1, aboutOwn, "Returns a page of the elements with a prefix: " + prefixForm.usage, asksRead, false, (*conn).bsPrefix},
		{"bs.count", -2, reads, 1, 1, 1, aboutOwn, "Counts the elements of a range: " + countForm.usage, asksRead, false, (*conn).bsCount},
		{"bs.fetch", -2, reads, 1, 1, 1, aboutOwn, "Returns the context of a set, or for each of some elements whether the set contains it, and its context", asksRead, false, (*conn).bsFetch},
		{"bs.add", -4, writes, 1, 1, 1, aboutOwn, "Adds elements: " + addForm.usage, asksWrite, false, (*conn).bsAdd},
		{"bs.rem", -4, writes, 1, 1, 1, aboutOwn, "Removes elements: " + remForm.usage, asksWrite, false, (*conn).bsRem},
		{"bs.changes", -3, reads, 1, 1, 1, aboutOwn, "Returns what was added and removed since a token: " + changesForm.usage, asksRead, false, (*conn).bsChanges},
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

// seenBy reads the context of a change. An empty one of a remove is refused: it stands for nothing seen, for instance of a set that no replica knew, and without a context the
// remove would take what the client has not seen.
func seenBy(kind keyscheme.Op, arg []byte) (door.Token, error) {
	if kind == keyscheme.OpRemove && len(arg) == 0 {
		return nil, refusal("ERR the context is empty; use ELEMENTS without CONTEXT to remove what the node has, whether you have seen it or not")
	}
	return token(arg)
}

// misused returns the error for arguments that are not as the command takes them.
func (f *form) misused(format string, args ...any) error {
	return refusal(errSyntax + ": " + fmt.Sprintf(format, args...) + "; usage: " + f.usage)
}

// options reads the arguments of a command that are words and their values.
type options struct {
	*form
	args [][]byte // still to be read
	seen []string
}

// next reads a word, which is not given twice, and its value if it takes one.
func (w *options) next() (word string, value []byte, err error) {
	arg := w.args[0]
	equal := func(word string) bool { return is(arg, word) }
	alone, takes := slices.IndexFunc(w.alone, equal), slices.IndexFunc(w.takes, equal)
	switch {
	case alone >= 0:
		word = w.alone[alone]
	case takes >= 0:
		word = w.takes[takes]
	default:
		return "", nil, w.misused("'%s' is no word of this command", shownOf(arg, shownMost))
	}
	if slices.Contains(w.seen, word) {
		return "", nil, w.misused("%s is given twice", word)
	}
	w.seen = append(w.seen, word)
	if w.args = w.args[1:]; alone >= 0 {
		return word, nil, nil
	}
	if len(w.args) == 0 {
		return "", nil, w.misused("nothing follows %s", word)
	}
	value, w.args = w.args[0], w.args[1:]
	return word, value, nil
}

// numberOf reads the number that follows a word.
func numberOf(word string, value []byte, least int) (int, error) {
	n, ok := number(value)
	switch {
	case !ok || n < 0 || n > 1<<31-1:
		return 0, refusal(fmt.Sprintf("ERR value of %s is not an integer or out of range", word))
	case n < int64(least):
		return 0, refusal(fmt.Sprintf("ERR value of %s is out of range, must be positive", word))
	}
	return int(n), nil
}

// rangeArgs reads the arguments that select elements.
func rangeArgs(r *door.Read, f *form, args [][]byte) error {
	for w := (options{form: f, args: args}); len(w.args) > 0; {
		word, value, err := w.next()
		if err != nil {
			return err
		}
		switch word {
		case "REV":
			r.Reverse = true
		case "WITHCONTEXTS":
			r.Contexts = true
		case "FROM":
			r.From, err = value, checkElement(value)
		case "TO":
			r.To, err = value, checkElement(value)
		case "PREFIX":
			r.Prefix, err = value, checkElement(value)
		case "LIMIT":
			r.Limit, err = numberOf(word, value, 1)
		case "AFTER":
			r.After, err = token(value)
		case "R":
			r.R, err = numberOf(word, value, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) bsRange(ctx context.Context, args [][]byte) {
	c.page(ctx, "bs.range", &rangeForm, args[1], args[2:])
}

// bsPrefix does BS.RANGE key PREFIX prefix.
func (c *conn) bsPrefix(ctx context.Context, args [][]byte) {
	key := args[1]
	args[1] = []byte("PREFIX")
	c.page(ctx, "bs.prefix", &prefixForm, key, args[1:])
}

// page answers with the start of the next page, empty if there is none, and the elements, each with its context if requested.
func (c *conn) page(ctx context.Context, cmd string, f *form, key []byte, args [][]byte) {
	c.MayWait()
	r := door.Read{Set: nameOf(key), Limit: pageDefault}
	err := c.s.forSet(ctx, key)
	if err == nil {
		err = rangeArgs(&r, f, args)
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
		err = rangeArgs(&r, &countForm, args[2:])
	}
	n := uint64(0)
	if err == nil {
		n, err = c.count(ctx, r)
	}
	if err != nil {
		c.failed("bs.count", args[1], err)
		return
	}
	c.int(int64(n))
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
	if len(t) > chunkBytes && !c.Take(contextCopies*len(t)) {
		return door.ErrNoRoom
	}
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
func writeArgs(w *door.Write, kind keyscheme.Op, args [][]byte) error {
	f := &addForm
	if kind == keyscheme.OpRemove {
		f = &remForm
	}
	for in := (options{form: f, args: args}); len(in.args) > 0; {
		if arg := in.args[0]; is(arg, "ELEMENTS") || is(arg, "PAIRS") {
			return opArgs(w, kind, f, in.args)
		}
		word, value, err := in.next()
		if err != nil {
			return err
		}
		switch word {
		case "RETRY":
			w.Retry = true
		case "CONTEXT":
			w.Context, err = seenBy(kind, value)
		case "REQUEST":
			if w.Request = value; len(value) == 0 { // it would be no id
				err = refusal(fmt.Sprintf("ERR the id of REQUEST is empty, it has 1 to %d bytes", keyscheme.RequestIDBytesMax))
			}
		case "W":
			w.Quorum.W, err = numberOf(word, value, 1)
		case "DW":
			if w.Quorum.DW, err = numberOf(word, value, 0); w.Quorum.DW == 0 {
				w.Quorum.DW = door.NotDurable
			}
		}
		if err != nil {
			return err
		}
	}
	return f.misused("neither ELEMENTS nor PAIRS is given")
}

// opArgs reads ELEMENTS or PAIRS and what follows.
func opArgs(w *door.Write, kind keyscheme.Op, f *form, args [][]byte) error {
	word, each := "ELEMENTS", 1
	if is(args[0], "PAIRS") {
		word, each = "PAIRS", 2
	}
	switch args = args[1:]; {
	case len(args) > each*bigset.BatchOpsMax:
		return refusal(fmt.Sprintf("ERR more than %d elements in one command", bigset.BatchOpsMax))
	case len(args) == 0:
		return f.misused("nothing follows %s", word)
	case len(args)%each != 0:
		return f.misused("the last element of %s has no context", word)
	}
	for some := range slices.Chunk(args, each) {
		op := door.Op{Kind: kind, Element: some[0]}
		if each == 2 {
			var err error
			if op.Context, err = seenBy(kind, some[1]); err != nil {
				return err
			}
		}
		w.Ops = append(w.Ops, op)
	}
	return nil
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

// contextCopies is how often a context is in memory beside the request, as bytes and as a clock, or beside the answer, as bytes and as text.
const contextCopies = 3

// act writes the changes of BS.ADD or BS.REM.
func (c *conn) act(ctx context.Context, cmd string, kind keyscheme.Op, args [][]byte) (w door.Result, ok bool) {
	c.MayWait()
	r := door.Write{Set: nameOf(args[1]), Contexts: kind == keyscheme.OpAdd, Later: true}
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
	if r.Retry && (refusesTry(err) || errors.Is(err, bigset.ErrBehind)) {
		err = &door.UnknownError{Err: err}
	}
	if err != nil {
		c.failed(cmd, args[1], door.Retried(r.Retry, err))
		return w, false
	}
	c.acked.changed(w.Acked, w.Later)
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
