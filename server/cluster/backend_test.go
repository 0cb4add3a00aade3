package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/peer/remote"
)

// TestBackendCount: any member counts what it would read, with the context of the whole set, and says why it can't.
func TestBackendCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("e%04d", i))
	}
	b, set := w.procs[2].member.Backend(), []byte("s")
	add := door.Write{Set: set, Quorum: door.Quorum{W: 3}} // whichever is asked has all
	for _, n := range names {
		add.Ops = append(add.Ops, door.Op{Kind: keyscheme.OpAdd, Element: []byte(n)})
	}
	_, err := b.Write(ctx, add)
	must(t, err)
	page := func(reverse bool) door.Token {
		var after door.Token
		for part, err := range b.Read(ctx, door.Read{Set: set, Limit: 300, Reverse: reverse}) {
			must(t, err)
			after = append(after, part.After...)
		}
		return after
	}
	up, down := page(false), page(true)
	for _, tt := range []struct {
		read door.Read
		want uint64
	}{
		{door.Read{}, 2000}, {door.Read{R: 3}, 2000}, {door.Read{R: 1}, 2000}, {door.Read{From: []byte("e0100"), To: []byte("e0150")}, 50}, {door.Read{Prefix: []byte("e1")}, 1000},
		{door.Read{Limit: 70}, 70}, {door.Read{Limit: 7000, Batch: 3}, 2000}, {door.Read{After: up}, 1700}, {door.Read{After: down, Reverse: true}, 1700},
		{door.Read{After: down, Reverse: true, From: []byte("e1000")}, 700}, {door.Read{After: up, Limit: 5}, 5},
	} {
		tt.read.Set = set
		n, err := b.Count(ctx, tt.read)
		if err != nil || n.Elements != tt.want {
			t.Errorf("%+v: %d, want %d, %v", tt.read, n.Elements, tt.want, err)
		}
		if seen, err := w.procs[2].member.live.Load().tokens(set).Seen(n.Context); err != nil || seen.Len() != 2000 {
			t.Errorf("%+v: the context is %v, %v", tt.read, seen, err)
		}
	}
	of := func(node string) *PeerStats { return w.procs[2].member.stats.of(node) }
	reads, counts := uint64(0), uint64(0)
	for _, node := range []string{"a", "b"} {
		reads += of(node).Verbs[remote.VerbRead].Calls.Load()
		counts += of(node).Verbs[remote.VerbCountParts].Calls.Load()
	}
	if reads > 4 || counts < 11 {
		t.Errorf("%d reads of others, of two pages, and %d counts", reads, counts)
	}
	for _, tt := range []struct {
		read door.Read
		want error
	}{
		{door.Read{Set: []byte("nobody's")}, bigset.ErrNotFound}, {door.Read{Set: set, R: 4}, door.ErrQuorum}, {door.Read{Set: set, Limit: -1}, bigset.ErrRequest},
		{door.Read{Set: set, After: up, Reverse: true}, bigset.ErrCursor}, {door.Read{}, bigset.ErrRequest},
	} {
		if n, err := b.Count(ctx, tt.read); !errors.Is(err, tt.want) || n.Elements != 0 {
			t.Errorf("%+v: %+v, %v, want %v", tt.read, n, err, tt.want)
		}
	}
	w.procs[0].stop()
	w.procs[1].stop()
	if n, err := b.Count(ctx, door.Read{Set: set}); !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("without the others: %+v, %v", n, err)
	}
}

// spent is a replica that says nothing of its state once it has applied something, or from the beginning.
type spent struct {
	replica
	applied *atomic.Bool
}

func (r *spent) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	by, err := r.replica.Apply(ctx, d, durability)
	r.applied.Store(true)
	return by, err
}

func (r *spent) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	if r.applied.Load() {
		return bigset.State{}, r.Member(), errors.New("no answer")
	}
	return r.replica.State(ctx, set)
}

