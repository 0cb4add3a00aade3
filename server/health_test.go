package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
)

func startHealthNode(t *testing.T) *Node {
	t.Helper()
	c := testConfig(t)
	c.Health = "127.0.0.1:0"
	return startNode(t, c)
}

// TestHealth asks the health port for what it answers, and for what it does not.
func TestHealth(t *testing.T) {
	t.Parallel()
	n := startHealthNode(t)
	want := func(method, path string, status int, text string, header ...string) {
		t.Helper()
		if got, body := askAt(t, n.HealthAddr(), method, path, header...); got != status || !strings.Contains(body, text) {
			t.Errorf("%s %s: got %d, %.300q, want %d with %q", method, path, got, body, status, text)
		}
	}
	want("GET", "/healthz", 200, "ok")
	want("HEAD", "/healthz", 200, "")
	want("GET", "/readyz", 200, "ready")
	for _, path := range []string{"/", "/metrics", "/backup?name=x", "/debug/pprof/", "/healthz/x"} {
		want("GET", path, 404, "")
	}
	want("POST", "/backup?name=x", 404, "")
	want("POST", "/readyz", 405, "")
	want("GET", "/healthz", 431, "", "Odd", strings.Repeat("x", 10<<10))
	want("GET", "/healthz", 421, "--admin-hosts", "Host", "example.org")
	if n.health.ReadTimeout <= 0 || n.health.WriteTimeout <= 0 {
		t.Error("a client may hold a connection for ever")
	}
	c := dialRaw(t, n.HealthAddr(), wholeRequest)
	c.wantAnswer("a request that would keep its connection")
	c.wantClosed("after the answer")
}

// TestHealthIsNotStarved asks for health beside 200 clients that send half requests, and that come again as soon as they are closed. A busy
// machine may answer late, and a client that gets no processor during requestTimeMin may lose its connection: then it asks again.
func TestHealthIsNotStarved(t *testing.T) {
	t.Parallel()
	n := startHealthNode(t)
	asked := func(at net.Addr) error {
		begun := time.Now()
		err := dialRaw(t, at, wholeRequest).readAnswer()
		if took := time.Since(begun); err == nil && took > healthTime/10 { // half requests end after healthTime
			err = fmt.Errorf("the answer took %v", took)
		}
		return err
	}
	for _, port := range []struct {
		name string
		at   net.Addr
	}{{"health", n.HealthAddr()}, {"admin", n.AdminAddr()}} {
		for tries := 1; ; tries++ {
			var half []*rawClient
			for range 200 {
				half = append(half, dialRaw(t, port.at, halfRequest))
			}
			err := asked(port.at)
			for _, c := range half {
				c.Close()
			}
			if err == nil {
				break
			} else if tries == 20 {
				t.Fatalf("%s port: beside 200 half requests: %v", port.name, err)
			}
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	for range 200 {
		attackers.Go(func() { comeAgain(ctx, n.HealthAddr()) })
	}
	var errs []error
	answered := 0
	for answered < 10 && len(errs) < 200 {
		if err := asked(n.HealthAddr()); err != nil {
			errs = append(errs, err)
		} else {
			answered++
		}
	}
	cancel()
	attackers.Wait()
	if answered < 10 {
		t.Errorf("beside half requests that come again %d of %d were answered: %v", answered, answered+len(errs), errs[0])
	}
}

// comeAgain sends half a request, and again when its connection is closed, until ctx ends.
func comeAgain(ctx context.Context, at net.Addr) {
	var d net.Dialer
	for ctx.Err() == nil {
		nc, err := d.DialContext(ctx, "tcp", at.String())
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		_, _ = nc.Write([]byte(halfRequest))
		_, _ = nc.Read(make([]byte, 1)) // until it is closed
		stop()
		nc.Close()
	}
}

// TestHealthFromStartToStop asks while the store is being opened, and while it is being closed.
func TestHealthFromStartToStop(t *testing.T) {
	disk := testkit.NewDisk()
	c := testConfig(t)
	c.DataDir, c.Store, c.Health = "data", &engine.Options{FS: disk}, fmt.Sprintf("127.0.0.1:%d", freePort(t))
	at, err := net.ResolveTCPAddr("tcp", c.Health)
	if err != nil {
		t.Fatal(err)
	}
	wantReady := func(status int, text string) {
		t.Helper()
		if got, body := askAt(t, at, "GET", "/readyz"); got != status || !strings.Contains(body, text) {
			t.Errorf("got %d, %q, want %d with %q", got, body, status, text)
		}
	}
	opening, mayOpen := make(chan bool), make(chan bool)
	goOn := sync.OnceFunc(func() { close(mayOpen) })
	defer goOn()
	var once sync.Once
	disk.SetHook("open", func(errorfs.Op) error {
		once.Do(func() { opening <- true; <-mayOpen })
		return nil
	})
	started := make(chan *Node, 1)
	go func() { started <- startNode(t, c) }()
	<-opening
	wantReady(503, starting)
	goOn()
	n := <-started
	wantReady(200, "ready")

	talk(t, n, "create f", "Done", "set f a", "Yes")
	f, err := n.store.Load().Filters().Get([]byte("f"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := f.Read(t.Context()) // which the stop waits for
	if err != nil {
		t.Fatal(err)
	}
	closeReader := sync.OnceValue(reader.Close)
	defer closeReader()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(context.Background()) }()
	eventually(t, "the store is being closed", func() bool { return errors.Is(n.store.Load().Filters().Flush(t.Context()), bigset.ErrClosed) })
	wantReady(503, stopping)
	if err := closeReader(); err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", c.Health); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the stop: %v", err)
	}
}

// TestHealthPortIsTaken wants a plain sentence, and the other ports given back.
func TestHealthPortIsTaken(t *testing.T) {
	n := startHealthNode(t)
	c := testConfig(t)
	c.Port, c.Health = freePort(t), n.HealthAddr().String()
	_, err := Start(c, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "for the health port") {
		t.Errorf("got %v", err)
	}
	c.Health = ""
	talk(t, startNode(t, c), "list", "START\nEND")
}
