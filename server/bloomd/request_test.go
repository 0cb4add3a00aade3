package bloomd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/door"
)

// FuzzParse has any line parsed: what is refused has an answer that is one line, what is not has what its command needs, within the line.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"", " ", "set f k", "s f ", "multi f  a", "create f capacity=20000 prob=0.01 in_memory=1", "create f =", "list a b", "flush", "info f", "drop f ",
		"create f prob=nan", "create \x00", "check f \x00", "create f capacity=27000000000",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		r := parse(line)
		switch {
		case !bytes.Equal(before, line):
			t.Fatalf("%q became %q", before, line)
		case r.refusal != "":
			if !strings.HasPrefix(r.refusal, "Client Error: ") || strings.IndexByte(r.refusal, '\n') != len(r.refusal)-1 {
				t.Fatalf("%q: refused by %q", line, r.refusal)
			}
			return
		case r.command == cmdUnknown:
			t.Fatalf("%q is neither a command nor refused", line)
		case r.command <= cmdBulk && len(r.rest) == 0:
			t.Fatalf("%q: no key", line)
		case r.command == cmdCreate && !goodName(r.name):
			t.Fatalf("%q: name %q", line, r.name)
		case r.command != cmdList && bytes.IndexByte(r.name, ' ') >= 0:
			t.Fatalf("%q: name %q", line, r.name)
		}
		o := bloomslice.DefaultOptions()
		if r.options.Capacity != nil {
			o.Capacity = *r.options.Capacity
		}
		if r.options.Probability != nil {
			o.Probability = *r.options.Probability
		}
		// Capacity and probability are looked at one by one. A filter that is too large by both together is refused when it is made.
		bytes := -float64(o.Capacity) * math.Log(o.Probability) / (8 * math.Ln2 * math.Ln2)
		if err := o.Validate(); err != nil && bytes < bloomslice.LayerBytesMax/2 {
			t.Fatalf("%q: %v", line, err)
		}
	})
}

// nowhere has one filter, which has no key.
type nowhere struct{}

func (nowhere) Find(_ context.Context, name []byte) (door.Filter, error) {
	if string(name) == "f" {
		return nowhere{}, nil
	}
	return nil, bigset.ErrNoFilter
}
func (nowhere) FindsWait() bool { return false }

func (nowhere) Create(context.Context, []byte, door.FilterCreate) (bool, error) { return false, nil }
func (nowhere) Drop(context.Context, []byte) error                              { return bigset.ErrNoFilter }
func (nowhere) Clear(context.Context, []byte) error                             { return bigset.ErrFilterOpen }
func (nowhere) Close(context.Context, []byte) error                             { return nil }
func (nowhere) Flush(context.Context, []byte) error                             { return io.ErrUnexpectedEOF }
func (nowhere) FlushAll(context.Context) error                                  { return nil }
func (nowhere) List(context.Context, door.FilterListing) ([]door.FilterInfo, error) {
	return []door.FilterInfo{{Name: "f"}}, nil
}
func (nowhere) Info(context.Context, bool) (door.FilterInfo, error) { return door.FilterInfo{}, nil }
func (nowhere) Check(context.Context, [][]byte, []bool) error       { return nil }
func (nowhere) Set(context.Context, [][]byte, []bool) error         { return nil }
func (nowhere) CheckNow([][]byte, []bool) (int, error)              { return 0, nil }
func (nowhere) ChecksWait() bool                                    { return false }
func (nowhere) Pieces() int                                         { return 1 }
func (nowhere) SetsWait() bool                                      { return false }
func (nowhere) SetNow(keys [][]byte, _ []bool) (int, error)         { return len(keys), nil }

// bytesConn is a client that sends some bytes, a few at a time, and keeps the answers.
type bytesConn struct {
	net.Conn
	send   []byte
	packet int
	got    bytes.Buffer
	writes int
	closed chan struct{}
}

func (c *bytesConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// serve has a server answer the client.
func (c *bytesConn) serve(t *testing.T, o door.Options) {
	t.Helper()
	o.Log, o.Loops = noLog, -1
	s, err := New(nowhere{}, o)
	if err != nil {
		t.Fatal(err)
	}
	c.closed = make(chan struct{})
	if err := s.Serve(context.Background(), &onlyConn{c: c}); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// onlyConn is a listener that accepts one connection, and fails when that has ended.
type onlyConn struct {
	c        *bytesConn
	accepted bool
}

func (l *onlyConn) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.c, nil
	}
	<-l.c.closed
	return nil, net.ErrClosed
}

func (l *onlyConn) Close() error   { return nil }
func (l *onlyConn) Addr() net.Addr { return nil }

// Close is called twice where the server cuts off what has ended.
func (c *bytesConn) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if len(c.send) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.send[:min(c.packet, len(c.send))])
	c.send = c.send[n:]
	return n, nil
}

func (c *bytesConn) Write(p []byte) (int, error) {
	c.writes++
	return c.got.Write(p)
}

func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// countAnswers returns how many answers there are; -1 where they do not end with the end of one.
func countAnswers(b []byte) (n int) {
	for inside := false; len(b) > 0; {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return -1
		}
		b = rest
		inside = string(line) == "START" || inside && string(line) != "END"
		if inside && len(b) == 0 {
			return -1
		}
		if !inside {
			n++
		}
	}
	return n
}

// FuzzConnection sends any bytes in packets of any size: each line has one answer, the same in whatever packets it came, and the buffer
// stays within the limit.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("set f k\nset f l\ncheck f k\nmulti f a b  \nlist\ninfo f\r\n\n"), 3)
	f.Add([]byte("bulk f  \n\x00\n multi\nflush f\nclear f\nflush\ndrop f\ncreate f\nlist "), 1)
	f.Add(bytes.Repeat([]byte("multi f"+strings.Repeat(" ", 300)+"\n"), 20), 64)
	f.Fuzz(func(t *testing.T, send []byte, packet int) {
		var last []byte
		for _, packet := range []int{max(1, packet), 1 << 20} {
			nc := &bytesConn{send: send, packet: packet}
			nc.serve(t, door.Options{RequestBytesMax: lineBytesLeast, OutputBytesMax: 100})
			want := 0
			for line := range bytes.Lines(send) {
				if len(line) > lineBytesLeast || len(line) == lineBytesLeast && line[len(line)-1] != '\n' {
					want++ // the answer to a line that is too long is the last
					break
				}
				want += bytes.Count(line, []byte("\n"))
			}
			got := nc.got.Bytes()
			if n := countAnswers(got); n != want {
				t.Fatalf("%d answers, want %d: %q to %q", n, want, got, send)
			}
			if last != nil && !bytes.Equal(got, last) {
				t.Fatalf("in other packets got %q, before %q", got, last)
			}
			last = bytes.Clone(got)
		}
	})
}

// TestOneWrite has what came together answered together.
func TestOneWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		packet, output, writes int
	}{{1 << 20, 1 << 20, 1}, {80, 1 << 20, 10}, {1 << 20, 1, 100}} {
		nc := &bytesConn{send: bytes.Repeat([]byte("set f k\nc f 234\n"), 50), packet: c.packet}
		nc.serve(t, door.Options{OutputBytesMax: c.output})
		if got := nc.got.String(); got != strings.Repeat("No\n", 100) || nc.writes != c.writes {
			t.Errorf("%+v: %d writes, %q", c, nc.writes, got)
		}
	}
}

var noLog = slog.New(slog.DiscardHandler)
