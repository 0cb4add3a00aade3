package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"bigset/client"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/api"
	"bigset/server/wire"
)

// open returns a store in memory, and the address of a node that serves it.
func open(t testing.TB) (*engine.Store, string) {
	s, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	srv := wire.NewServer(wire.ServerOptions{Options: wire.Options{Errors: api.Errors{}}, Handler: api.Handler(alone.New(s)), Name: "n"})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := errors.Join(srv.Shutdown(context.Background()), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

func dial(t testing.TB, addrs ...string) *client.Client {
	c, err := client.Open(client.Options{Addrs: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestSets(t *testing.T) {
	t.Parallel()
	_, addr := open(t)
	c := dial(t, "127.0.0.1:1", addr) // nobody is at the first
	ctx := t.Context()
	if _, err := c.Add(ctx, "friends", "paul", "ringo", "george"); err != nil {
		t.Fatal(err)
	}
	if w, err := c.Remove(ctx, "friends", "ringo", "yoko"); err != nil || w.Removed != 1 {
		t.Errorf("remove: %+v, %v", w, err)
	}
	if has, err := c.Contains(ctx, "friends", "paul"); err != nil || !has {
		t.Errorf("paul: %v, %v", has, err)
	}
	if n, err := c.Count(ctx, client.Read{Set: []byte("friends"), Prefix: []byte("g")}); err != nil || n.Elements != 1 {
		t.Errorf("count: %+v, %v", n, err)
	}
	list := func(r client.Read) (text string, after client.Token) {
		r.Set = []byte("friends")
		for p, err := range c.Read(ctx, r) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Elements {
				text += string(e.Name) + " "
			}
			after = p.After
		}
		return text, after
	}
	one, after := list(client.Read{Limit: 1})
	two, end := list(client.Read{Limit: 1, After: after})
	if one != "george " || two != "paul " || len(end) > 0 {
		t.Errorf("pages %q and %q, then %q", one, two, end)
	}
	seen, err := c.Context(ctx, []byte("friends"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(ctx, "friends", "john"); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Drop(ctx, client.Drop{Set: []byte("friends"), Context: seen}); err != nil || left != 1 {
		t.Errorf("a drop of what was seen: %d left, %v", left, err)
	}
	var names []string
	for n, err := range c.Names(ctx, false) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, string(n.Set))
	}
	if fmt.Sprint(names) != "[friends]" {
		t.Errorf("names %v", names)
	}
}

// lossy loses requests and answers.
type lossy struct {
	to  wire.Caller
	rng *rand.Rand
}

func (l *lossy) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	switch l.rng.IntN(4) {
	case 0:
		return nil, fmt.Errorf("%w: lost request", wire.ErrLost)
	case 1:
		_, _ = l.to.Do(ctx, c)
		return nil, fmt.Errorf("%w: lost answer", wire.ErrLost)
	case 2:
		return nil, fmt.Errorf("%w: no way", wire.ErrNotSent)
	}
	return l.to.Do(ctx, c)
}

func (l *lossy) Stream(ctx context.Context, c wire.Call) iter.Seq2[[]byte, error] {
	return l.to.Stream(ctx, c)
}

// Whatever is lost on the way, an add is one event.
func TestOnce(t *testing.T) {
	t.Parallel()
	s, addr := open(t)
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.NewClient(t.Context(), nc, wire.ClientOptions{Options: wire.Options{Errors: api.Errors{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	c := client.Over(&lossy{w, rng}, &lossy{w, rng})
	const n = 60
	for i := range n {
		if _, err := c.Add(t.Context(), "s", fmt.Sprint("e", i)); err != nil {
			t.Fatal(err)
		}
	}
	for info, err := range s.Sets(t.Context(), true) {
		if err != nil || info.Seen != n || info.Live != n {
			t.Errorf("%d events and %d live dots of %d adds, %v", info.Seen, info.Live, n, err)
		}
	}
}

type dead struct{ err error }

func (d dead) Do(context.Context, wire.Call) ([]byte, error) { return nil, d.err }
func (d dead) Stream(context.Context, wire.Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, d.err) }
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Over(dead{wire.ErrNotSent}).Add(ctx, "s", "e"); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
		t.Errorf("nobody was reached: %v", err)
	}
	_, err := client.Over(dead{wire.ErrLost}).Write(ctx, client.Write{Set: []byte("s"), Request: []byte("id")})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || string(unknown.Request) != "id" || !errors.Is(err, client.ErrUnknown) {
		t.Errorf("an answer that is lost: %v", err)
	}
	refused := fmt.Errorf("%w: by the other side", wire.ErrRefused)
	if _, err := client.Over(dead{refused}).Add(t.Context(), "s", "e"); !errors.Is(err, wire.ErrRefused) {
		t.Errorf("a refusal: %v", err)
	}
	for _, o := range []client.Options{{}, {Addrs: []string{"nonsense"}}, {Addrs: []string{"10.0.0.1:8690"}}} {
		if _, err := client.Open(o); !errors.Is(err, client.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := client.Open(client.Options{Addrs: []string{"10.0.0.1:8690"}}); !strings.Contains(err.Error(), "there is no TLS") {
		t.Errorf("plaintext: %v", err)
	}
}
