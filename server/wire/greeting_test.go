package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is a buffer for any number of goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSilentCrowd has a crowd connect that says nothing, and connects again when it is cut off: a node and a client get in all the same, and the
// log does not grow with the crowd.
func TestSilentCrowd(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	began := time.Now()
	v := serve(t, ServerOptions{Options: Options{HelloTime: time.Hour}, GreetingMax: 3, Log: slog.New(slog.NewTextHandler(&log, nil))})
	stop := make(chan struct{})
	var crowd sync.WaitGroup
	cut := make(chan struct{}, 1000)
	for range 9 {
		crowd.Go(func() {
			for {
				nc, err := net.Dial("tcp", v.ln.Addr().String())
				if err != nil {
					return
				}
				gone := make(chan struct{})
				go func() {
					_, _ = io.Copy(io.Discard, nc)
					close(gone)
				}()
				select {
				case <-gone:
					_ = nc.Close()
					select {
					case cut <- struct{}{}:
					default:
					}
				case <-stop:
					_ = nc.Close()
					<-gone
					return
				}
			}
		})
	}
	defer crowd.Wait()
	defer close(stop)
	<-cut // all places are taken
	for _, role := range []Role{RoleNode, RoleClient} {
		var c *Client
		var err error
		for end := time.Now().Add(time.Minute); c == nil && time.Now().Before(end); { // on a slow machine it may be cut off, too
			c, err = v.try(ClientOptions{Role: role})
		}
		if err != nil {
			t.Fatalf("%v: %v", role, err)
		}
		if _, err := c.Do(inTime(t), Call{Verb: verbEcho}); err != nil {
			t.Errorf("%v: %v", role, err)
		}
		_ = c.Close()
	}
	if n := strings.Count(log.String(), "\n"); n > 3+int(time.Since(began)/(10*time.Second)) { // one in ten seconds
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// TestGreetingOrder: the newest connection has the next turn, so that it waits for no crowd, and only as many are closed as others wait for.
func TestGreetingOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGreeting(2)
		closed := ""
		var mu sync.Mutex
		conn := func(i int) net.Conn {
			return closing{f: func() {
				mu.Lock()
				defer mu.Unlock()
				closed += fmt.Sprint(i, " ")
			}}
		}
		var got []*greeter
		var order []int
		enter := func(i int, d time.Duration) {
			go func() {
				e, err := g.enter(t.Context(), conn(i), d)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got, order = append(got, e), append(order, i)
				}
			}()
			synctest.Wait()
		}
		for i := range 4 {
			enter(i, time.Hour)
		}
		enter(4, time.Millisecond) // gives up
		enter(5, time.Hour)
		want := func(when, want string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if state := fmt.Sprintf("closed %sturns of %v", closed, order); state != want {
				t.Errorf("%s: %s, want %s", when, state, want)
			}
		}
		time.Sleep(greetMin - 1)
		want("before greetMin", "closed turns of [0 1]")
		time.Sleep(1)
		want("after greetMin", "closed 0 1 turns of [0 1]")
		g.leave(got[1])
		synctest.Wait()
		g.leave(got[0])
		want("when they have left, the newest is first", "closed 0 1 turns of [0 1 5 3]")
		time.Sleep(greetMin)
		want("while one waits", "closed 0 1 5 turns of [0 1 5 3]")
		g.end()
		want("after the end", "closed 0 1 5 3 turns of [0 1 5 3]")
		if len(g.waiting) > 0 {
			t.Errorf("after the end, %d wait", len(g.waiting))
		}
	})
}

// closing is a connection that can only be closed.
type closing struct {
	net.Conn
	f func()
}

func (c closing) Close() error { c.f(); return nil }

// TestGreetingStops: who comes after the end gets no turn, and who was closed for others as it gave up is counted in the next log line.
func TestGreetingStops(t *testing.T) {
	t.Parallel()
	g := newGreeting(1)
	g.logged = time.Now()
	g.count(5)
	g.leaving = 1
	if out, due := g.leave(&greeter{out: true}); !out || due != 6 {
		t.Errorf("%v, %d are due", out, due)
	}
	g.end()
	for range 30 {
		if _, err := g.enter(t.Context(), nil, time.Minute); !errors.Is(err, ErrClosed) {
			t.Fatalf("a turn after the end: %v", err)
		}
	}
}

// TestStopsSilently: a server that stops logs no connection that was about to introduce itself.
func TestStopsSilently(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	v := serve(t, ServerOptions{Options: Options{HelloTime: time.Hour}, GreetingMax: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ended := make(chan error, 2)
	for range cap(ended) {
		here, there := net.Pipe()
		defer there.Close()
		go func() { ended <- v.s.ServeConn(t.Context(), here) }()
	}
	for ctx := inTime(t); ; time.Sleep(time.Millisecond) {
		v.s.greeting.mu.Lock()
		n := len(v.s.greeting.list)
		v.s.greeting.mu.Unlock()
		if n == 2 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%d have their turn", n)
		}
	}
	if err := v.s.Shutdown(inTime(t)); err != nil {
		t.Error(err)
	}
	for range cap(ended) {
		if err := <-ended; err != nil || log.String() != "" {
			t.Errorf("%v; log: %s", err, log.String())
		}
	}
}
