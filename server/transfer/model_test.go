package transfer_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/engine"
	"bigset/handoff"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/peer/local"
	"bigset/server/transfer"
)

var (
	bg    = context.Background()
	whole = handoff.Range{Last: keyscheme.SlotMax}
	seeds = flag.Int("transfer.seeds", 0, "number of schedules, 0 is the default")
	first = flag.Uint64("transfer.seed", 0, "the first seed")
)

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// node is a replica over a disk that crashes.
type node struct {
	name  string
	disk  *testkit.Disk
	store *engine.Store
	local *local.Replica
	wait  []*op // applied and not synced yet
}

func (n *node) open(t testing.TB) {
	t.Helper()
	var err error
	n.store, err = engine.Open("db", &engine.Options{FS: n.disk, BackgroundInterval: -1, MemTableBytes: 1 << 20, Durability: bigset.NoSync})
	must(t, err, "open")
	n.local, err = local.New(n.name, n.store, peer.Normal)
	must(t, err, "local")
	n.local.SetSeat(bloomslice.Seat(n.name[0] - 'a'))
}

// op is what a client did. Its delta says what it kills.
type op struct {
	d     bigset.Delta
	acked map[string]bool // by node: applied there, and synced
}

// world is three nodes, whose copies go on while they are written, and crash.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	nodes  []*node
	ops    []*op
	copies []*under
	stats  map[string]int
}

// under is a copy under way, and what its sender had seen when it was started.
type under struct {
	from, to int
	c        *transfer.Copy
	seen     map[string]*clock.Clock
}

var elements = []string{"a", "b", "c", "d", "e", "f"}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 3)), stats: map[string]int{}}
	for i := range 3 {
		n := &node{name: fmt.Sprintf("node%d", i), disk: testkit.NewDisk()}
		n.open(t)
		w.nodes = append(w.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			_ = n.store.Close()
		}
	})
	return w
}

func (w *world) client() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte(elements[w.rng.IntN(len(elements))])}}
	if w.rng.IntN(3) == 0 {
		ops[0].Kind = keyscheme.OpRemove
	}
	set := []byte{"st"[w.rng.IntN(2)]}
	r, err := n.store.Write(bg, set, ops, bigset.WriteOptions{Durability: bigset.NoSync})
	must(w.t, err, "write")
	if r.Delta.Empty() {
		return
	}
	o := &op{d: r.Delta, acked: map[string]bool{}}
	w.ops = append(w.ops, o)
	n.wait = append(n.wait, o)
	for _, other := range w.nodes {
		if other != n && w.rng.IntN(2) == 0 {
			w.apply(other, o)
		}
	}
}

func (w *world) apply(n *node, o *op) {
	must(w.t, n.store.Replica().ApplyDelta(bg, o.d, bigset.ApplyOptions{Durability: bigset.NoSync}), "delta")
	n.wait = append(n.wait, o)
}

func (w *world) sync(n *node) {
	must(w.t, n.store.Flush(bg), "flush")
	for _, o := range n.wait {
		o.acked[n.name] = true
	}
	n.wait = nil
}

// crash loses what was not synced, or a part of it.
func (w *world) crash(i int) {
	n := w.nodes[i]
	disk := n.disk.CrashClone([]int{0, 50, 100}[w.rng.IntN(3)], w.rng.Uint64())
	_ = n.store.Close()
	n.disk, n.wait = disk, nil
	n.open(w.t)
	w.stats["crashes"]++
	for k := len(w.copies) - 1; k >= 0; k-- { // the sender's copies find out by themselves, and this node's are resumed
		u := w.copies[k]
		if u.to == i || u.from == i {
			u.c.Stop()
			w.copies = append(w.copies[:k], w.copies[k+1:]...)
			if w.rng.IntN(3) > 0 {
				w.stats["resumed"]++
				w.start(u.from, u.to)
			}
		}
	}
}

func (w *world) start(from, to int) {
	m, err := transfer.New(w.nodes[to].local, transfer.Options{ChunkBytes: 1 + w.rng.IntN(100), Ahead: w.rng.IntN(4) == 0})
	must(w.t, err, "mover")
	c, err := m.Start(bg, w.nodes[from].local, whole)
	must(w.t, err, "start")
	note, err := w.nodes[to].local.Note(bg, fmt.Sprintf("copy 00000000-ffffffff node%d", from))
	must(w.t, err, "note")
	u := &under{from: from, to: to, c: c}
	if note == nil { // else it goes on, and promises the clocks of its first chunks only
		u.seen = w.seenAt(from)
	}
	w.copies = append(w.copies, u)
}

func (w *world) seenAt(i int) map[string]*clock.Clock {
	seen := map[string]*clock.Clock{}
	for _, set := range []string{"s", "t"} {
		if s, err := w.nodes[i].store.Replica().State(bg, []byte(set)); err == nil {
			seen[set] = s.Seen.Clone()
		}
	}
	return seen
}

