package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/tokens"
)

// conn is a connection. It executes requests.
type conn struct {
	*door.Conn
	s      *Server
	parser parser
	args   [][]byte
	word   [commandBytesMax]byte // the name of a command, in lower case
	group  group
	ran    int  // requests that have been executed by this call of Execute, but for those of groups
	last   bool // no more requests are executed
	whole  bool // the next request is parsed, and waits for the group
	fault  string

	grant    tokens.Grant
	proto    int // 2 or 3
	id       int64
	since    time.Time
	name     []byte
	lib, ver []byte // of the client's library
	acked    acks   // of the last change
	scans    scanner
	leaves   leaving
}

// Closed implements door.ClosedHandler.
func (c *conn) Closed() { c.s.cursors.end(&c.scans) }

// Execute implements door.Handler. It executes the complete requests. If a group is deferred, or other connections have their turn, it returns
// and is called again.
func (c *conn) Execute(ctx context.Context, _ *door.Conn, buf []byte) (used int) {
	if c.ran = 0; c.group.deferred {
		c.answerGroup()
	}
	for !c.Ended() && !c.last {
		whole, fault := c.whole, c.fault
		if !whole && fault == "" {
			whole, fault = c.parser.parse(buf[used:])
		}
		c.whole, c.fault = false, ""
		switch {
		case fault != "":
			if !c.finishGroup(ctx) {
				c.fault = fault
				return used
			}
			c.fail("ERR " + fault)
			c.end()
			return len(buf)
		case !whole:
			c.finishGroup(ctx) // the group's elements point into the buffer
			return used
		}
		if c.ran >= restAfter && c.Rest(c.ran) || !c.take(ctx, buf[used:]) {
			c.whole = true
			return used
		}
		used += c.parser.at
		c.parser.reset()
	}
	c.finishGroup(ctx)
	return used
}

const (
	// restAfter is how many requests an event loop executes before other connections have their turn. Groups have limits of their own.
	restAfter = 128
	// argumentBytes is the memory of an argument besides its bytes, including its part of a group.
	argumentBytes = 24 + 56
	// argumentsFew arguments or fewer need no accounting. It is at least the number of arguments of a request that joins a group or is
	// deferred.
	argumentsFew = groupOpsMax + 2
)

// take executes the request that was parsed. It reports false if a group before it is not done yet. The memory for many arguments is
// counted: their bytes may be few.
func (c *conn) take(ctx context.Context, request []byte) (taken bool) {
	n := c.parser.n
	many := n > argumentsFew
	if many {
		if !c.finishGroup(ctx) {
			return false
		}
		defer c.Give()
		if !c.Take(argumentBytes * n) {
			c.noRoom(request, true)
			return true
		}
	}
	c.args = c.parser.arguments(slices.Grow(c.args, n), request)
	taken = n == 0 || c.execute(ctx)
	if many {
		c.finishGroup(ctx) // the request is too large to be deferred
	}
	clear(c.args)
	if c.args = c.args[:0]; n > argumentsKept {
		c.args = nil
	}
	return taken
}

// noRoom answers a request for which no memory is left. Only its first arguments are looked at.
func (c *conn) noRoom(request []byte, whole bool) {
	c.args = c.parser.first(c.args[:0], request)
	if maybeRetry(c.args, whole) {
		c.failed(strings.ToLower(string(c.args[0])), nil, door.Retried(true, door.ErrNoRoom))
	} else {
		c.fail(errNoRoom)
	}
	clear(c.args)
	c.args = c.args[:0]
}

// TooLong implements door.Handler.
func (c *conn) TooLong(*door.Conn) {
	c.fail(fmt.Sprintf("ERR Protocol error: a request of more than %d bytes", c.s.opt.RequestBytesMax))
}

// NoRoom implements door.RoomHandler.
func (c *conn) NoRoom(_ *door.Conn, request []byte) { c.noRoom(request, false) }

// end closes the connection after the waiting answers.
func (c *conn) end() {
	c.last = true
	c.Finish()
}

// execute executes one request, or adds it to the group. It reports false if the group must be done first, but is not done yet.
func (c *conn) execute(ctx context.Context) (done bool) {
	cmd := c.find(c.args[0])
	arity := cmd != nil && (cmd.arity > 0 && len(c.args) == cmd.arity || cmd.arity < 0 && len(c.args) >= -cmd.arity)
	var denied error
	if arity {
		denied = c.may(cmd)
	}
	if !(arity && denied == nil && cmd.groups && c.joins(cmd)) && !c.finishGroup(ctx) {
		return false
	}
	switch {
	case cmd == nil:
		c.s.counters.unknown.Add(1)
		c.fail(c.unknown(c.args))
	case !arity:
		c.failArity(cmd.name)
	case denied != nil:
		if maybeRetry(c.args, true) {
			denied = &door.UnknownError{Err: denied}
		}
		c.failed(cmd.name, nil, denied)
	default:
		c.s.counters.commands[cmd.name].Add(1)
		c.leaves = leaving{may: cmd.reads()}
		if !cmd.timed() {
			cmd.run(c, ctx, c.args)
			break
		}
		began := time.Now()
		cmd.run(c, ctx, c.args)
		c.s.counters.others.Add(began, 1)
	}
	if len(c.group.requests) == 0 {
		c.ran++
	}
	c.WriteIfFull()
	return true
}

// find returns the command of a word, or nil.
func (c *conn) find(word []byte) *command {
	if len(word) > len(c.word) {
		return nil
	}
	return c.s.commands[string(c.lower(word))]
}

