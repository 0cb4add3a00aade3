package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

var (
	ctx  = context.Background()
	set  = []byte("set")
	self = peer.Member{Node: "here", Incarnation: "H1", State: peer.Normal}
)

func dot(a string, n uint64) clock.Dot { return clock.Dot{Actor: clock.Actor(a), Counter: n} }

// loop is a wire within a process: a call is a handler's, and errors cross as bytes.
type loop struct {
	handler wire.Handler
	role    wire.Role
	name    string // of the node at this end
	errors  peer.Errors
	before  func(wire.Call) error // an error of the transport, or nil
	tamper  func([]byte) []byte   // of answers and parts, or nil: none is sent for one that becomes nil
	after   func() error          // instead of the answer, once it is there
	parts   int
	version byte // of the protocol
	calls   []wire.Call
}

func (l *loop) request(c wire.Call) *wire.Request {
	l.calls = append(l.calls, c)
	return &wire.Request{Verb: c.Verb, Epoch: c.Epoch, Priority: c.Priority, Body: bytes.Clone(c.Body), From: &wire.Remote{Role: l.role, Name: l.name}}
}

func (l *loop) crossed(err error) error { return l.errors.Decode(l.errors.Append(nil, err)) }

func (l *loop) Do(ctx context.Context, c wire.Call) ([]byte, error) {
	c, err := c.Encoded(l.version)
	if err != nil {
		return nil, err
	}
	if l.before != nil {
		if err := l.before(c); err != nil {
			return nil, err
		}
	}
	b, err := l.handler(ctx, l.request(c), func([]byte) error { return errors.New("a part of no stream") })
	if l.after != nil {
		if err := l.after(); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, l.crossed(err)
	}
	if l.tamper != nil {
		b = l.tamper(b)
	}
	return b, nil
}

