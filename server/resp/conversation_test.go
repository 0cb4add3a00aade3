package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// bytesConn is a client that sends some bytes, a few at a time, and keeps the answers.
type bytesConn struct {
	net.Conn
	send   []byte
	packet int
	got    bytes.Buffer
	closed chan struct{}
}

func (c *bytesConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }
func (c *bytesConn) Write(p []byte) (int, error)      { return c.got.Write(p) }

func (c *bytesConn) Read(p []byte) (int, error) {
	if len(c.send) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.send[:min(c.packet, len(c.send))])
	c.send = c.send[n:]
	return n, nil
}

// Close is called twice where the server cuts off what has ended.
func (c *bytesConn) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
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

// hasty is a backend at which nobody waits long for changes.
type hasty struct{ door.Backend }

func (b hasty) Changes(ctx context.Context, q door.Changes) iter.Seq2[door.Changed, error] {
	q.Wait = min(q.Wait, time.Millisecond)
	return b.Backend.Changes(ctx, q)
}

// smallFilters takes no filter that needs much memory.
type smallFilters struct{ door.Filters }

func (f smallFilters) Create(ctx context.Context, name []byte, o door.FilterCreate) (bool, error) {
	if o.Capacity != nil && *o.Capacity > 50_000 {
		return false, fmt.Errorf("%w: too large for this test", bloomslice.ErrOptions)
	}
	return f.Filters.Create(ctx, name, o)
}

// wanted returns how many answers a conversation has, and whether these may be fewer, because the client is taken for a browser.
func wanted(s *Server, send []byte) (n int, fewer bool) {
	p, buf := parser{bulkMax: RequestBytesLeast}, bytes.Clone(send)
	for {
		whole, fault := p.parse(buf)
		if fault != "" {
			return n + 1, false
		}
		if !whole {
			return n, false
		}
		args := p.arguments(nil, buf)
		buf = buf[p.at:]
		p.reset()
		if len(args) == 0 {
			continue
		}
		n++
		switch cmd := s.commands[strings.ToLower(string(args[0]))]; {
		case cmd == nil || cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		case cmd.name == "quit":
			return n, false
		case cmd.name == "post" || cmd.name == "host:":
			return n - 1, true
		}
	}
}

// FuzzConversation sends any bytes in packets of any size: each request has one answer, in whatever packets it came, the connection ends, and all memory that was
// taken for requests and answers is given back.
func FuzzConversation(f *testing.F) {
	scripts, err := filepath.Glob("testdata/script/*")
	if err != nil || len(scripts) == 0 {
		f.Fatal(scripts, err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, lines, _ := bytes.Cut(text, []byte("\n"))
		lines, _, _ = bytes.Cut(lines, []byte("----"))
		f.Add(lines, 9)
	}
	many := request(numbered(argumentsFew+100, "SMISMEMBER", "k")...)
	for _, requests := range [][]byte{
		bytes.Repeat(many, 3),
		[]byte("HELLO 3\nSADD k a b\nSMEMBERS k\nSSCAN k 0\nSPOP k\nSRANDMEMBER k -5\nSTORE\nRESET\nSINTERSTORE d k k\nDEL k d\nQUIT\nPING\n"),
		[]byte("BS.ADD k REQUEST r W 1 PAIRS a '' b ''\nBS.CHANGES k '' WAIT 1000 LIMIT 1\nBS.RANGE k REV WITHCONTEXTS\nBS.FETCH k a b c\nBS.REM k RETRY REQUEST r ELEMENTS a\nBS.STAT k\n"),
		[]byte("BF.RESERVE f 0.01 20000\nBF.MADD f a b\nBF.INSERT g CAPACITY 20000 ITEMS a\nBF.INFO f\nSADD f x\nSCAN 0 TYPE MBbloom--\nKEYS *\nCOMMAND DOCS\n"),
		[]byte("*2\r\n$4\r\nECHO\r\n$3\r\na\r\nb\r\n*0\r\n*-1\r\n*1\r\n:4\r\n"),
		[]byte("PING\nPOST / HTTP/1.1\r\nHost: x\r\n\r\nPING\n"),
	} {
		f.Add(requests, 3)
	}
	f.Fuzz(func(t *testing.T, send []byte, packet int) {
		if len(send) > RequestBytesLeast {
			t.Skip("above the longest request there are other answers")
		}
		store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		const memory = 1 << 20
		limits := door.NewLimits(door.LimitsOptions{LongBytes: memory})
		s, err := New(hasty{alone.New(store)}, smallFilters{bloomdtest.NewMemory()}, Options{AnswerBytesMax: 200_000,
			Options: door.Options{Loops: -1, RequestBytesMax: RequestBytesLeast, OutputBytesMax: 100, Limits: limits}})
		if err != nil {
			t.Fatal(err)
		}
		for _, packet := range []int{max(1, packet), 1 << 20} {
			nc := &bytesConn{send: bytes.Clone(send), packet: packet, closed: make(chan struct{})}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err := s.Serve(ctx, &onlyConn{c: nc})
			late := ctx.Err()
			if cancel(); late != nil || !errors.Is(err, net.ErrClosed) {
				t.Fatalf("the connection does not end: %v, %v", err, late)
			}
			if n := s.Counts().Connections; n != 0 {
				t.Fatalf("%d connections are left", n)
			}
			if !limits.TakeLong(memory) {
				t.Fatal("memory is not given back")
			}
			limits.GiveLong(memory)
			n, in := 0, bufio.NewReader(bytes.NewReader(nc.got.Bytes()))
			for ; ; n++ {
				if text, err := readReply(in); err == io.EOF && text == "" {
					break
				} else if err != nil {
					t.Fatalf("answer %d: %v: %.300q to %.300q", n, err, nc.got.Bytes(), send)
				}
			}
			if want, fewer := wanted(s, send); n > want || n < want && !fewer {
				t.Fatalf("%d answers, want %d: %.1000q to %.1000q", n, want, nc.got.Bytes(), send)
			}
		}
	})
}
