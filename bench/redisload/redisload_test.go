package main

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/server/alone"
	"bigset/server/door"
	"bigset/server/resp"
)

// startRaw serves raw Pebble on a port of its own.
func startRaw(t *testing.T, seeks bool) string {
	t.Helper()
	db, err := pebble.Open(t.TempDir(), pebbletool.BaselineOptions(1<<20, engine.LSM{}))
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := served(t, &raw{db: db, write: pebble.Sync, seeks: seeks}, db.Close)
	return addr
}

// served serves sets until the test ends, and then closes them.
func served(t *testing.T, sets door.Backend, end func() error) (addr string, s *resp.Server) {
	t.Helper()
	s, err := resp.New(sets, noFilters{}, resp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), s
}

// TestRaw: the answers of raw Pebble are those of a node.
func TestRaw(t *testing.T) {
	for _, seeks := range []bool{false, true} {
		testRaw(t, startRaw(t, seeks))
	}
}

func testRaw(t *testing.T, addr string) {
	if err := fill(addr, "s", 0, 1200); err != nil {
		t.Fatal(err)
	}
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.nc.Close()
	for _, test := range []struct {
		want string
		args []string
	}{
		{"1", []string{"SISMEMBER", "s", name(1199)}},
		{"0", []string{"SISMEMBER", "s", name(1200)}},
		{"0", []string{"SISMEMBER", "other", name(0)}},
		{"0", []string{"SADD", "s", name(7)}},
		{"2", []string{"SADD", "s", "x", name(7), "y"}},
		{"1", []string{"SISMEMBER", "s", "y"}},
	} {
		if got, err := c.do(test.args...); err != nil || got.text != test.want {
			t.Errorf("%q: %q, %v; want %s", test.args, got.text, err, test.want)
		}
	}
	if _, err := c.do("SREM", "s", "x"); err == nil {
		t.Error("SREM is served")
	}
}

// TestMain lets crowd run the test as the program that disturbs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "disturb" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestCrowd: a client is answered beside each kind of others, and connections that are idle are counted.
func TestCrowd(t *testing.T) {
	addr := startRaw(t, false)
	for _, kind := range []string{"none", "flood", "none-adds", "adds"} {
		if err := crowd(addr, "s", kind, addr, 20*time.Millisecond); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := crowd(addr, "s", "loud", addr, 0); err == nil {
		t.Error("a kind that is not known is measured")
	}
	if err := idle(addr, 3, strconv.Itoa(os.Getpid()), false); err != nil {
		t.Error(err)
	}
}

// TestDisturb: others that send commands that read much are answered, again and again, without an error.
func TestDisturb(t *testing.T) {
	store, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	addr, s := served(t, alone.New(store), store.Close)
	if err := fill(addr, "many", 0, 2000); err != nil {
		t.Fatal(err)
	}
	for kind, cmd := range map[string]string{"keys": "keys", "scan": "scan", "count": "bs.count", "changes": "bs.changes"} {
		in, end := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- disturb(addr, kind, in, io.Discard) }()
		for s.Metrics().Commands[cmd] <= 2*others {
			select {
			case err := <-ended:
				t.Fatalf("%s: %v", kind, err)
			case <-time.After(time.Millisecond):
			}
		}
		end.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if m := s.Metrics(); m.Errors > 0 {
		t.Errorf("%d errors", m.Errors)
	}
}

// TestLarge: grow adds its members and no others, each of the requested length. It fails if one exists already, and look if one does not exist.
func TestLarge(t *testing.T) {
	addr := startRaw(t, false)
	if err := grow(addr, "s", 1000, 100, 3); err != nil {
		t.Fatal(err)
	}
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.nc.Close()
	for _, i := range []int{0, 333, 999, 1000} {
		r, err := c.do("SISMEMBER", "s", member(i, 100))
		if want := map[bool]string{true: "1", false: "0"}[i < 1000]; err != nil || r.text != want || len(member(i, 100)) != 100 {
			t.Errorf("member %d: %+v, %v", i, r, err)
		}
	}
	if err := look(addr, "s", 1000, 100, time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := look(addr, "other", 1000, 100, time.Millisecond); err == nil {
		t.Error("members that are not there count as found")
	}
	if err := grow(addr, "s", 1000, 100, 1); err == nil {
		t.Error("members that were there count as added")
	}
}
