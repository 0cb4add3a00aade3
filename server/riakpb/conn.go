package riakpb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"bigset/server/door"
	"bigset/server/tokens"
)

// headBytes is what stands before the code of a message: its length.
const headBytes = 4

// conn is a connection: it executes requests.
type conn struct {
	*door.Conn
	s     *Server
	grant tokens.Grant
	last  bool // no request is executed any more
	shake bool // the connection is about to go on with TLS: what stands before that is not executed
}

// Execute implements door.Handler: it executes the whole requests.
func (c *conn) Execute(ctx context.Context, _ *door.Conn, buf []byte) (used int) {
	c.shake = false
	for !c.Ended() && !c.last && !c.shake && len(buf)-used >= headBytes {
		n := int64(binary.BigEndian.Uint32(buf[used:]))
		if n == 0 || n > int64(c.s.opt.RequestBytesMax-headBytes) {
			c.fail(fmt.Sprintf("a message of %d bytes; one has 1 to %d", n, c.s.opt.RequestBytesMax-headBytes))
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

// TooLong implements door.Handler.
func (c *conn) TooLong(*door.Conn) {
	c.fail(fmt.Sprintf("a message of more than %d bytes, or no memory for long requests is left", c.s.opt.RequestBytesMax-headBytes))
}

// end closes the connection after the answers that are there.
func (c *conn) end() {
	c.last = true
	c.Finish()
}

// execute answers one request.
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
		c.fetch(ctx, body)
	case codeUpdateReq:
		n.updates.Add(1)
		c.update(ctx, body)
	case codeDelReq:
		n.deletes.Add(1)
		c.delete(ctx, body)
	default:
		n.others.Add(1)
		c.fail(unserved(code))
	}
}

func (c *conn) serverInfo() {
	if err := c.grant.Valid(); err != nil {
		c.failed("server info", nil, err)
		return
	}
	body := appendBytes(nil, 1, []byte(c.s.opt.Node))
	c.Out = appendMessage(c.Out, codeServerInfo, appendBytes(body, 2, []byte(c.s.opt.Version)))
}

// startTLS has the connection go on with TLS after its answer.
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

// authenticate takes a token as the password of any user.
func (c *conn) authenticate(body []byte) {
	q, err := decodeAuth(body)
	if err != nil {
		c.fail(plain(err))
		return
	}
	c.MayWait() // for a list that is being learned
	grant, err := c.s.opt.Tokens.Authenticate(q.password)
	switch {
	case errors.Is(err, tokens.ErrNone): // none is needed
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

// within bounds a request by the time that the client gives it, in milliseconds.
func within(ctx context.Context, timeout uint32) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
}

// fail answers an error.
func (c *conn) fail(text string) {
	c.s.counters.errors.Add(1)
	c.Out = appendMessage(c.Out, codeError, appendUint(appendBytes(nil, 1, []byte(text)), 2, errorGeneral))
}

// failed answers an error of a backend.
func (c *conn) failed(what string, set []byte, err error) {
	text, fault := answerOf(err)
	if fault {
		c.s.counters.failures.Add(1)
		c.MayWait() // for the log
		c.s.failures.Add(what, set, err)
	}
	c.fail(text)
}
