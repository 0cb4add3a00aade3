package door

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// driven is a loop that a test runs step by step.
type driven struct {
	*loop
	t  *testing.T
	ln net.Listener
}

func drive(t *testing.T, o *choir) *driven {
	t.Helper()
	s, err := New(o.open, Options{Loops: 1, Together: o.together, Log: noLog})
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoop(context.Background(), s, &part{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.free)
	l.watching.Store(true) // so that nobody else runs it
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &driven{l, t, ln}
}

// client returns a connection that the loop serves.
func (d *driven) client() (k *sock, nc net.Conn) {
	d.t.Helper()
	nc, err := net.Dial("tcp", d.ln.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(time.Minute))
	d.t.Cleanup(func() { nc.Close() })
	served, err := d.ln.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	c := newConn(d.s, served)
	c.handler = d.s.open(c)
	if !d.adopt(c) || !c.park() {
		d.t.Fatal("not parked")
	}
	k = c.nc.(*sock)
	d.t.Cleanup(func() { k.Close() })
	return k, nc
}

// send sends text, and waits until all of it can be read.
func (d *driven) send(k *sock, nc net.Conn, text string) {
	d.t.Helper()
	send(d.t, nc, text)
	peeked := make([]byte, len(text))
	eventually(d.t, "arrival", func() bool {
		n, _, _ := syscall.Recvfrom(k.fd, peeked, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n == len(text)
	})
}

// step lets the loop serve one connection, and returns it.
func (d *driven) step() *sock {
	d.t.Helper()
	k, resumes := d.next()
	if k == nil || !k.turn(resumes) {
		d.t.Fatal("the loop has ended")
	}
	return k
}

// flooded has ten connections that flood the loop, whose lines begin with a byte, and another one. All are read from once.
func flooded(t *testing.T, o *choir, flood byte) (d *driven, other *sock, nc net.Conn) {
	d = drive(t, o)
	for i := range floods {
		k, nc := d.client()
		d.send(k, nc, strings.Repeat(fmt.Sprintf("%c%d\n", flood, i), floodLines))
	}
	for range floods {
		d.step()
	}
	other, nc = d.client()
	return d, other, nc
}

const (
	floods     = 10
	floodLines = 20
)

// askOther sends a line from a connection among those that flood, and returns how much is done for them before it.
func (d *driven) askOther(o *choir, other *sock, nc net.Conn) (before int) {
	d.t.Helper()
	already := len(o.calls)
	d.send(other, nc, "x\n")
	k := d.step()
	for len(o.calls) == already || o.calls[len(o.calls)-1] != "x" {
		k = d.step()
	}
	if k != other {
		d.t.Fatal("another connection is answered first")
	}
	want(d.t, nc, "x\n")
	return len(o.calls) - 1 - already
}

// TestFloodInPortions: while connections flood the loop, another one waits for one portion of their work at most, and is answered before the next. All that flood come in turn.
func TestFloodInPortions(t *testing.T) {
	t.Parallel()
	for _, flood := range []byte{'m', '~'} {
		o := &choir{}
		d, other, nc := flooded(t, o, flood)
		for at := 10; at < floods*floodLines/2; at += 10 { // in different moments of the flood
			for len(o.calls) < at+at/10%3 {
				d.step()
			}
			if n := d.askOther(o, other, nc); n > 1 {
				t.Fatalf("%c: %d pieces of work come before one that waits: %q", flood, n, o.calls)
			}
		}
		for len(o.calls) < floods*floodLines*3/4 {
			d.step()
		}
		done := map[string]int{}
		for _, line := range o.calls {
			done[line]++
			for i := range floods {
				if n := done[fmt.Sprintf("%c%d", flood, i)]; line != "x" && n < done[line]-1 {
					t.Fatalf("%s comes for the %dth time, another one for the %dth: %q", line, done[line], n, o.calls)
				}
			}
		}
	}
}

// TestFloodIsServed: connections that flood the loop have their turns though another one has always work.
func TestFloodIsServed(t *testing.T) {
	t.Parallel()
	o := &choir{}
	d, other, nc := flooded(t, o, 'm')
	const asks = 20
	before := 0
	for range asks {
		before += d.askOther(o, other, nc)
	}
	if before < asks-1 {
		t.Errorf("%d works of others for %d of one", before, asks)
	}
}

// TestQueueInPortions: in a queue, little work comes before much, but not twice in a row, and much comes in portions while there is little.
func TestQueueInPortions(t *testing.T) {
	t.Parallel()
	q := &callQueue{}
	now := time.Now()
	var list []*sock
	for i, test := range []struct {
		after time.Duration
		more  []int // pieces of the work that has come
		want  []int // of the work of the next call

		crowded bool
	}{
		{0, []int{1000, 1000, 1000, 1000, 1000}, []int{1000, 1000, 1000, 1000}, false},
		{0, []int{1, 200, 16, 40}, []int{1, 16}, false},
		{0, []int{2}, []int{1000}, true},
		{0, []int{3}, []int{2, 3}, false},
		{0, nil, []int{200, 40}, true},
		{0, []int{4, 5}, []int{4, 5}, false},
		{0, []int{1000, 100, 1000}, []int{1000}, true},
		{2 * quietTime, []int{100}, []int{100, 1000, 100}, false},
	} {
		for _, n := range test.more {
			list = append(list, &sock{c: &Conn{work: Work{Pieces: n}}})
		}
		now = now.Add(test.after)
		var got []int
		n, crowded := q.begin(list, now)
		for _, k := range list[:n] {
			got = append(got, k.c.work.Pieces)
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) || crowded != test.crowded {
			t.Errorf("call %d: %d, crowded %v, want %d", i, got, crowded, test.want)
		}
		list = list[n:]
	}
}
