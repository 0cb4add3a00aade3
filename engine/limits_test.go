package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestLimits: what is just within a limit works, and what is just over it is refused with a *bigset.LimitError that says which,
// and changes nothing.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.Tune(nil)
	p.opt.MemTableBytes = 8 << 20
	p.open(t)
	name := []byte("s")
	bytesOf := func(n int) []byte { return bytes.Repeat([]byte{0xfe}, n) }
	dots := func(n int) []clock.Dot {
		d := make([]clock.Dot, n)
		for i := range d {
			d[i] = clock.Dot{Actor: "elsewhere", Counter: uint64(i + 1)}
		}
		return d
	}
	add := func(set []byte, o bigset.WriteOptions, ops ...bigset.Op) func() error {
		return func() error {
			for i := range ops {
				ops[i].Kind = keyscheme.OpAdd
			}
			_, err := p.store.Write(bg, set, ops, o)
			return err
		}
	}
	empty := bigset.WriteOptions{Policy: bigset.PolicyEmpty}
	many := func(n, size int) []bigset.Op {
		ops := make([]bigset.Op, n)
		for i := range ops {
			ops[i].Element = append(fmt.Appendf(nil, "%08d", i), bytesOf(max(0, size-8))...)
		}
		return ops
	}
	delta := func(set []byte, items ...bigset.Item) func() error {
		return func() error {
			for i := range items {
				items[i].Kind = keyscheme.OpAdd
			}
			return p.store.Replica().ApplyDelta(bg, bigset.Delta{Set: set, Actor: "elsewhere", First: 1, Items: items}, bigset.ApplyOptions{Durability: bigset.Sync})
		}
	}
	items := func(n, size int) []bigset.Item {
		all := make([]bigset.Item, n)
		for i, op := range many(n, size) {
			all[i].Element = op.Element
		}
		return all
	}
	big := bigset.BatchBytesMax / bigset.ElementBytesMax
	for _, c := range []struct {
		what         string
		within, over func() error
	}{
		{"set name", add(bytesOf(bigset.SetNameBytesMax), empty, bigset.Op{Element: []byte("e")}),
			add(bytesOf(bigset.SetNameBytesMax+1), empty, bigset.Op{Element: []byte("e")})},
		{"element", add(name, empty, bigset.Op{Element: bytesOf(bigset.ElementBytesMax)}),
			add(name, empty, bigset.Op{Element: bytesOf(bigset.ElementBytesMax + 1)})},
		{"operations", add([]byte("many"), empty, many(bigset.BatchOpsMax, 8)...), add([]byte("many"), empty, many(bigset.BatchOpsMax+1, 8)...)},
		{"batch bytes", add([]byte("big"), empty, many(big, bigset.ElementBytesMax)...),
			add([]byte("big"), empty, append(many(big, bigset.ElementBytesMax), bigset.Op{Element: []byte("1")})...)},
		{"context", add(name, empty, bigset.Op{Element: []byte("e"), Context: bigset.Saw(dots(bigset.ContextDotsMax)...)}),
			add(name, empty, bigset.Op{Element: []byte("e"), Context: bigset.Saw(dots(bigset.ContextDotsMax + 1)...)})},
		{"delta's set name", delta(bytesOf(bigset.SetNameBytesMax), items(1, 1)...), delta(bytesOf(bigset.SetNameBytesMax+1), items(1, 1)...)},
		{"delta's element", delta([]byte("d1"), items(1, bigset.ElementBytesMax)...), delta([]byte("d1"), items(1, bigset.ElementBytesMax+1)...)},
		{"delta's items", delta([]byte("d2"), items(bigset.BatchOpsMax, 8)...), delta([]byte("d2"), items(bigset.BatchOpsMax+1, 8)...)},
		{"delta's bytes", delta([]byte("d3"), items(big, bigset.ElementBytesMax)...), delta([]byte("d3"), append(items(big, bigset.ElementBytesMax), items(1, 8)...)...)},
		{"delta's context", delta([]byte("d4"), bigset.Item{Context: dots(bigset.ContextDotsMax + 1)}), delta([]byte("d4"), bigset.Item{Context: dots(bigset.DeltaDotsMax + 1)})},
		{"look-up", func() error {
			_, err := p.store.Look(bg, name, bytesOf(bigset.ElementBytesMax))
			return err
		}, func() error {
			_, err := p.store.Look(bg, name, bytesOf(bigset.ElementBytesMax+1))
			return err
		}},
		{"bound", func() error {
			_, err := p.store.Count(bg, name, engine.CountOptions{ReadOptions: bigset.ReadOptions{Prefix: bytesOf(bigset.ElementBytesMax)}})
			return err
		}, func() error {
			_, err := p.store.Count(bg, name, engine.CountOptions{ReadOptions: bigset.ReadOptions{Prefix: bytesOf(bigset.ElementBytesMax + 1)}})
			return err
		}},
	} {
		var limit *bigset.LimitError
		if err := c.over(); !errors.Is(err, bigset.ErrLimit) || !errors.As(err, &limit) || limit.Got <= limit.Max || limit.What == "" {
			t.Errorf("%s, over the limit: %v", c.what, err)
		}
		if err := c.within(); err != nil {
			t.Errorf("%s, at the limit: %v", c.what, err)
		}
	}
	for what, n := range map[string]uint64{"many": bigset.BatchOpsMax, "big": uint64(big), "d2": bigset.BatchOpsMax, "d3": uint64(big)} {
		if got, err := p.store.Count(bg, []byte(what), engine.CountOptions{}); err != nil || got.Elements != n {
			t.Errorf("%q has %d elements (%v), want %d", what, got.Elements, err, n)
		}
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
	p.open(t)
	p.verify(t)
	must(t, p.store.Close(), "close")
}

