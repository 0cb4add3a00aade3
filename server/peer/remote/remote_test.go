package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/remote"
)

// TestRemoteIsLocal: each verb answers over a wire what it answers without one: a question on the same store, a change on one that has the same.
// So it does on empty stores, on full ones, and with the same error.
func TestRemoteIsLocal(t *testing.T) {
	over, here := newNode(t, remote.Open{}), newNode(t, remote.Open{})
	for round := range 3 {
		for _, c := range calls(t) {
			twin := over
			if c.change {
				twin = here
			}
			got, errGot := c.do(over.far)
			want, errWant := c.do(twin.local)
			if g, w := plain(over, got, errGot), plain(twin, want, errWant); g != w || happened(errGot) != happened(errWant) {
				t.Errorf("round %d, %s:\ngot  %s\nwant %s", round, c.name, g, w)
			}
			if round == 1 && errWant == nil && over.far.Member() != over.local.Member() {
				t.Errorf("%s: %v was heard, it is %v", c.name, over.far.Member(), over.local.Member())
			}
		}
		if round == 1 { // so that others follow that fail
			_, err := over.far.DropGeneration(ctx, []byte("filter"), filter.Slices, 7)
			_, err2 := here.local.DropGeneration(ctx, []byte("filter"), filter.Slices, 7)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
		}
	}
	if n := len(over.loop.calls); n != 3*len(calls(t))+1 {
		t.Errorf("%d calls went over the wire", n)
	}
}

// TestRemoteAtRandom does operations at random on two stores, on one over a wire: all that either answers is the same.
func TestRemoteAtRandom(t *testing.T) {
	over, here := newNode(t, remote.Open{}), newNode(t, remote.Open{})
	const foreign = "\xFF\xFF\xFF\xFF\xFF" // after the actors of both stores
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		name := fmt.Appendf(nil, "set-%d", round)
		element := rapid.Custom(func(t *rapid.T) []byte { return []byte{'a' + byte(rapid.IntRange(0, 5).Draw(t, "element"))} })
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			var do func(r remote.Local, actor clock.Actor) (any, error)
			switch rapid.IntRange(0, 7).Draw(t, "verb") {
			case 0, 1:
				var ops []bigset.Op
				for range rapid.IntRange(1, 4).Draw(t, "ops") {
					ops = append(ops, bigset.Op{Kind: rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind"), Element: element.Draw(t, "e")})
				}
				o := bigset.WriteOptions{Policy: bigset.Policy(rapid.IntRange(0, 2).Draw(t, "policy")), Durability: bigset.NoSync}
				if rapid.Bool().Draw(t, "id") {
					o.Request = []byte{byte(rapid.IntRange(0, 3).Draw(t, "request"))}
				}
				wide := rapid.IntRange(0, 3).Draw(t, "wide")
				do = func(r remote.Local, actor clock.Actor) (any, error) {
					ops := slices.Clone(ops)
					for i := range ops {
						switch wide {
						case 1:
							ops[i].Context = bigset.SawAll(clock.Of(clock.Dot{Actor: actor, Counter: 1}))
						case 2:
							ops[i].Context = bigset.Saw(clock.Dot{Actor: actor, Counter: 1}, dot(foreign, 1))
						}
					}
					a, by, err := r.Write(ctx, name, ops, o)
					return answers{a, by}, err
				}
			case 2:
				d := bigset.Delta{Set: name, Actor: foreign, First: rapid.Uint64Range(1, 6).Draw(t, "first"), Items: []bigset.Item{
					{Kind: keyscheme.OpAdd, Element: element.Draw(t, "e")}, {Kind: keyscheme.OpAdd, Element: element.Draw(t, "e"), Context: []clock.Dot{dot(foreign, rapid.Uint64Range(1, 9).Draw(t, "kills"))}}}}
				durability := bigset.Durability(rapid.IntRange(0, 2).Draw(t, "durability"))
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					by, err := r.Apply(ctx, d, durability)
					return answers{by}, err
				}
			case 3:
				f := bigset.Facts{Set: name, Keys: []fold.Element{{Name: element.Draw(t, "e"), Dots: []clock.Dot{dot(foreign, rapid.Uint64Range(1, 9).Draw(t, "counter"))}}}}
				if rapid.Bool().Draw(t, "dead") {
					f.Dead = clock.Of(dot(foreign, rapid.Uint64Range(1, 9).Draw(t, "counter")))
				}
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					a, by, err := r.ApplyFacts(ctx, f, bigset.NoSync)
					return answers{a, by}, err
				}
			case 4:
				o := bigset.ReadOptions{Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.IntRange(0, 4).Draw(t, "limit"), BatchSize: rapid.IntRange(0, 3).Draw(t, "batch")}
				if rapid.Bool().Draw(t, "from") {
					o.From = element.Draw(t, "e")
				}
				if rapid.Bool().Draw(t, "after") {
					o.After = element.Draw(t, "e")
				}
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					var list []string
					for c, err := range r.Read(ctx, name, o) {
						if err != nil {
							return list, err
						}
						list = append(list, fmt.Sprintf("%v %q %q %v", c.Clock, names(c.Elements), c.Bound, c.Done))
					}
					return list, nil
				}
			case 5:
				els := [][]byte{element.Draw(t, "e"), element.Draw(t, "e")}
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					a, by, err := r.Lookup(ctx, name, els)
					return answers{a, by}, err
				}
			case 6:
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					a, by, err := r.State(ctx, name)
					return answers{a, by}, err
				}
			case 7:
				after := element.Draw(t, "e")
				if rapid.Bool().Draw(t, "start") {
					after = nil
				}
				most := rapid.IntRange(1, 200).Draw(t, "bytes")
				do = func(r remote.Local, _ clock.Actor) (any, error) {
					a, by, err := r.Export(ctx, name, after, most)
					return answers{a, by}, err
				}
			}
			got, errGot := do(over.far, over.store.Replica().Actor())
			want, errWant := do(here.local, here.store.Replica().Actor())
			if g, w := plain(over, got, errGot), plain(here, want, errWant); g != w {
				t.Fatalf("got  %s\nwant %s", g, w)
			}
			if happened(errGot) != happened(errWant) {
				t.Fatalf("%v says that %s has happened, %v says %s", errGot, happened(errGot), errWant, happened(errWant))
			}
		}
	})
}

