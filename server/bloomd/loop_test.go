package bloomd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset/internal/testkit/tier"
	"bigset/server/bloomd"
	"bigset/server/bloomd/bloomdtest"
	"bigset/server/door"
)

// oneLoop are options with one loop, in which all connections meet, where there are any.
func oneLoop() door.Options { return door.Options{Loops: min(loopsOfTests, 1)} }

// TestNobodyIsHeldUp has clients whose requests wait at the node, with others after them, while another one's are answered.
func TestNobodyIsHeldUp(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	r := start(t, n, oneLoop())
	other := r.dial()
	ask(t, other, "create f\n", "Done\n")
	inside, goOn := make(chan bool), make(chan bool)
	n.instead = func(_ context.Context, call string) error {
		if call == "set 2" {
			inside <- true
			<-goOn
		}
		return nil
	}
	var held []net.Conn
	for i := range 10 {
		nc := r.dial()
		if _, err := fmt.Fprintf(nc, "check f x\nset f a%d\nset f b%d\nlist x\n", i, i); err != nil {
			t.Fatal(err)
		}
		<-inside
		held = append(held, nc)
		ask(t, other, fmt.Sprintf("set f c%d\ncheck f c%d\nlist x\n", i, i), "Yes\nYes\nSTART\nEND\n")
	}
	close(goOn)
	for _, nc := range held {
		ask(t, nc, "", "No\nYes\nYes\nSTART\nEND\n")
		ask(t, nc, "check f x\n", "No\n")
	}
}

// costlyFilter has all keys, and may hold up a client that asks for some of them now.
type costlyFilter struct {
	yesFilter
	now, later   *atomic.Int64 // keys
	inside, goOn chan bool     // of a key "hold"
	pieces       int           // of a key, or 0 for one
}

func (f costlyFilter) Pieces() int { return max(1, f.pieces) }

func (f costlyFilter) Check(ctx context.Context, keys [][]byte, present []bool) error {
	f.later.Add(int64(len(keys)))
	return f.yesFilter.Check(ctx, keys, present)
}

func (f costlyFilter) CheckNow(keys [][]byte, present []bool) (int, error) {
	f.now.Add(int64(len(keys)))
	if string(keys[0]) == "hold" {
		f.inside <- true
		<-f.goOn
	}
	return f.yesFilter.CheckNow(keys, present)
}

func newCostlyFilter() costlyFilter {
	return costlyFilter{now: new(atomic.Int64), later: new(atomic.Int64), inside: make(chan bool), goOn: make(chan bool)}
}

// TestTurnIsBounded has requests of more keys than a loop executes in a turn: all others would wait for them.
func TestTurnIsBounded(t *testing.T) {
	t.Parallel()
	f := newCostlyFilter()
	nc := start(t, yesNode{f: f}, oneLoop()).dial()
	ask(t, nc, "multi f"+strings.Repeat(" a", 10_000)+"\n", strings.Repeat("Yes ", 9999)+"Yes\n")
	nowMost := int64(2000)
	if loopsOfTests < 0 {
		nowMost = 10_000
	}
	if now := f.now.Load(); now != nowMost || now+f.later.Load() != 10_000 {
		t.Errorf("%d keys in the loop, %d beside it", now, f.later.Load())
	}
	ask(t, nc, "multi f"+strings.Repeat(" a", 1500)+"\n", strings.Repeat("Yes ", 1499)+"Yes\n")
	if now := f.now.Load(); now != nowMost+1500 {
		t.Errorf("%d keys in the loop after another turn", now)
	}
	f = newCostlyFilter()
	f.pieces = 100
	nc = start(t, yesNode{f: f}, oneLoop()).dial()
	ask(t, nc, "multi f"+strings.Repeat(" a", 1500)+"\n", strings.Repeat("Yes ", 1499)+"Yes\n")
	if nowMost = 20; loopsOfTests < 0 {
		nowMost = 1500
	}
	if now := f.now.Load(); now != nowMost || now+f.later.Load() != 1500 {
		t.Errorf("%d costly keys in the loop, %d beside it", now, f.later.Load())
	}
}

