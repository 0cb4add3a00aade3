package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eager makes a server perform the first request that comes alone where it was read.
func (v *service) eager() *service {
	v.s.loneLeast = 0
	return v
}

// here returns how many requests were performed where they were read; one that was taken over may count twice.
func (v *service) here() (n uint64) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	for c := range v.s.conns {
		n += (c.busy.n.Load() + 1) / 2
	}
	return n
}

// dialEager connects a client whose calls read their own answers from the first one on.
func (v *service) dialEager(t testing.TB, o ClientOptions) *Client {
	t.Helper()
	o.Unwatched = true
	c := v.dial(t, o)
	c.least(0)
	if c.reading.peek == nil {
		t.Skip("this system can't tell what has arrived")
	}
	return c
}

func (c *Client) least(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading.least = n
}

// unread reports whether nobody reads the connection.
func (c *Client) unread() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reading.stopped && c.reading.call == nil
}

func echo(t testing.TB, c *Client) {
	t.Helper()
	body := fmt.Sprint("body ", rand.N(1000))
	if got, err := c.Do(inTime(t), Call{Verb: verbEcho, Body: []byte(body)}); err != nil || string(got) != body {
		t.Fatalf("%q came back as %q, %v", body, got, err)
	}
}

// rest calls until nobody reads the connection.
func (c *Client) rest(t testing.TB) {
	t.Helper()
	for ctx := inTime(t); ; time.Sleep(time.Millisecond) {
		echo(t, c)
		if c.unread() {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the reader never stops")
		}
	}
}

// TestLone: after loneLeast lone requests, and not before, a server performs them where it reads them, and a client reads its own answers.
func TestLone(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	v.s.loneLeast = loneLeast
	c := v.dial(t, ClientOptions{Options: Options{PingInterval: time.Hour}, Unwatched: true})
	c.least(loneLeast)
	for i := range loneLeast {
		if n := v.here(); n != 0 || c.unread() {
			t.Fatalf("after %d requests, %d were performed where they were read; nobody reads: %v", i, n, c.unread())
		}
		echo(t, c)
	}
	if c.reading.peek != nil {
		c.rest(t)
	}
	for ctx := inTime(t); v.here() < 3 && c.reading.peek != nil; echo(t, c) { // a busy machine can make a request look as if it had waited
		if ctx.Err() != nil {
			t.Fatal("no request was performed where it was read")
		}
	}
	watched, err := v.try(ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	for range 2 * loneLeast {
		echo(t, watched)
	}
	if watched.unread() {
		t.Error("nobody reads a connection that should be watched")
	}
}

// TestCameAlone: requests come alone only if no other is running, and if none has waited for the one before. Few that don't come alone change nothing
// for the others, and many do.
func TestCameAlone(t *testing.T) {
	t.Parallel()
	c := serverConn{s: &Server{loneLeast: loneLeast}, peek: &peek{}, segments: &segments{r: bufio.NewReader(strings.NewReader(""))}}
	counts := func(others, want int, here bool) {
		t.Helper()
		if c.came(others); c.lone != want {
			t.Errorf("%d came alone, and should be %d", c.lone, want)
		}
		if got := c.here(work{alone: &job{}}); got != here {
			t.Errorf("%d came alone, the last one beside %d others: performed where it was read: %v", c.lone, others, got)
		}
	}
	counts(0, 1, false)
	counts(1, 0, false)
	for range 10 * loneLeast {
		c.came(0)
	}
	counts(0, loneLeast+loneSpare, true)
	counts(1, loneLeast+loneSpare-besideCost, false)
	counts(0, loneLeast+loneSpare-besideCost+1, true)

	// performed says whether a request is performed where it was read. If it is, its handler waits until another one has arrived.
	performed := make(chan bool)
	var conn atomic.Pointer[serverConn]
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, _ func([]byte) error) ([]byte, error) {
		if r.Verb == verbWait {
			c := conn.Load()
			here := c.busy.n.Load()%2 == 1
			performed <- here
			for ctx := inTime(t); here && !c.peek.arrived() && ctx.Err() == nil; {
				time.Sleep(50 * time.Microsecond)
			}
			if here {
				time.Sleep(longTime)
			}
		}
		return r.Body, nil
	}})
	v.s.loneLeast = 2
	v.s.guard.time = time.Hour // nothing is taken over
	one := v.dial(t, ClientOptions{Options: Options{PingInterval: time.Hour}})
	echo(t, one)
	v.s.mu.Lock()
	for c := range v.s.conns {
		conn.Store(c)
	}
	v.s.mu.Unlock()
	if conn.Load().peek == nil {
		t.Skip("this system can't tell what has arrived")
	}
	// round makes a request wait for another, if that is performed where it was read.
	round := func() (here bool) {
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { _, _ = one.Do(inTime(t), Call{Verb: verbWait}) })
		here = <-performed
		all.Go(func() { echo(t, one) })
		return here
	}
	for ctx := inTime(t); !round(); {
		if ctx.Err() != nil {
			t.Fatal("no request was performed where it was read")
		}
		for range 4 * besideCost {
			echo(t, one)
		}
	}
	for rounds := 0; round(); rounds++ {
		if rounds == loneSpare { // each has taken two more out of the count than it has added
			t.Fatal("requests that had waited for others were performed where they were read, one after another")
		}
	}
}

