package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/handoff"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

var set = []byte("set")

var (
	_ transfer.Receiver      = (*local.Replica)(nil)
	_ transfer.SliceReceiver = (*local.Replica)(nil)
)

func newNode(t testing.TB, name string) *node {
	n := &node{name: name, disk: testkit.NewDisk()}
	n.open(t)
	t.Cleanup(func() { _ = n.store.Close() })
	return n
}

func (n *node) add(t testing.TB, elements ...string) bigset.Delta {
	t.Helper()
	var ops []bigset.Op
	for _, e := range elements {
		ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(e)})
	}
	r, err := n.store.Write(bg, set, ops, bigset.WriteOptions{})
	must(t, err, "add")
	return r.Delta
}

func (n *node) has(t testing.TB, element string) bool {
	t.Helper()
	c, err := n.store.Look(bg, set, []byte(element))
	if errors.Is(err, bigset.ErrNotFound) {
		return false
	}
	must(t, err, "contains")
	return c.Present
}

func start(t testing.TB, from peer.Replica, to *node, o transfer.Options) *transfer.Copy {
	t.Helper()
	m, err := transfer.New(to.local, o)
	must(t, err, "mover")
	c, err := m.Start(bg, from, whole)
	must(t, err, "start")
	return c
}

// finish steps to the end, and calls f after each step.
func finish(t testing.TB, c *transfer.Copy, f func()) {
	t.Helper()
	for done := false; !done; {
		var err error
		if done, err = c.Step(bg); err != nil {
			t.Fatal(err)
		}
		if f != nil {
			f()
		}
	}
}

// TestElementsStayPresent replaces dots at the sender in the middle of a copy: an element that the receiver had all along never
// vanishes from it, as it would if a death came before the key that took the dead one's place.
func TestElementsStayPresent(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	names := []string{"c", "d", "e", "f", "g", "h"}
	must(t, b.store.Replica().ApplyDelta(bg, a.add(t, names...), bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
	a.add(t, "h") // which replaces the dot that b knows
	c := start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	for step := 0; ; step++ {
		done, err := c.Step(bg)
		must(t, err, "step")
		for _, e := range names {
			if !b.has(t, e) {
				t.Fatalf("%s vanished in step %d", e, step)
			}
		}
		if done {
			break
		}
		if step < 8 {
			a.add(t, names[step%len(names)])
			if step == 2 {
				a.add(t, "a", "z") // before the position, and after it
			}
		}
	}
	if !b.has(t, "a") || !b.has(t, "z") {
		t.Error("what was added during it is missing")
	}
}

// TestResume breaks a copy off and crashes the receiver: the copy goes on where it was, from its note, and a sender in a new
// incarnation makes it begin again.
func TestResume(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("e%02d", i))
	}
	a.add(t, names...)
	c := start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	for range 50 {
		_, err := c.Step(bg)
		must(t, err, "step")
	}
	must(t, b.store.Flush(bg), "flush")
	disk := b.disk.CrashClone(0, 1)
	must(t, b.store.Close(), "close")
	b.disk = disk
	b.open(t)

	c = start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	finish(t, c, nil)
	if r := c.Report(); r.Elements != 50 || r.Keys != 50 || r.Sets != 1 || r.Restarts != 0 {
		t.Errorf("resumed: %+v", r)
	}

	c = start(t, a.local, b, transfer.Options{})
	finish(t, c, nil)
	if r := c.Report(); r.Elements != 0 || r.Sets != 1 {
		t.Errorf("a copy of what is here: %+v", r)
	}

	// The sender loses a write that was not synced; the check reports it.
	must(t, a.store.Flush(bg), "flush")
	a.add(t, "lost")
	c = start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	_, err := c.Step(bg)
	must(t, err, "step")
	disk = a.disk.CrashClone(0, 1)
	must(t, a.store.Close(), "close")
	a.disk = disk
	a.open(t)
	moved := &moving{Replica: a.local}
	c2 := start(t, moved, b, transfer.Options{ChunkBytes: 1})
	a.add(t, "new")
	finish(t, c2, nil)
	if !b.has(t, "new") || b.has(t, "lost") {
		t.Error("after another incarnation")
	}
}