// TestBackendDrop: what a drop leaves is known before it is done, so that one that is done says so, and one that can't be done is not.
func TestBackendDrop(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	set, m := []byte("s"), w.procs[0].member
	b, applied := m.Backend(), &atomic.Bool{}
	must(t, w.procs[0].add(t, "s", "a", "b"))
	seen, err := b.Context(ctx, set, 3)
	must(t, err)
	_, err = b.Write(ctx, door.Write{Set: set, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("c")}}, Quorum: door.Quorum{W: 3}}) // whichever is asked has it
	must(t, err)
	l := m.live.Load()
	var all []replica
	for _, r := range l.replicas {
		all = append(all, &spent{r, applied})
	}
	odd := newLive(l.view, l.ownership, all, l.near, time.Now)
	m.live.Store(odd)
	if dropped, err := b.Drop(ctx, door.Drop{Set: set, Context: seen}); err != nil || dropped.Left != 1 || !applied.Load() {
		t.Errorf("a drop of what was seen leaves %d, %v", dropped.Left, err)
	}
	before := fmt.Sprint(w.procs[0].read(t, "s"), w.procs[1].read(t, "s"))
	if dropped, err := b.Drop(ctx, door.Drop{Set: set, Context: seen}); !errors.Is(err, door.ErrUnavailable) || errors.Is(err, door.ErrUnknown) || dropped.Left != 0 {
		t.Errorf("a drop where nobody says what there is: %d, %v", dropped.Left, err)
	}
	m.live.Store(l)
	if after := fmt.Sprint(w.procs[0].read(t, "s"), w.procs[1].read(t, "s")); after != before || after != "[c] [c]" {
		t.Errorf("%s were left, and then %s", before, after)
	}
	if dropped, err := b.Drop(ctx, door.Drop{Set: set}); err != nil || dropped.Left != 0 || len(w.procs[1].read(t, "s")) != 0 {
		t.Errorf("a drop of everything: %d, %v", dropped.Left, err)
	}
	if dropped, err := b.Drop(ctx, door.Drop{Set: []byte("nobody's")}); !errors.Is(err, bigset.ErrNotFound) || dropped.Left != 0 {
		t.Errorf("a drop of nothing: %d, %v", dropped.Left, err)
	}
}

// TestBackendRetryUnknown has a client ask again for a change, while a member that may have it is away: nobody knows, and nothing is done a second time. What was not
// sent before is done.
func TestBackendRetryUnknown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	b := w.procs[0].member.Backend()
	write := door.Write{Set: []byte("s"), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("x")}}, Request: []byte("once")}
	w.procs[2].stop()
	again := write
	again.Retry = true
	if _, err := b.Write(ctx, again); !errors.Is(err, door.ErrUnknown) {
		t.Errorf("a retry that a member may have: %v", err)
	}
	write.Ops[0].Element, write.Request = []byte("y"), []byte("first")
	if _, err := b.Write(ctx, write); err != nil {
		t.Errorf("a first try with one member away: %v", err)
	}
	if elements := w.procs[0].read(t, "s"); !slices.Equal(elements, []string{"y"}) {
		t.Errorf("the set has %v, y alone was added", elements)
	}
}

// joiner is a replica that has begun to join, without the others having heard, and has lost a set.
type joiner struct {
	replica
	empty bool // it lists no set
}

func (r *joiner) Digests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SetDigest, error] {
	if r.empty {
		return func(func(bigset.SetDigest, error) bool) {}
	}
	return r.replica.Digests(ctx, first, last)
}

func (r *joiner) State(context.Context, []byte) (bigset.State, peer.Member, error) {
	by := r.Member()
	by.State = peer.Joining
	return bigset.State{}, by, bigset.ErrNotFound
}