// waitingWrites is a connection that counts what is written by a goroutine that may wait. What is written at once goes to its socket.
type waitingWrites struct {
	*net.TCPConn
	n atomic.Int64
}

func (w *waitingWrites) Write(b []byte) (int, error) {
	w.n.Add(1)
	return w.TCPConn.Write(b)
}

// TestFewAtOnce: requests and answers are written at once while few calls are in progress on their connection, and not while many are.
func TestFewAtOnce(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near, far := &waitingWrites{TCPConn: nc.(*net.TCPConn)}, &waitingWrites{TCPConn: other.(*net.TCPConn)}
	go func() { _ = v.s.ServeConn(context.Background(), far) }()
	c, err := NewClient(inTime(t), near, ClientOptions{Options: Options{PingInterval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.w.now == nil {
		t.Skip("this system can't write without waiting")
	}
	// atOnce reports whether a request and its answer are written at once.
	atOnce := func() (request, answer bool) {
		n, m := near.n.Load(), far.n.Load()
		echo(t, c)
		return near.n.Load() == n, far.n.Load() == m
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer close(v.gate)
	for others := range fewMost + 2 {
		if others > 0 {
			all.Go(func() { _, _ = c.Do(inTime(t), Call{Verb: verbWait}) })
			for ctx := inTime(t); v.inside.Load() < int64(others) && ctx.Err() == nil; {
				time.Sleep(time.Millisecond)
			}
		}
		if others >= fewMost {
			for range 20 {
				if request, answer := atOnce(); request || answer {
					t.Fatalf("beside %d others, the request was written at once: %v, the answer: %v", others, request, answer)
				}
			}
			continue
		}
		var requests, answers bool // the goroutine that writes may have been busy with what it wrote last
		for ctx := inTime(t); !requests || !answers; {
			request, answer := atOnce()
			requests, answers = requests || request, answers || answer
			if ctx.Err() != nil {
				t.Fatalf("beside %d others, a request was written at once: %v, an answer: %v", others, requests, answers)
			}
		}
	}
}

// TestTakenOverWhilePerformed: while a request that was performed where it was read waits, its connection is read: pings are answered, other requests are
// done, and the caller can give up.
func TestTakenOverWhilePerformed(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ServerOptions{"each": {}, "together": {Together: map[Verb]func([]*Task){}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := serve(t, o)
			if o.Together != nil {
				o.Together[verbWait] = func(all []*Task) {
					for _, task := range all {
						task.Done(v.handle(task.Context, task.Request, nil))
					}
				}
			}
			v.eager()
			c := v.dial(t, ClientOptions{Options: Options{PingInterval: 20 * time.Millisecond, SilenceMax: time.Minute}})
			whole := inTime(t)
			for rounds := 0; rounds < 3; { // a request that a ping arrives with, or that begins as the one before ends, is performed elsewhere
				if whole.Err() != nil {
					t.Fatalf("%d requests were performed where they were read", rounds)
				}
				ctx, cancel := context.WithCancel(inTime(t))
				ended := make(chan error, 1)
				before := v.here()
				go func() {
					_, err := c.Do(ctx, Call{Verb: verbWait})
					ended <- err
				}()
				for v.inside.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				if v.here() > before {
					rounds++
				}
				echo(t, c)
				cancel()
				if err := <-v.gone; !errors.Is(err, context.Canceled) {
					t.Errorf("its handler learned %v", err)
				}
				if err := <-ended; !errors.Is(err, ErrLost) {
					t.Errorf("it ended with %v", err)
				}
				echo(t, c)
			}
		})
	}
}

// TestGuardForgets: the guard looks at no connection that is idle, and at each that is used again.
func TestGuardForgets(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{}).eager()
	c := v.dial(t, ClientOptions{Options: Options{PingInterval: time.Hour}})
	looked := func() int {
		v.s.guard.mu.Lock()
		defer v.s.guard.mu.Unlock()
		return len(v.s.guard.conns)
	}
	for range 3 {
		for ctx := inTime(t); looked() != 1; echo(t, c) {
			if ctx.Err() != nil {
				t.Fatal("the guard does not look")
			}
		}
		for ctx := inTime(t); looked() != 0; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("the guard looks for ever")
			}
		}
	}
}

