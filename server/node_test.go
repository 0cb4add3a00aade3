package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/netfault"
	"bigset/server/bloomd"
)

// testConfig is that of a node with ports that are free and no timers.
func testConfig(t testing.TB) Config {
	c := Defaults()
	c.DataDir, c.Port, c.Admin = filepath.Join(t.TempDir(), "data"), 0, "127.0.0.1:0"
	c.FlushInterval, c.ColdInterval = 0, 0
	return c
}

// startNode starts a node, which is stopped in the end.
func startNode(t testing.TB, c Config) *Node {
	t.Helper()
	n, err := Start(c, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Stop(context.Background()) }) // where it matters the test has stopped it
	return n
}

func stopNode(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// talk sends a line and wants an answer, for each pair.
func talk(t *testing.T, n *Node, pairs ...string) {
	t.Helper()
	talkAt(t, n.Addr().String(), pairs...)
}

// talkAt is talk at an address.
func talkAt(t *testing.T, address string, pairs ...string) {
	t.Helper()
	c, err := bloomd.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := 0; i < len(pairs); i += 2 {
		got, err := c.Do([]byte(pairs[i]))
		if err != nil || strings.TrimSuffix(string(got), "\n") != pairs[i+1] {
			t.Errorf("%q: got %q, %v, want %q", pairs[i], got, err, pairs[i+1])
		}
	}
}

// TestRestart has a node keep over a restart what bloomd keeps, and more where bloomd is wrong: a drop lasts, and a small probability.
func TestRestart(t *testing.T) {
	c := testConfig(t)
	n := startNode(t, c)
	talk(t, n,
		"create kept capacity=20000 prob=0.01", "Done",
		"create small prob=1e-7", "Done",
		"create gone", "Done",
		"create cleared", "Done",
		"create memory in_memory=1", "Done",
		"bulk kept a b c", "Yes Yes Yes",
		"set gone a", "Yes",
		"set cleared a", "Yes",
		"set memory a", "Yes",
		"clear cleared", "Filter is not proxied. Close it first.",
		"close cleared", "Done",
		"clear cleared", "Done",
		"check cleared a", "Filter does not exist",
		"drop gone", "Done",
		"create kept", "Exists",
		"create odd capacity=5", "Client Error: Bad arguments")
	stopNode(t, n)
	if _, err := net.DialTimeout("tcp", n.Addr().String(), time.Second); err == nil {
		t.Error("it still listens")
	}
	n = startNode(t, c)
	talk(t, n,
		"multi kept a b c d", "Yes Yes Yes No",
		"list kept", "START\nkept 0.010000 36456 20000 3\nEND",
		"list small", "START\nsmall 0.000000 479765 100000 0\nEND",
		"check gone a", "Filter does not exist",
		"check cleared a", "Yes",
		"check memory a", "No")
}

// TestDefaultsOfFilters makes create take options that it is not given from the configuration.
func TestDefaultsOfFilters(t *testing.T) {
	c := testConfig(t)
	c.Filters.Capacity, c.Filters.Probability, c.Filters.Scale, c.InMemory = 20000, 0.01, 2, true
	n := startNode(t, c)
	talk(t, n,
		"create a", "Done",
		"create b capacity=10001 prob=0.0001 in_memory=0", "Done",
		"set a x", "Yes",
		"set b x", "Yes",
		"close a", "Done", // does nothing
		"list", "START\na 0.010000 36456 20000 1\nb 0.000100 30469 10001 1\nEND")
	stopNode(t, n)
	n = startNode(t, c)
	talk(t, n, "check a x", "No", "check b x", "Yes")
}

// TestWorkers has as many event loops as workers, where somebody has chosen how many.
func TestWorkers(t *testing.T) {
	for workers, want := range map[int]int{0: 0, 1: 0, 2: 2, 5: 5, 1 << 20: loopsMost} {
		if c := (Config{Workers: workers}); c.loops() != want {
			t.Errorf("%d workers: %d loops, want %d", workers, c.loops(), want)
		}
	}
}

// TestTimers has filters flushed, and closed when nobody uses them.
func TestTimers(t *testing.T) {
	c := testConfig(t)
	c.FlushInterval, c.ColdInterval = time.Millisecond, 20*time.Millisecond
	n := startNode(t, c)
	talk(t, n, "create f", "Done", "set f a", "Yes")
	eventually(t, "a cold filter is closed", func() bool { return n.coldCloses.Load() > 0 && n.flushes.Load() > 1 })
	f, err := n.store.Load().Filters().Get([]byte("f"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := f.Info(); err != nil || info.PageOuts == 0 || info.Size != 1 { // on a slow machine it was cold before the key came, too
		t.Errorf("got %+v, %v", info, err)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

// TestSecondServer wants a plain word where the port or the folder is taken, and no files left over.
func TestSecondServer(t *testing.T) {
	first := testConfig(t)
	n := startNode(t, first)
	port := testConfig(t)
	port.Port = n.Addr().(*net.TCPAddr).Port
	_, err := Start(port, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("a taken port: got %v", err)
	}
	if _, err := os.Stat(port.DataDir); err == nil {
		t.Error("a taken port: the folder was made")
	}
	folder := testConfig(t)
	folder.DataDir = first.DataDir
	folder.Port = freePort(t)
	if _, err := Start(folder, slog.New(slog.DiscardHandler)); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a taken folder: got %v", err)
	}
	folder.DataDir = filepath.Join(t.TempDir(), "other")
	talk(t, startNode(t, folder), "list", "START\nEND") // the port was given back
	foreign := testConfig(t)
	if err := os.MkdirAll(filepath.Join(foreign.DataDir, "bloomd.f"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Start(foreign, slog.New(slog.DiscardHandler))
	if !errors.Is(err, engine.ErrFormat) || !strings.Contains(err.Error(), "import-bloomd") {
		t.Errorf("a bloomd's folder: got %v", err)
	}
	elsewhere := testConfig(t)
	elsewhere.BindAddress = "192.0.2.1" // of no machine
	if _, err := Start(elsewhere, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrListen) {
		t.Errorf("another machine's address: got %v", err)
	}
	huge := testConfig(t)
	huge.Filters.Capacity = 1 << 52
	if _, err := Start(huge, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrConfig) {
		t.Errorf("a capacity that no filter can have: got %v", err)
	}
}

// freePort returns a port that no test gives to another server, so that one may listen there again.
func freePort(t *testing.T) int {
	t.Helper()
	address, err := netfault.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return int(netip.MustParseAddrPort(address).Port())
}

// TestNotify wants the service manager to learn when clients are answered and when no longer.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip("no sockets of this kind:", err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	n := startNode(t, testConfig(t))
	wantDatagram(t, conn, "READY=1")
	stopNode(t, n)
	wantDatagram(t, conn, "STOPPING=1")
}

func wantDatagram(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 1024)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	size, err := conn.Read(b)
	if err != nil || string(b[:size]) != want {
		t.Errorf("got %q, %v, want %q", b[:size], err, want)
	}
}

// TestFiltersDoNotAllocate has the hot path, from the protocol to a filter and back, without garbage.
func TestFiltersDoNotAllocate(t *testing.T) {
	n := startNode(t, testConfig(t))
	talk(t, n, "create f", "Done", "set f a", "Yes")
	b := &bloomFilters{store: n.store.Load()}
	name, keys, present := []byte("f"), [][]byte{[]byte("a"), []byte("b")}, make([]bool, 2)
	allocs := testing.AllocsPerRun(1000, func() {
		found, err := b.Find(context.Background(), name)
		if err == nil {
			err = found.Check(context.Background(), keys, present)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 || !present[0] || present[1] {
		t.Errorf("%v allocations, %v", allocs, present)
	}
	if _, err := b.Find(context.Background(), []byte("g")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("a filter that is not there: %v", err)
	}
}

// TestCutOff wants the log to report clients that were not done when the node had to stop.
func TestCutOff(t *testing.T) {
	var log strings.Builder
	n, err := Start(testConfig(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the client is connected", func() bool { return n.doors[0].protocol.Counts().Connections == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Stop(ctx); err != nil || !strings.Contains(log.String(), "clients were cut off") {
		t.Errorf("%v, logged %q", err, log.String())
	}
}

// TestListenerFails has Wait return when the protocol's listener ends by itself, and when its context does.
func TestListenerFails(t *testing.T) {
	n := startNode(t, testConfig(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Wait(ctx); err != nil {
		t.Errorf("got %v after the end of the context", err)
	}
	n.adminListener.Close()
	if err := n.Wait(t.Context()); err == nil {
		t.Error("no error after the end of a listener")
	}
}
