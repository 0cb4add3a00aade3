package bloomd

import (
	"bytes"
	"context"

	"bigset"
	"bigset/server/door"
)

const (
	groupKeysMax = 1024     // check or set requests that go to the node in one call
	callKeysMax  = 16 << 10 // keys of multi or bulk in one call
	keysKept     = 2048     // keys for which a connection keeps memory
	listMost     = 256      // filters that list fetches at a time
)

// group is a run of check or set requests to one filter that arrived together. They go to the node in one call, so that its lock and its
// disk are waited for once. Each request has its own answer, in its place.
type group struct {
	command command
	name    []byte
	keys    [][]byte
	yes     []bool
}

// many holds the keys of one call of multi or bulk, and their results.
type many struct {
	keys [][]byte
	yes  []bool
}

// execute executes one line, or adds it to the group.
func (c *conn) execute(ctx context.Context, line []byte) {
	r := parse(line)
	c.tally.commands[r.command]++
	if r.refusal == "" && (r.command == cmdCheck || r.command == cmdSet) {
		c.join(ctx, &r)
		return
	}
	c.finishGroup(ctx)
	switch {
	case r.refusal != "":
		c.refuse(r.refusal)
	case r.command == cmdMulti || r.command == cmdBulk:
		c.executeMany(ctx, &r)
	default:
		c.executeOther(ctx, &r)
	}
	c.writeIfFull()
}

func (c *conn) refuse(answer string) {
	c.tally.others[tallyClientErrors]++
	c.Out = append(c.Out, answer...)
}

// fail answers a request that failed on the node.
func (c *conn) fail(command command, name []byte, err error) {
	answer := answerOf(err)
	if answer == answerInternal {
		c.tally.others[tallyInternalErrors]++
		c.MayWait() // for the log
		c.s.failures.Add(command.String(), name, err)
	}
	c.Out = append(c.Out, answer...)
}

// join adds a check or a set to the group. It first executes the current group if the request does not fit in.
func (c *conn) join(ctx context.Context, r *request) {
	g := &c.group
	if len(g.keys) > 0 && (g.command != r.command || len(g.keys) == groupKeysMax || !bytes.Equal(g.name, r.name)) {
		c.finishGroup(ctx)
		c.writeIfFull()
	}
	if len(g.keys) == 0 {
		g.command, g.name = r.command, r.name
	}
	g.keys = append(g.keys, r.rest)
	g.yes = append(g.yes, false)
}

// finishGroup executes the group and answers its requests.
func (c *conn) finishGroup(ctx context.Context) {
	g := &c.group
	if len(g.keys) == 0 {
		return
	}
	f, err := c.find(ctx, g.name)
	if err == nil {
		err = c.call(ctx, g.command, f, g.keys, g.yes)
	}
	for _, yes := range g.yes {
		switch {
		case err != nil:
			c.fail(g.command, g.name, err)
		case yes:
			c.Out = append(c.Out, answerYes...)
		default:
			c.Out = append(c.Out, answerNo...)
		}
	}
	clear(g.keys) // they may keep a long line in memory
	g.keys, g.yes, g.name = g.keys[:0], g.yes[:0], nil
}

// find returns a filter, or bigset.ErrNoFilter. Names that no filter can have are not sent to the node.
func (c *conn) find(ctx context.Context, name []byte) (door.Filter, error) {
	if !goodName(name) {
		return nil, bigset.ErrNoFilter
	}
	if c.s.filters.FindsWait() {
		c.Settle()
	}
	return c.s.filters.Find(ctx, name)
}

// call checks or sets keys.
func (c *conn) call(ctx context.Context, command command, f door.Filter, keys [][]byte, yes []bool) error {
	now, all, counter, wait := f.CheckNow, f.Check, tallyChecked, f.ChecksWait
	if command == cmdSet || command == cmdBulk {
		now, all, counter, wait = f.SetNow, f.Set, tallySet, f.SetsWait
	}
	c.tally.others[counter] += uint64(len(keys))
	if wait() {
		c.Settle()
		return all(ctx, keys, yes)
	}
	pieces := f.Pieces()
	n := c.Now(len(keys)*pieces) / pieces
	if n > 0 {
		var err error
		if n, err = now(keys[:n], yes[:n]); err != nil || n == len(keys) {
			return err
		}
	}
	c.MayWait()
	return all(ctx, keys[n:], yes[n:])
}

