package engine_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// stream is a read that is held open.
type stream struct {
	set    string
	opt    bigset.ReadOptions
	next   func() (*fold.Chunk, error, bool)
	stop   func()
	states []*testkit.Set // from the moment it was opened on
	began  time.Time
	last   []byte
}

// count counts whole sets, which the store may know without a look at any key.
func (m *machine) count(t *rapid.T) {
	n := m.node(t)
	for set, model := range n.model.Sets {
		if !model.Known() {
			continue
		}
		want := len(model.Elements())
		got, err := n.store.Count(bg, []byte(set), engine.CountOptions{})
		must(t, err, "count")
		if got.Elements != uint64(want) || !model.Seen.Equal(got.Context) {
			t.Fatalf("%s: count of %q is %+v, want %d with %v", n.label, set, got, want, model.Seen.Clock())
		}
		m.seen.sawIf(want > 0 && got.Scanned == 0, sawCountUnscanned)
	}
}

// query asks about single elements.
func (m *machine) query(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	model := n.model.Set(set)
	elements := rapid.SliceOfN(rapid.Custom(drawElement), 1, 5).Draw(t, "elements")
	var ask [][]byte
	for _, e := range elements {
		ask = append(ask, []byte(e))
	}
	got, err := n.store.Subset(bg, []byte(set), ask)
	must(t, err, "subset")
	for i, e := range elements {
		one, err := n.store.Look(bg, []byte(set), ask[i])
		must(t, err, "contains")
		want := model.Live(e)
		if !got[i].Context.Given || !slices.Equal(got[i].Context.Dots, want) || !slices.Equal(one.Context.Dots, want) || !one.Context.Given {
			t.Fatalf("%s: %q in %q by subset %v, by contains %v, want %v", n.label, e, set, got[i], one, want)
		}
		m.seen.sawIf(len(want) > 1, sawTwoDots)
		m.tokens = append(m.tokens, token{set, e, want})
	}
}

func drawBound(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, "no "+label) {
		return nil
	}
	return []byte(rapid.OneOf(rapid.Custom(drawElement), rapid.SampledFrom([]string{"n", "n1", "n15", "\xff"})).Draw(t, label))
}

func drawReadOptions(t *rapid.T) bigset.ReadOptions {
	return bigset.ReadOptions{
		From: drawBound(t, "from"), To: drawBound(t, "to"), Prefix: drawBound(t, "prefix"), After: drawBound(t, "after"),
		Reverse:   rapid.Bool().Draw(t, "reverse"),
		Limit:     rapid.SampledFrom([]int{0, 0, 1, 3, 50}).Draw(t, "limit"),
		BatchSize: rapid.SampledFrom([]int{0, 1, 2, 7, 100}).Draw(t, "batch"),
	}
}

// read reads a set once, whole or in part, and compares it and its count with the model.
func (m *machine) read(t *rapid.T) {
	n, set, o := m.node(t), drawSet(t), drawReadOptions(t)
	model := n.model.Set(set)
	for range rapid.IntRange(0, 2).Draw(t, "reads before") { // two of them find what the read then seeks over
		if _, _, _, err := n.store.ReadSteps([]byte(set), bigset.ReadOptions{Reverse: o.Reverse}); model.Known() {
			must(t, err, "count")
		}
	}
	var got []fold.Element
	var last *fold.Chunk
	for chunk, err := range n.store.Read(bg, []byte(set), o) {
		if !model.Known() && errors.Is(err, bigset.ErrNotFound) {
			return
		}
		must(t, err, "read")
		if !model.Seen.Equal(chunk.Clock) {
			t.Fatalf("%s: chunk clock %v, want %v", n.label, chunk.Clock, model.Seen.Clock())
		}
		got = append(got, chunk.Elements...)
		last = chunk
	}
	want := testkit.Select(model.Elements(), o)
	if err := testkit.SameElements(got, want); err != nil {
		t.Fatalf("%s: read %q %+v: %v", n.label, set, o, err)
	}
	if last == nil || !last.Done && (o.Limit == 0 || len(got) < o.Limit) {
		t.Fatalf("%s: the read of %q ended without an end: %+v", n.label, set, last)
	}
	count, err := n.store.Count(bg, []byte(set), engine.CountOptions{ReadOptions: o})
	must(t, err, "count")
	if count.Elements != uint64(len(want)) || !model.Seen.Equal(count.Context) {
		t.Fatalf("%s: count of %q %+v is %d as of %v, want %d as of %v", n.label, set, o, count.Elements, count.Context, len(want), model.Seen.Clock())
	}
	for _, e := range got {
		m.tokens = append(m.tokens, token{set, string(e.Name), e.Dots})
	}
}