// TestResumeUnderAnotherEpoch breaks a copy off, and begins it again under another epoch of the map: what was written since, while the receiver
// was in no list, must come too.
func TestResumeUnderAnotherEpoch(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	for i := range 20 {
		a.add(t, fmt.Sprintf("e%02d", i))
	}
	for _, tt := range []struct {
		epoch   uint64
		resumed bool
	}{{5, false}, {5, true}, {9, false}, {9, true}, {5, false}} {
		c := start(t, a.local, b, transfer.Options{ChunkBytes: 1, Epoch: tt.epoch})
		if c.Resumed() != tt.resumed {
			t.Errorf("a copy under epoch %d is resumed: %v", tt.epoch, c.Resumed())
		}
		for range 3 {
			_, err := c.Step(bg)
			must(t, err, "step")
		}
	}
}

// moving is a sender whose answers may be changed.
type moving struct {
	*local.Replica
	member  peer.Member // in place of the sender's, if it has a node
	portion func(*bigset.Portion)
	locate  func(bigset.Facts) bigset.Facts
}

func (m *moving) Export(ctx context.Context, set, after []byte, n int) (*bigset.Portion, peer.Member, error) {
	s, by, err := m.Replica.Export(ctx, set, after, n)
	if m.member.Node != "" {
		by = m.member
	}
	if err == nil && m.portion != nil {
		m.portion(s)
	}
	return s, by, err
}