func (l *loop) Stream(ctx context.Context, c wire.Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c, err := c.Encoded(l.version)
		if err != nil {
			yield(nil, err)
			return
		}
		if l.before != nil {
			if err := l.before(c); err != nil {
				yield(nil, err)
				return
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stopped := false
		var part []byte // what the consumer has, until the next
		show := func(b []byte) bool {
			l.parts++
			if l.tamper != nil {
				b = l.tamper(bytes.Clone(b))
			}
			if b == nil {
				return true
			}
			for i := range part {
				part[i] = 0xEE
			}
			part = append(part[:0], b...)
			if stopped = !yield(part, nil); stopped {
				cancel()
			}
			return !stopped
		}
		last, err := l.handler(ctx, l.request(c), func(b []byte) error {
			if !show(b) {
				return context.Canceled
			}
			if l.after != nil {
				return l.after()
			}
			return nil
		})
		switch {
		case stopped:
		case err != nil:
			yield(nil, l.crossed(err))
		default:
			show(last)
		}
	}
}

// node is a store, its replica, and the way to it.
type node struct {
	store *engine.Store
	local *local.Replica
	loop  *loop
	far   *remote.Replica
}

func newNode(t testing.TB, gate remote.Gate) *node {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	rep, err := local.New("there", store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	rep.SetSeat(1)
	n := &node{store: store, local: rep}
	n.loop = &loop{handler: remote.Handler(rep, gate), role: wire.RoleNode, name: self.Node}
	n.far, err = remote.New(remote.Options{Member: peer.Member{Node: "there", Incarnation: "?", State: peer.Joining}, Caller: n.loop,
		Self: func() peer.Member { return self }, Frames: &remote.Frames{}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var filter = bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1e6, Probability: 0.01, Scale: 2, Reduction: 0.5, Slices: 8, Owners: 3}, Durability: bigset.FilterSync}

// hashesOf returns keys of a slice, or of any slice.
func hashesOf(slice uint32, keys ...string) (all []bloomslice.Hash) {
	for _, k := range keys {
		for i := 0; ; i++ {
			if h := bloomslice.Sum(fmt.Appendf(nil, "%s-%d", k, i)); h.Slice(filter.Slices) == slice {
				all = append(all, h)
				break
			}
		}
	}
	return all
}

func spec(slice uint32) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte("filter"), Slice: slice, Generation: 7, Options: filter}
}

// marksOf are marks as another node makes them.
func marksOf(t fataler, slice uint32, keys ...string) bigset.Marks {
	shape, err := filter.Shape(0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := bigset.Marks{SliceSpec: spec(slice), Layers: []bloomslice.Layer{{ID: bloomslice.LayerID{Owner: "\x02"}, Shape: shape, Count: uint64(len(keys))}}}
	for _, h := range hashesOf(slice, keys...) {
		m.Marks = append(m.Marks, bigset.Mark{Hash: h})
	}
	return m
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// call is one verb, with arguments.
type call struct {
	name   string
	class  remote.Class
	change bool // an error must say what has happened
	stream bool
	do     func(remote.Local) (any, error)
}

type answers []any

// all drains a stream.
func all[V any](seq iter.Seq2[V, error]) (list []V, err error) {
	for v, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}

// calls has a call of each verb.
func calls(t fataler) []call {
	delta := bigset.Delta{Set: set, Actor: "F1", First: 5, Items: []bigset.Item{
		{Kind: keyscheme.OpAdd, Element: []byte("p")}, {Kind: keyscheme.OpAdd, Element: []byte("q"), Context: []clock.Dot{dot("F1", 2)}},
		{Kind: keyscheme.OpRemove, Element: []byte("r"), Context: []clock.Dot{dot("F1", 3)}}, {Kind: keyscheme.OpAdd, Element: []byte("s")}}}
	facts := bigset.Facts{Set: set, Keys: []fold.Element{{Name: []byte("g"), Dots: []clock.Dot{dot("G1", 1)}}}, Dead: clock.Of(dot("G1", 9))}
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}, {Kind: keyscheme.OpAdd, Element: []byte("y"), Context: bigset.Saw()}, {Kind: keyscheme.OpRemove, Element: []byte("gone")}}
	full, slots := keyscheme.SlotMax, keyscheme.Slot(0)
	groups := []peer.SliceKeys{{Slice: 1, Hashes: hashesOf(1, "a", "b")}, {Slice: 3, Hashes: hashesOf(3, "c")}}
	calls := []call{
		{"Write", remote.Mint, true, false, func(r remote.Local) (any, error) {
			a, by, err := r.Write(ctx, set, ops, bigset.WriteOptions{Request: []byte("id"), Durability: bigset.NoSync})
			return answers{a, by}, err
		}},
		{"WriteAhead", remote.Mint, true, true, func(r remote.Local) (any, error) {
			a, by, err := r.Write(ctx, set, ops[:1], bigset.WriteOptions{Request: []byte("ahead"), Durability: bigset.Sync, Applied: func(bigset.Result) {}})
			return answers{a, by}, err
		}},
		{"Knows", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Knows(ctx, set, []byte("id"))
			return answers{a, by}, err
		}},
		{"Apply", remote.Take, true, false, func(r remote.Local) (any, error) {
			by, err := r.Apply(ctx, delta, bigset.NoSync)
			return answers{by}, err
		}},
		{"ApplyFacts", remote.Take, true, false, func(r remote.Local) (any, error) {
			a, by, err := r.ApplyFacts(ctx, facts, bigset.Sync)
			return answers{a, by}, err
		}},
		{"Heal", remote.Take, true, false, func(r remote.Local) (any, error) {
			a, by, err := r.Heal(ctx, facts, nil)
			return answers{a, by}, err
		}},
		{"Lost", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Lost(ctx, set)
			return answers{a, by}, err
		}},
		{"ElementDigests", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.ElementDigests(ctx, set, bigset.ElementRange{Mean: 1, Within: clock.Of(dot("F1", 5), dot("G1", 1))})
			return answers{a, by}, err
		}},
		{"State", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.State(ctx, set)
			return answers{a, by}, err
		}},
		{"Locate", remote.Compare, false, true, func(r remote.Local) (any, error) {
			return all(r.Locate(ctx, set, clock.Of(dot("F1", 5), dot("F1", 3), dot("G1", 1))))
		}},
		{"Read", remote.Answer, false, true, func(r remote.Local) (any, error) { return readAll(r, bigset.ReadOptions{BatchSize: 2}) }},
		{"Lookup", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Lookup(ctx, set, [][]byte{[]byte("p"), []byte("x"), []byte("nobody")})
			return answers{a, by}, err
		}},
		{"CountParts", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.CountParts(ctx, set, bigset.CountRange{From: []byte("g"), Mean: 1, Clock: true})
			return answers{a, by}, err
		}},
		{"Judge", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Judge(ctx, set, []byte("p"), []clock.Dot{dot("F1", 5), dot("F1", 3), dot("Z", 1)})
			return answers{a, by}, err
		}},
		{"Export", remote.Copy, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Export(ctx, set, nil, 40)
			return answers{a, by}, err
		}},
		{"Digests", remote.Compare, false, true, func(r remote.Local) (any, error) { return all(r.Digests(ctx, slots, full)) }},
		{"Requests", remote.Copy, false, true, func(r remote.Local) (any, error) {
			list, err := all(r.Requests(ctx, slots, full))
			for i := range list {
				list[i].Age = 0 // the time of the question
			}
			return list, err
		}},
		{"RangeDigests", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.RangeDigests(ctx, slots, full, 3)
			return answers{a, by}, err
		}},
		{"Mark", remote.Mint, true, false, func(r remote.Local) (any, error) {
			a, added, by, err := r.Mark(ctx, spec(2), hashesOf(2, "a", "b"))
			return answers{a, added, by}, err
		}},
		{"ApplyMarks", remote.Take, true, false, func(r remote.Local) (any, error) {
			a, by, err := r.ApplyMarks(ctx, marksOf(t, 2, "b", "c"))
			return answers{a, by}, err
		}},
		{"Check", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Check(ctx, spec(2), hashesOf(2, "a", "b", "c", "d"))
			return answers{a, by}, err
		}},
		{"SliceDigests", remote.Compare, false, true, func(r remote.Local) (any, error) { return all(r.SliceDigests(ctx, slots, full)) }},
		{"PageSums", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.PageSums(ctx, spec(2), nil, 1)
			return answers{a, by}, err
		}},
		{"Pages", remote.Compare, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Pages(ctx, spec(2), []bigset.PagePlace{{Layer: bloomslice.LayerID{Owner: "\x02"}, Page: 0}})
			return answers{a, by}, err
		}},
		{"MergePages", remote.Take, true, false, func(r remote.Local) (any, error) {
			m := marksOf(t, 4, "b")
			by, err := r.MergePages(ctx, bigset.SlicePages{SliceSpec: m.SliceSpec, Layers: m.Layers})
			return answers{by}, err
		}},
		{"FlushSlice", remote.Take, true, false, func(r remote.Local) (any, error) {
			by, err := r.FlushSlice(ctx, spec(2))
			return answers{by}, err
		}},
		{"MarkMany", remote.Mint, true, false, func(r remote.Local) (any, error) {
			a, by, err := r.MarkMany(ctx, spec(0), groups)
			return answers{a, by}, errors.Join(err, groupErr(len(a), func(i int) error { return a[i].Err }))
		}},
		{"CheckMany", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.CheckMany(ctx, spec(0), groups)
			return answers{a, by}, errors.Join(err, groupErr(len(a), func(i int) error { return a[i].Err }))
		}},
		{"ApplyMarksMany", remote.Take, true, false, func(r remote.Local) (any, error) {
			m1, m3 := marksOf(t, 1, "b", "e"), marksOf(t, 3, "c")
			a, by, err := r.ApplyMarksMany(ctx, spec(0), []peer.SliceMarks{{Slice: 1, Layers: m1.Layers, Marks: m1.Marks}, {Slice: 3, Layers: m3.Layers, Marks: m3.Marks}})
			return answers{a, by}, errors.Join(err, groupErr(len(a), func(i int) error { return a[i].Err }))
		}},
		{"DropGeneration", remote.Take, true, false, func(r remote.Local) (any, error) {
			by, err := r.DropGeneration(ctx, []byte("filter"), filter.Slices, 6)
			return answers{by}, err
		}},
	}
	return calls
}

