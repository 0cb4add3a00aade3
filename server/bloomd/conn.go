package bloomd

import (
	"bytes"
	"context"

	"bigset/server/door"
)

// conn is a connection: it executes lines.
type conn struct {
	*door.Conn
	s     *Server
	seen  int // bytes of the unfinished line that are known to have no line feed
	group group
	many  many
	tally tally
}

// Execute implements door.Handler: it executes the complete lines.
func (c *conn) Execute(ctx context.Context, _ *door.Conn, buf []byte) (used int) {
	seen := c.seen
	for !c.Ended() {
		i := bytes.IndexByte(buf[seen:], '\n')
		if i < 0 {
			seen = len(buf)
			break
		}
		line := buf[used : seen+i]
		used = seen + i + 1
		seen = used
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		c.execute(ctx, line)
	}
	c.finishGroup(ctx) // its keys are in the buffer
	c.seen = seen - used
	c.s.counters.add(&c.tally)
	return used
}

// TooLong implements door.Handler.
func (c *conn) TooLong(*door.Conn) {
	c.refuse(answerTooLong)
	c.s.counters.add(&c.tally)
}

// writeIfFull bounds the answers that wait. What they answer is counted before they are sent.
func (c *conn) writeIfFull() {
	if c.Full() {
		c.s.counters.add(&c.tally)
		c.WriteIfFull()
	}
}