// TestBackendAsksWhoCounts: how much is in a set, and what a drop leaves of it, is asked of no member that joins, and of the one that had data before the
// others until they have copied it.
func TestBackendAsksWhoCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	set, m := []byte("s"), w.procs[0].member
	b := m.Backend()
	must(t, w.procs[0].add(t, "s", "a", "b"))
	seen, err := b.Context(ctx, set, 3)
	must(t, err)
	_, err = b.Write(ctx, door.Write{Set: set, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("c")}}, Quorum: door.Quorum{W: 3}})
	must(t, err)
	l := m.live.Load()
	defer m.live.Store(l)
	for _, tt := range []struct {
		joining int // how many members join
		birth   bool
		want    error
	}{{1, false, nil}, {2, false, nil}, {3, false, door.ErrUnavailable}, {2, true, nil}} {
		all := slices.Clone(l.replicas)
		for i := range tt.joining {
			all[i] = &joiner{all[i], tt.birth}
		}
		apart, err := newOwnership(m.membership.conf.ids(), m.membership.conf.Settings)
		must(t, err)
		odd := newLive(l.view, apart, all, l.near, time.Now)
		if tt.birth { // the third member, which owns nothing, had data before
			odd.origin = 2
			for i := range odd.owners {
				odd.owners[i] = []int{0, 1}
			}
		}
		m.live.Store(odd)
		var names []string
		for n, err := range b.Names(ctx, false, nil) {
			if err != nil {
				if !errors.Is(err, tt.want) {
					t.Errorf("%+v: names: %v", tt, err)
				}
				break
			}
			names = append(names, fmt.Sprintf("%s %d", n.Name, n.Live))
		}
		if got := fmt.Sprint(names); tt.want == nil && got != "[s 3]" && got != "[s 1]" || tt.want != nil && got != "[]" { // with the third, or when two are dropped
			t.Errorf("%+v: %s are listed", tt, got)
		}
		if dropped, err := b.Drop(ctx, door.Drop{Set: set, Context: seen}); !errors.Is(err, tt.want) || tt.want == nil && dropped.Left != 1 {
			t.Errorf("%+v: a drop leaves %d, %v", tt, dropped.Left, err)
		}
	}
}

// TestBackendNames: any member lists the sets, from any place on, and what each operation of a write changed comes from the replica that did it.
func TestBackendNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	for i := range 40 {
		must(t, w.procs[i%3].add(t, fmt.Sprintf("s%02d", i), "a"))
	}
	b := w.procs[1].member.Backend()
	list := func(after []byte) (all []string) {
		for n, err := range b.Names(ctx, false, after) {
			must(t, err)
			all = append(all, string(n.Name))
		}
		return all
	}
	var all []string
	until(t, "a list of 40 sets", func() bool { // an add need not wait for the member that is asked
		all = list(nil)
		return len(all) == 40
	})
	for i, name := range all {
		if got := list([]byte(name)); !slices.Equal(got, all[i+1:]) {
			t.Errorf("%d sets after number %d of 40", len(got), i)
		}
	}
	count := func(i int) uint64 {
		n, err := w.procs[i].member.Backend().CountSets(ctx)
		must(t, err)
		return n.Sets
	}
	must(t, w.procs[0].add(t, "s40", "a"))
	until(t, "each member counts them", func() bool { return count(0) == 41 && count(1) == 41 && count(2) == 41 })
	_, err := b.Drop(ctx, door.Drop{Set: []byte("s40"), Quorum: door.Quorum{W: 3}})
	must(t, err)
	for i := range 3 {
		if n := count(i); n != 40 {
			t.Errorf("node %d counts %d sets", i, n)
		}
	}
	m := w.procs[0].member
	l := m.live.Load()
	for i := range 3 {
		if n, err := m.countAt(ctx, l, i, l.ranges()); err != nil || n.Sets != 40 {
			t.Errorf("node %d counts %d sets for another, %v", i, n.Sets, err)
		}
	}
	if _, err := m.countRanges(ctx, l.epoch+1, l.ranges()); !errors.Is(err, peer.ErrNotMine) {
		t.Errorf("under another epoch: %v", err)
	}
	r, err := b.Write(ctx, door.Write{Set: []byte("s00"), Changes: true, Quorum: door.Quorum{W: 3}, Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")},
		{Kind: keyscheme.OpAdd, Element: []byte("b")}, {Kind: keyscheme.OpRemove, Element: []byte("a")}, {Kind: keyscheme.OpRemove, Element: []byte("x")}}})
	if want := []bool{false, true, true, false}; err != nil || !slices.Equal(r.Changed, want) {
		t.Errorf("changed %v, %v, want %v", r.Changed, err, want)
	}
}

