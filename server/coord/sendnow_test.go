package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// deltaSender is a replica that can be sent deltas.
type deltaSender struct {
	peer.Replica
	how  string // "sends", "fails", or "waits": Apply is the way
	mu   sync.Mutex
	sent int
}

func (s *deltaSender) SendDelta(ctx context.Context, d bigset.Delta, durability bigset.Durability, done func(error)) bool {
	if s.how == "waits" {
		return false
	}
	s.mu.Lock()
	s.sent++
	s.mu.Unlock()
	if s.how == "fails" {
		done(errors.New("connection reset"))
		return true
	}
	go func() {
		_, err := s.Apply(ctx, d, durability)
		done(err)
	}()
	return true
}

// TestSendNow: a delta goes the way that needs no goroutine where there is one, and what does not arrive is told, and leaves a hint, as on the other way.
func TestSendNow(t *testing.T) {
	t.Parallel()
	var stores []*engine.Store
	var list []peer.Replica
	var all []*deltaSender
	for i, how := range []string{"sends", "fails", "waits", "sends"} {
		store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rep, err := local.New(fmt.Sprintf("node%d", i), store, peer.Normal)
		if err != nil {
			t.Fatal(err)
		}
		one := &deltaSender{Replica: rep, how: how}
		stores, all, list = append(stores, store), append(all, one), append(list, one)
	}
	var mu sync.Mutex
	var missed []string
	co, err := coord.New(coord.Options{Quorum: coord.Quorum{N: 4, R: 2, W: 3, DW: 3}, Place: coord.List(func([]byte) []peer.Replica { return list }), Events: func(e coord.Event) {
		mu.Lock()
		defer mu.Unlock()
		missed = append(missed, fmt.Sprintf("%v %s", e.Kind, e.Node))
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := co.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}})
	if err != nil || r.Acked < 3 {
		t.Errorf("a write: %d acknowledged, %v", r.Acked, err)
	}
	if err := co.Close(ctx); err != nil { // when all has ended
		t.Fatal(err)
	}
	if want := []string{fmt.Sprintf("%v node1", coord.EventNotSent)}; !slices.Equal(missed, want) {
		t.Errorf("missed: %q, want %q", missed, want)
	}
	for i, s := range all {
		found, err := stores[i].Subset(ctx, set, [][]byte{[]byte("x")})
		if has := err == nil && len(found[0].Context.Dots) == 1; has == (s.how == "fails") {
			t.Errorf("node%d, which %s: it has %v, %v", i, s.how, found, err)
		}
		if want := map[string]int{"sends": 1, "fails": 1}[s.how]; i > 0 && s.sent != want {
			t.Errorf("node%d, which %s: %d deltas were sent, want %d", i, s.how, s.sent, want)
		}
	}
}
