package remote_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// keeping is a replica that keeps some requests.
type keeping struct {
	remote.Local
	all []bigset.KeptRequest
}

func (k keeping) Requests(context.Context, keyscheme.Slot, keyscheme.Slot) iter.Seq2[bigset.KeptRequest, error] {
	return func(yield func(bigset.KeptRequest, error) bool) {
		for _, r := range k.all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// requestOf is a request of n events; each has killed dots of some actors.
func requestOf(id string, n, dots int) bigset.KeptRequest {
	r := bigset.KeptRequest{Set: set, ID: []byte(id), Age: time.Minute, Actor: "A", First: 7}
	killed := &clock.Clock{}
	for i := range dots {
		killed.Add(clock.Dot{Actor: clock.Actor(fmt.Sprintf("a%d", i%7)), Counter: uint64(1<<40 + i)})
	}
	for range n {
		r.Events = append(r.Events, keyscheme.RequestItem{Op: keyscheme.OpRemove, Sum: 9, Context: killed})
	}
	return r
}

// TestRequestsInParts: requests come in parts that fit in frames, also where some are large; one that fits in none is left out.
func TestRequestsInParts(t *testing.T) {
	t.Parallel()
	n := newNode(t, remote.Open{})
	k := keeping{Local: n.local}
	for i := range 5000 {
		k.all = append(k.all, requestOf(fmt.Sprint("small ", i), 1, 1))
	}
	k.all = append(k.all, requestOf("large", 30, 10_000), requestOf("larger", 100, 10_000), requestOf("too large", 400, 10_000), requestOf("last", 1, 0))
	n.loop.handler = remote.Handler(k, remote.Open{})
	i := 0
	for r, err := range n.far.Requests(ctx, 0, keyscheme.SlotMax) {
		if err != nil {
			t.Fatal(err)
		}
		if string(k.all[i].ID) == "too large" {
			i++
		}
		want := &k.all[i]
		if string(r.ID) != string(want.ID) || r.Age != want.Age || r.Actor != want.Actor || r.First != want.First || len(r.Events) != len(want.Events) ||
			!r.Events[len(r.Events)-1].Context.Equal(want.Events[0].Context) {
			t.Fatalf("request %d is %q, want %q", i, r.ID, want.ID)
		}
		i++
	}
	if i != len(k.all) || n.loop.parts < 4 {
		t.Errorf("%d of %d requests in %d parts", i, len(k.all), n.loop.parts)
	}
}

// TestOddRequests: requests of another range, or in no order, are an answer that can't be one.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t, remote.Open{})
	at := keyscheme.SetSlot(set)
	n.loop.handler = remote.Handler(keeping{n.local, []bigset.KeptRequest{requestOf("id", 1, 1)}}, remote.Open{})
	for _, r := range [][2]keyscheme.Slot{{0, at - 1}, {at + 1, keyscheme.SlotMax}} {
		if list, err := all(n.far.Requests(ctx, r[0], r[1])); !errors.Is(err, peer.ErrAnswer) || len(list) > 0 {
			t.Errorf("slots %08x to %08x: %v, %v", r[0], r[1], list, err)
		}
	}
	other := requestOf("id", 1, 1)
	for i := 0; keyscheme.SetSlot(other.Set) >= at; i++ {
		other.Set = fmt.Append(nil, "set ", i)
	}
	n.loop.handler = remote.Handler(keeping{n.local, []bigset.KeptRequest{requestOf("id", 1, 1), other}}, remote.Open{})
	if list, err := all(n.far.Requests(ctx, 0, keyscheme.SlotMax)); !errors.Is(err, peer.ErrAnswer) || len(list) != 1 {
		t.Errorf("in no order: %v, %v", list, err)
	}
}

// TestOlderKnowsNoRequests: a member whose program does not know the question says so, and nothing has happened.
func TestOlderKnowsNoRequests(t *testing.T) {
	t.Parallel()
	n := filled(t, remote.Open{})
	handler := n.loop.handler
	n.loop.handler = func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == remote.VerbRequests {
			r.Verb = 255 // which nobody knows
		}
		return handler(ctx, r, send)
	}
	list, err := all(n.far.Requests(ctx, 0, keyscheme.SlotMax))
	if !errors.Is(err, peer.ErrFrameKind) || happened(err) != "nothing" || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