// gathering is what gatherers have in common: the first questions for states are answered when as many are asked as one list may ask at once.
type gathering struct {
	mu    sync.Mutex
	asked map[string]context.Context // by sets; it ends when the question is answered, by whichever replica
	all   chan struct{}              // closed when as many are asked
	once  sync.Once
}

// gatherer is a replica whose questions for states wait for each other.
type gatherer struct {
	replica
	t  *testing.T
	of *gathering
}

func (g *gatherer) State(ctx context.Context, set []byte) (bigset.State, peer.Member, error) {
	g.of.mu.Lock()
	g.of.asked[string(set)] = ctx
	n := 0
	for _, asked := range g.of.asked {
		if asked.Err() == nil {
			n++
		}
	}
	g.of.mu.Unlock()
	if n > namesAtOnce {
		g.t.Error("more questions at once than one list may ask")
	}
	if n == namesAtOnce {
		g.of.once.Do(func() { close(g.of.all) })
	}
	select {
	case <-g.of.all:
	case <-ctx.Done():
		return bigset.State{}, peer.Member{}, ctx.Err()
	}
	return g.replica.State(ctx, set)
}

// TestNamesAtOnce: a member that holds none of the sets asks about several at once, and lists all in order.
func TestNamesAtOnce(t *testing.T) {
	t.Parallel()
	w, ctx := startTrio(t), ctx1(t)
	const sets = 2*namesAtOnce + 5
	m := w.procs[2].member
	b := m.Backend()
	for i := range sets {
		_, err := b.Write(ctx, door.Write{Set: fmt.Appendf(nil, "s%02d", i), Ops: []door.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}}, Quorum: door.Quorum{W: 3}})
		must(t, err)
	}
	list := func(most int) (all []string) {
		for n, err := range b.Names(ctx, false, nil) {
			must(t, err)
			if all = append(all, fmt.Sprintf("%s %d %d", n.Name, n.Live, n.Seen)); len(all) == most {
				break
			}
		}
		return all
	}
	want := list(sets + 1)
	if len(want) != sets {
		t.Fatalf("%d of %d sets", len(want), sets)
	}
	l := m.live.Load()
	defer m.live.Store(l)
	apart, err := newOwnership(m.membership.conf.ids(), m.membership.conf.Settings)
	must(t, err)
	replicas := slices.Clone(l.replicas)
	of := &gathering{asked: map[string]context.Context{}, all: make(chan struct{})}
	for i := range 2 {
		replicas[i] = &gatherer{replicas[i], t, of}
	}
	odd := newLive(l.view, apart, replicas, l.near, time.Now)
	for i := range odd.owners { // the third owns nothing
		odd.owners[i] = []int{0, 1}
	}
	m.live.Store(odd)
	for _, most := range []int{sets + 1, namesAtOnce + 3} {
		if got := list(most); !slices.Equal(got, want[:min(most, sets)]) {
			t.Errorf("%q, want %q", got, want[:min(most, sets)])
		}
	}
}

// TestBackendStats: the figures are of what the replicas that were asked know together: what one has seen, less what one knows is dead.
func TestBackendStats(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	set, b := []byte("s"), w.procs[0].member.Backend()
	for i, p := range w.procs { // nobody has what another has
		for k := range i + 1 {
			_, err := p.store.Add(ctx, set, [][]byte{fmt.Appendf(nil, "e%d.%d", i, k)}, bigset.WriteOptions{})
			must(t, err)
		}
	}
	_, err := w.procs[2].store.Remove(ctx, set, [][]byte{[]byte("e2.1")}, bigset.WriteOptions{})
	must(t, err)
	if st, err := b.Stats(ctx, set, 3); err != nil || st.Live != 5 || st.Seen != 7 || st.Dead != 2 || st.Actors != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := b.Stats(ctx, set, 1); err != nil || st.Live > 2 || st.Actors != 1 {
		t.Errorf("of one replica: %+v, %v", st, err)
	}
	if _, err := b.Stats(ctx, set, 4); !errors.Is(err, door.ErrQuorum) {
		t.Errorf("of four replicas: %v", err)
	}
	if _, err := b.Stats(ctx, []byte("nobody's"), 0); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("of no set: %v", err)
	}
}

