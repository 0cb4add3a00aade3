package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

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
	after   func() error          // instead of the answer, once it has come
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
	n.loop = &loop{handler: remote.Handler(rep, gate), role: wire.RoleNode, name: self.Node, version: 2}
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
	several := []bigset.Delta{{Set: set, Actor: "M1", First: 2, Items: delta.Items[:1]}, {Set: set, Actor: "M2", First: 7, Items: delta.Items[1:]}}
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
			a, by, err := r.Write(ctx, set, ops[:1], bigset.WriteOptions{Request: []byte("ahead"), Durability: bigset.Sync, Applied: func(bigset.Result, *bigset.Group) {}})
			return answers{a, by}, err
		}},
		{"Knows", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Knows(ctx, set, []byte("id"), 0)
			return answers{a, by}, err
		}},
		{"Apply", remote.Take, true, false, func(r remote.Local) (any, error) {
			by, err := r.Apply(ctx, delta, bigset.NoSync)
			return answers{by}, err
		}},
		{"ApplyMany", remote.Take, true, false, func(r remote.Local) (any, error) {
			each, by, err := r.ApplyMany(ctx, several, bigset.NoSync)
			return answers{by}, errors.Join(err, groupErr(len(each), func(i int) error { return each[i] }))
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
		{"DotStatus", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.DotStatus(ctx, set, []byte("p"), []clock.Dot{dot("F1", 5), dot("F1", 3), dot("Z", 1)})
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
		{"Stamp", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Stamp(ctx, spec(0), false)
			return answers{a, by}, err
		}},
		{"StampDigest", remote.Answer, false, false, func(r remote.Local) (any, error) {
			a, by, err := r.Stamp(ctx, spec(0), true)
			return answers{a, by}, err
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
			if portion, ok := x.(*bigset.Portion); ok && portion != nil {
				f, e := portion.Facts()
				x = fmt.Sprintf("%q bound %q done %v count %d seen %v dead %v keys %v %v", portion.Set, portion.Bound, portion.Done, portion.Count, portion.Seen, portion.Dead, names(f.Keys), e)
			}
			text += fmt.Sprintf("%+v; ", x)
		}
	}
	if err != nil {
		text = "error: " + strings.ReplaceAll(err.Error(), "there: ", "")
	}
	actor := string(n.store.Replica().Actor())
	for _, form := range []string{fmt.Sprintf("%x", actor), actor, fmt.Sprintf("%q", actor)} {
		text = strings.ReplaceAll(text, form, "SELF")
	}
	return strings.ReplaceAll(text, "<nil>", "[]")
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

func at(slice uint32) keyscheme.Slot {
	s := spec(slice)
	return s.Slot()
}