func groupErr(n int, err func(int) error) error {
	for i := range n {
		if e := err(i); e != nil {
			return e
		}
	}
	return nil
}

// readAll reads with scrap, and returns copies of what the chunks hold.
func readAll(r remote.Local, o bigset.ReadOptions) (list []string, err error) {
	var scrap *fold.Chunk
	o.Scrap = func() *fold.Chunk {
		c := scrap
		scrap = nil
		return c
	}
	for c, err := range r.Read(ctx, set, o) {
		if err != nil {
			return list, err
		}
		list = append(list, fmt.Sprintf("%v %q %q done %v", c.Clock, names(c.Elements), c.Bound, c.Done))
		scrap = c
	}
	return list, nil
}

func names(all []fold.Element) (list []string) {
	for _, e := range all {
		list = append(list, fmt.Sprintf("%s%v", e.Name, e.Dots))
	}
	return list
}

// plain renders an answer with the actor of its store left out, and nil like empty.
func plain(n *node, v any, err error) string {
	text := fmt.Sprintf("%+v", v)
	if s, ok := v.(answers); ok {
		text = ""
		for _, x := range s {
			if span, ok := x.(*bigset.Span); ok && span != nil {
				f, e := span.Facts()
				x = fmt.Sprintf("%q bound %q done %v count %d seen %v dead %v keys %v %v", span.Set, span.Bound, span.Done, span.Count, span.Seen, span.Dead, names(f.Keys), e)
			}
			text += fmt.Sprintf("%+v; ", x)
		}
	}
	if err != nil {
		text = "error: " + strings.ReplaceAll(err.Error(), "there: ", "")
	}
	actor := string(n.store.Actor())
	for _, form := range []string{fmt.Sprintf("%x", actor), actor, fmt.Sprintf("%q", actor)} {
		text = strings.ReplaceAll(text, form, "SELF")
	}
	return strings.ReplaceAll(text, "<nil>", "[]")
}

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
	const foreign = "\xFF\xFF\xFF\xFF\xFF" // behind the actors of both stores
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
			got, errGot := do(over.far, over.store.Actor())
			want, errWant := do(here.local, here.store.Actor())
			if g, w := plain(over, got, errGot), plain(here, want, errWant); g != w {
				t.Fatalf("got  %s\nwant %s", g, w)
			}
			if happened(errGot) != happened(errWant) {
				t.Fatalf("%v says that %s has happened, %v says %s", errGot, happened(errGot), errWant, happened(errWant))
			}
		}
	})
}

