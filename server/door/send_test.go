package door

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
)

// sender is a handler that answers a line with two numbers by as many bytes in Out and by Send.
type sender struct{ long []byte }

func (h sender) Execute(_ context.Context, c *Conn, buf []byte) (used int) {
	var out, send int
	if _, err := fmt.Sscanf(string(buf), "%d %d\n", &out, &send); err != nil {
		return 0
	}
	c.Out = append(c.Out, bytes.Repeat([]byte{'o'}, out)...)
	c.Send(h.long[:send])
	c.Out = append(c.Out, '\n')
	return len(buf)
}

func (sender) TooLong(*Conn) {}

// TestSend: what is sent comes after what waits, whole and once, and before what follows.
func TestSend(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	long := bytes.Repeat([]byte("0123456789"), most/10+1)
	for _, loops := range []int{-1, 1} {
		s, err := New(func(*Conn) Handler { return sender{long} }, Options{Loops: loops, Log: noLog})
		r := run(t, s, err)
		nc := r.dial()
		for _, out := range []int{0, 1, bufferBytes - 1, bufferBytes, bufferBytes + 1} {
			for _, send := range []int{0, 1, bufferBytes - 1, bufferBytes, bufferBytes + 1, 100_000, most} {
				fmt.Fprintf(nc, "%d %d\n", out, send)
				got := make([]byte, out+send+1)
				if _, err := io.ReadFull(nc, got); err != nil {
					t.Fatal(err)
				}
				if want := append(append(bytes.Repeat([]byte{'o'}, out), long[:send]...), '\n'); !bytes.Equal(got, want) {
					t.Errorf("%d loops: %d bytes and %d: they are not what was sent", loops, out, send)
				}
			}
		}
	}
}
