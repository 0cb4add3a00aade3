package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// peer is a connection as a client has it.
type peer struct {
	net.Conn
	in *bufio.Reader
}

// start serves a store and filters in memory, and returns a way to connect.
func start(t *testing.T, o Options) (dial func() *peer, s *Server) {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return serve(t, alone.New(store), o)
}

// serve serves a backend.
func serve(t *testing.T, b door.Backend, o Options) (dial func() *peer, s *Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, b, o, ln)
}

// serveOn serves a backend on a listener.
func serveOn(t *testing.T, b door.Backend, o Options, ln net.Listener) (dial func() *peer, s *Server) {
	t.Helper()
	s, err := New(b, bloomdtest.NewMemory(), o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func() *peer {
		t.Helper()
		return dialPeer(t, "tcp", ln.Addr().String())
	}, s
}

func dialPeer(t *testing.T, network, address string) *peer {
	t.Helper()
	nc, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(5 * time.Minute))
	return &peer{nc, bufio.NewReader(nc)}
}

// request returns a command as clients send it.
func request[T []byte | string](args ...T) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = append(fmt.Appendf(b, "$%d\r\n", len(a)), a...)
		b = append(b, '\r', '\n')
	}
	return b
}

// do sends a command and returns the reply, as reply shows it.
func (p *peer) do(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := p.Write(request(args...)); err != nil {
		t.Fatal(err)
	}
	return p.read(t)
}

func (p *peer) read(t *testing.T) string {
	t.Helper()
	got, err := readReply(p.in)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

var errReply = errors.New("not a reply")

// readReply reads a reply and shows it on a line: what is before an element's bytes is its type. Sets are in order.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return line, err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', '-', ':', ',', '#', '_':
		return string(kind) + rest, nil
	case '$', '=':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "nil", err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return "", err
		}
		return string(kind) + strconv.Quote(string(b[:n])), nil
	case '*', '~', '%':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "nil array", err
		}
		if kind == '%' {
			n *= 2
		}
		list := make([]string, n)
		for i := range list {
			if list[i], err = readReply(in); err != nil {
				return "", err
			}
		}
		if kind == '~' {
			slices.Sort(list)
		}
		return string(kind) + "[" + strings.Join(list, " ") + "]", nil
	}
	return "", fmt.Errorf("%w: %.80q", errReply, line)
}
