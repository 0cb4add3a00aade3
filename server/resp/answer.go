package resp

import (
	"fmt"
	"sync"

	"bigset/server/door"
)

// chunkBytes is the unit of memory for answers. The first chunk of a command is free, like the buffers that a connection keeps.
const chunkBytes = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// gathered collects the answer of a command: byte strings, in chunks that count toward the budget of all doors.
type gathered struct {
	memory memory
	most   int          // bytes
	refuse func() error // returns the error for a larger answer
	full   [][]byte
	last   []byte
	bytes  *int // in full, of all parts of the answer
}

// memory is what an answer takes its bytes from.
type memory interface {
	Take(bytes int) bool
	Give()
}

// gather returns the memory for an answer of a command. Call release at the end.
func (c *conn) gather(cmd string) *gathered { return c.s.gather(cmd, c.Conn) }

func (s *Server) gather(cmd string, m memory) *gathered {
	most := s.opt.AnswerBytesMax
	return &gathered{memory: m, most: most, bytes: new(int), refuse: func() error {
		return refusal(fmt.Sprintf("ERR the answer to %s has more than %d bytes, and a reply's length comes first; use SSCAN or BS.RANGE to read in parts, SINTERCARD or BS.COUNT to count", upper(cmd), most))
	}}
}

// errNoRoom is the error if answers and requests of other clients use all the memory for long ones.
const errNoRoom = "TRYAGAIN " + door.NoRoom + "; ask again, or use SSCAN or BS.RANGE"

// room returns room for n bytes, with length 0.
func (g *gathered) room(n int) ([]byte, error) {
	if cap(g.last)-len(g.last) < n {
		if *g.bytes += len(g.last); *g.bytes+n > g.most {
			return nil, g.refuse()
		}
		size := max(n, chunkBytes)
		if (g.last != nil || size > 2*chunkBytes) && !g.memory.Take(size) {
			return nil, refusal(errNoRoom)
		}
		if g.last != nil {
			g.full = append(g.full, g.last)
		}
		if size == chunkBytes {
			g.last = chunks.Get().(*[chunkBytes]byte)[:0]
		} else {
			g.last = make([]byte, 0, size)
		}
	}
	at := len(g.last)
	return g.last[at:at:min(cap(g.last), at+n)], nil
}

// roomFor takes memory for a growing list, which has n elements of the given size, in steps. The first step is free.
func (g *gathered) roomFor(n, bytes int) bool {
	const step = 1024
	return n == 0 || n%step != 0 || g.memory.Take(step*bytes)
}

// keep returns a copy of a byte string.
func (g *gathered) keep(b []byte) ([]byte, error) {
	to, err := g.room(len(b))
	if err != nil {
		return nil, err
	}
	to = append(to, b...)
	g.last = g.last[:len(g.last)+len(to)]
	return to, nil
}

// keepIn is keep in the memory of a copy that is not needed any more, if that is long enough.
func (g *gathered) keepIn(old, b []byte) ([]byte, error) {
	if len(b) <= cap(old) {
		return append(old[:0], b...), nil
	}
	return g.keep(b)
}

// bulk appends a byte string in the form of a reply.
func (g *gathered) bulk(b []byte) error {
	to, err := g.room(len(b) + bulkBytes)
	if err != nil {
		return err
	}
	to = appendBulk(to, b)
	g.last = g.last[:len(g.last)+len(to)]
	return nil
}

// send sends everything after the answers of a connection that wait. Several connections may send it at the same time.
func (g *gathered) send(c *conn) {
	for _, chunk := range g.full {
		c.Send(chunk)
	}
	c.Send(g.last)
}

// release returns the memory, and all that was taken for the command.
func (g *gathered) release() {
	for _, chunk := range append(g.full, g.last) {
		if cap(chunk) == chunkBytes {
			chunks.Put((*[chunkBytes]byte)(chunk[:chunkBytes]))
		}
	}
	g.full, g.last = nil, nil
	g.memory.Give()
}