// TestRefused: what can't be is refused with the error that says so, and changes nothing.
func TestRefused(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a", "b"}, bigset.Sync)
	name, own := []byte("s"), p.store.Replica().Actor()
	write := func(set []byte, op bigset.Op, o bigset.WriteOptions) func() error {
		return func() error {
			_, err := p.store.Write(bg, set, []bigset.Op{op}, o)
			return err
		}
	}
	apply := func(d bigset.Delta) func() error {
		return func() error { return p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.Sync}) }
	}
	add := keyscheme.OpAdd
	item := []bigset.Item{{Kind: add, Element: []byte("x")}}
	ahead := clock.Dot{Actor: own, Counter: 3}
	for _, c := range []struct {
		what string
		do   func() error
		want error
	}{
		{"no name", write(nil, bigset.Op{Kind: add}, bigset.WriteOptions{}), bigset.ErrRequest},
		{"no kind", write(name, bigset.Op{}, bigset.WriteOptions{}), bigset.ErrRequest},
		{"no context", write(name, bigset.Op{Kind: add, Element: []byte("a")}, bigset.WriteOptions{Policy: bigset.PolicyRequired}), bigset.ErrContextRequired},
		{"a dot never issued", write(name, bigset.Op{Kind: add, Context: bigset.Saw(ahead)}, bigset.WriteOptions{}), bigset.ErrContext},
		{"a dot never issued, removed", write(name, bigset.Op{Kind: keyscheme.OpRemove, Context: bigset.Saw(ahead)}, bigset.WriteOptions{}), bigset.ErrContext},
		{"a dot never issued, in another set", write([]byte("t"), bigset.Op{Kind: add, Context: bigset.Saw(clock.Dot{Actor: own, Counter: 1})}, bigset.WriteOptions{}), bigset.ErrContext},
		{"a zero dot", write(name, bigset.Op{Kind: add, Context: bigset.Saw(clock.Dot{})}, bigset.WriteOptions{}), bigset.ErrContext},
		{"a delta under our name", apply(bigset.Delta{Set: name, Actor: own, First: 3, Items: item}), bigset.ErrDelta},
		{"a delta that saw our future", apply(bigset.Delta{Set: name, Actor: "x", First: 1, Items: []bigset.Item{{Kind: add, Context: []clock.Dot{ahead}}}}), bigset.ErrDelta},
		{"a clear of our future", apply(bigset.Delta{Set: name, Clear: clock.Of(ahead)}), bigset.ErrDelta},
		{"a delta from dot 0", apply(bigset.Delta{Set: name, Actor: "x", Items: item}), bigset.ErrDelta},
		{"a delta without an actor", apply(bigset.Delta{Set: name, First: 1, Items: item}), bigset.ErrDelta},
		{"a delta past the last counter", apply(bigset.Delta{Set: name, Actor: "x", First: math.MaxUint64, Items: append(item, item...)}), bigset.ErrDelta},
		{"a delta of no kind", apply(bigset.Delta{Set: name, Actor: "x", First: 1, Items: []bigset.Item{{}}}), bigset.ErrDelta},
		{"a drop of our future", func() error {
			_, err := p.store.Drop(bg, name, bigset.DropOptions{Seen: clock.Of(ahead), Durability: bigset.Sync})
			return err
		}, bigset.ErrContext},
		{"a drop of nothing", func() error {
			_, err := p.store.Drop(bg, []byte("never"), bigset.DropOptions{Durability: bigset.Sync})
			return err
		}, bigset.ErrNotFound},
		{"a read of nothing", func() error { _, err := readAll(p.store, "never", bigset.ReadOptions{}); return err }, bigset.ErrNotFound},
		{"a count of nothing", func() error { _, err := p.store.Count(bg, []byte("never"), engine.CountOptions{}); return err }, bigset.ErrNotFound},
		{"a context of nothing", func() error { _, err := p.store.Seen(bg, []byte("never")); return err }, bigset.ErrNotFound},
		{"a negative limit", func() error { _, err := readAll(p.store, "s", bigset.ReadOptions{Limit: -1}); return err }, bigset.ErrRequest},
		{"a negative batch", func() error { _, err := readAll(p.store, "s", bigset.ReadOptions{BatchSize: -1}); return err }, bigset.ErrRequest},
		{"a huge batch", func() error {
			_, err := readAll(p.store, "s", bigset.ReadOptions{BatchSize: bigset.BatchSizeMax + 1})
			return err
		}, bigset.ErrRequest},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		p.check(t)
	}
	var sets int
	for range p.store.Sets(bg, bigset.SetsOptions{Empty: true}) {
		sets++
	}
	if sets != 1 {
		t.Errorf("%d sets, want the one", sets)
	}
	p.verify(t)
	p.close(t)
}

// TestLastCounter: an actor's last counter is a dot like any other.
func TestLastCounter(t *testing.T) {
	p := newPair("store")
	p.open(t)
	d := bigset.Delta{Set: []byte("s"), Actor: "x", First: math.MaxUint64, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("e")}}}
	p.apply(t, d, bigset.Sync)
	p.check(t)
	p.verify(t)
	p.close(t)
	p.open(t)
	p.check(t)
	p.close(t)
}
