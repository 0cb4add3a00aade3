package coord_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"bigset/clock"
	"bigset/engine"
	"bigset/engine/pebbletool"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

type pebbleSilent struct{}

func (pebbleSilent) Infof(string, ...any)  {}
func (pebbleSilent) Errorf(string, ...any) {}
func (pebbleSilent) Fatalf(string, ...any) { panic("Pebble gives up") }

// loses takes keys away from a replica's store without its knowledge.
func (l *link) loses(names ...string) {
	t := l.c.t
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var keys [][]byte
	for _, e := range l.elements() {
		if slices.Contains(names, string(e.Name)) {
			for _, d := range e.Dots {
				keys = append(keys, keyscheme.NewPrefix(set).AppendElement(nil, e.Name, d, keyscheme.OpAdd))
			}
		}
	}
	if len(keys) < len(names) {
		t.Fatalf("%d keys of %v", len(keys), names)
	}
	ok(l.store.Close())
	o := pebbletool.BaselineOptions(1<<20, engine.LSM{})
	o.FS, o.Logger = l.disk, pebbleSilent{}
	db, err := pebble.Open("db", o)
	ok(err)
	for _, k := range keys {
		ok(db.Delete(k, pebble.Sync))
	}
	ok(db.Close())
	node := l.Member().Node
	l.store, err = engine.Open("db", &engine.Options{FS: l.disk, BackgroundInterval: -1, MemTableBytes: 1 << 20})
	ok(err)
	t.Cleanup(func() { _ = l.store.Close() })
	l.Replica, err = local.New(node, l.store, peer.Normal)
	ok(err)
}

// TestDamageIsHealed: what one replica has lost is found by reads and look-ups, fetched from another, and put back; nobody takes it
// for removed.
func TestDamageIsHealed(t *testing.T) {
	for what, meet := range map[string]func(t *testing.T, co *coord.Coordinator){
		"read": func(t *testing.T, co *coord.Coordinator) {
			// To the merge, what is lost looks like what is removed: only the next read shows it.
			if all, _, err := gather(co, coord.Read{Set: set, Quorum: coord.Quorum{R: 3}}); err != nil || len(all) != 1 {
				t.Errorf("%d elements, %v", len(all), err)
			}
		},
		"look-up": func(t *testing.T, co *coord.Coordinator) {
			found, err := co.Lookup(ctx, coord.Lookup{Set: set, Elements: [][]byte{[]byte("b"), []byte("c")}, Quorum: coord.Quorum{R: 3}})
			if err != nil || !found[0].Present() || !found[1].Present() {
				t.Errorf("%+v, %v", found, err)
			}
		},
	} {
		for seed := range uint64(4) {
			s := newSched(seed)
			c := newCluster(t, s, 3)
			co := c.coordinator(coord.Options{})
			s.run(t, minute, func() {
				if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("a", "b", "c"), Quorum: coord.Quorum{W: 3}}); err != nil {
					t.Fatal(err)
				}
			})
			c.links[1].loses("b", "c")
			if c.links[1].has("b") {
				t.Fatal("nothing is lost")
			}
			c.events = nil
			s.run(t, minute, func() { meet(t, co) })
			if n := c.saw(coord.EventDamage); n == 0 || c.saw(coord.EventHealed) != 1 || c.saw(coord.EventHealLeft) > 0 {
				t.Errorf("%s: told %+v", what, c.events)
			}
			s.run(t, minute, func() {
				if all, _, err := gather(co, coord.Read{Set: set, Quorum: coord.Quorum{R: 3}}); err != nil || len(all) != 3 {
					t.Errorf("%s: %d elements afterwards, %v", what, len(all), err)
				}
			})
			for _, l := range c.links {
				if !l.has("b") || !l.has("c") {
					t.Errorf("%s: %v does not have both elements", what, l.Member())
				}
				if st := l.state(); !st.Dead.Empty() {
					t.Errorf("%s: %v has taken damage for a remove: %v", what, l.Member(), st.Dead)
				}
			}
			if rep, err := c.links[1].store.Verify(ctx, engine.VerifyOptions{}); err != nil || !rep.OK() {
				t.Errorf("%s: %+v, %v", what, rep, err)
			}
		}
	}
}

// TestHealAsksOn: a replica that is down, or has lost the same, is passed by; what nobody has is left, and is no remove.
func TestHealAsksOn(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 4)
	co := c.coordinator(coord.Options{Quorum: coord.Quorum{N: 4, W: 4}})
	s.run(t, minute, func() {
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("a", "b", "c")}); err != nil {
			t.Fatal(err)
		}
	})
	b := dotOf(c.links[0], "b")
	cDot := dotOf(c.links[0], "c")
	c.links[0].loses("b", "c")
	c.links[1].loses("b", "c")
	c.links[2].down = true
	c.links[3].loses("c")
	s.run(t, minute, func() {
		lost := clock.Of(b, cDot)
		n, left, err := coord.Heal(ctx, set, lost, c.links[0], c.place(set)...)
		if n != 1 || !left.Equal(clock.Of(cDot)) || err == nil {
			t.Errorf("%d healed, %v left, %v", n, left, err)
		}
		c.links[2].down = false
		n, left, err = coord.Heal(ctx, set, left, c.links[0], c.place(set)...)
		if n != 1 || !left.Empty() || err != nil {
			t.Errorf("%d healed, %v left, %v", n, left, err)
		}
	})
	if err := testkit.SameElements(c.links[0].elements(), c.links[2].elements()); err != nil {
		t.Error(err)
	}
	for _, l := range c.links {
		if st := l.state(); !st.Dead.Empty() {
			t.Errorf("%v has taken damage for a remove: %v", l.Member(), st.Dead)
		}
	}
}

func dotOf(l *link, element string) clock.Dot {
	for _, e := range l.elements() {
		if bytes.Equal(e.Name, []byte(element)) {
			return e.Dots[0]
		}
	}
	l.c.t.Fatalf("%v does not have %s", l.Member(), element)
	return clock.Dot{}
}
