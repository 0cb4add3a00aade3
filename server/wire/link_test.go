package wire

import (
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCopiesApart: copies have a connection of their own, which no other request uses and which is opened when it is needed.
func TestCopiesApart(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{Handler: func(_ context.Context, r *Request, send func([]byte) error) ([]byte, error) {
		used := []byte{byte(r.From.Purpose)}
		if r.Verb == verbCount {
			return nil, send(used)
		}
		return used, nil
	}})
	connections := func() map[Purpose]int {
		open := map[Purpose]int{}
		v.s.Each(func(r *Remote) { open[r.Purpose]++ })
		return open
	}
	l := NewLink(LinkOptions{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", v.ln.Addr().String())
		},
		Client: func() ClientOptions { return ClientOptions{Role: RoleNode, Name: "n"} }})
	defer l.Close()
	used := func(p Priority, got []byte, err error) {
		t.Helper()
		want := ForRequests
		if p == PriorityCopy {
			want = ForCopies
		}
		if err != nil || len(got) != 1 || Purpose(got[0]) != want {
			t.Errorf("priority %d used the connections for %v, %v, want %v", p, got, err, want)
		}
	}
	ctx := inTime(t)
	do := func(p Priority) {
		got, err := l.Do(ctx, Call{Verb: verbPeer, Priority: p})
		used(p, got, err)
	}
	do(PriorityCopy)
	if open := connections(); l.Up() || !maps.Equal(open, map[Purpose]int{ForCopies: 1}) {
		t.Errorf("after a copy the connections are %v, and requests have one: %v", open, l.Up())
	}
	l.Start()
	eventually(t, "all connections", func() bool { return maps.Equal(connections(), map[Purpose]int{ForRequests: 2, ForCopies: 1}) })
	for range 3 { // they take turns
		for p := range priorities {
			do(Priority(p))
			parts := 0
			for got, err := range l.Stream(ctx, Call{Verb: verbCount, Priority: Priority(p)}) {
				if parts++; len(got) > 0 || err != nil {
					used(Priority(p), got, err)
				}
			}
			if parts < 1 {
				t.Errorf("priority %d: no parts", p)
			}
		}
		answered := make(chan []byte, 1)
		eventually(t, "a connection for requests", func() bool {
			return l.Send(ctx, Call{Verb: verbPeer}, func(got []byte, err error) {
				used(PriorityQuorum, got, err)
				answered <- got
			})
		})
		<-answered
	}
	if open := connections(); !maps.Equal(open, map[Purpose]int{ForRequests: 2, ForCopies: 1}) {
		t.Errorf("at the end the connections are %v", open)
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var address string
	var cause error
	set := func(a string, err error) {
		mu.Lock()
		defer mu.Unlock()
		address, cause = a, err
	}
	l := NewLink(LinkOptions{DialTime: time.Minute, PauseLeast: time.Millisecond, PauseMost: 5 * time.Millisecond, Dial: func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		a, err := address, cause
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", a)
	}})
	defer l.Close()
	ctx := inTime(t)
	set("", errors.New("no such host"))
	if _, err := l.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "no such host") {
		t.Fatalf("a link to nowhere: %v", err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if ctx.Err() != nil {
				t.Fatal(what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	v := serve(t, ServerOptions{})
	set(v.ln.Addr().String(), nil)
	until("the link did not come up", l.Up)
	for _, p := range []Priority{PriorityQuorum, PriorityRead} {
		if got, err := l.Do(ctx, Call{Verb: verbEcho, Priority: p, Body: []byte("x")}); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	n := 0
	for _, err := range l.Stream(ctx, Call{Verb: verbCount, Body: make([]byte, 5)}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d parts", n)
	}
	w := serve(t, ServerOptions{})
	set(w.ln.Addr().String(), nil)
	v.s.Cut(func(*Remote) bool { return true })
	until("requests did not find the other server", func() bool {
		_, err := l.Do(ctx, Call{Verb: verbEcho})
		return err == nil && w.served.Load() > 0
	})
	l.Close()
	if _, err := l.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrNotSent) {
		t.Errorf("a closed link: %v", err)
	}
	fresh := NewLink(LinkOptions{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("never") }})
	fresh.Close()
	if _, err := fresh.Do(ctx, Call{Verb: verbEcho}); !errors.Is(err, ErrClosed) {
		t.Errorf("a link closed before its first call: %v", err)
	}
}

// TestLinkWakes: a link that pauses between two tries is tried at once when it is woken.
func TestLinkWakes(t *testing.T) {
	t.Parallel()
	v := serve(t, ServerOptions{})
	var dials atomic.Int32
	l := NewLink(LinkOptions{PauseLeast: time.Hour, PauseMost: time.Hour, Dial: func(ctx context.Context) (net.Conn, error) {
		if dials.Add(1) <= 2 {
			return nil, errors.New("not yet")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", v.ln.Addr().String())
	}})
	defer l.Close()
	l.Start()
	for ctx := inTime(t); !l.Up(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d dials", dials.Load())
		}
		if dials.Load() >= 2 {
			l.Wake()
		}
	}
}