// TestEndsWhilePerformed: a connection that ends while its request is performed where it was read ends the request, and a server that
// stops waits for it.
func TestEndsWhilePerformed(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{}).eager()
	ended := make(chan error, 1)
	begin := func() *Client {
		c := v.dial(t, ClientOptions{})
		go func() {
			_, err := c.Do(inTime(t), Call{Verb: verbWait})
			ended <- err
		}()
		for v.inside.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		return c
	}
	_ = begin().Close()
	if err := <-v.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("its handler learned %v", err)
	}
	if err := <-ended; !errors.Is(err, ErrLost) {
		t.Errorf("it ended with %v", err)
	}
	begin()
	stopped := make(chan error, 1)
	go func() { stopped <- v.s.Shutdown(inTime(t)) }()
	select {
	case err := <-stopped:
		t.Errorf("it stopped with %v while a request was running", err)
	case <-time.After(4 * guardTime):
	}
	close(v.gate)
	if err := <-ended; err != nil {
		t.Errorf("a request while the server stopped: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestDeaf: a request that ignores the end of its context keeps neither the end of its connection nor that of its server.
func TestDeaf(t *testing.T) {
	t.Parallel()
	inside, let := make(chan struct{}), make(chan struct{})
	defer close(let)
	s := NewServer(ServerOptions{Log: quiet, Handler: func(context.Context, *Request, func([]byte) error) ([]byte, error) {
		inside <- struct{}{}
		<-let
		return nil, nil
	}})
	s.loneLeast = 0
	for _, end := range []func(net.Conn){
		func(nc net.Conn) { _ = nc.Close() },
		func(net.Conn) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if s.Shutdown(ctx) == nil {
				t.Error("it stopped although requests were running")
			}
		},
	} {
		near, far := tcpPipe(t)
		served := make(chan error, 1)
		go func() { served <- s.ServeConn(context.Background(), far) }()
		c, err := NewClient(inTime(t), near, ClientOptions{Options: Options{PingInterval: time.Hour}}) // otherwise the client ends it in the end
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.Do(context.Background(), Call{Verb: verbWait}) }()
		<-inside
		end(near)
		select {
		case <-served:
		case <-inTime(t).Done():
			t.Fatal("the connection does not end before its request")
		}
		_ = c.Close()
	}
}

