package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"bigset/clock"
	"bigset/engine"
	"bigset/keyscheme"
)

// TestLimits: what is just within a limit works, and what is just over it is refused with a *LimitError that says which,
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
	add := func(set []byte, o engine.WriteOptions, ops ...engine.Op) func() error {
		return func() error {
			for i := range ops {
				ops[i].Kind = keyscheme.OpAdd
			}
			_, err := p.store.Write(bg, set, ops, o)
			return err
		}
	}
	empty := engine.WriteOptions{Policy: engine.PolicyEmpty}
	many := func(n, size int) []engine.Op {
		ops := make([]engine.Op, n)
		for i := range ops {
			ops[i].Element = append(fmt.Appendf(nil, "%08d", i), bytesOf(max(0, size-8))...)
		}
		return ops
	}
	delta := func(set []byte, items ...engine.Item) func() error {
		return func() error {
			for i := range items {
				items[i].Kind = keyscheme.OpAdd
			}
			return p.store.ApplyDelta(bg, engine.Delta{Set: set, Actor: "elsewhere", First: 1, Items: items}, engine.Sync)
		}
	}
	items := func(n, size int) []engine.Item {
		all := make([]engine.Item, n)
		for i, op := range many(n, size) {
			all[i].Element = op.Element
		}
		return all
	}
	big := engine.BatchBytesMax / engine.ElementBytesMax
	for _, c := range []struct {
		what         string
		within, over func() error
	}{
		{"set name", add(bytesOf(engine.SetNameBytesMax), empty, engine.Op{Element: []byte("e")}),
			add(bytesOf(engine.SetNameBytesMax+1), empty, engine.Op{Element: []byte("e")})},
		{"element", add(name, empty, engine.Op{Element: bytesOf(engine.ElementBytesMax)}),
			add(name, empty, engine.Op{Element: bytesOf(engine.ElementBytesMax + 1)})},
		{"operations", add([]byte("many"), empty, many(engine.BatchOpsMax, 8)...), add([]byte("many"), empty, many(engine.BatchOpsMax+1, 8)...)},
		{"batch bytes", add([]byte("big"), empty, many(big, engine.ElementBytesMax)...),
			add([]byte("big"), empty, append(many(big, engine.ElementBytesMax), engine.Op{Element: []byte("1")})...)},
		{"context", add(name, empty, engine.Op{Element: []byte("e"), Context: engine.Saw(dots(engine.ContextDotsMax)...)}),
			add(name, empty, engine.Op{Element: []byte("e"), Context: engine.Saw(dots(engine.ContextDotsMax + 1)...)})},
		{"delta's set name", delta(bytesOf(engine.SetNameBytesMax), items(1, 1)...), delta(bytesOf(engine.SetNameBytesMax+1), items(1, 1)...)},
		{"delta's element", delta([]byte("d1"), items(1, engine.ElementBytesMax)...), delta([]byte("d1"), items(1, engine.ElementBytesMax+1)...)},
		{"delta's items", delta([]byte("d2"), items(engine.BatchOpsMax, 8)...), delta([]byte("d2"), items(engine.BatchOpsMax+1, 8)...)},
		{"delta's bytes", delta([]byte("d3"), items(big, engine.ElementBytesMax)...), delta([]byte("d3"), append(items(big, engine.ElementBytesMax), items(1, 8)...)...)},
		{"delta's context", delta([]byte("d4"), engine.Item{Context: dots(engine.ContextDotsMax)}), delta([]byte("d4"), engine.Item{Context: dots(engine.ContextDotsMax + 1)})},
		{"look-up", func() error {
			_, err := p.store.Contains(bg, name, bytesOf(engine.ElementBytesMax))
			return err
		}, func() error {
			_, err := p.store.Contains(bg, name, bytesOf(engine.ElementBytesMax+1))
			return err
		}},
		{"bound", func() error {
			_, err := p.store.Count(bg, name, engine.CountOptions{ReadOptions: engine.ReadOptions{Prefix: bytesOf(engine.ElementBytesMax)}})
			return err
		}, func() error {
			_, err := p.store.Count(bg, name, engine.CountOptions{ReadOptions: engine.ReadOptions{Prefix: bytesOf(engine.ElementBytesMax + 1)}})
			return err
		}},
	} {
		var limit *engine.LimitError
		if err := c.over(); !errors.Is(err, engine.ErrLimit) || !errors.As(err, &limit) || limit.Got <= limit.Max || limit.What == "" {
			t.Errorf("%s, over the limit: %v", c.what, err)
		}
		if err := c.within(); err != nil {
			t.Errorf("%s, at the limit: %v", c.what, err)
		}
	}
	for what, n := range map[string]uint64{"many": engine.BatchOpsMax, "big": uint64(big), "d2": engine.BatchOpsMax, "d3": uint64(big)} {
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
	p.all(t, "s", keyscheme.OpAdd, []string{"a", "b"}, engine.Sync)
	name, own := []byte("s"), p.store.Actor()
	write := func(set []byte, op engine.Op, o engine.WriteOptions) func() error {
		return func() error {
			_, err := p.store.Write(bg, set, []engine.Op{op}, o)
			return err
		}
	}
	apply := func(d engine.Delta) func() error {
		return func() error { return p.store.ApplyDelta(bg, d, engine.Sync) }
	}
	add := keyscheme.OpAdd
	item := []engine.Item{{Kind: add, Element: []byte("x")}}
	ahead := clock.Dot{Actor: own, Counter: 3}
	for _, c := range []struct {
		what string
		do   func() error
		want error
	}{
		{"no name", write(nil, engine.Op{Kind: add}, engine.WriteOptions{}), engine.ErrRequest},
		{"no kind", write(name, engine.Op{}, engine.WriteOptions{}), engine.ErrRequest},
		{"no context", write(name, engine.Op{Kind: add, Element: []byte("a")}, engine.WriteOptions{Policy: engine.PolicyRequired}), engine.ErrContextRequired},
		{"a dot never issued", write(name, engine.Op{Kind: add, Context: engine.Saw(ahead)}, engine.WriteOptions{}), engine.ErrContext},
		{"a dot never issued, removed", write(name, engine.Op{Kind: keyscheme.OpRemove, Context: engine.Saw(ahead)}, engine.WriteOptions{}), engine.ErrContext},
		{"a dot never issued, in another set", write([]byte("t"), engine.Op{Kind: add, Context: engine.Saw(clock.Dot{Actor: own, Counter: 1})}, engine.WriteOptions{}), engine.ErrContext},
		{"a zero dot", write(name, engine.Op{Kind: add, Context: engine.Saw(clock.Dot{})}, engine.WriteOptions{}), engine.ErrContext},
		{"a delta under our name", apply(engine.Delta{Set: name, Actor: own, First: 3, Items: item}), engine.ErrDelta},
		{"a delta that saw our future", apply(engine.Delta{Set: name, Actor: "x", First: 1, Items: []engine.Item{{Kind: add, Context: []clock.Dot{ahead}}}}), engine.ErrDelta},
		{"a clear of our future", apply(engine.Delta{Set: name, Clear: clock.Of(ahead)}), engine.ErrDelta},
		{"a delta from dot 0", apply(engine.Delta{Set: name, Actor: "x", Items: item}), engine.ErrDelta},
		{"a delta without an actor", apply(engine.Delta{Set: name, First: 1, Items: item}), engine.ErrDelta},
		{"a delta past the last counter", apply(engine.Delta{Set: name, Actor: "x", First: math.MaxUint64, Items: append(item, item...)}), engine.ErrDelta},
		{"a delta of no kind", apply(engine.Delta{Set: name, Actor: "x", First: 1, Items: []engine.Item{{}}}), engine.ErrDelta},
		{"a drop of our future", func() error { _, err := p.store.Drop(bg, name, clock.Of(ahead), engine.Sync); return err }, engine.ErrContext},
		{"a drop of nothing", func() error { _, err := p.store.Drop(bg, []byte("never"), nil, engine.Sync); return err }, engine.ErrNotFound},
		{"a read of nothing", func() error { _, err := readAll(p.store, "never", engine.ReadOptions{}); return err }, engine.ErrNotFound},
		{"a count of nothing", func() error { _, err := p.store.Count(bg, []byte("never"), engine.CountOptions{}); return err }, engine.ErrNotFound},
		{"a context of nothing", func() error { _, err := p.store.Context(bg, []byte("never")); return err }, engine.ErrNotFound},
		{"a negative limit", func() error { _, err := readAll(p.store, "s", engine.ReadOptions{Limit: -1}); return err }, engine.ErrRequest},
		{"a negative batch", func() error { _, err := readAll(p.store, "s", engine.ReadOptions{BatchSize: -1}); return err }, engine.ErrRequest},
		{"a huge batch", func() error {
			_, err := readAll(p.store, "s", engine.ReadOptions{BatchSize: engine.BatchSizeMax + 1})
			return err
		}, engine.ErrRequest},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		p.check(t)
	}
	var sets int
	for range p.store.Sets(bg, true) {
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
	d := engine.Delta{Set: []byte("s"), Actor: "x", First: math.MaxUint64, Items: []engine.Item{{Kind: keyscheme.OpAdd, Element: []byte("e")}}}
	p.apply(t, d, engine.Sync)
	p.check(t)
	p.verify(t)
	p.close(t)
	p.open(t)
	p.check(t)
	p.close(t)
}
