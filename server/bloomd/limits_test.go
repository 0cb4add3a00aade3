package bloomd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// pairFilter has all keys that begin with a, and asks for no more room than some keys need.
type pairFilter struct {
	door.Filter
	t *testing.T
}

func (f pairFilter) Check(_ context.Context, keys [][]byte, present []bool) error {
	if cap(present) > 64<<10 {
		f.t.Errorf("room for what becomes of %d keys at once", cap(present))
	}
	for i, k := range keys {
		present[i] = len(k) > 0 && k[0] == 'a'
	}
	return nil
}

func (f pairFilter) Set(ctx context.Context, keys [][]byte, added []bool) error {
	return f.Check(ctx, keys, added)
}

func (f pairFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	n := len(keys) / 2 // as where pages are missing
	return n, f.Check(context.Background(), keys[:n], present[:n])
}

func (f pairFilter) SetNow(keys [][]byte, added []bool) (int, error) { return f.CheckNow(keys, added) }

func (pairFilter) SetsWait() bool { return false }

func (pairFilter) Pieces() int { return 1 }

func (pairFilter) ChecksWait() bool { return false }

// TestDenseKeys has keys as short as keys can be, among them empty ones, in several calls: what becomes of them is kept where they stood.
func TestDenseKeys(t *testing.T) {
	t.Parallel()
	nc := start(t, yesNode{f: pairFilter{t: t}}, door.Options{}).dial()
	for _, pattern := range []string{" ", "a ", "b ", "a  ", " a b ", "  aaaa bb ", " a   b a ab"} {
		keys := strings.Repeat(pattern, tier.Pick(30_000, 30_000, 100_000))
		line := "multi f " + keys
		if pattern[len(pattern)-1] == ' ' {
			keys = keys[:len(keys)-1] // of spaces at the end one is no key
		}
		var want []string
		for key := range strings.SplitSeq(keys, " ") {
			if strings.HasPrefix(key, "a") {
				want = append(want, "Yes")
			} else {
				want = append(want, "No")
			}
		}
		ask(t, nc, line+"\n", strings.Join(want, " ")+"\n")
	}
}

// endlessNode lists filters without number, and counts them.
type endlessNode struct {
	door.Filters
	listed atomic.Int64
	fail   int64
}

func (n *endlessNode) List(_ context.Context, l door.FilterListing) ([]door.FilterInfo, error) {
	listed := n.listed.Load()
	if n.fail > 0 && listed >= n.fail {
		return nil, errors.New("a page is damaged")
	}
	if want := fmt.Sprintf("%0200d", listed); l.After != want && listed > 0 {
		return nil, fmt.Errorf("behind %s", l.After)
	}
	infos := make([]door.FilterInfo, l.Most)
	for i := range infos {
		infos[i].Name = fmt.Sprintf("%0200d", n.listed.Add(1))
	}
	return infos, nil
}

// TestListInParts has a client that takes a long list slowly: no more of it is made than it takes. And one that fails in its midst.
func TestListInParts(t *testing.T) {
	t.Parallel()
	for _, fail := range []int64{0, 5000} {
		n := &endlessNode{fail: fail}
		s, err := bloomd.New(n, door.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ln := &oneListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		done := make(chan error)
		go func() { done <- s.Serve(context.Background(), ln) }()
		nc, theirs := net.Pipe() // which holds nothing
		nc.SetDeadline(time.Now().Add(time.Minute))
		ln.conns <- theirs
		ask(t, nc, "list\n", "START\n")
		for row := 1; row < 4000; row++ {
			ask(t, nc, "", fmt.Sprintf("%0200d 0.000000 0 0 0\n", row))
			if listed := n.listed.Load(); listed > int64(row+1000) { // what waits in the pipe
				t.Fatalf("after %d rows %d were made", row, listed)
			}
		}
		if fail > 0 {
			rest, err := io.ReadAll(nc)
			if err != nil || bytes.Contains(rest, []byte("Error")) || bytes.Contains(rest, []byte("END")) {
				t.Errorf("after a failure amid a list: %v, %q", err, rest[max(0, len(rest)-100):])
			}
		}
		if err := errors.Join(nc.Close(), s.Shutdown(context.Background()), <-done); err != nil {
			t.Error(err)
		}
	}
}

// TestLineTime has clients that begin long lines and do not end them in time, although they go on with them: others get their room. Who
// sends lines one after another, or waits between lines or within a short one, is not concerned.
func TestLineTime(t *testing.T) {
	t.Parallel()
	const lineTime = 3 * time.Second // much more than a busy machine needs for a line
	r := start(t, bloomdtest.NewMemory(), door.Options{RequestBytesMax: 256 << 10, Limits: door.NewLimits(door.LimitsOptions{LongBytes: 300 << 10}), RequestTime: lineTime})
	idle, short := r.dial(), r.dial()
	ask(t, idle, "create f\n", "Done\n")
	begun := "check f " + strings.Repeat("k", 100<<10) // in buffers of 128 KiB, which have no more than lineTime
	ask(t, idle, begun+"\n", "No\n")
	if _, err := io.WriteString(short, begun[:50<<10]); err != nil {
		t.Fatal(err)
	}
	began, slow := time.Now(), [2]net.Conn{r.dial(), r.dial()}
	cut := make(chan time.Duration, len(slow))
	for _, nc := range slow {
		if _, err := io.WriteString(nc, begun); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := io.WriteString(nc, "k"); err != nil {
					cut <- time.Since(began)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	for range slow {
		select {
		case after := <-cut:
			if after < lineTime {
				t.Errorf("cut off after %v", after)
			}
		case <-time.After(10 * lineTime):
			t.Fatal("not cut off")
		}
	}
	for range 3 {
		ask(t, r.dial(), begun+"\n", "No\n")
	}
	ask(t, idle, "list x\n", "START\nEND\n")
	ask(t, short, begun[50<<10:]+"\n", "No\n")
	steady := r.dial()
	if _, err := io.WriteString(steady, begun[:80<<10]); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 5*lineTime/4; time.Sleep(20 * time.Millisecond) { // always with a long line begun
		ask(t, steady, begun[80<<10:]+"\n"+begun[:80<<10], "No\n")
	}
}
