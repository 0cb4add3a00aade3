package bloomdtest_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// connect returns a client of a server with these filters, which ends with the test.
func connect(t *testing.T, f door.Filters) *bloomd.Client {
	t.Helper()
	s, err := bloomd.New(f, door.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	c, err := bloomd.Dial(ctx, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// lying is a node that is wrong about one key.
type lying struct{ *bloomdtest.Memory }

type lyingFilter struct{ door.Filter }

func (l lying) Find(ctx context.Context, name []byte) (door.Filter, error) {
	f, err := l.Memory.Find(ctx, name)
	return lyingFilter{f}, err
}

func (f lyingFilter) Check(ctx context.Context, keys [][]byte, present []bool) error {
	err := f.Filter.Check(ctx, keys, present)
	for i, k := range keys {
		if string(k) == "key77" {
			present[i] = !present[i]
		}
	}
	return err
}

func (lyingFilter) CheckNow([][]byte, []bool) (int, error) { return 0, nil }

func TestCompare(t *testing.T) {
	for seed := range uint64(3) {
		a, b := connect(t, bloomdtest.NewMemory()), connect(t, bloomdtest.NewMemory())
		if err := bloomdtest.Compare(seed, 5000, a, b); err != nil {
			t.Error(err)
		}
	}
	a, b := connect(t, bloomdtest.NewMemory()), connect(t, lying{bloomdtest.NewMemory()})
	if err := bloomdtest.Compare(1, 50_000, a, b); err == nil || !strings.Contains(err.Error(), "seed 1") || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("of a server that is wrong about one key: %v", err)
	}
}

// TestRecord records what a server answers where the script leaves it open, and keeps what is right where it has a bug.
func TestRecord(t *testing.T) {
	const text = `# a remark
wait
> create f
> set f a\r\x00\xff\x20
! it is said to be wrong
> check f b
< Maybe
> info nobody
`
	const want = `# a remark
wait
> create f
< Done
> set f a\r\x00\xff\x20
< Yes
! it is said to be wrong
> check f b
- No
< Maybe
> info nobody
< Filter does not exist
`
	s, err := bloomdtest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, waits := connect(t, bloomdtest.NewMemory()), 0
	if err := s.Record(c.Do, c.Receive, func() { waits++ }); err != nil || waits != 1 {
		t.Fatalf("%d waits, %v", waits, err)
	}
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := s.Replay(connect(t, bloomdtest.NewMemory()).Do); err == nil || !strings.Contains(err.Error(), `want "Maybe\n"`) {
		t.Errorf("replayed at the server that is wrong: %v", err)
	}
	for _, bad := range []string{"< x", "- x", `> \q`, "? x", "> x\nx"} {
		if _, err := bloomdtest.Parse([]byte(bad)); err == nil {
			t.Errorf("%q is a script", bad)
		}
	}
}
