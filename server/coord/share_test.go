package coord_test

import (
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
)

// chain returns a share for each replica and the next.
func (c *cluster) chain() (all []coord.Share) {
	for i := range c.links[1:] {
		all = append(all, coord.Share{A: c.links[i], B: c.links[i+1], Last: keyscheme.SlotMax})
	}
	return all
}

// exchanges returns the events of exchanges.
func (c *cluster) exchanges() (all []coord.Event) {
	for _, e := range c.events {
		if e.Kind == coord.EventExchanged || e.Kind == coord.EventExchangeFailed {
			all = append(all, e)
		}
	}
	return all
}

// TestSharesConverge: replicas that differ come to hold the same without a call of Exchange, also two that have no share together.
func TestSharesConverge(t *testing.T) {
	for seed := range uint64(5) {
		s := newSched(seed)
		c, want := scattered(t, s, 200)
		c.coordinator(coord.Options{Shares: c.chain})
		s.run(t, 4*time.Minute, func() {})
		all := c.exchanges()
		if len(all) != 4 {
			t.Fatalf("%d exchanges in 4 minutes: %+v", len(all), all)
		}
		for i, e := range all {
			if e.Kind != coord.EventExchanged || e.Node != c.links[i%2].Member().Node || e.Peer != c.links[i%2+1].Member().Node || e.Exchanged.Sets != 1 {
				t.Errorf("turn %d: %+v", i, e)
			}
		}
		if all[0].Exchanged.Keys == 0 || all[0].Exchanged.Dead == 0 || all[3].Exchanged != (coord.Exchanged{Sets: 1}) {
			t.Errorf("%+v, then %+v", all[0].Exchanged, all[3].Exchanged)
		}
		for _, l := range c.links {
			st := l.state()
			if !want.Seen.Equal(st.Seen) || !want.Dead.Equal(st.Dead) || testkit.SameElements(l.elements(), want.Elements()) != nil {
				t.Errorf("%v: Seen %v Dead %v", l.Member(), st.Seen, st.Dead)
			}
		}
	}
}

// TestSharesUnasked: there is no exchange without shares, nor where the interval says so; Jitter decides when there is one.
func TestSharesUnasked(t *testing.T) {
	s := newSched(1)
	c, _ := scattered(t, s, 20)
	for _, o := range []coord.Options{{}, {Shares: c.chain, ExchangeInterval: -1}, {Shares: func() []coord.Share { return nil }}} {
		c.coordinator(o)
		s.run(t, time.Hour, func() {})
		if all := c.exchanges(); len(all) > 0 || c.links[0].calls > 0 {
			t.Fatalf("%+v", all)
		}
	}
	c.coordinator(coord.Options{Shares: c.chain, ExchangeInterval: time.Second, Jitter: func(d time.Duration) time.Duration { return 60 * d }})
	if s.run(t, 10*time.Minute, func() {}); len(c.exchanges()) != 10 {
		t.Errorf("%d exchanges", len(c.exchanges()))
	}
}

// TestSharesClose: Close ends the exchange that is under way and waits until it has ended; then there is no other.
func TestSharesClose(t *testing.T) {
	for seed := range uint64(20) {
		s := newSched(seed)
		c, _ := scattered(t, s, 20)
		co := c.coordinator(coord.Options{Shares: c.chain})
		c.links[1].fault = func() string { return "mute" }
		s.run(t, time.Hour, func() {
			s.Yield(func() bool { return c.links[1].calls > 0 })
			at := s.Now()
			if err := co.Close(ctx); err != nil || s.Now() != at {
				t.Errorf("%v, after %v", err, s.Now().Sub(at))
			}
			if all := c.exchanges(); len(all) != 1 || all[0].Kind != coord.EventExchangeFailed {
				t.Errorf("at the end of Close: %+v", all)
			}
			c.events = nil
			for _, l := range c.links {
				l.calls = 0
			}
		})
		if _, timers := s.Left(); timers > 0 {
			t.Errorf("seed %d: closed, and it goes on", seed)
		}
		for _, l := range c.links {
			if l.calls > 0 || len(c.events) > 0 {
				t.Errorf("seed %d: closed, and %d calls of %v, %+v", seed, l.calls, l.Member(), c.events)
			}
		}
	}
}

