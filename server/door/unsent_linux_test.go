package door

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// lengthy is a handler that answers whatever arrives by a line and, unless it is "short", by a long answer, outside the loop.
type lengthy struct{}

const lengthyBytes = 8 << 20

func (lengthy) Execute(_ context.Context, c *Conn, buf []byte) (used int) {
	c.MayWait()
	c.Out = append(c.Out, "begun\n"...)
	c.write()
	if string(buf) == "short\n" {
		return len(buf)
	}
	chunk := make([]byte, 64<<10)
	for range lengthyBytes / len(chunk) {
		c.Send(chunk)
	}
	return len(buf)
}

func (lengthy) TooLong(*Conn) {}

// stalled returns a connection whose goroutine waits for its client to take an answer, and whether it has a place.
func (r *running) stalled() (found *sock, placed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.parts {
		for _, l := range p.loops {
			l.mu.Lock()
			for _, k := range l.socks {
				if k.state == sockAway {
					found, placed = k, k.c.placed // the goroutine changes it only while the loop does not have the connection
				}
			}
			l.mu.Unlock()
		}
	}
	return found, placed
}

// TestSlowReader: for a client that takes nothing, the system takes a bounded part of the answer, and the connection has no place for long work. While loops have requests, a
// client that takes its answer gets it in places. Short answers that follow are not bounded.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s, err := New(func(*Conn) Handler { return lengthy{} }, Options{Loops: 1, Log: noLog})
	s.places = places{taken: make(chan struct{}, 1), wait: time.Hour}
	s.places.asked.begin(time.Now(), time.Hour)
	r := run(t, s, err)
	slow := r.dial()
	slow.(*net.TCPConn).SetReadBuffer(64 << 10)
	send(t, slow, "slow\n")
	want(t, slow, "begun\n")
	var k *sock
	var placed bool
	eventually(t, "the answer stalls", func() bool {
		k, placed = r.stalled()
		return k != nil
	})
	if placed {
		t.Fatal("a connection whose client takes nothing has a place")
	}
	if n := unsent(t, k); n > unsentMax+128<<10 {
		t.Errorf("the system has %d bytes to send to a client that takes nothing", n)
	}
	s.places.taken <- struct{}{}
	quick := r.dial()
	send(t, quick, "quick\n")
	want(t, quick, "begun\n")
	quick.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := quick.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes of a long answer come without a place, %v", n, err)
	}
	<-s.places.taken
	for _, nc := range []net.Conn{quick, slow} {
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.CopyN(io.Discard, nc, lengthyBytes); err != nil {
			t.Error(err)
		}
	}
	send(t, slow, "short\n")
	want(t, slow, "begun\n")
	if most, err := syscall.GetsockoptInt(k.fd, syscall.IPPROTO_TCP, tcpNotSentLowat); err != nil || most != 0 {
		t.Errorf("the system takes %d bytes of short answers, %v", most, err)
	}
}

// unsent returns how many bytes the system has not sent yet.
func unsent(t *testing.T, k *sock) (n int32) {
	t.Helper()
	const siocOutQNSD = 0x894b // SIOCOUTQNSD
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(k.fd), siocOutQNSD, uintptr(unsafe.Pointer(&n))); errno != 0 {
		t.Fatal(errno)
	}
	return n
}
