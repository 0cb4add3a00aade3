package bloomd

import (
	"bytes"
	"context"

	"bigset/server/door"
)

// conn is a connection. It executes lines.
type conn struct {
	*door.Conn
	s     *Server
	seen  int // length of the part of the unfinished line that has been searched for a line feed
	group group
	many  many
	tally tally
}

// Execute implements door.Handler. It executes the complete lines.
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
	c.finishGroup(ctx) // the group's keys point into the buffer
	c.seen = seen - used
	c.s.counters.add(&c.tally)
	return used
}

// TooLong implements door.Handler.
func (c *conn) TooLong(*door.Conn) {
	c.refuse(answerTooLong)
	c.s.counters.add(&c.tally)
}

// writeIfFull bounds the waiting answers. Requests are counted before their answers are sent.
func (c *conn) writeIfFull() {
	if c.Full() {
		c.s.counters.add(&c.tally)
		c.WriteIfFull()
	}
}