// happened says what an error of a change says.
func happened(err error) string {
	switch {
	case err == nil:
		return "all"
	case errors.Is(err, peer.ErrUnavailable), errors.Is(err, bigset.ErrBehind), peer.Refused(err):
		return "nothing"
	}
	return "nobody knows"
}

// filled is a node with something for each verb to answer.
func filled(t testing.TB, gate remote.Gate) *node {
	n := newNode(t, gate)
	for _, c := range calls(t) {
		if c.change {
			if _, err := c.do(n.local); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
	}
	return n
}

// TestAnswersThatAreNone: an answer that is cut, of another kind, from another member, of no request, or that never comes, is an error of each
// verb, and of a change nobody knows whether it has happened.
func TestAnswersThatAreNone(t *testing.T) {
	n := filled(t, remote.Open{})
	reframe := func(b []byte, from peer.Member) []byte {
		m, _, err := peer.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = peer.Append(nil, from, m); err != nil {
			t.Fatal(err)
		}
		return b
	}
	frame := func(m peer.Message) []byte {
		b, err := peer.Append(nil, n.local.Member(), m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := false
	once := func(f func([]byte) []byte) func([]byte) []byte { // of the first answer or part
		first = true
		return func(b []byte) []byte {
			if !first {
				return b
			}
			first = false
			return f(b)
		}
	}
	for what, tamper := range map[string]func([]byte) []byte{
		"cut":            func(b []byte) []byte { return b[:len(b)-1] },
		"cut to nothing": func(b []byte) []byte { return []byte{} },
		"damaged": func(b []byte) []byte {
			return append(slices.Clone(b[:len(b)/2]), append([]byte{b[len(b)/2] ^ 1}, b[len(b)/2+1:]...)...)
		},
		"of another version": func(b []byte) []byte { return append([]byte{9}, b[1:]...) },
		"no frame":           func(b []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n") },
		"a request":          func(b []byte) []byte { return frame(peer.AskState{Set: set}) },
		"from another node": func(b []byte) []byte {
			return reframe(b, peer.Member{Node: "elsewhere", Incarnation: n.local.Member().Incarnation, State: peer.Normal})
		},
		"of another question":  func(b []byte) []byte { return frame(peer.Lost{Set: []byte("other"), Dots: &clock.Clock{}}) },
		"facts of another set": func(b []byte) []byte { return frame(peer.Facts{Set: []byte("other")}) },
		"too few answers":      func(b []byte) []byte { return frame(peer.KeyAnswers{true}) },
		"too few contexts":     func(b []byte) []byte { return frame(peer.Contexts{bigset.Saw()}) },
		"too few verdicts":     func(b []byte) []byte { return frame(peer.Judgement{}) },
		"too few dots":         func(b []byte) []byte { return frame(peer.Written{}) },
		"marks of another": func(b []byte) []byte {
			return frame(peer.Marked{Marks: marksOf(t, 5, "a", "b"), Added: []bool{true, true}})
		},
		"pages of another":      func(b []byte) []byte { return frame(peer.SlicePages{SliceSpec: spec(5)}) },
		"another range":         func(b []byte) []byte { return frame(peer.RangeDigests{{First: 2, Last: 9}}) },
		"a span of another set": func(b []byte) []byte { return frame(peer.Span{Set: []byte("other"), Done: true, Keys: []byte{}}) },
		"too few groups":        func(b []byte) []byte { return frame(peer.AnswersMany{{Answers: []bool{true}}}) },
		"groups of others": func(b []byte) []byte {
			return frame(peer.MarkedMany{{Added: []bool{true, true}}, {Added: []bool{true}}})
		},
		"counts without a clock": func(b []byte) []byte {
			return frame(peer.PartCounts{ElementDigests: bigset.ElementDigests{Done: true}})
		},
		"a first chunk without a clock": func(b []byte) []byte { return frame(peer.Chunk{Done: true}) },
	} {
		for _, c := range calls(t) {
			n.loop.tamper = once(tamper)
			_, err := c.do(n.far)
			n.loop.tamper = nil
			if err == nil || c.change && happened(err) != "nobody knows" || !errors.Is(err, peer.ErrAnswer) || errors.Is(err, peer.ErrFrame) {
				t.Errorf("an answer to %s that is %s: %v", c.name, what, err)
			}
		}
	}
	if n.far.Member() != n.local.Member() {
		t.Errorf("%v was heard of", n.far.Member())
	}
}

// TestStreamsThatBreak: a stream that ends without its end, goes on after it, or comes from two incarnations, is an error, after what was good.
func TestStreamsThatBreak(t *testing.T) {
	n := filled(t, remote.Open{})
	older := n.local.Member()
	older.Incarnation = "older"
	joining := n.local.Member()
	joining.State = peer.Joining
	reframe := func(b []byte, from peer.Member) []byte {
		m, _, _ := peer.Decode(b)
		b, err := peer.Append(nil, from, m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range calls(t) {
		if !c.stream {
			continue
		}
		n.loop.parts = 0
		if _, err := c.do(n.far); err != nil || n.loop.parts < 2 {
			t.Fatalf("%s: %d parts, %v", c.name, n.loop.parts, err)
		}
		of, part := n.loop.parts, 0
		for what, tamper := range map[string]func([]byte) []byte{
			"without its end":     func(b []byte) []byte { return nil },
			"of two incarnations": func(b []byte) []byte { return reframe(b, older) },
		} {
			part = 0
			n.loop.tamper = func(b []byte) []byte {
				if part++; part == of {
					return tamper(b)
				}
				return b
			}
			got, err := c.do(n.far)
			n.loop.tamper = nil
			if !errors.Is(err, peer.ErrAnswer) || fmt.Sprint(got) == "[]" {
				t.Errorf("%s, %s: %v after %v", c.name, what, err, got)
			}
		}
		part = 0
		n.loop.tamper = func(b []byte) []byte {
			if part++; part == 1 {
				b, _ = peer.Append(nil, n.local.Member(), peer.Done{})
			}
			return b
		}
		if got, err := c.do(n.far); !errors.Is(err, peer.ErrAnswer) {
			t.Errorf("%s goes on after its end: %v, %v", c.name, got, err)
		}
		n.loop.tamper = nil
	}
	n.loop.tamper = func(b []byte) []byte { return reframe(b, joining) }
	if got, err := readAll(n.far, bigset.ReadOptions{}); err == nil || len(got) > 0 {
		t.Errorf("a read from a member that is joining: %v, %v", got, err)
	}
}

// TestErrorsOfTheWay: what the transport says of a call, each verb's error says.
func TestErrorsOfTheWay(t *testing.T) {
	n := filled(t, remote.Open{})
	digest := func() string { return n.digest(t) }
	before := digest()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range []struct {
		err  error
		says string
	}{
		{wire.ErrNotSent, "nothing"}, {wire.ErrBusy, "nothing"}, {fmt.Errorf("dial: %w", wire.ErrNotSent), "nothing"},
		{wire.ErrLost, "nobody knows"}, {context.Canceled, "nobody knows"}, {context.DeadlineExceeded, "nobody knows"}, {ended.Err(), "nobody knows"},
		{errors.New("of no name"), "nobody knows"},
	} {
		n.loop.before = func(wire.Call) error { return c.err }
		for _, v := range calls(t) {
			if _, err := v.do(n.far); !errors.Is(err, c.err) || happened(err) != c.says {
				t.Errorf("%s, %v: %v says that %s has happened, want %s", v.name, c.err, err, happened(err), c.says)
			}
		}
	}
	n.loop.before = nil
	if after := digest(); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
	n.loop.after = func() error { return wire.ErrLost }
	if _, err := n.far.Apply(ctx, bigset.Delta{Set: []byte("lost"), Actor: "F1", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd}}}, bigset.Sync); happened(err) != "nobody knows" {
		t.Errorf("an answer that was lost: %v", err)
	}
	n.loop.after = nil
	if _, _, err := n.far.State(ctx, []byte("lost")); err != nil {
		t.Errorf("the delta whose answer was lost: %v", err)
	}
}

// digest is what the node's store has.
func (n *node) digest(t testing.TB) string {
	t.Helper()
	sets, err := all(n.local.Digests(ctx, 0, keyscheme.SlotMax))
	slices, err2 := all(n.local.SliceDigests(ctx, 0, keyscheme.SlotMax))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return fmt.Sprint(sets, slices)
}

// failing is a replica of which everything fails.
type failing struct {
	remote.Local
	err error
}

func (f failing) Write(context.Context, []byte, []bigset.Op, bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return bigset.Result{}, f.Member(), f.err
}
func (f failing) Apply(context.Context, bigset.Delta, bigset.Durability) (peer.Member, error) {
	return f.Member(), f.err
}
func (f failing) Mark(context.Context, bigset.SliceSpec, []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	return bigset.Marks{}, nil, f.Member(), f.err
}
func (f failing) MarkMany(_ context.Context, _ bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	all := make([]peer.SliceMarked, len(groups))
	for i := range all {
		all[i].Err = f.err
	}
	return all, f.Member(), nil
}
func (f failing) Read(context.Context, []byte, bigset.ReadOptions) iter.Seq2[*fold.Chunk, error] {
	return func(yield func(*fold.Chunk, error) bool) { yield(nil, f.err) }
}

// TestErrorsOfTheReplica: what the replica says, is said at the far side: the meaning, the fields, and the member.
func TestErrorsOfTheReplica(t *testing.T) {
	n := newNode(t, remote.Open{})
	for _, want := range []error{
		bigset.ErrFailed, bigset.ErrBehind, bigset.ErrNotFound, bigset.ErrNoFilter, peer.ErrJoining, peer.ErrUnavailable, bigset.ErrClosed, context.DeadlineExceeded,
		fmt.Errorf("%w: %w", peer.ErrUnavailable, bigset.ErrDiskFull), fmt.Errorf("%w: %w", peer.ErrUnavailable, bigset.ErrSliceAway),
		&bigset.LimitError{What: "elements", Got: 7, Max: 3}, &peer.EpochError{Epoch: 9}, errors.New("of no name"), bigset.ErrContextRequired,
	} {
		n.loop.handler = remote.Handler(failing{n.local, want}, remote.Open{})
		for _, c := range calls(t) {
			if !slices.Contains([]string{"Write", "Apply", "Mark", "MarkMany", "Read"}, c.name) {
				continue
			}
			got, err := c.do(n.far)
			if err == nil || happened(err) != happened(want) || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s: %v says that %s has happened; %v says %s", c.name, err, happened(err), want, happened(want))
			}
			for _, e := range []error{bigset.ErrFailed, bigset.ErrBehind, bigset.ErrNotFound, bigset.ErrNoFilter, bigset.ErrClosed, bigset.ErrDiskFull, bigset.ErrSliceAway,
				bigset.ErrLimit, bigset.ErrContextRequired, peer.ErrJoining, peer.ErrUnavailable, peer.ErrNotMine, peer.ErrAnswer, peer.ErrFrame, context.DeadlineExceeded} {
				if errors.Is(err, e) != errors.Is(want, e) {
					t.Errorf("%s: is %v %v: %v", c.name, err, e, errors.Is(err, e))
				}
			}
			if by, ok := got.(answers); ok && by[len(by)-1] != n.local.Member() {
				t.Errorf("%s: from %v", c.name, by)
			}
		}
	}
	var limit *bigset.LimitError
	n.loop.handler = remote.Handler(failing{n.local, &bigset.LimitError{What: "elements", Got: 7, Max: 3}}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); !errors.As(err, &limit) || limit.Got != 7 {
		t.Errorf("%v", err)
	}
	other, err := local.New("elsewhere", n.store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	n.loop.handler = remote.Handler(failing{other, peer.ErrUnavailable}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); happened(err) != "nobody knows" || n.far.Member().Node != "there" {
		t.Errorf("an error of another member: %v", err)
	}
}

// wordy is a replica whose answer does not fit in a frame.
type wordy struct{ remote.Local }

func (w wordy) Write(context.Context, []byte, []bigset.Op, bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	return bigset.Result{Delta: bigset.Delta{Set: set, Actor: "A", First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Wide: &clock.Clock{}}}}}, w.Member(), nil
}

// TestAnswerThatCannotBeSent: what was done and can't be told is not said to have been refused.
func TestAnswerThatCannotBeSent(t *testing.T) {
	n := newNode(t, remote.Open{})
	n.loop.handler = remote.Handler(wordy{n.local}, remote.Open{})
	if _, err := calls(t)[0].do(n.far); err == nil || happened(err) != "nobody knows" {
		t.Errorf("%v says that %s has happened", err, happened(err))
	}
}

// TestRequestsThatAreNone: a request from a client, in another node's name, of another verb, or that is no frame, changes nothing, and says so.
func TestRequestsThatAreNone(t *testing.T) {
	n := filled(t, remote.Open{})
	before := n.digest(t)
	var bodies []wire.Call
	for _, c := range calls(t) {
		n.loop.calls = nil
		n.loop.before = func(c wire.Call) error { bodies = append(bodies, c); return wire.ErrNotSent }
		_, _ = c.do(n.far)
	}
	n.loop.before = nil
	if len(bodies) != len(calls(t)) {
		t.Fatalf("%d requests", len(bodies))
	}
	try := func(what string, c wire.Call, from *wire.Remote) {
		t.Helper()
		send := func([]byte) error { t.Errorf("%s, verb %d: a part", what, c.Verb); return nil }
		b, err := n.loop.handler(ctx, &wire.Request{Verb: c.Verb, Body: bytes.Clone(c.Body), From: from}, send)
		if b != nil || happened(n.loop.crossed(err)) != "nothing" {
			t.Errorf("%s, verb %d: %q, %v", what, c.Verb, b, err)
		}
		var far *peer.ReplicaError
		if !errors.As(err, &far) || far.Member != n.local.Member() {
			t.Errorf("%s, verb %d: not from the member: %v", what, c.Verb, err)
		}
	}
	node := &wire.Remote{Role: wire.RoleNode, Name: self.Node}
	seen := map[wire.Verb]bool{}
	for _, c := range bodies {
		seen[c.Verb] = true
		try("a client's", c, &wire.Remote{Role: wire.RoleClient, Name: self.Node})
		try("nobody's", c, nil)
		try("of another node", c, &wire.Remote{Role: wire.RoleNode, Name: "elsewhere"})
		for i := range 8 {
			cut := c
			cut.Body = c.Body[:len(c.Body)*i/8]
			try("cut", cut, node)
		}
		for _, v := range remote.Verbs() {
			other := c
			alike := v == remote.VerbWrite && c.Verb == remote.VerbWriteAhead || v == remote.VerbWriteAhead && c.Verb == remote.VerbWrite
			if other.Verb = v; v != c.Verb && !alike && !(v >= remote.VerbApply && v < remote.VerbHeal) {
				try("of another verb", other, node)
			}
		}
		for _, v := range []wire.Verb{0, 1, 99, 121, 129, 142, 255} {
			other := c
			other.Verb = v
			try("of no verb", other, node)
		}
	}
	for _, v := range remote.Verbs() {
		if !seen[v] && (v < remote.VerbApply || v >= remote.VerbHeal) {
			t.Errorf("verb %d was not tried", v)
		}
	}
	if after := n.digest(t); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
}

// gate notes who passes, and may be shut.
type gate struct {
	shut    func(c remote.Class, first, last keyscheme.Slot, epoch uint64) error
	classes []remote.Class
	ranges  []string
	inside  atomic.Int32
}

func (g *gate) Enter(_ context.Context, c remote.Class, first, last keyscheme.Slot, epoch uint64) (func(), error) {
	g.classes, g.ranges = append(g.classes, c), append(g.ranges, fmt.Sprint(first, last, epoch))
	if g.shut != nil {
		if err := g.shut(c, first, last, epoch); err != nil {
			return nil, err
		}
	}
	g.inside.Add(1)
	return func() { g.inside.Add(-1) }, nil
}

func (g *gate) EnterMany(ctx context.Context, c remote.Class, at []keyscheme.Slot, epoch uint64) (func(), []error) {
	errs, n := make([]error, len(at)), int32(0)
	for i := range at {
		if _, errs[i] = g.Enter(ctx, c, at[i], at[i], epoch); errs[i] == nil {
			n++
		}
	}
	return func() { g.inside.Add(-n) }, errs
}

// TestGate: each verb passes the gate with its class, its slots and the epoch of its map, and leaves it; where it is shut nothing happens, and that is
// said with the epoch that is in force.
func TestGate(t *testing.T) {
	g := &gate{}
	n := filled(t, g)
	before := n.digest(t)
	g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return &peer.EpochError{Epoch: 9} }
	for _, c := range calls(t) {
		_, err := c.do(n.far)
		var epoch *peer.EpochError
		if happened(err) != "nothing" || !errors.Is(err, peer.ErrNotMine) || !errors.As(err, &epoch) || epoch.Epoch != 9 {
			t.Errorf("%s at a gate that is shut: %v", c.name, err)
		}
	}
	g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return errors.New("of no name") }
	for _, c := range calls(t) {
		if _, err := c.do(n.far); happened(err) != "nothing" {
			t.Errorf("%s at a gate that is shut: %v", c.name, err)
		}
	}
	if after := n.digest(t); after != before {
		t.Errorf("the store has changed:\n%s\nwas\n%s", after, before)
	}
	g.shut = nil
	all := fmt.Sprint(keyscheme.Slot(0), keyscheme.SlotMax, 77)
	for _, c := range calls(t) {
		g.classes, g.ranges = nil, nil
		n.loop.before = func(wire.Call) error { return nil }
		far, err := remote.New(remote.Options{Member: n.far.Member(), Caller: n.loop, Self: func() peer.Member { return self }, Epoch: func() uint64 { return 77 }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.do(far); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range g.classes {
			ok := g.ranges[i] == all
			for _, s := range []keyscheme.Slot{keyscheme.SetSlot(set), at(1), at(2), at(3), at(4)} {
				ok = ok || g.ranges[i] == fmt.Sprint(s, s, 77)
			}
			if g.classes[i] != c.class || !ok {
				t.Errorf("%s passed as %d of %s, want %d", c.name, g.classes[i], g.ranges[i], c.class)
			}
		}
		if len(g.classes) == 0 || g.inside.Load() != 0 {
			t.Errorf("%s passed %d times, %d are inside", c.name, len(g.classes), g.inside.Load())
		}
	}
	if _, _, err := n.far.State(peer.WithEpoch(ctx, 78), set); err != nil || g.ranges[len(g.ranges)-1] != fmt.Sprint(keyscheme.SetSlot(set), keyscheme.SetSlot(set), 78) {
		t.Errorf("%v, epoch of the context: %v", err, g.ranges[len(g.ranges)-1])
	}
}

func at(slice uint32) keyscheme.Slot {
	s := spec(slice)
	return s.Slot()
}

// TestGateOfManySlices: each slice passes the gate by itself, and those that are refused say so, while the others are done.
func TestGateOfManySlices(t *testing.T) {
	g := &gate{shut: func(_ remote.Class, first, _ keyscheme.Slot, _ uint64) error {
		if first == at(3) {
			return &peer.EpochError{Epoch: 9}
		}
		return nil
	}}
	n := newNode(t, g)
	groups := []peer.SliceKeys{{Slice: 1, Hashes: hashesOf(1, "a")}, {Slice: 3, Hashes: hashesOf(3, "a")}, {Slice: 4, Hashes: hashesOf(4, "a", "b")}}
	marked, _, err := n.far.MarkMany(ctx, spec(0), groups)
	if err != nil || marked[0].Err != nil || !errors.Is(marked[1].Err, peer.ErrNotMine) || marked[2].Err != nil || len(marked[2].Added) != 2 || !marked[2].Added[1] {
		t.Errorf("%+v, %v", marked, err)
	}
	g.shut = nil
	found, _, err := n.far.CheckMany(ctx, spec(0), groups)
	if err != nil || !found[0].Answers[0] || found[1].Answers[0] || !found[2].Answers[0] || !found[2].Answers[1] {
		t.Errorf("%+v, %v", found, err)
	}
	if n := g.inside.Load(); n != 0 {
		t.Errorf("%d are inside", n)
	}
}

// TestGateOfStreams: a stream passes the gate for each part; nobody is inside while the consumer has a part; and when the gate is shut in the
// middle, the stream ends there.
func TestGateOfStreams(t *testing.T) {
	g := &gate{}
	n := newNode(t, g)
	var elements [][]byte
	for i := range 20 {
		elements = append(elements, []byte{'a' + byte(i)})
	}
	if _, err := n.store.Add(ctx, set, elements, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	chunks, total := 0, 0
	for c, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		if n := g.inside.Load(); n != 0 {
			t.Errorf("chunk %d: %d are inside", chunks, n)
		}
		chunks++
		total += len(c.Elements)
		if chunks != n.loop.parts {
			t.Errorf("%d parts were sent for %d chunks", n.loop.parts, chunks)
		}
	}
	if total != 20 || chunks < 4 || len(g.classes) < chunks {
		t.Errorf("%d elements in %d chunks, the gate was passed %d times", total, chunks, len(g.classes))
	}
	chunks, total = 0, 0
	var failed error
	for c, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if failed = err; err != nil {
			break
		}
		if chunks++; chunks == 2 {
			g.shut = func(remote.Class, keyscheme.Slot, keyscheme.Slot, uint64) error { return &peer.EpochError{Epoch: 9} }
		}
		total += len(c.Elements)
	}
	if chunks != 2 || total != 10 || !errors.Is(failed, peer.ErrNotMine) {
		t.Errorf("%d elements in %d chunks after the gate was shut, %v", total, chunks, failed)
	}
	g.shut = nil
	n.loop.parts = 0
	for _, err := range n.far.Read(ctx, set, bigset.ReadOptions{BatchSize: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n.loop.parts != 1 || g.inside.Load() != 0 {
		t.Errorf("%d parts of a read that was stopped, %d are inside", n.loop.parts, g.inside.Load())
	}
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
