package coord_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bigset"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// overdue is a replica that a write reaches when its coordinator has given up.
type overdue struct {
	*link
	waits  bool // the next write waits in the network
	arrive func()
}

func (o *overdue) Write(ctx context.Context, set []byte, ops []bigset.Op, w bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	if !o.waits {
		return o.link.Write(ctx, set, ops, w)
	}
	o.waits = false
	w.Applied = nil
	o.arrive = func() { _, _, _ = o.Replica.Write(context.WithoutCancel(ctx), set, ops, w) }
	return bigset.Result{}, o.Member(), o.silence(ctx)
}

// TestRetryBeforeFirst: a request waits in the network, is sent again, and is done elsewhere. Then the first try arrives, before what the second one has become. It
// must not be done a second time: the client has the context of one add only, and when it removes that, the element must be gone.
func TestRetryBeforeFirst(t *testing.T) {
	c := newCluster(t, newSched(1), 3)
	late := &overdue{link: c.links[0], waits: true}
	one := c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{late, c.links[1], c.links[2]} })})
	two := c.coordinator(coord.Options{Place: coord.List(func([]byte) []peer.Replica { return []peer.Replica{c.links[1], c.links[2], late} })})
	w := coord.Write{Set: set, Ops: add("x"), Request: []byte("r")}
	c.s.run(t, time.Hour, func() {
		if r, err := one.Write(ctx, w); !errors.Is(err, coord.ErrUnknown) {
			t.Fatalf("%+v, %v", r, err)
		}
		w.Retry = true
		c.links[1].after = func() { // it has answered the question, or has done the request
			if len(c.minted) == 1 && late.arrive != nil {
				late.arrive()
				late.arrive = nil
			}
		}
		r, err := two.Write(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		if late.arrive != nil {
			t.Fatal("the first try has not arrived")
		}
		gone := bigset.Op{Kind: keyscheme.OpRemove, Element: []byte("x"), Context: bigset.Saw(r.Dots[0])}
		if _, err := two.Write(ctx, coord.Write{Set: set, Ops: []bigset.Op{gone}}); err != nil {
			t.Fatal(err)
		}
	})
	for _, l := range c.links {
		if l.has("x") {
			t.Errorf("%v has x again", l.Member())
		}
	}
}
