package riakpb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"bigset"
	"bigset/server/door"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// headBytes is the size of what precedes the code of a message: its length.
const headBytes = 4

// conn is a connection. It executes requests.
type conn struct {
	*door.Conn
	s     *Server
	grant tokens.Grant
	last  bool // no more requests are executed
	shake bool // the connection is about to switch to TLS: requests received before are not executed
}

// Execute implements door.Handler. It executes the complete requests.
func (c *conn) Execute(ctx context.Context, _ *door.Conn, buf []byte) (used int) {
	c.shake = false
	for !c.Ended() && !c.last && !c.shake && len(buf)-used >= headBytes {
		n := int64(binary.BigEndian.Uint32(buf[used:]))
		if most := c.longest(); n == 0 || n > int64(most) {
			c.fail(fmt.Sprintf("a message of %d bytes; one has 1 to %d", n, most))
			c.end()
			return len(buf)
		}
		if int64(len(buf)-used-headBytes) < n {
			break
		}
		message := buf[used+headBytes : used+headBytes+int(n)]
		used += headBytes + int(n)
		c.execute(ctx, message[0], message[1:])
		c.WriteIfFull()
	}
	if c.last {
		return len(buf)
	}
	return used
}

// strangerBytesMax is the longest message of a client without permissions, for instance one that is about to send its token.
const strangerBytesMax = 64 << 10

// longest returns how many bytes the next message may have.
func (c *conn) longest() int {
	most := c.s.opt.RequestBytesMax - headBytes
	if c.grant.Valid() != nil {
		most = min(most, strangerBytesMax)
	}
	return most
}

// TooLong implements door.Handler.
func (c *conn) TooLong(*door.Conn) {
	c.fail(fmt.Sprintf("a message of more than %d bytes", c.s.opt.RequestBytesMax-headBytes))
}

// NoRoom implements door.RoomHandler.
func (c *conn) NoRoom(*door.Conn, []byte) {
	text, _ := answerOf(door.ErrNoRoom)
	c.fail(text)
}

// end closes the connection after the waiting answers.
func (c *conn) end() {
	c.last = true
	c.Finish()
}

// execute executes one request and answers it.
func (c *conn) execute(ctx context.Context, code byte, body []byte) {
	n := &c.s.counters
	if c.s.opt.SecureOnly && code != codeStartTLS && c.TLS() == nil {
		n.others.Add(1)
		c.fail("Security is enabled, please STARTTLS first") // Riak's words
		return
	}
	switch code {
	case codePingReq:
		n.pings.Add(1)
		c.Out = appendMessage(c.Out, codePingResp)
	case codeServerInfoReq:
		n.others.Add(1)
		c.serverInfo()
	case codeStartTLS:
		n.others.Add(1)
		c.startTLS()
	case codeAuthReq:
		n.others.Add(1)
		c.authenticate(body)
	case codeFetchReq:
		n.fetches.Add(1)
		defer n.fetching.Add(time.Now(), 1)
		c.onSet("fetch", c.fetch, ctx, body)
	case codeUpdateReq:
		n.updates.Add(1)
		defer n.changing.Add(time.Now(), 1)
		c.onSet("update", c.update, ctx, body)
	case codeDelReq:
		n.deletes.Add(1)
		defer n.changing.Add(time.Now(), 1)
		c.onSet("delete", c.delete, ctx, body)
	default:
		n.others.Add(1)
		c.fail(unserved(code))
	}
}

// onSet executes a request about a set. For a client without permissions it does not even decode the request. The memory for the parts of a
// long request is counted.
func (c *conn) onSet(what string, do func(context.Context, []byte), ctx context.Context, body []byte) {
	if err := c.grant.Valid(); err != nil {
		c.failed(what, nil, err)
		return
	}
	defer c.Give()
	if parts := min(len(body)/2, bigset.BatchOpsMax); parts > partsFree && !c.Take(parts*partBytes) {
		c.failed(what, nil, door.ErrNoRoom)
		return
	}
	do(ctx, body)
}

// The memory for the parts of a request beside their bytes: each is an element, a door.Op and a bigset.Op. A few parts are free, like the
// buffers that a connection keeps.
const (
	partBytes = 256
	partsFree = 256
)

func (c *conn) serverInfo() {
	if err := c.grant.Valid(); err != nil {
		c.failed("server info", nil, err)
		return
	}
	body := appendBytes(nil, 1, []byte(c.s.opt.Node))
	c.Out = appendMessage(c.Out, codeServerInfo, appendBytes(body, 2, []byte(c.s.opt.Version)))
}

// startTLS makes the connection switch to TLS after its answer.
func (c *conn) startTLS() {
	switch {
	case c.TLS() != nil:
		c.fail("the connection has TLS already")
	case c.s.opt.Upgrade == nil:
		c.fail("Security not enabled; STARTTLS not allowed.") // Riak's words
	default:
		c.Out = appendMessage(c.Out, codeStartTLS)
		c.shake = true
		c.StartTLS(c.s.opt.Upgrade)
	}
}

// authenticate accepts a token as the password of any user.
func (c *conn) authenticate(body []byte) {
	q, err := decodeAuth(body)
	if err != nil {
		c.fail(door.Text(err))
		return
	}
	c.MayWait() // for a list that is still being learned
	grant, err := c.s.opt.Tokens.Authenticate(q.password)
	switch {
	case errors.Is(err, tokens.ErrNone): // no token is needed
	case errors.Is(err, tokens.ErrSecret):
		c.fail("Authentication failed")
		return
	case err != nil:
		c.failed("auth", nil, err)
		return
	default:
		c.grant = grant
	}
	c.Out = appendMessage(c.Out, codeAuthResp)
}

// within bounds a request by the client's timeout in milliseconds; 0 means no bound.
func within(ctx context.Context, timeout uint32) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
}

// fail answers with an error.
func (c *conn) fail(text string) {
	c.s.counters.errors.Add(1)
	c.Out = appendFailure(c.Out, text)
}

// appendFailure appends the message of an error.
func appendFailure(dst []byte, text string) []byte {
	return appendMessage(dst, codeError, appendUint(appendBytes(nil, 1, []byte(text)), 2, errorGeneral))
}

// failed answers with an error of a backend.
func (c *conn) failed(what string, set []byte, err error) {
	text, fault := answerOf(err)
	if fault {
		c.s.counters.failures.Add(1)
		c.MayWait() // for the log
		c.s.failures.Add(what, set, err)
	}
	c.fail(setname.InError(text, set))
}