// openStream begins a read that others pull on later.
func (m *machine) openStream(t *rapid.T) {
	n, set := m.node(t), drawSet(t)
	if len(n.streams) >= 3 || !n.model.Set(set).Known() {
		t.Skip("not now")
	}
	s := &stream{set: set}
	if rapid.IntRange(0, 3).Draw(t, "a part") == 0 {
		s.opt = drawReadOptions(t)
	}
	s.opt.Reverse = rapid.Bool().Draw(t, "stream reverse")
	s.opt.BatchSize = rapid.IntRange(1, 20).Draw(t, "stream batch")
	s.next, s.stop = iter.Pull2(n.store.Read(bg, []byte(set), s.opt))
	n.streams = append(n.streams, s)
	n.pull(t, s)
	for range rapid.IntRange(0, 3).Draw(t, "pulls") {
		if slices.Contains(n.streams, s) {
			n.disturb(t, s.set)
			n.pull(t, s)
		}
	}
}

func (m *machine) pull(t *rapid.T) {
	n := m.node(t)
	if len(n.streams) == 0 {
		t.Skip("no stream")
	}
	s := n.streams[rapid.IntRange(0, len(n.streams)-1).Draw(t, "stream")]
	for range rapid.IntRange(0, 3).Draw(t, "disturbances") {
		n.disturb(t, s.set)
	}
	n.pull(t, s)
}

// disturb does to a set what a reader of it must not notice.
func (n *node) disturb(t *rapid.T, set string) {
	switch rapid.IntRange(0, 5).Draw(t, "disturbance") {
	case 0:
		n.write(t, set, n.m.drawOps(t, n, set), bigset.WriteOptions{Durability: drawDurability(t)})
	case 1: // replaces what is there
		var ops []bigset.Op
		for _, e := range n.model.Set(set).Elements() {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: e.Name})
		}
		n.write(t, set, ops, bigset.WriteOptions{Durability: drawDurability(t)})
	case 2:
		must(t, n.store.PublisherRound(), "publish")
	case 3:
		n.flush(t)
	case 4:
		must(t, n.store.CompactTables(bg), "compact tables")
	case 5:
		if !n.store.Strategy().Deletes() {
			_, err := n.store.RewriteSpan(bg, []byte(set), nil, 0)
			must(t, err, "rewrite")
		}
	}
}

// pull takes the next chunk of a stream. It must show the state at the moment when the stream's iterator was opened: the
// stream's first chunk, until the engine opens another one.
func (n *node) pull(t *rapid.T, s *stream) {
	if s.states == nil {
		s.states, s.began = []*testkit.Set{n.model.Set(s.set).Clone()}, time.Now()
	}
	chunk, err, ok := s.next()
	if !ok {
		s.close(n)
		return
	}
	must(t, err, "stream")
	n.m.seen.sawIf(len(s.states) > 1, sawStreamOverChange)
	var first error
	for i, state := range s.states {
		err := s.fits(state, chunk)
		if err == nil {
			s.states = s.states[i:]
			s.advance(chunk)
			if s.opt.Limit == 0 && !chunk.Done || s.opt.Limit > 0 {
				return
			}
			s.close(n)
			return
		}
		if first == nil {
			first = err
		}
		if time.Since(s.began) < 900*time.Millisecond {
			break // it is too early for another iterator
		}
	}
	t.Fatalf("%s: stream of %q %+v, %d states old: %v", n.label, s.set, s.opt, len(s.states), first)
}

// fits reports how a chunk differs from what a state has next.
func (s *stream) fits(state *testkit.Set, chunk *fold.Chunk) error {
	if !state.Seen.Equal(chunk.Clock) {
		return fmt.Errorf("clock %v, want %v", chunk.Clock, state.Seen.Clock())
	}
	o := s.opt
	if s.last != nil {
		o.After = s.last
	}
	o.BatchSize = 0
	want := testkit.Select(state.Elements(), o)
	return testkit.SameElements(chunk.Elements, want[:min(len(want), len(chunk.Elements))+missing(chunk, want, o)])
}

// missing returns how many elements more than it has the chunk should have had.
func missing(chunk *fold.Chunk, want []fold.Element, o bigset.ReadOptions) (n int) {
	for _, e := range want[min(len(want), len(chunk.Elements)):] {
		if chunk.Done || chunk.Bound != nil && !testkit.Beyond(e.Name, chunk.Bound, o.Reverse) {
			n++
		}
	}
	return n
}

func (s *stream) advance(chunk *fold.Chunk) {
	if chunk.Bound != nil {
		s.last = chunk.Bound
	} else if k := len(chunk.Elements); k > 0 {
		s.last = chunk.Elements[k-1].Name
	}
	if s.opt.Limit > 0 {
		s.opt.Limit -= len(chunk.Elements)
	}
}

func (s *stream) close(n *node) {
	s.stop()
	n.streams = slices.DeleteFunc(n.streams, func(o *stream) bool { return o == s })
}
