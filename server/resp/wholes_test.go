package resp

import (
	"context"
	"strings"
	"testing"
	"time"

	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/alone"
	"bigset/server/door"
)

// held is a backend whose moments wait until they are let go.
type held struct {
	*alone.Backend
	asked, let chan struct{}
}

func (b held) Moment(ctx context.Context, sets [][]byte) (door.Moment, error) {
	b.asked <- struct{}{}
	<-b.let
	return b.Backend.Moment(ctx, sets)
}

// TestWholesAreShared: clients that ask for a set while it is read share the next reading, which has what was added before they asked. The last
// of them gives the memory back, once.
func TestWholesAreShared(t *testing.T) {
	t.Parallel()
	const memory, others = 256 << 20, 5
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limits := door.NewLimits(door.LimitsOptions{LongBytes: memory})
	b := held{alone.New(store), make(chan struct{}, others+2), make(chan struct{})}
	dial, s := serve(t, b, Options{Options: door.Options{Limits: limits}})
	t.Cleanup(func() { close(b.let) }) // so that the server ends also if the test fails
	s.wholes.most = 1
	p := dial()
	fill(t, p, "k", strings.Repeat("x", 1000)+"%d", 300)
	until := func(what string, f func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	ask := func() *peer {
		t.Helper()
		q := dial()
		q.SetDeadline(time.Now().Add(time.Minute)) // an answer that is cut short comes to no end
		if _, err := q.Write(request("SMEMBERS", "k")); err != nil {
			t.Fatal(err)
		}
		return q
	}
	list := []*peer{ask()}
	<-b.asked
	p.do(t, "SADD", "k", "new")
	for range others {
		list = append(list, ask())
	}
	until("the others do not wait for one reading", func() bool {
		s.wholes.mu.Lock()
		defer s.wholes.mu.Unlock()
		next := s.wholes.keys["k"].next
		return next != nil && next.clients == others
	})
	b.let <- struct{}{}
	<-b.asked
	b.let <- struct{}{}
	for i, q := range list {
		if got := q.read(t); strings.Count(got, "$") != 301 || !strings.Contains(got, `$"new"`) {
			t.Errorf("client %d got %d elements", i, strings.Count(got, "$"))
		}
	}
	until("the memory is not given back", func() bool {
		ok := limits.TakeLong(memory)
		if ok {
			limits.GiveLong(memory)
		}
		return ok
	})
	if limits.TakeLong(memory + 1) {
		t.Error("the memory was given back twice")
	}
	if n := readNow(s); len(b.asked) > 0 || n > 0 {
		t.Errorf("%d more readings, %d sets are being read", len(b.asked), n)
	}
}

// readNow returns how many sets are being read whole.
func readNow(s *Server) int {
	s.wholes.mu.Lock()
	defer s.wholes.mu.Unlock()
	return len(s.wholes.keys)
}

// TestWholesOfAFilter: an error is that of all clients, and the next reading is another one.
func TestWholesOfAFilter(t *testing.T) {
	t.Parallel()
	dial, s := start(t, Options{})
	p := dial()
	p.do(t, "BF.ADD", "f", "x")
	for _, want := range []string{"-" + errWrongType, "*[]"} {
		if got := p.do(t, "SMEMBERS", "f"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		p.do(t, "DEL", "f")
	}
	if n := readNow(s); n > 0 {
		t.Errorf("%d sets are being read", n)
	}
}