// TestRequestAtTheDeadline has a loop that comes to a request only when its client's idle time has ended.
func TestRequestAtTheDeadline(t *testing.T) {
	t.Parallel()
	o := oneLoop()
	for o.IdleTime = time.Second; ; o.IdleTime *= 2 { // within which this machine comes to the request
		f := newCostlyFilter()
		r := start(t, yesNode{f: f}, o)
		holder := r.dial()
		began, nc := time.Now(), r.dial()
		ask(t, nc, "check f a\n", "Yes\n")
		if _, err := io.WriteString(holder, "check f hold\n"); err != nil {
			t.Fatal(err)
		}
		<-f.inside
		_, err := io.WriteString(nc, "check f a\n")
		late := time.Since(began) >= o.IdleTime/2
		if err != nil && !late {
			t.Fatal(err)
		}
		if !late {
			time.Sleep(o.IdleTime * 3 / 2)
		}
		close(f.goOn)
		if late && o.IdleTime < 30*time.Second {
			continue
		}
		ask(t, nc, "", "Yes\n")
		ask(t, holder, "", "Yes\n")
		wantEnd(t, nc)
		wantEnd(t, holder)
		return
	}
}

// TestSomeNow has a node that does some of the keys of a request without waiting.
func TestSomeNow(t *testing.T) {
	t.Parallel()
	for now := 1; now < 6; now++ {
		n := &node{Memory: bloomdtest.NewMemory(), now: now}
		nc := start(t, n, oneLoop()).dial()
		ask(t, nc, "create f\n", "Done\n")
		ask(t, nc, "bulk f a b a c d\nmulti f d x a y\nset f a\nset f e\nset f e\n", "Yes Yes No Yes Yes\nYes No Yes No\nNo\nYes\nNo\n")
		ask(t, nc, "c f a\nc f x\nc f e\nc f c\n", "Yes\nNo\nYes\nYes\n")
	}
}

// TestSetsThatWait has a connection that gets a goroutine of its own for good: it must be idle, drained and cut as others are.
func TestSetsThatWait(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory(), waits: true}
	o := oneLoop()
	o.IdleTime = 200 * time.Millisecond
	if _, err := n.Create(t.Context(), []byte("f"), door.FilterCreate{}); err != nil {
		t.Fatal(err)
	}
	r := start(t, n, o)
	keys := 0
	r.wantIdle(o.IdleTime, func(int) string {
		keys++
		return fmt.Sprintf("set f a%d\ncheck f a%d\n", keys, keys)
	}, "Yes\nYes\n")
	nc := r.dial()
	_, _ = io.WriteString(nc, "set f b\n") // and nothing more
	if got, err := io.ReadAll(nc); err == nil && string(got) != "Yes\n" && len(got) > 0 {
		t.Errorf("got %q", got)
	}

	r = start(t, n, oneLoop())
	nc = r.dial()
	ask(t, nc, "set f c\n", "Yes\n")
	inside, goOn := make(chan bool), make(chan bool)
	n.instead = func(context.Context, string) error {
		inside <- true
		<-goOn
		return nil
	}
	if _, err := io.WriteString(nc, "set f d\n"); err != nil {
		t.Fatal(err)
	}
	<-inside
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(context.Background()) }()
	for { // until it has begun
		late, err := net.Dial("tcp", r.ln.Addr().String())
		if err != nil {
			break
		}
		late.Close()
	}
	close(goOn)
	ask(t, nc, "", "Yes\n")
	wantEnd(t, nc)
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// wantSettled wants that many connections to have left their loops for good, where there are loops.
func wantSettled(t *testing.T, r *running, want uint64) {
	t.Helper()
	if loopsOfTests < 0 {
		want = 0
	}
	if got := r.Counts().Settled; got != want {
		t.Errorf("%d connections have settled, want %d", got, want)
	}
}

