package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"bigset/keyscheme"
	"bigset/server/api"
	"bigset/server/door"
	"bigset/server/wire"
)

// manyWriter answers writes of the set "no" with an error, and counts the others.
type manyWriter struct {
	mu     sync.Mutex
	writes int
	most   int // in one call
}

func (m *manyWriter) WriteMany(calls []door.WriteCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = max(m.most, len(calls))
	for i := range calls {
		if string(calls[i].Write.Set) == "no" {
			calls[i].Done(door.Result{}, door.ErrUnavailable)
			continue
		}
		m.writes++
		calls[i].Done(door.Result{Acked: 2}, nil)
	}
}

// gathering is a connection that sends what was written to it at once, some time after the first byte.
type gathering struct {
	net.Conn
	mu   sync.Mutex
	held []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		time.AfterFunc(30*time.Millisecond, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			_, _ = g.Conn.Write(g.held) // an error ends the calls, too
			g.held = nil
		})
	}
	g.held = append(g.held, p...)
	return len(p), nil
}

// TestWrites: each of the writes that are answered together is decoded, refused and answered by itself.
func TestWrites(t *testing.T) {
	t.Parallel()
	b := &manyWriter{}
	s := wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: api.Errors{}}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Handler: func(context.Context, *wire.Request, func([]byte) error) ([]byte, error) {
			return nil, errors.New("not together")
		},
		Together: map[wire.Verb]func([]*wire.Task){api.VerbWrite: api.Writes(b)}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	near, far := net.Pipe()
	go func() { _ = s.ServeConn(ctx, far) }()
	node, err := wire.NewClient(ctx, &gathering{Conn: near}, wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}}, Role: wire.RoleNode, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	body := func(set string) []byte {
		return api.AppendWrite(nil, &door.Write{Set: []byte(set), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}})
	}
	calls := map[string]struct {
		call wire.Call
		want error
	}{
		"done":    {wire.Call{Body: body("s")}, nil},
		"again":   {wire.Call{Body: body("s")}, nil},
		"refused": {wire.Call{Body: body("no")}, door.ErrUnavailable},
		"cut":     {wire.Call{Body: body("s")[:5]}, api.ErrBody},
		"epoch":   {wire.Call{Body: body("s"), Epoch: 7}, api.ErrBody},
	}
	rounds := 0
	for ; b.most < 2 && rounds < 20; rounds++ { // on a busy machine they may come one by one
		var all sync.WaitGroup
		for what, tt := range calls {
			all.Go(func() {
				tt.call.Verb = api.VerbWrite
				answer, err := node.Do(ctx, tt.call)
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", what, err, tt.want)
				}
				if err != nil {
					return
				}
				if w, err := api.DecodeResult(answer); err != nil || w.Acked != 2 {
					t.Errorf("%s: %+v, %v", what, w, err)
				}
			})
		}
		all.Wait()
	}
	if b.writes != 2*rounds || b.most < 2 {
		t.Errorf("%d writes reached the backend in %d rounds, at most %d together", b.writes, rounds, b.most)
	}
}