// TestBackendLargeClock: a set whose clock takes megabytes is read and counted by a node that has nothing of it, and its replicas answer it over their wire.
func TestBackendLargeClock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := startTrio(t)
	gaps, set, b := &clock.Clock{}, []byte("s"), w.procs[0].member.Backend()
	for n := uint64(1); n < 10<<20; n += 9 { // a page of 2^16 counters with every ninth takes some 15 KB
		gaps.Add(clock.Dot{Actor: "gone", Counter: n + n%3})
	}
	for _, p := range w.procs[1:] {
		_, err := p.store.Replica().ApplyFacts(ctx, bigset.Facts{Set: set, Dead: gaps, Keys: []fold.Element{{Name: []byte("a"), Dots: []clock.Dot{{Actor: "one", Counter: 1}}}}}, bigset.ApplyOptions{Durability: bigset.NoSync})
		must(t, err)
	}
	for _, read := range []door.Read{{Set: set}, {Set: set, R: 3}} {
		n, err := b.Count(ctx, read)
		seen := 0
		elements := 0
		for part, err := range b.Read(ctx, read) {
			must(t, err)
			seen, elements = seen+len(part.Context), elements+len(part.Elements)
		}
		if err != nil || n.Elements != 1 || elements != 1 || len(n.Context) < 1<<20 || seen < 1<<20 {
			t.Errorf("%d and %d elements, contexts of %d and %d bytes, %v", n.Elements, elements, len(n.Context), seen, err)
		}
	}
	token, err := b.Context(ctx, set, 3)
	must(t, err)
	if dropped, err := b.Drop(ctx, door.Drop{Set: set, Context: token, Quorum: door.Quorum{W: 3}}); err != nil || dropped.Left != 0 {
		t.Errorf("a drop leaves %d, %v", dropped.Left, err)
	}
	if n, err := b.Count(ctx, door.Read{Set: set, R: 3}); err != nil || n.Elements != 0 {
		t.Errorf("after the drop: %d elements, %v", n.Elements, err)
	}
}

// BenchmarkBackendCount counts a set of 300,000 elements at R=2 through one of three members, over loopback without TLS, in turns with a read of all of it,
// which is how a member counted before. It reports how much longer the read takes.
func BenchmarkBackendCount(b *testing.B) {
	const elements = 300_000
	ctx := context.Background()
	w := newTrio(b, 3)
	for i := range 3 {
		w.start(i)
	}
	until(b, "birth", w.whole)
	set, m := []byte("s"), w.procs[0].member.Backend()
	for i := 0; i < elements; i += bigset.BatchOpsMax {
		var ops []bigset.Op
		for k := range min(bigset.BatchOpsMax, elements-i) {
			ops = append(ops, bigset.Op{Kind: keyscheme.OpAdd, Element: fmt.Appendf(nil, "element-%09d", i+k)})
		}
		r, err := w.procs[0].store.Write(ctx, set, ops, bigset.WriteOptions{Durability: bigset.NoSync})
		must(b, err)
		for _, p := range w.procs[1:] {
			must(b, p.store.Replica().ApplyDelta(ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}))
		}
	}
	var counting, reading time.Duration
	for b.Loop() {
		began := time.Now()
		n, err := m.Count(ctx, door.Read{Set: set})
		if counting += time.Since(began); err != nil || n.Elements != elements {
			b.Fatal(n.Elements, err)
		}
		began = time.Now()
		read := 0
		for part, err := range m.Read(ctx, door.Read{Set: set}) {
			must(b, err)
			read += len(part.Elements)
		}
		if reading += time.Since(began); read != elements {
			b.Fatal(read)
		}
	}
	b.ReportMetric(reading.Seconds()/counting.Seconds(), "read/count")
	b.ReportMetric(counting.Seconds()*1e9/float64(b.N)/elements, "count-ns/element")
}
