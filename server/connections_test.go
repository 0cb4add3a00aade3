package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rawClient is a connection to an HTTP server on which a test may send a part of a request.
type rawClient struct {
	net.Conn
	t    *testing.T
	from *bufio.Reader
}

// wholeRequest is one that a server keeps the connection after; halfRequest is never answered.
const (
	wholeRequest = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	halfRequest  = "GET /readyz HTTP/1.1\r\nHost: loc"
)

func dialRaw(t *testing.T, at net.Addr, send string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	c := &rawClient{nc, t, bufio.NewReader(nc)}
	c.send(send)
	return c
}

// send sends text; what fails shows when an answer is read.
func (c *rawClient) send(text string) { _, _ = io.WriteString(c, text) }

// wantAnswer reads an answer.
func (c *rawClient) wantAnswer(what string) {
	c.t.Helper()
	if err := c.readAnswer(); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// readAnswer reads one answer and returns an error where its status is not 200.
func (c *rawClient) readAnswer() error {
	answer, err := http.ReadResponse(c.from, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// wantClosed waits for the server to close the connection.
func (c *rawClient) wantClosed(what string) {
	c.t.Helper()
	if b, err := c.from.ReadByte(); err == nil || isTimeout(err) {
		c.t.Fatalf("%s: it is open: got %q, %v", what, b, err)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// boundedServer is a server with at most most connections. A request of /wait is answered when proceed is closed, one of /long without end; begun
// is sent before.
func boundedServer(t *testing.T, most int) (at net.Addr, b *connections, begun chan bool, proceed chan bool) {
	t.Helper()
	begun, proceed = make(chan bool), make(chan bool)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			begun <- true
			<-proceed
		case "/long":
			begun <- true
			for err := error(nil); err == nil; { // until the connection is closed
				_, err = w.Write(make([]byte, 1<<16))
			}
		}
	})}
	b = bind(srv, most, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr(), b, begun, proceed
}

var waitingRequest = strings.Replace(wholeRequest, "/readyz", "/wait", 1)

// TestOldestIsClosed has one connection after the other above the bound: each closes the one that has waited longest for a request.
func TestOldestIsClosed(t *testing.T) {
	t.Parallel()
	at, b, begun, proceed := boundedServer(t, 3)
	busy := dialRaw(t, at, waitingRequest)
	<-begun
	half := dialRaw(t, at, halfRequest)
	silent := dialRaw(t, at, "")
	eventually(t, "three are open", func() bool { return b.open() == 3 })
	last := dialRaw(t, at, wholeRequest)
	half.wantClosed("the first half request")
	last.wantAnswer("a fourth client")
	silent.send(wholeRequest)
	silent.wantAnswer("a connection that is not the oldest")
	eventually(t, "both wait again", func() bool { return b.waits() == 2 })

	next := dialRaw(t, at, wholeRequest)
	last.wantClosed("the one that was answered first")
	next.wantAnswer("a fifth client")
	close(proceed)
	busy.wantAnswer("a request that was being answered")
	for _, c := range []*rawClient{busy, silent, next} {
		c.Close()
	}
	eventually(t, "none is counted", func() bool { return b.open() == 0 })
}

// open returns how many connections are counted.
func (b *connections) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + len(b.answering)
}

// waits returns how many connections wait for a request.
func (b *connections) waits() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// TestAllAreAnswered has as many long requests as there may be connections: one more client is closed, and room comes back.
func TestAllAreAnswered(t *testing.T) {
	t.Parallel()
	at, b, begun, proceed := boundedServer(t, 2)
	first, second := dialRaw(t, at, waitingRequest), dialRaw(t, at, waitingRequest)
	<-begun
	<-begun
	dialRaw(t, at, "").wantClosed("a third client")
	if open := b.open(); open != 2 {
		t.Errorf("%d connections are counted, want 2", open)
	}
	close(proceed)
	first.wantAnswer("the first")
	second.wantAnswer("the second")
	eventually(t, "both wait again", func() bool { return b.waits() == 2 })
	dialRaw(t, at, wholeRequest).wantAnswer("a client afterwards")
}

// TestUnreadAnswer has clients that read nothing of their long answers: they keep nobody out.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	at, b, begun, _ := boundedServer(t, 2)
	for range 2 {
		dialRaw(t, at, strings.Replace(wholeRequest, "/readyz", "/long", 1))
		<-begun
	}
	eventually(t, "both answers have begun", func() bool { return b.waits() == 2 })
	dialRaw(t, at, wholeRequest).wantAnswer("a client beside them")
}

// TestClosedIsNotCounted gives a client its time, closes its connection for another one just before its request begins, and has the other
// client go while its request is being answered.
func TestClosedIsNotCounted(t *testing.T) {
	t.Parallel()
	b := bind(&http.Server{}, 1, time.Second)
	one, two, now := new(net.TCPConn), new(net.TCPConn), time.Now()
	if old, wait := b.admit(one, now); old != nil || wait != 0 {
		t.Errorf("the first: %v is closed, after %v", old, wait)
	}
	if old, wait := b.admit(two, now.Add(time.Second/4)); old != nil || wait != 3*time.Second/4 {
		t.Errorf("a second at once: %v is closed, after %v", old, wait)
	}
	if old, wait := b.admit(two, now.Add(time.Second)); old != one || wait > 0 {
		t.Errorf("a second later: %v is closed, after %v", old, wait)
	}
	b.begin(one)
	b.end(one)
	b.begin(two)
	b.state(two, http.StateClosed)
	b.end(two)
	if open := b.open(); open != 0 {
		t.Errorf("%d connections are counted, none is open", open)
	}
}