// TestChecksThatWait has a node that asks others at each check: a connection leaves its loop once, before the first one, and holds up nobody.
func TestChecksThatWait(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory(), asks: true}
	r := start(t, n, oneLoop())
	nc, other := r.dial(), r.dial()
	ask(t, nc, "create f\n", "Done\n")
	wantSettled(t, r, 0)
	inside, goOn := make(chan bool), make(chan bool)
	n.instead = func(_ context.Context, call string) error {
		if call == "check 2" {
			inside <- true
			<-goOn
		}
		return nil
	}
	if _, err := io.WriteString(nc, "check f a\ncheck f b\n"); err != nil {
		t.Fatal(err)
	}
	<-inside
	ask(t, other, "list x\n", "START\nEND\n")
	wantSettled(t, r, 1)
	ask(t, other, "multi f a b c\nset f d\n", "No No No\nYes\n")
	close(goOn)
	ask(t, nc, "", "No\nNo\n")
	n.mu.Lock()
	n.atOnces = 0
	n.mu.Unlock()
	for i := range 20 {
		ask(t, nc, fmt.Sprintf("check f a\nlist x\ncheck f d%d\n", i), "No\nSTART\nEND\nNo\n")
	}
	wantSettled(t, r, 2)
	if n.mu.Lock(); n.atOnces != 0 {
		t.Errorf("checks that wait were tried at once %d times", n.atOnces)
	}
	n.mu.Unlock()
}

// TestFindsThatWait has a node that asks others for a filter: a find holds up nobody, and one that fails is answered as the node's failure.
func TestFindsThatWait(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory(), looksUp: true}
	r := start(t, n, oneLoop())
	nc, other := r.dial(), r.dial()
	ask(t, nc, "create f\n", "Done\n")
	inside, goOn := make(chan bool), make(chan bool)
	var held atomic.Bool
	n.instead = func(_ context.Context, call string) error {
		if call == "find 1" && held.CompareAndSwap(false, true) {
			inside <- true
			<-goOn
		}
		return nil
	}
	if _, err := io.WriteString(nc, "check f a\n"); err != nil {
		t.Fatal(err)
	}
	<-inside
	ask(t, other, "list x\ncheck f a\n", "START\nEND\nNo\n")
	close(goOn)
	ask(t, nc, "", "No\n")
	wantSettled(t, r, 2)
	late := r.dial()
	n.mu.Lock()
	n.instead = func(_ context.Context, call string) error {
		if call == "find 1" {
			return errors.New("no catalogue answers")
		}
		return nil
	}
	n.mu.Unlock()
	ask(t, late, "check f a\nset f a\nmulti f a b\nbulk f a b\ninfo f\n", strings.Repeat("Internal Error\n", 5))
	if m := r.Metrics(); m.InternalErrors != 5 || m.KeysSet != 0 || m.KeysChecked != 2 {
		t.Errorf("got %+v", m)
	}
}

// TestCutOff has connections in a loop and beside it when the server's context ends.
func TestCutOff(t *testing.T) {
	t.Parallel()
	n := &node{Memory: bloomdtest.NewMemory()}
	s, err := bloomd.New(n, oneLoop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &running{s, t, ln, make(chan error, 1)}
	go func() { r.done <- s.Serve(ctx, ln) }()
	parked, settled := r.dial(), r.dial()
	ask(t, parked, "create f\nset f a\n", "Done\nYes\n")
	n.waits = true
	ask(t, settled, "set f b\n", "Yes\n")
	cancel()
	wantEnd(t, parked)
	wantEnd(t, settled)
	if err := <-r.done; err != nil || s.Metrics().Connections != 0 {
		t.Errorf("Serve: %v, %d connections are left", err, s.Metrics().Connections)
	}
}

// TestManyClients has clients that come, ask for all kinds of things and go, some in the middle of an answer, until the server is cut off.
func TestManyClients(t *testing.T) {
	t.Parallel()
	r := start(t, bloomdtest.NewMemory(), door.Options{IdleTime: time.Hour})
	ask(t, r.dial(), "create f\n", "Done\n")
	client := func(i, j int) error {
		nc, err := net.Dial("tcp", r.ln.Addr().String())
		if err != nil {
			return err
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(60 * time.Second))
		key := fmt.Sprintf("key-%d-%d", i, j)
		send := strings.Repeat("info f\n", i) + "check f x\nset f " + key + "\nlist x\ncheck f " + key + "\n"
		if _, err := io.WriteString(nc, send); err != nil || j%3 == 2 {
			return err // gone before it is answered
		}
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		got, err := io.ReadAll(nc)
		if want := "No\nYes\nSTART\nEND\nYes\n"; err == nil && !strings.HasSuffix(string(got), want) {
			return fmt.Errorf("got %.200q", got)
		}
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			for j := 0; j < tier.Pick(12, 12, 60) && errs[i] == nil; j++ {
				errs[i] = client(i, j)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	for range 50 { // still there at the end
		ask(t, r.dial(), "check f x\n", "No\n")
	}
}