// TestManyDigests goes in several parts.
func TestManyDigests(t *testing.T) {
	n := newNode(t, remote.Open{})
	for i := range 2500 {
		if _, err := n.store.Add(ctx, fmt.Appendf(nil, "set-%d", i), [][]byte{[]byte("x")}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := all(n.far.Digests(ctx, 0, keyscheme.SlotMax))
	want, err2 := all(n.local.Digests(ctx, 0, keyscheme.SlotMax))
	if err != nil || err2 != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 2500 || n.loop.parts != 4 {
		t.Errorf("%d digests, %d parts, %v, %v", len(got), n.loop.parts, err, err2)
	}
}

// large is a replica with a chunk that does not fit in a frame.
type large struct {
	remote.Local
	element []byte
}

func (l large) Read(context.Context, []byte, bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) {
		c := &fold.Chunk{Clock: clock.Of(dot("A", 1)), Done: true}
		for i := range 1_100 {
			name := append(fmt.Appendf(nil, "%08d", i), l.element...)
			c.Elements = append(c.Elements, fold.Element{Name: name, Dots: []clock.Dot{dot("A", uint64(i+1))}})
		}
		yield(c, nil)
	}
}

func TestLargeChunks(t *testing.T) {
	n := newNode(t, remote.Open{})
	n.loop.handler = remote.Handler(large{n.local, make([]byte, 65_000)}, remote.Open{})
	total, chunks := 0, 0
	var last []byte
	done := false
	for c, err := range n.far.Read(ctx, set, bigset.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Elements {
			if bytes.Compare(last, e.Name) >= 0 {
				t.Fatal("in no order")
			}
			last = e.Name
		}
		if !c.Done && !bytes.Equal(c.Bound, last) || c.Clock == nil || done {
			t.Errorf("bound %.20q, clock %v", c.Bound, c.Clock)
		}
		total, done = total+len(c.Elements), c.Done
		chunks++
	}
	if total != 1_100 || !done || chunks < 4 {
		t.Errorf("%d elements in %d chunks", total, chunks)
	}
}

// TestDeltasAreEncodedOnce: replicas that share frames send the same bytes.
func TestDeltasAreEncodedOnce(t *testing.T) {
	a, b := newNode(t, remote.Open{}), newNode(t, remote.Open{})
	frames := &remote.Frames{}
	var far [2]*remote.Replica
	for i, n := range []*node{a, b} {
		far[i], _ = remote.New(remote.Options{Member: n.far.Member(), Caller: n.loop, Self: func() peer.Member { return self }, Frames: frames})
	}
	send := func(first uint64, items int) {
		t.Helper()
		d := bigset.Delta{Set: set, Actor: "F1", First: first}
		for i := range items {
			d.Items = append(d.Items, bigset.Item{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "%d-%d", first, i)})
		}
		for i, n := range []*node{a, b} {
			n.loop.calls = nil
			if _, err := far[i].Apply(ctx, d, bigset.Durability(1+i)); err != nil {
				t.Fatal(err)
			}
		}
		one, two := a.loop.calls[0], b.loop.calls[0]
		if shared := &one.Body[0] == &two.Body[0]; shared != (items >= 4) || !bytes.Equal(one.Body, two.Body) || one.Verb+1 != two.Verb {
			t.Errorf("%d items: the bytes are shared: %v", items, shared)
		}
	}
	for i := range uint64(100) {
		send(1+i*10, 1+int(i%10))
	}
	if x, y := a.digest(t), b.digest(t); x != y {
		t.Errorf("the stores differ: %s %s", x, y)
	}
}