func (m *moving) Locate(ctx context.Context, set []byte, dots *clock.Clock) iter.Seq2[bigset.Facts, error] {
	return func(yield func(bigset.Facts, error) bool) {
		for f, err := range m.Replica.Locate(ctx, set, dots) {
			if m.locate != nil {
				f = m.locate(f)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// TestRefusedAnswers gives a copy chunks from others, and such as can't be: errors, and nothing has changed.
func TestRefusedAnswers(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	a.add(t, "x", "y")
	for _, c := range []struct {
		name string
		m    moving
		want error
	}{
		{"another node", moving{member: peer.Member{Node: "c", Incarnation: a.store.Replica().Actor(), State: peer.Normal}}, peer.ErrSender},
		{"another incarnation", moving{member: peer.Member{Node: "a", Incarnation: "older", State: peer.Normal}}, peer.ErrSender},
		{"another set", moving{portion: func(s *bigset.Portion) { s.Set = []byte("other") }}, handoff.ErrOrder},
		{"no clock", moving{portion: func(s *bigset.Portion) { s.Seen = nil }}, handoff.ErrOrder},
		{"no deaths at the end", moving{portion: func(s *bigset.Portion) { s.Dead = nil }}, handoff.ErrOrder},
		{"keys cut short", moving{portion: func(s *bigset.Portion) { s.Keys = s.Keys[:len(s.Keys)-1] }}, bigset.ErrFacts},
	} {
		c.m.Replica = a.local
		m, err := transfer.New(b.local, transfer.Options{})
		must(t, err, "mover")
		if _, err := m.Copy(bg, &c.m, whole); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if _, err := b.store.Replica().State(bg, set); !errors.Is(err, bigset.ErrNotFound) {
			t.Fatalf("%s: the receiver has changed: %v", c.name, err)
		}
	}
	a.local.SetState(peer.Joining)
	m, err := transfer.New(b.local, transfer.Options{})
	must(t, err, "mover")
	if _, err := m.Copy(bg, a.local, whole); !errors.Is(err, peer.ErrJoining) {
		t.Errorf("from one that is joining: %v", err)
	}
	if _, err := transfer.New(b.local, transfer.Options{ChunkBytes: -1}); !errors.Is(err, transfer.ErrOptions) {
		t.Errorf("options: %v", err)
	}
}

// TestIncomplete copies from a sender that has lost a key: the set is not called complete until another sender has brought it.
func TestIncomplete(t *testing.T) {
	a, b, c := newNode(t, "a"), newNode(t, "b"), newNode(t, "c")
	must(t, c.store.Replica().ApplyDelta(bg, a.add(t, "x", "y", "z"), bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
	damaged := &moving{Replica: a.local, locate: func(bigset.Facts) bigset.Facts { return bigset.Facts{Set: set} }}
	damaged.portion = func(s *bigset.Portion) {
		f, err := s.Facts()
		must(t, err, "facts")
		if string(f.Keys[0].Name) == "y" {
			s.Keys, s.Count = []byte{}, 0
		}
	}
	m, err := transfer.New(b.local, transfer.Options{ChunkBytes: 1})
	must(t, err, "mover")
	for range 2 {
		r, err := m.Copy(bg, damaged, whole)
		if !errors.Is(err, handoff.ErrIncomplete) || r.Owed != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if !b.has(t, "x") || b.has(t, "y") || !b.has(t, "z") {
			t.Fatal("what has come")
		}
	}
	_, err = m.Copy(bg, c.local, whole)
	must(t, err, "from another")
	_, err = m.Copy(bg, damaged, whole)
	must(t, err, "settled")
}

// TestDroppedReceiver drops the range in the middle of a copy: the copy must begin again.
func TestDroppedReceiver(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	a.add(t, "x", "y", "z")
	c := start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	for range 2 {
		_, err := c.Step(bg)
		must(t, err, "step")
	}
	must(t, b.store.Replica().DropRange(bg, 0, keyscheme.SlotMax), "drop")
	if _, err := c.Step(bg); !errors.Is(err, transfer.ErrReceiver) {
		t.Fatal(err)
	}
	c = start(t, a.local, b, transfer.Options{ChunkBytes: 1})
	finish(t, c, nil)
	if c.Report().Keys != 3 || !b.has(t, "x") {
		t.Errorf("%+v", c.Report())
	}
}

// TestTwoSendersAtOnce copies large chunks, which come in as tables, from two senders at once, while the same keys come by deltas, and
// compacts: each key exists once (Pebble issue 6168 would crash it), and the second copy brings only what is new.
func TestTwoSendersAtOnce(t *testing.T) {
	a, b, c := newNode(t, "a"), newNode(t, "b"), newNode(t, "c")
	var deltas []bigset.Delta
	for i := range 20 {
		var names []string
		for k := range 500 {
			names = append(names, fmt.Sprintf("e%05d", k*20+i))
		}
		d := a.add(t, names...)
		must(t, b.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
		deltas = append(deltas, d)
	}
	b.add(t, "only b has it")
	m, err := transfer.New(c.local, transfer.Options{ChunkBytes: 300_000, Ahead: true})
	must(t, err, "mover")
	var wg sync.WaitGroup
	for _, from := range []*node{a, b} {
		wg.Go(func() {
			if _, err := m.Copy(bg, from.local, whole); err != nil {
				t.Error(err)
			}
		})
	}
	for _, d := range deltas[10:] {
		must(t, c.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
	}
	wg.Wait()
	_, err = c.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	st, err := c.store.Stats()
	must(t, err, "stats")
	count, err := c.store.Count(bg, set, engine.CountOptions{})
	must(t, err, "count")
	if n := count.Elements; n != 10_001 || st.KeysInTables != 10_001 || st.Ingests == 0 {
		t.Errorf("%d elements, %d keys in tables, %d ingests", count.Elements, st.KeysInTables, st.Ingests)
	}
}

// exporting and taking are the two sides of a copy, with what is called first.
type (
	exporting struct {
		transfer.Sender
		first func(set, after []byte)
	}
	taking struct {
		transfer.Receiver
		first func(set []byte)
	}
)

func (e exporting) Export(ctx context.Context, set, after []byte, most int) (*bigset.Portion, peer.Member, error) {
	e.first(set, after)
	return e.Sender.Export(ctx, set, after, most)
}

func (r taking) ApplyFacts(ctx context.Context, f bigset.Facts, d bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	r.first(f.Set)
	return r.Receiver.ApplyFacts(ctx, f, d)
}

// TestNextSetIsReadAhead: while the last chunk of a set is written the first one of the next set is read, once, if the receiver has nothing of that set; a copy of what is
// here reads no chunks.
func TestNextSetIsReadAhead(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	const sets = 20
	for i := range sets {
		_, err := a.store.Add(bg, fmt.Appendf(nil, "set %d", i), [][]byte{[]byte("x"), []byte("y")}, bigset.WriteOptions{})
		must(t, err, "add")
	}
	var mu sync.Mutex
	exported, beside := map[string]int{}, 0
	asked := make(chan string, 2*sets)
	from := exporting{a.local, func(set, after []byte) {
		mu.Lock()
		defer mu.Unlock()
		exported[string(set)]++
		asked <- string(set)
	}}
	begun := map[string]bool{}
	to := taking{b.local, func(set []byte) {
		if begun[string(set)] {
			return
		}
		begun[string(set)] = true
		if len(begun) == sets { // no other comes
			return
		}
		for { // until another set was asked for
			select {
			case name := <-asked:
				if begun[name] {
					continue
				}
				beside++
			case <-time.After(time.Minute):
				t.Errorf("while %s is written no other set is read", set)
			}
			return
		}
	}}
	m, err := transfer.New(to, transfer.Options{Ahead: true})
	must(t, err, "mover")
	_, err = m.Copy(bg, from, whole)
	must(t, err, "copy")
	if len(exported) != sets || beside != sets-1 {
		t.Errorf("%d sets were read, %d beside others", len(exported), beside)
	}
	for i := 0; i < sets; i += 3 { // of these something is new, and comes in a chunk
		_, err := a.store.Add(bg, fmt.Appendf(nil, "set %d", i), [][]byte{[]byte("z")}, bigset.WriteOptions{})
		must(t, err, "add")
	}
	_, err = m.Copy(bg, from, whole)
	must(t, err, "copy again")
	for i := range sets {
		want := 1
		if i%3 == 0 {
			want = 2
		}
		if name := fmt.Sprint("set ", i); exported[name] != want {
			t.Errorf("%s was read %d times, want %d", name, exported[name], want)
		}
	}
	for i := range sets {
		n, err := b.store.Count(bg, fmt.Appendf(nil, "set %d", i), engine.CountOptions{})
		want := uint64(2)
		if i%3 == 0 {
			want = 3
		}
		if must(t, err, "count"); n.Elements != want {
			t.Errorf("set %d has %d elements", i, n.Elements)
		}
	}
}

// mbPerSecond is the rate of a copy, in millions of bytes as sent.
func mbPerSecond(r *transfer.Report) float64 { return float64(r.Bytes) / 1e6 / r.Elapsed.Seconds() }

// TestRate counts the time that a copy waits.
func TestRate(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	for i := range 50 {
		a.add(t, fmt.Sprintf("element-%d", i))
	}
	now, reports := time.Unix(0, 0), 0
	m, err := transfer.New(b.local, transfer.Options{
		ChunkBytes: 1, BytesPerSecond: 100, Now: func() time.Time { return now }, Report: func(transfer.Report) { reports++ },
		Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
	})
	must(t, err, "mover")
	r, err := m.Copy(bg, a.local, whole)
	must(t, err, "copy")
	if reports < 50 || r.Bytes < 500 || mbPerSecond(&r) > 115e-6 || mbPerSecond(&r) < 85e-6 || r.Elements != 50 {
		t.Errorf("%d reports, %+v, %v MB/s", reports, r, mbPerSecond(&r))
	}
}

// TestRateOfTables: a chunk that is ingested as a table is written part by part at the rate, not at once with a long wait after it.
func TestRateOfTables(t *testing.T) {
	a, b := newNode(t, "a"), newNode(t, "b")
	for i := range 15 {
		var elements []string
		for j := range 100 {
			elements = append(elements, fmt.Sprintf("%04d-%s", 100*i+j, strings.Repeat("x", 1000)))
		}
		a.add(t, elements...)
	}
	now, longest := time.Unix(0, 0), time.Duration(0)
	m, err := transfer.New(b.local, transfer.Options{
		BytesPerSecond: 1_000_000, Now: func() time.Time { return now },
		Wait: func(_ context.Context, d time.Duration) error {
			now, longest = now.Add(d), max(longest, d)
			return nil
		},
	})
	must(t, err, "mover")
	r, err := m.Copy(bg, a.local, whole)
	must(t, err, "copy")
	if r.Elements != 1500 || longest > 300*time.Millisecond || r.Elapsed < time.Second || r.Elapsed > 2*time.Second {
		t.Errorf("%d elements, %d bytes in %v, the longest wait took %v", r.Elements, r.Bytes, r.Elapsed, longest)
	}
}