// TestUnreadConnection: a client whose connection nobody reads meets whatever has happened to it before it sends a request.
func TestUnreadConnection(t *testing.T) {
	t.Parallel()
	hour := Options{PingInterval: time.Hour}
	for name, call := range map[string]func(*Client) error{
		"Do": func(c *Client) error {
			_, err := c.Do(inTime(t), Call{Verb: verbEcho})
			return err
		},
		"Stream": func(c *Client) (err error) {
			for _, err = range c.Stream(inTime(t), Call{Verb: verbCount}) {
			}
			return err
		},
		"Send": func(c *Client) error {
			ended := make(chan error, 2)
			c.Send(inTime(t), Call{Verb: verbEcho}, func(_ []byte, err error) { ended <- err })
			err := <-ended
			if time.Sleep(10 * time.Millisecond); len(ended) > 0 {
				t.Error("done was called twice")
			}
			return err
		},
	} {
		t.Run("closed before "+name, func(t *testing.T) {
			t.Parallel()
			v := serve(t, ServerOptions{})
			c := v.dialEager(t, ClientOptions{Options: hour})
			c.rest(t)
			v.s.Cut(func(*Remote) bool { return true })
			for ctx := inTime(t); !c.reading.peek.arrived() && ctx.Err() == nil; {
				time.Sleep(time.Millisecond)
			}
			if err := call(c); !errors.Is(err, ErrNotSent) {
				t.Errorf("a call over a closed connection: %v", err)
			}
			<-c.Done()
		})
	}
	t.Run("stops", func(t *testing.T) {
		t.Parallel()
		v := serve(t, ServerOptions{})
		c := v.dialEager(t, ClientOptions{Options: hour})
		c.rest(t)
		v.s.mu.Lock()
		for conn := range v.s.conns {
			conn.drain()
		}
		v.s.mu.Unlock()
		for ctx := inTime(t); !c.reading.peek.arrived() && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		before := v.served.Load()
		if _, err := c.Do(inTime(t), Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || v.served.Load() != before {
			t.Errorf("a call to a server that stops: %v; %d requests more were served", err, v.served.Load()-before)
		}
	})
	t.Run("watched soon", func(t *testing.T) {
		t.Parallel()
		v := serve(t, ServerOptions{})
		c := v.dialEager(t, ClientOptions{Options: Options{PingInterval: 10 * time.Millisecond, SilenceMax: time.Hour}})
		c.rest(t)
		ctx := inTime(t)
		for heard := c.heard.Load(); c.heard.Load() == heard; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("nobody reads the answer to a ping")
			}
		}
		c.rest(t)
		v.s.Cut(func(*Remote) bool { return true })
		select {
		case <-c.Done():
		case <-inTime(t).Done():
			t.Error("nobody noticed the end of the connection")
		}
	})
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		v := serve(t, ServerOptions{})
		c := v.dialEager(t, ClientOptions{Options: hour})
		for range 3 {
			c.rest(t)
			n := 0
			for _, err := range c.Stream(inTime(t), Call{Verb: verbCount, Body: make([]byte, 10)}) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			if n != 11 {
				t.Errorf("%d parts", n)
			}
			c.rest(t)
			got := make(chan error, 1)
			c.Send(inTime(t), Call{Verb: verbEcho}, func(_ []byte, err error) { got <- err })
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStopsReading: a call that reads its own answer ends when its context does, and leaves the reading to calls that have begun beside it.
func TestStopsReading(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	c := v.dialEager(t, ClientOptions{Options: Options{PingInterval: time.Hour}})
	for range 20 {
		c.rest(t)
		ctx, cancel := context.WithCancel(inTime(t))
		ended := make(chan error, 1)
		go func() {
			_, err := c.Do(ctx, Call{Verb: verbWait})
			ended <- err
		}()
		for v.inside.Load() != 1 {
			time.Sleep(100 * time.Microsecond)
		}
		echo(t, c) // the first one reads this answer
		other := make(chan error, 1)
		go func() {
			_, err := c.Do(inTime(t), Call{Verb: verbWait})
			other <- err
		}()
		for v.inside.Load() != 2 {
			time.Sleep(100 * time.Microsecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
		<-v.gone
		v.gate <- struct{}{}
		if err := <-other; err != nil {
			t.Fatalf("another call: %v", err)
		}
	}
}

// TestStopsWithinSegment: a call ends with its context also when a part of a segment has arrived, and the rest is read later.
func TestStopsWithinSegment(t *testing.T) {
	t.Parallel()
	near, far := tcpPipe(t)
	o := Options{}.withDefaults()
	go func() {
		_, _ = far.Write(appendSegment(o.preamble(), kindHello, (&hello{role: RoleNode, purpose: ForRequests}).append(nil)))
	}()
	c, err := NewClient(inTime(t), near, ClientOptions{Options: Options{PingInterval: time.Hour}, Unwatched: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.least(0); c.reading.peek == nil {
		t.Skip("this system can't tell what has arrived")
	}
	s := &segments{r: bufio.NewReader(far)}
	if _, err := o.speaks(s.r); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.whole(); err != nil {
		t.Fatal(err)
	}
	// answer makes a call, and answers in two pieces. It returns what the call ended with, and whether that was between the two.
	answer := func(ctx context.Context, pause func(ended <-chan error) error) error {
		ended := make(chan error, 1)
		go func() {
			_, err := c.Do(ctx, Call{Verb: verbEcho})
			ended <- err
		}()
		h, _, err := s.whole()
		for ; err == nil && h.kind == kindCancel; h, _, err = s.whole() {
		}
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{q: newQueue(1 << 20)}
		w.segment((&message{kind: kindAnswer, id: h.id, body: []byte("answer")}).withLength())
		cut := rand.N(len(w.buf))
		_, _ = far.Write(w.buf[:cut])
		err = pause(ended)
		_, _ = far.Write(w.buf[cut:])
		if err == nil {
			err = <-ended
		}
		return err
	}
	for range 20 {
		for ctx := inTime(t); !c.unread() && ctx.Err() == nil; {
			if err := answer(inTime(t), func(<-chan error) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(inTime(t))
		err := answer(ctx, func(ended <-chan error) error {
			time.Sleep(time.Duration(rand.N(300)) * time.Microsecond)
			cancel()
			select {
			case err := <-ended:
				return err
			case <-inTime(t).Done():
				return errors.New("it has not ended")
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("it ended with %v", err)
		}
	}
}

// tcpPipe returns both ends of a connection.
func tcpPipe(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial("tcp", ln.Addr().String()); err == nil {
		far, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

// TestLoneBesideOthers: callers come and go, give up, and wait, over TCP and TLS. Each gets its own answer, and none waits for another.
func TestLoneBesideOthers(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("tls=", encrypted), func(t *testing.T) {
			t.Parallel()
			v := serve(t, ServerOptions{Together: map[Verb]func([]*Task){verbPeer: func(all []*Task) {
				for _, task := range all {
					go task.Done(task.Request.Body, nil)
				}
			}}}).eager()
			near, far := tcpPipe(t)
			if encrypted {
				h := httptest.NewTLSServer(nil) // for its certificate
				defer h.Close()
				near = tls.Client(near, &tls.Config{InsecureSkipVerify: true})
				far = tls.Server(far, &tls.Config{Certificates: h.TLS.Certificates})
			}
			served := make(chan error, 1)
			go func() { served <- v.s.ServeConn(context.Background(), far) }()
			c, err := NewClient(inTime(t), near, ClientOptions{Role: RoleNode, Name: "n", Options: Options{PingInterval: 3 * time.Millisecond, SilenceMax: 30 * time.Second}, Unwatched: true})
			if err != nil {
				t.Fatal(err)
			}
			c.least(2)
			var given atomic.Int64
			for range 12 {
				var all sync.WaitGroup
				for range 1 + rand.N(4) {
					all.Go(func() {
						for range rand.N(60) {
							ctx, cancel := inTime(t), func() {}
							if rand.N(4) == 0 {
								ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.N(400))*time.Microsecond)
							}
							verb := []Verb{verbEcho, verbPeer, verbWait}[rand.N(3)]
							if verb == verbWait && ctx.Done() == nil || verb == verbWait && rand.N(4) > 0 {
								verb = verbEcho
							}
							if verb == verbWait {
								cancel()
								ctx, cancel = context.WithTimeout(inTime(t), time.Duration(rand.N(12))*time.Millisecond)
							}
							body := fmt.Sprint(rand.Uint64())
							got, err := c.Do(ctx, Call{Verb: verb, Body: []byte(body)})
							switch {
							case err == nil && verb != verbWait && string(got) != body:
								t.Errorf("%s came back as %s", body, got)
							case err != nil && verb != verbWait && ctx.Err() == nil && !errors.Is(err, ErrNotSent): // ErrNotSent: its time was over before it began
								t.Errorf("verb %d: %v", verb, err)
							case err != nil:
								given.Add(1)
							}
							cancel()
						}
					})
				}
				all.Wait()
				for len(v.gone) > 0 {
					<-v.gone
				}
			}
			if err := c.Err(); err != nil {
				t.Errorf("the connection has ended: %v", err)
			}
			if given.Load() == 0 {
				t.Error("no call was given up")
			}
			_ = c.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