// lower returns a short word in lower case. The result is valid until the next call.
func (c *conn) lower(word []byte) []byte {
	w := c.word[:min(len(word), len(c.word))]
	for i := range w {
		b := word[i]
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		w[i] = b
	}
	return w
}

// is reports whether an argument is a word, in any case.
func is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// unknown returns the error for an unknown command.
func (c *conn) unknown(args [][]byte) string {
	if text, ok := c.refusedOfModule(args[0]); ok {
		return text
	}
	text := fmt.Sprintf("ERR unknown command '%s', with args beginning with: ", shownOf(args[0], shownMost))
	list := ""
	for _, a := range args[1:] {
		if len(list) >= shownMost {
			break
		}
		list += fmt.Sprintf("'%s' ", shownOf(a, shownMost-len(list)))
	}
	return text + list
}

// shownMost is how many bytes of an argument an error shows, as in redis.
const shownMost = 128

// shownOf returns the part of an argument that redis shows: at most that many bytes, and none from the first zero byte on.
func shownOf(arg []byte, most int) []byte {
	arg, _, _ = bytes.Cut(arg[:min(len(arg), most)], []byte{0})
	return arg
}

// Errors of several commands, in redis's words.
const (
	errWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errSyntax    = "ERR syntax error"
	errInteger   = "ERR value is not an integer or out of range"
	errCursor    = "ERR invalid cursor"
)

func (c *conn) failArity(name string) {
	c.fail("ERR wrong number of arguments for '" + name + "' command")
}

// fail answers with an error, whose text begins with its code.
func (c *conn) fail(text string) {
	c.s.counters.errors.Add(1)
	c.Out = appendError(c.Out, text)
}

// failed answers with an error of a backend.
func (c *conn) failed(command string, key []byte, err error) {
	text, fault := answerOf(err)
	if errors.Is(err, errGone) { // nobody reads it, so it counts as no error that a client had
		c.Out = appendError(c.Out, text)
		return
	}
	if errors.Is(err, door.ErrUnknown) {
		c.acked.none() // an earlier change says nothing of this one
	}
	if fault {
		c.s.counters.failures.Add(1)
		c.MayWait() // for the log
		c.s.failures.Add(command, key, err)
	}
	if name := nameOf(key); key != nil && len(name) != len(key) {
		text = strings.ReplaceAll(text, strconv.Quote(string(name)), strconv.Quote(string(key)))
	}
	c.fail(text)
}

// errKind is the error of a command for sets on a filter, or for filters on a set.
var errKind = errors.New(errWrongType)

// refusal is an error whose text is the answer.
type refusal string

func (r refusal) Error() string { return string(r) }

// answerOf returns the text that answers an error, and whether the node is at fault. The code says what is known: after TRYAGAIN nothing
// has happened and the same request may be repeated; after UNKNOWN the outcome is unknown.
func answerOf(err error) (text string, fault bool) {
	var r refusal
	switch {
	case errors.As(err, &r):
		return string(r), false
	case errors.Is(err, door.ErrUnknown):
		return "UNKNOWN " + door.Text(err), !refusesTry(err)
	case errors.Is(err, errKind):
		return errWrongType, false
	case errors.Is(err, tokens.ErrNoToken):
		return errNoAuth, false
	case errors.Is(err, tokens.ErrDenied):
		return errNoPermission, false
	case errors.Is(err, tokens.ErrUnlearned):
		return "TRYAGAIN " + door.Text(err), false
	case errors.Is(err, door.ErrUnavailable):
		return "TRYAGAIN " + door.Text(err), false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "TRYAGAIN " + door.Text(err), false
	case errors.Is(err, bigset.ErrDiskFull):
		return "MISCONF " + door.Text(err), true
	}
	if errors.Is(err, keyscheme.ErrToken) {
		return "ERR a context, page or token of the command is not one that a node gave for this set: " + door.Text(err), false
	}
	for _, known := range []error{bigset.ErrLimit, bigset.ErrRequest, bigset.ErrContext, bigset.ErrBehind, bigset.ErrUnresolved, bigset.ErrNoFilter, bloomslice.ErrOptions, door.ErrQuorum, bigset.ErrCursor} {
		if errors.Is(err, known) {
			return "ERR " + door.Text(err), false
		}
	}
	return "ERR internal error, which the log of the node has: " + door.Text(err), true
}

// refusesTry reports whether an error is about the client of a change, or about what its key is now. A try before may have done the change.
func refusesTry(err error) bool {
	return errors.Is(err, errKind) || errors.Is(err, tokens.ErrNoToken) || errors.Is(err, tokens.ErrDenied)
}

// The methods below append replies.

func (c *conn) ok()                     { c.Out = append(c.Out, "+OK\r\n"...) }
func (c *conn) int(n int64)             { c.Out = appendInt(c.Out, n) }
func (c *conn) text(s string)           { c.Out = appendBulk(c.Out, s) }
func (c *conn) null()                   { c.Out = appendNull(c.Out, c.proto) }
func (c *conn) header(kind byte, n int) { c.Out = appendHeader(c.Out, c.proto, kind, n) }

// bulk appends a byte string. A long one of a request is sent without a copy: only its request's memory is counted.
func (c *conn) bulk(b []byte) {
	if len(b) <= chunkBytes {
		c.Out = appendBulk(c.Out, b)
		return
	}
	c.MayWait()
	c.Out = appendLine(c.Out, '$', int64(len(b)))
	c.Send(b)
	c.Out = append(c.Out, '\r', '\n')
}

func (c *conn) bit(b bool) {
	if b {
		c.int(1)
	} else {
		c.int(0)
	}
}