// executeMany executes multi or bulk. The answer begins when all keys are done: it contains all words, or is an error. The result of each
// key is kept as one byte in the line, over keys that are done: the last of n keys begins at least n-1 bytes after the first.
func (c *conn) executeMany(ctx context.Context, r *request) {
	rest := r.rest
	if n := len(rest) - 1; rest[n] == ' ' {
		rest = rest[:n]
	}
	f, err := c.find(ctx, r.name)
	if err != nil {
		c.fail(r.command, r.name, err)
		return
	}
	done := r.rest[:0]
	for more := true; more; {
		keys := c.many.keys[:0]
		for more && len(keys) < callKeysMax {
			var key []byte
			key, rest, more = cut(rest)
			keys = append(keys, key)
		}
		c.many.keys = keys
		if cap(c.many.yes) < len(keys) {
			c.many.yes = make([]bool, len(keys))
		}
		yes := c.many.yes[:len(keys)]
		err := c.call(ctx, r.command, f, keys, yes)
		clear(keys)
		if err != nil {
			c.fail(r.command, r.name, err)
			c.trimMany()
			return
		}
		for _, y := range yes {
			done = append(done, digitOf(y))
		}
	}
	c.trimMany()
	c.answerWords(done)
}

func (c *conn) answerWords(digits []byte) {
	for i, d := range digits {
		word := answerNo
		if d == digitOf(true) {
			word = answerYes
		}
		c.Out = append(c.Out, word...)
		if i < len(digits)-1 {
			c.Out[len(c.Out)-1] = ' ' // in place of the line feed
			c.writeIfFull()
		}
	}
}

// trimMany releases the memory of many keys.
func (c *conn) trimMany() {
	if cap(c.many.keys) > keysKept || cap(c.many.yes) > keysKept {
		c.many = many{}
	}
}

// executeOther executes a command without keys.
func (c *conn) executeOther(ctx context.Context, r *request) {
	c.MayWait()
	filters := c.s.filters
	if !r.all && r.command != cmdList && !goodName(r.name) { // the name in create has been checked
		c.fail(r.command, r.name, bigset.ErrNoFilter)
		return
	}
	var err error
	switch r.command {
	case cmdCreate:
		c.executeCreate(ctx, r)
		return
	case cmdList:
		c.executeList(ctx, r)
		return
	case cmdInfo:
		c.executeInfo(ctx, r)
		return
	case cmdDrop:
		err = filters.Drop(ctx, r.name)
	case cmdClose:
		err = filters.Close(ctx, r.name)
	case cmdClear:
		err = filters.Clear(ctx, r.name)
	case cmdFlush:
		if r.all {
			err = filters.FlushAll(ctx)
		} else {
			err = filters.Flush(ctx, r.name)
		}
	}
	if err != nil {
		c.fail(r.command, r.name, err)
		return
	}
	c.Out = append(c.Out, answerDone...)
}

func (c *conn) executeCreate(ctx context.Context, r *request) {
	created, err := c.s.filters.Create(ctx, r.name, r.options)
	switch {
	case err != nil:
		c.fail(r.command, r.name, err)
	case created:
		c.Out = append(c.Out, answerDone...)
	default:
		c.Out = append(c.Out, answerExists...)
	}
}

// executeList lists filters in parts. It holds no more of what the client has not read than for other answers.
func (c *conn) executeList(ctx context.Context, r *request) {
	after := ""
	for more := true; more && !c.Ended(); {
		infos, err := c.s.filters.List(ctx, door.FilterListing{Prefix: r.name, After: after, Most: listMost, Absolute: r.exact})
		if err != nil && after == "" {
			c.fail(r.command, r.name, err)
			return
		}
		if err != nil { // an error can't be answered in the middle of the answer
			c.s.failures.Add(r.command.String(), r.name, err)
			c.End()
			return
		}
		if after == "" {
			c.Out = append(c.Out, answerStart...)
		}
		for i := range infos {
			c.Out = appendRow(c.Out, &infos[i])
		}
		if more = len(infos) == listMost; more {
			after = infos[listMost-1].Name
			c.writeIfFull()
		}
	}
	c.Out = append(c.Out, answerEnd...)
}

func (c *conn) executeInfo(ctx context.Context, r *request) {
	f, err := c.s.filters.Find(ctx, r.name)
	if err != nil {
		c.fail(r.command, r.name, err)
		return
	}
	info, err := f.Info(ctx, r.exact)
	if err != nil {
		c.fail(r.command, r.name, err)
		return
	}
	c.Out = appendInfo(c.Out, &info)
}
