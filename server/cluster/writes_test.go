package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/door"
)

// TestWriteMany: writes that come together are answered one by one, and those that members of another epoch refuse are repeated.
func TestWriteMany(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 1)
	m := w.start(0).member
	until(t, "birth", w.whole)
	b, epoch := m.Backend(), m.live.Load().epoch
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]door.Result{}
	errs := map[string]error{}
	call := func(what string, w door.Write) door.WriteCall {
		all.Add(1)
		return door.WriteCall{Context: context.Background(), Write: w, Done: func(out door.Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			got[what], errs[what] = out, err
			all.Done()
		}}
	}
	add := func(element string) []door.Op { return []door.Op{{Kind: keyscheme.OpAdd, Element: []byte(element)}} }
	strange := add("x")
	strange[0].Context = door.Token("strange")
	batch := func(round int) []door.WriteCall {
		return []door.WriteCall{
			call("plain", door.Write{Set: []byte("s"), Ops: add("a"), Request: fmt.Append(nil, "a", round)}),
			call("strange", door.Write{Set: []byte("s"), Ops: strange}),
			call("quorum", door.Write{Set: []byte("s"), Ops: add("q"), Quorum: door.Quorum{W: 9}}),
			call("asks", door.Write{Set: []byte("s"), Ops: add("b"), Contexts: true, Changes: true}),
		}
	}
	for round := range 2 {
		if round == 1 { // everything is refused for a moment
			m.gate.turn(epoch + 1)
		}
		b.WriteMany(batch(round))
		if round == 1 {
			time.Sleep(20 * time.Millisecond)
			m.gate.turn(epoch)
		}
		all.Wait()
		if errs["plain"] != nil || errs["asks"] != nil || !errors.Is(errs["strange"], keyscheme.ErrToken) || !errors.Is(errs["quorum"], door.ErrQuorum) {
			t.Errorf("round %d: %v", round, errs)
		}
		if out := got["asks"]; len(out.Contexts) != 1 || len(out.Contexts[0]) == 0 || !slices.Equal(out.Changed, []bool{round == 0}) || out.Acked != 1 {
			t.Errorf("round %d: %+v", round, out)
		}
	}
	if elements := w.procs[0].read(t, "s"); !slices.Equal(elements, []string{"a", "b"}) {
		t.Errorf("the set has %v", elements)
	}
	m.live.Store(nil)
	b.WriteMany(batch(2))
	all.Wait()
	for what, err := range errs {
		if !errors.Is(err, door.ErrUnavailable) {
			t.Errorf("%s without routes: %v", what, err)
		}
	}
}

// TestManyDotsCross: a remove without a context of an element that has more dots than any context reaches all replicas.
func TestManyDotsCross(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	b := w.procs[0].member.Backend()
	add := door.Write{Set: []byte("s"), Policy: bigset.PolicyEmpty, Quorum: door.Quorum{W: 3}}
	for range bigset.ContextDotsMax + 1 {
		add.Ops = append(add.Ops, door.Op{Kind: keyscheme.OpAdd, Element: []byte("x")})
	}
	_, err := b.Write(ctx, add)
	must(t, err)
	for _, id := range []string{"", "id"} {
		remove := door.Write{Set: []byte("s"), Ops: []door.Op{{Kind: keyscheme.OpRemove, Element: []byte("x")}}, Quorum: door.Quorum{W: 3}, Request: []byte(id)}
		out, err := b.Write(ctx, remove)
		if err != nil || out.Removed != 1 || out.Acked != 3 {
			t.Fatalf("id %q: %+v, %v", id, out, err)
		}
		if id != "" {
			break
		}
		_, err = b.Write(ctx, add)
		must(t, err)
	}
	for _, p := range w.procs {
		live, _, err := p.member.local.State(ctx, []byte("s"))
		if err != nil || live.Seen.Len() != live.Dead.Len() {
			t.Errorf("%v has %d of %d events alive, %v", p.member.local.Member(), live.Seen.Len()-live.Dead.Len(), live.Seen.Len(), err)
		}
	}
}

// TestBatchMemory: the memory for a batch is taken during its write.
func TestBatchMemory(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 1)
	m := w.start(0).member
	until(t, "birth", w.whole)
	const most = 128 << 10
	l := door.NewLimits(door.LimitsOptions{LongBytes: most})
	m.conf.Limits = l
	b, name := m.Backend(), bytes.Repeat([]byte("n"), 60_000)
	adds := func(e string) door.Write {
		return door.Write{Set: name, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte(e)}, {Kind: keyscheme.OpAdd, Element: []byte(e + "2")}}}
	}
	many := func(w door.Write) error {
		done := make(chan error, 1)
		b.WriteMany([]door.WriteCall{{Context: t.Context(), Write: w, Done: func(_ door.Result, err error) { done <- err }}})
		return <-done
	}
	if _, err := b.Write(t.Context(), adds("a")); err != nil {
		t.Error(err)
	}
	if err := many(adds("b")); err != nil {
		t.Error(err)
	}
	if !l.TakeLong(most) {
		t.Error("the memory is not returned")
	}
	if _, err := b.Write(t.Context(), adds("c")); !errors.Is(err, door.ErrNoRoom) {
		t.Errorf("without memory: %v", err)
	}
	if err := many(adds("d")); !errors.Is(err, door.ErrNoRoom) {
		t.Errorf("of many, without memory: %v", err)
	}
	l.GiveLong(most)
	if elements := w.procs[0].read(t, string(name)); !slices.Equal(elements, []string{"a", "a2", "b", "b2"}) {
		t.Errorf("the set has %v", elements)
	}
}