// TestSharesGoOn: an exchange that hangs ends after ExchangeTimeout, with no other beside it; the others have their turns, and so has
// this one again when its replica is back.
func TestSharesGoOn(t *testing.T) {
	s := newSched(1)
	c, want := scattered(t, s, 200)
	c.coordinator(coord.Options{Shares: c.chain, ExchangeTimeout: 10 * time.Minute})
	c.links[0].fault = func() string { return "lost" }
	begin := s.Now()
	until := func(d time.Duration) { s.run(t, d-s.Now().Sub(begin), func() {}) }
	until(10 * time.Minute)
	if c.links[0].calls == 0 || c.links[1].calls+c.links[2].calls > 0 || len(c.exchanges()) > 0 {
		t.Fatalf("%d calls, and beside it %d, %d; %+v", c.links[0].calls, c.links[1].calls, c.links[2].calls, c.exchanges())
	}
	until(12 * time.Minute)
	c.links[0].down = true
	until(13 * time.Minute)
	c.links[0].down, c.links[0].fault = false, func() string { return "" }
	until(16 * time.Minute)
	var kinds []coord.EventKind
	for _, e := range c.exchanges() {
		if kinds = append(kinds, e.Kind); (e.Err != nil) != (e.Kind == coord.EventExchangeFailed) {
			t.Errorf("%+v", e)
		}
	}
	failed, done := coord.EventExchangeFailed, coord.EventExchanged
	if !slices.Equal(kinds, []coord.EventKind{failed, done, failed, done, done, done}) {
		t.Errorf("%v", kinds)
	}
	for _, l := range c.links {
		if testkit.SameElements(l.elements(), want.Elements()) != nil {
			t.Errorf("%v differs", l.Member())
		}
	}
}

// TestSharesRun: it runs in goroutines, too, with an interval that varies by chance.
func TestSharesRun(t *testing.T) {
	c, want := scattered(t, newSched(1), 100)
	told := make(chan coord.Event)
	ended := make(chan struct{})
	a, b := c.links[0].Replica, c.links[1].Replica
	co, err := coord.New(coord.Options{
		Place:            coord.List(c.place),
		Shares:           func() []coord.Share { return []coord.Share{{A: a, B: b, Last: keyscheme.SlotMax}} },
		ExchangeInterval: time.Millisecond,
		Events: func(e coord.Event) {
			select {
			case told <- e:
			case <-ended:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if e := <-told; e.Kind != coord.EventExchanged || (e.Exchanged.Differ == 0) != (i > 0) {
			t.Errorf("turn %d: %+v", i, e)
		}
	}
	close(ended)
	if err := co.Close(ctx); err != nil {
		t.Error(err)
	}
	if sa, sb := c.links[0].state(), c.links[1].state(); !sa.Seen.Equal(sb.Seen) || !want.Seen.Clock().Descends(sa.Seen) {
		t.Errorf("%v, %v", sa.Seen, sb.Seen)
	}
}

// TestSharesHeal: a dot that one replica has lost and the other has not seen comes from a third, and then to both.
func TestSharesHeal(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	r, err := c.links[0].store.Add(ctx, set, [][]byte{[]byte("a"), []byte("b")}, bigset.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.links[2].store.Replica().ApplyDelta(ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.Sync}); err != nil {
		t.Fatal(err)
	}
	c.links[0].loses("b")
	c.coordinator(coord.Options{Shares: func() []coord.Share { return c.chain()[:1] }})
	s.run(t, 2*time.Minute, func() {})
	all := c.exchanges()
	if len(all) != 2 || all[0].Exchanged != (coord.Exchanged{Sets: 1, Differ: 1, Keys: 1, Lost: 1}) || all[1].Exchanged.Keys != 1 {
		t.Errorf("%+v", all)
	}
	if c.saw(coord.EventDamage) != 1 || c.saw(coord.EventHealed) != 1 || c.saw(coord.EventHealLeft) > 0 {
		t.Errorf("%+v", c.events)
	}
	for _, l := range c.links {
		if !l.has("a") || !l.has("b") || !l.state().Dead.Empty() {
			t.Errorf("%v: %v", l.Member(), l.elements())
		}
	}
}
