package bloomd_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// loopsOfTests is Options.Loops of the servers that tests start.
var loopsOfTests = 2

// TestMain runs all tests twice where there are event loops, then without.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // most of them wait most of the time; -parallel of the command line counts
	code := m.Run()
	if code == 0 && runtime.GOOS == "linux" && flag.Lookup("test.fuzz").Value.String() == "" {
		loopsOfTests = -1
		code = m.Run()
	}
	os.Exit(code)
}

// running is a server with a listener of its own.
type running struct {
	*bloomd.Server
	t    *testing.T
	ln   net.Listener
	done chan error // what Serve returned
}

// start runs a server until the test ends, and then wants it to end well, with no connection left.
func start(t *testing.T, f door.Filters, o door.Options) *running {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Loops == 0 {
		o.Loops = loopsOfTests
	}
	s, err := bloomd.New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{s, t, ln, make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := s.Metrics().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return r
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(60 * time.Second)) // no test hangs for ever
	r.t.Cleanup(func() { nc.Close() })
	return nc
}

func (r *running) client() *bloomd.Client { return bloomd.NewClient(r.dial()) }

func readScript(t *testing.T, file string) bloomdtest.Script {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bloomdtest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := s.String(); again != string(text) {
		t.Errorf("written again it is another:\n%s", again)
	}
	return s
}

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	return files
}

// TestReplay holds conversations that were recorded at a real bloomd: one request at a time.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, file := range scripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := start(t, bloomdtest.NewMemory(), door.Options{}).client()
			if err := readScript(t, file).Replay(c.Do); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplayPipelined holds the same conversations with all requests at once, in packets of all sizes: the answers are the same bytes.
func TestReplayPipelined(t *testing.T) {
	t.Parallel()
	share, place := tier.ShareOf(t, 2, 2), 0
	for _, file := range scripts(t) {
		for _, packet := range []int{1, 2, 3, 7, 100, 1 << 20} {
			if place++; !share.Has(place + place/6) { // in each share are all scripts and all sizes
				continue
			}
			var send, want []byte
			for _, step := range readScript(t, file) {
				if step.Line != nil {
					send = append(append(send, step.Line...), '\n')
					want = append(want, step.Answer...)
				}
			}
			nc := start(t, bloomdtest.NewMemory(), door.Options{OutputBytesMax: 1 + packet}).dial().(*net.TCPConn)
			got := exchange(t, nc, send, packet)
			if !bytes.Equal(got, want) {
				n := commonPrefix(got, want)
				t.Errorf("%s in packets of %d: after %q got %.80q, want %.80q", file, packet, got[max(0, n-40):n], got[n:], want[n:])
			}
		}
	}
}

// exchange sends bytes in packets, ends its half of the connection, and returns all answers.
func exchange(t *testing.T, nc net.Conn, send []byte, packet int) []byte {
	t.Helper()
	go func() {
		for len(send) > 0 {
			n := min(packet, len(send))
			if _, err := nc.Write(send[:n]); err != nil {
				t.Error(err)
				return
			}
			send = send[n:]
		}
		if err := nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(nc)
	if err != nil {
		t.Error(err)
	}
	return got
}