func (w *world) copyStep() {
	if len(w.copies) == 0 || len(w.copies) < 3 && w.rng.IntN(4) == 0 {
		pair := w.rng.Perm(len(w.nodes))
		for _, u := range w.copies {
			if u.from == pair[0] && u.to == pair[1] { // one copy of a range from one sender
				return
			}
		}
		w.start(pair[0], pair[1])
	}
	i := w.rng.IntN(len(w.copies))
	u := w.copies[i]
	done, err := u.c.Step(bg)
	must(w.t, err, "step")
	if !done {
		return
	}
	w.copies = append(w.copies[:i], w.copies[i+1:]...)
	w.stats["copies"]++
	for set, seen := range u.seen {
		s, err := w.nodes[u.to].store.Replica().State(bg, []byte(set))
		if u.c.Report().Restarts == 0 && (err != nil || !s.Seen.Descends(seen)) {
			w.t.Fatalf("the copy from %d to %d of %s is called complete, without all dots of %v: %v, %v", u.from, u.to, set, seen, s.Seen, err)
		}
	}
}

// check compares what each node shows with its clocks: keys == Seen - Dead.
func (w *world) check() {
	for _, n := range w.nodes {
		for _, set := range []string{"s", "t"} {
			s, err := n.store.Replica().State(bg, []byte(set))
			if err != nil {
				continue
			}
			live := s.Seen.Clone()
			live.Subtract(s.Dead)
			for _, dots := range w.shown(n, set) {
				for _, d := range dots {
					if !live.Contains(d) {
						w.t.Fatalf("%s shows %v of %s, which is not live", n.name, d, set)
					}
					live.Subtract(clock.Of(d))
				}
			}
			if !live.Empty() {
				w.t.Fatalf("%s: live dots of %s without keys: %v", n.name, set, live)
			}
		}
	}
}

func (w *world) shown(n *node, set string) map[string][]clock.Dot {
	out := map[string][]clock.Dot{}
	for c, err := range n.store.Read(bg, []byte(set), bigset.ReadOptions{}) {
		if err != nil {
			break
		}
		for _, e := range c.Elements {
			out[string(e.Name)] = e.Dots
		}
	}
	return out
}

// settle copies everything everywhere, and compares all nodes with each other and with what was acknowledged.
func (w *world) settle() {
	for _, u := range w.copies {
		u.c.Stop()
	}
	w.copies = nil
	for range 2 {
		for i := range w.nodes {
			for j := range w.nodes {
				if i == j {
					continue
				}
				m, err := transfer.New(w.nodes[j].local, transfer.Options{ChunkBytes: 30})
				must(w.t, err, "mover")
				_, err = m.Copy(bg, w.nodes[i].local, whole)
				must(w.t, err, "last copy")
			}
		}
	}
	w.check()
	for _, set := range []string{"s", "t"} {
		want := w.shown(w.nodes[0], set)
		for _, n := range w.nodes[1:] {
			if got := w.shown(n, set); fmt.Sprint(got) != fmt.Sprint(want) {
				w.t.Fatalf("%s: %s shows %v, %s shows %v", set, w.nodes[0].name, want, n.name, got)
			}
		}
		w.acknowledged(set, want)
	}
	for _, n := range w.nodes {
		_, err := n.store.Compact(bg, engine.CompactOptions{})
		must(w.t, err, "compact")
	}
	w.check()
}

func (w *world) acknowledged(set string, shown map[string][]clock.Dot) {
	dead, gone := map[clock.Dot]bool{}, map[clock.Dot]bool{}
	for _, o := range w.ops {
		for _, it := range o.d.Items {
			if string(o.d.Set) != set {
				continue
			}
			for _, d := range it.Context {
				dead[d] = true
				gone[d] = gone[d] || len(o.acked) >= 2
			}
		}
	}
	for _, o := range w.ops {
		if string(o.d.Set) != set {
			continue
		}
		for i, it := range o.d.Items {
			d := clock.Dot{Actor: o.d.Actor, Counter: o.d.First + uint64(i)}
			here := false
			for _, x := range shown[string(it.Element)] {
				here = here || x == d
			}
			if it.Kind == keyscheme.OpAdd && len(o.acked) >= 2 && !dead[d] && !here {
				w.t.Fatalf("acknowledged add %v of %s is lost", d, it.Element)
			}
			if here && gone[d] {
				w.t.Fatalf("removed %v of %s is back", d, it.Element)
			}
		}
	}
}

// TestSchedules copies in chunks between nodes that are written, exchange some of their deltas, and crash.
func TestSchedules(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = tier.Pick(25, 60, 1000)
	}
	total := map[string]int{}
	for seed := *first; seed < *first+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 30 + seed%70 {
				switch k := w.rng.IntN(100); {
				case k < 30:
					w.client()
				case k < 40 && len(w.ops) > 0:
					w.apply(w.nodes[w.rng.IntN(3)], w.ops[w.rng.IntN(len(w.ops))])
				case k < 80:
					w.copyStep()
				case k < 92:
					w.sync(w.nodes[w.rng.IntN(3)])
				case k < 96 && seed%3 > 0:
					w.crash(w.rng.IntN(3))
				default:
					w.check()
				}
			}
			w.settle()
			for k, v := range w.stats {
				total[k] += v
			}
		})
	}
	t.Logf("%v", total)
	for _, k := range []string{"copies", "crashes", "resumed"} {
		if total[k] == 0 && *seeds == 0 {
			t.Errorf("no %s", k)
		}
	}
}
