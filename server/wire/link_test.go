package wire

import (
	"context"
	"maps"
	"net"
	"testing"
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
