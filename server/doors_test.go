package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset/engine"
	"bigset/server/door"
)

// echoing is a protocol that answers what comes, and may have reasons not to be asked.
type echoing struct {
	*door.Server
	reason atomic.Pointer[string]
}

// Execute implements door.Handler.
func (*echoing) Execute(_ context.Context, c *door.Conn, buf []byte) int {
	c.Out = append(c.Out, buf...)
	return len(buf)
}

// TooLong implements door.Handler.
func (*echoing) TooLong(*door.Conn) {}

// NotReady says why clients should not be sent to it.
func (e *echoing) NotReady() []string {
	if r := e.reason.Load(); r != nil {
		return []string{*r}
	}
	return nil
}

// echoDoor is a door for it. What is opened is in e.
func echoDoor(name string, e *echoing) *nodeDoor {
	return &nodeDoor{name: name, what: "the protocol of " + name, address: "127.0.0.1:0", flag: "--" + name,
		open: func(_ *engine.Store, l *door.Limits) (protocol, func() []engine.Metric, error) {
			s, err := door.New(func(*door.Conn) door.Handler { return e }, door.Options{Name: name, Limits: l})
			e.Server = s
			return e, func() []engine.Metric { return []engine.Metric{gauge("echoes_"+name, "echoes", 7)} }, err
		}}
}

// TestDoors has a node with three doors: all are served, share the limit on connections, are counted apart, and end together.
func TestDoors(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.MaxConnections = 3
	one, two := new(echoing), new(echoing)
	n, err := start(c, slog.New(slog.DiscardHandler), echoDoor("one", one), echoDoor("two", two))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop(context.Background())
	var open []net.Conn
	for i, d := range n.doors {
		nc, err := net.Dial("tcp", d.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Minute))
		request, want := "list\n", "START\nEND\n"
		if i > 0 {
			want = request
		}
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(nc, got); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", d.name, got, err)
		}
		open = append(open, nc)
	}
	late, err := net.Dial("tcp", n.doors[1].listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if got, err := io.ReadAll(late); err != nil || len(got) > 0 {
		t.Errorf("one connection too many: %q, %v", got, err)
	}
	for _, line := range []string{
		`door_connections{door="bloomd"} 1`, `door_connections{door="two"} 1`, `door_connections_refused{door="one"} 1`, `door_connections_refused{door="two"} 0`,
		`door_bytes_received{door="two"} 5`, `door_bytes_sent{door="bloomd"} 10`, "connections 1", "bytes_sent 10", "echoes_one 7", "echoes_two 7",
	} {
		wantAnswer(t, n, "GET", "/metrics", 200, "\nbigset_"+line+"\n")
	}
	wantAnswer(t, n, "GET", "/readyz", 200, "ready")
	reason := "joining"
	two.reason.Store(&reason)
	wantAnswer(t, n, "GET", "/readyz", 503, "the protocol of two: joining")
	two.reason.Store(nil)
	wantAnswer(t, n, "GET", "/readyz", 200, "ready")
	stopNode(t, n)
	for i, nc := range open {
		if got, err := io.ReadAll(nc); err != nil || len(got) > 0 {
			t.Errorf("door %d after the stop: %q, %v", i, got, err)
		}
	}
}

// TestDoorEnds has a listener that fails: the node says so where it is asked, and ends.
func TestDoorEnds(t *testing.T) {
	t.Parallel()
	n, err := start(testConfig(t), slog.New(slog.DiscardHandler), echoDoor("one", new(echoing)))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop(context.Background())
	n.doors[1].listener.Close()
	if err := n.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "the protocol of one ended") {
		t.Errorf("got %v", err)
	}
	wantAnswer(t, n, "GET", "/readyz", 503, "the protocol of one is served no more")
}

// TestDoorFails has a second door that can't listen, and one that can't be made: the first is given back.
func TestDoorFails(t *testing.T) {
	t.Parallel()
	first := startNode(t, testConfig(t))
	for _, cause := range []string{"taken", "refused"} {
		c, d := testConfig(t), echoDoor("one", new(echoing))
		c.Port = freePort(t)
		want := ErrListen
		if cause == "taken" {
			d.address = first.Addr().String()
		} else {
			want = errors.New("no certificates")
			d.open = func(*engine.Store, *door.Limits) (protocol, func() []engine.Metric, error) { return nil, nil, want }
		}
		if _, err := start(c, slog.New(slog.DiscardHandler), d); !errors.Is(err, want) {
			t.Errorf("%s: got %v", cause, err)
		}
		talk(t, startNode(t, c), "list", "START\nEND")
	}
}

// TestTimedDoors: a protocol that ends its connections itself has no count of idle and slow ones, which would be 0 whatever happens.
func TestTimedDoors(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.HTTP = "127.0.0.1:0"
	n := startNode(t, c)
	_, got := ask(t, n, "GET", "/metrics")
	for line, want := range map[string]bool{
		`door_connections_idle{door="bloomd"} 0`: true, `door_connections_slow{door="bloomd"} 0`: true, `door_handshakes_failed{door="http"} 0`: true,
		`door_connections_idle{door="http"}`: false, `door_connections_slow{door="http"}`: false,
	} {
		if strings.Contains(got, "\nbigset_"+line) != want {
			t.Errorf("%s: want %t", line, want)
		}
	}
}
