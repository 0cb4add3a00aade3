package door

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// lastWord is a handler that answers what it is sent, and ends the connection after a full stop.
type lastWord struct{}

func (lastWord) Execute(_ context.Context, c *Conn, buf []byte) int {
	if i := bytes.IndexByte(buf, '.'); i >= 0 {
		buf = buf[:i+1]
		c.Finish()
	}
	c.Out = append(c.Out, buf...)
	return len(buf)
}

func (lastWord) TooLong(*Conn) {}

// TestFinish: the answers that are ready come, nothing after them does, and then the connection ends.
func TestFinish(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{-1, 1} {
		s, err := New(func(*Conn) Handler { return lastWord{} }, Options{Loops: loops, Log: noLog})
		r := run(t, s, err)
		nc := r.dial()
		ask(t, nc, "hello ")
		if _, err := io.WriteString(nc, "good bye. and more"); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(nc); err != nil || string(all) != "good bye." {
			t.Errorf("%d loops: %q, %v", loops, all, err)
		}
	}
}

// TestTake: answers take from what long requests have, and give it back.
func TestTake(t *testing.T) {
	t.Parallel()
	l := NewLimits(LimitsOptions{LongBytes: 100})
	s := &Server{opt: Options{Limits: l}}
	a, b := &Conn{s: s}, &Conn{s: s}
	if !a.Take(60) || b.Take(50) || !b.Take(40) || a.Take(1) {
		t.Error("more, or less, than there is")
	}
	a.Give()
	a.Give()
	if !b.Take(60) || b.Take(1) {
		t.Error("what was given back can't be taken, or more")
	}
}
