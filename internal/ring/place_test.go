package ring_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/internal/ring"
)

// apply makes moves one after another, and checks the map after each.
func apply(t failer, m *ring.Map, moves []ring.Move) *ring.Map {
	t.Helper()
	for i, mv := range moves {
		a := m.Lookup(mv.Bucket.First())
		was := a.Owners
		next, err := m.Done([]ring.Move{mv})
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Check(ring.Limits{}); err != nil {
			t.Fatalf("after move %d, %v: %v", i, mv, err)
		}
		checkMove(t, mv, was)
		m = next
	}
	return m
}

// checkMove fails unless a move matches the owners before it.
func checkMove(t failer, mv ring.Move, was []ring.Member) {
	t.Helper()
	var out, in []ring.Member
	for _, m := range was {
		if !slices.Contains(mv.Owners, m) {
			out = append(out, m)
		}
	}
	for _, m := range mv.Owners {
		if !slices.Contains(was, m) {
			in = append(in, m)
		}
	}
	one := func(list []ring.Member, m ring.Member) bool {
		return len(list) == 0 && m == (ring.Member{}) || len(list) == 1 && list[0] == m
	}
	if !one(out, mv.Out) || !one(in, mv.In) || (mv.Why == ring.Primary) != (len(in) == 0 && len(out) == 0) {
		t.Fatalf("%v: out %v, in %v", mv, out, in)
	}
}

// counts returns the copies and the primaries of each node.
func counts(m *ring.Map) (copies, primaries map[string]int) {
	copies, primaries = map[string]int{}, map[string]int{}
	for i := range m.Nodes {
		copies[m.Nodes[i].Node], primaries[m.Nodes[i].Node] = 0, 0
	}
	for a := range m.All() {
		for i, who := range a.Next {
			if copies[who.Node]++; i == 0 {
				primaries[who.Node]++
			}
		}
	}
	return copies, primaries
}

// spread returns the least and the most of the nodes that are active.
func spread(m *ring.Map, of map[string]int) (least, most int) {
	least = math.MaxInt
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.State == ring.NodeActive {
			least, most = min(least, of[n.Node]), max(most, of[n.Node])
		}
	}
	return least, most
}

// transferred returns how many copies moves bring to nodes.
func transferred(moves []ring.Move) (n int) {
	for _, mv := range moves {
		if mv.In != (ring.Member{}) {
			n++
		}
	}
	return n
}

// replan returns the map with other nodes, the moves that a strategy plans for it, and the map after those. It checks the map after
// each move, that nothing is left to do on the last map, and that planning again gives the same plan.
func replan(t failer, by ring.Strategy, m *ring.Map, list []ring.Node) (*ring.Map, []ring.Move) {
	t.Helper()
	m, err := m.WithNodes(list)
	if err != nil {
		t.Fatal(err)
	}
	moves := by.Plan(m, ring.Constraints{})
	after := apply(t, m, moves)
	if again := by.Plan(m, ring.Constraints{}); !reflect.DeepEqual(again, moves) {
		t.Fatalf("%s makes another plan of the same map", by.Name())
	}
	if more := by.Plan(after, ring.Constraints{}); len(more) > 0 {
		t.Fatalf("%s has not come to rest: after %d moves it wants %v", by.Name(), len(moves), more[0])
	}
	return after, moves
}

// TestPlanAnything: every strategy keeps the invariants of a map after each move, whatever the nodes are: of any weights and zones,
// down, draining, lost, or back in another incarnation. What can be placed is placed.
func TestPlanAnything(t *testing.T) {
	for _, by := range ring.Strategies() {
		t.Run(by.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { planAnything(t, by) })
		})
	}
}

func planAnything(t *rapid.T, by ring.Strategy) {
	s := usual
	s.Buckets = 1 << rapid.IntRange(0, 6).Draw(t, "buckets")
	s.N = rapid.IntRange(1, 4).Draw(t, "n")
	s.R = rapid.IntRange(1, s.N).Draw(t, "r")
	s.W = s.N - s.R + 1
	s.DW = 0
	zones := rapid.IntRange(1, 4).Draw(t, "zones")
	draw := func(i int) ring.Node {
		return ring.Node{Member: member(fmt.Sprintf("n%02d", i), "1"), Zone: fmt.Sprint(rapid.IntRange(1, zones).Draw(t, "zone")),
			Weight: rapid.Uint32Range(0, 3).Draw(t, "weight"), Started: uint64(i)}
	}
	var list []ring.Node
	for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
		list = append(list, draw(i))
	}
	m, err := ring.Static(ring.ID{}, s, list, by)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range list {
			switch n := &list[i]; rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0:
				n.State = ring.NodeDown
			case 1:
				n.State = ring.NodeDraining
			case 2:
				n.State = ring.NodeLost
			case 3:
				n.Incarnation, n.State = fmt.Sprint(round+2), ring.NodeActive
			case 4, 5:
				n.State = ring.NodeActive
			}
		}
		if rapid.Bool().Draw(t, "join") {
			list = append(list, draw(len(list)))
		}
		m, _ = replan(t, by, m, list)
		if slices.ContainsFunc(list, func(n ring.Node) bool { return n.State == ring.NodeDown }) {
			continue // a node that is down takes nothing
		}
		if placeable(list) {
			checkPlaced(t, by, m)
		}
	}
}

// failer has what a test and a property have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func placeable(list []ring.Node) bool {
	return slices.ContainsFunc(list, func(n ring.Node) bool { return n.State == ring.NodeActive })
}

// checkPlaced fails unless M7 and M8 hold.
func checkPlaced(t *rapid.T, by ring.Strategy, m *ring.Map) {
	if err := m.Check(ring.Limits{Placed: true}); err != nil {
		t.Fatalf("%s: %v", by.Name(), err)
	}
}

// TestQuotaBalance: copies and primaries differ by at most one between nodes, a node that joins or leaves moves no more than its
// share, and zones hold.
func TestQuotaBalance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, zones, buckets int }{{1, 1, 16}, {2, 1, 64}, {3, 1, 256}, {5, 1, 256}, {10, 1, 256}, {9, 3, 256}, {30, 5, 1024}, {100, 1, 1024}} {
		zone := func(i int) string { return fmt.Sprint(i % c.zones) }
		s := usual
		s.Buckets = c.buckets
		m := static(t, s, nodes(c.nodes, zone))
		within(t, m, fmt.Sprintf("%d nodes", c.nodes))
		before, _ := counts(m)
		joined, moves := replan(t, ring.Quota{}, m, nodes(c.nodes+1, zone))
		got, _ := counts(joined)
		ideal := max(got[fmt.Sprintf("n%02d", c.nodes)], 1)
		if c.zones == 1 {
			within(t, joined, fmt.Sprintf("%d nodes and one", c.nodes))
			if n := transferred(moves); float64(n) > 1.05*float64(ideal) {
				t.Errorf("%d nodes: one more moves %d copies, ideal is %d", c.nodes, n, ideal)
			}
		}
		list := slices.Clone(joined.Nodes)
		list[c.nodes].State = ring.NodeDraining
		left, moves := replan(t, ring.Quota{}, joined, list)
		if n := transferred(moves); c.zones == 1 && c.nodes >= 3 && float64(n) > 1.05*float64(ideal) {
			t.Errorf("%d nodes: one less moves %d copies, ideal is %d", c.nodes, n, ideal)
		}
		if c.nodes >= 3 {
			if after, _ := counts(left); after[list[c.nodes].Node] != 0 {
				t.Errorf("%d copies are left at a node that drains", after[list[c.nodes].Node])
			}
			list[c.nodes].State = ring.NodeActive
			list[0].State = ring.NodeLost
			_, moves = replan(t, ring.Quota{}, joined, list)
			if n, most := transferred(moves), got[list[0].Node]; c.zones == 1 && c.nodes > 3 && float64(n) > 1.05*float64(most) {
				t.Errorf("%d nodes: one lost moves %d copies, it had %d (%v)", c.nodes, n, most, before)
			}
		}
	}
}

func within(t *testing.T, m *ring.Map, what string) {
	t.Helper()
	copies, primaries := counts(m)
	if least, most := spread(m, copies); most-least > 1 {
		t.Errorf("%s have %d to %d copies", what, least, most)
	}
	if least, most := spread(m, primaries); most-least > 1 {
		t.Errorf("%s have %d to %d primaries", what, least, most)
	}
}

// TestQuotaWeights: nodes have copies by their weight, as far as the zones permit.
func TestQuotaWeights(t *testing.T) {
	t.Parallel()
	list := nodes(30, func(i int) string { return fmt.Sprint(i % 5) })
	for i := range list {
		list[i].Weight = uint32(1 + i/5%3)
	}
	s := usual
	s.Buckets = 1024
	m := static(t, s, list)
	copies, _ := counts(m)
	for i := range list {
		want := float64(3*1024) * float64(list[i].Weight) / 60
		if got := float64(copies[list[i].Node]); math.Abs(got-want) > 1 {
			t.Errorf("node %s of weight %d has %v copies, its share is %.1f", list[i].Node, list[i].Weight, got, want)
		}
	}
	// A node that weighs as much as all others can have one copy of each bucket, and no more.
	heavy := nodes(4, nil)
	heavy[0].Weight = 100
	copies, _ = counts(static(t, usual, heavy))
	if copies["n00"] != 256 {
		t.Errorf("the heavy node has %d copies of 256 buckets", copies["n00"])
	}
}

// TestQuotaChurn: nodes join and leave for a long time, and the copies stay balanced at the ideal cost.
func TestQuotaChurn(t *testing.T) {
	t.Parallel()
	s := usual
	m := static(t, s, nodes(8, nil))
	list := slices.Clone(m.Nodes)
	sum, ideal := 0, 0
	for round := range 40 {
		before, _ := counts(m)
		if round%3 == 2 {
			list[round%len(list)].State = ring.NodeDraining
		} else {
			list = append(list, ring.Node{Member: member(fmt.Sprintf("x%02d", round), "1"), Weight: 1, Started: uint64(100 + round)})
		}
		var moves []ring.Move
		m, moves = replan(t, ring.Quota{}, m, list)
		after, _ := counts(m)
		for n, k := range after {
			ideal += max(0, k-before[n])
		}
		sum += transferred(moves)
		list = slices.DeleteFunc(slices.Clone(m.Nodes), func(n ring.Node) bool { return n.State == ring.NodeDraining })
		var err error
		if m, err = m.WithNodes(list); err != nil {
			t.Fatal(err)
		}
		within(t, m, fmt.Sprintf("round %d: %d nodes", round, len(list)))
	}
	if float64(sum) > 1.05*float64(ideal) {
		t.Errorf("%d copies moved, at least %d had to", sum, ideal)
	}
}

// TestDown: nothing is balanced while a node is down, and it keeps its copies, but not its primaries.
func TestDown(t *testing.T) {
	m := static(t, usual, nodes(5, nil))
	list := append(slices.Clone(m.Nodes), ring.Node{Member: member("new", "1"), Weight: 1})
	list[1].State = ring.NodeDown
	after, moves := replan(t, ring.Quota{}, m, list)
	before, _ := counts(m)
	if got, firsts := counts(after); got["n01"] != before["n01"] || firsts["n01"] != 0 || transferred(moves) != 0 {
		t.Errorf("%d copies move, the node that is down has %d of %d, and %d primaries", transferred(moves), got["n01"], before["n01"], firsts["n01"])
	}
}

// TestIncarnation: a node that comes back as another member takes its own places again.
func TestIncarnation(t *testing.T) {
	m := static(t, usual, nodes(5, nil))
	before, _ := counts(m)
	list := slices.Clone(m.Nodes)
	list[2].Incarnation = "2"
	for _, by := range ring.Strategies() {
		_, moves := replan(t, by, m, list)
		own := 0
		for _, mv := range moves {
			if mv.In == list[2].Member && mv.Out == m.Nodes[2].Member {
				own++
			}
		}
		if by.Name() != "rendezvous" && (own != before["n02"] || transferred(moves) != own) {
			t.Errorf("%s: %d of %d places, %d copies move", by.Name(), own, before["n02"], transferred(moves))
		}
	}
}

// TestStatic: every node computes the same map, in whatever order it knows the others and whatever it knows of when they started.
// The places are fixed forever: a build that placed otherwise could not share a cluster with this one.
func TestStatic(t *testing.T) {
	list := nodes(7, func(i int) string { return string(rune('x' + i%2)) })
	m := static(t, usual, list)
	slices.Reverse(list)
	for i := range list {
		list[i].Started, list[i].State = uint64(i*i), ring.NodeDraining
	}
	same(t, static(t, usual, list), m)
	for _, by := range ring.Strategies() {
		m, err := ring.Static(ring.ID{}, usual, list, by)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"quota": "c38781ff", "splitting": "0d789f8b", "eager": "a2c0a1c1", "rendezvous": "c16d8b98"}[by.Name()]
		if got := fmt.Sprintf("%x", b[len(b)-4:]); got != want {
			t.Errorf("%s: the map's checksum is %s, want %s", by.Name(), got, want)
		}
	}
}

// TestStaticSizes: 1, 2, 3 and 5 nodes hold as many copies as there are places.
func TestStaticSizes(t *testing.T) {
	for n := 1; n <= 5; n++ {
		m := static(t, usual, nodes(n, nil))
		for a := range m.All() {
			if len(a.Owners) != min(3, n) || a.Epoch != 1 || a.State != ring.Stable {
				t.Fatalf("%d nodes: %+v", n, a)
			}
		}
		within(t, m, fmt.Sprintf("%d nodes", n))
	}
}

// TestStaticRefused: settings and nodes that no cluster can have.
func TestStaticRefused(t *testing.T) {
	twice := nodes(2, nil)
	twice[1] = twice[0]
	twice[1].Incarnation = "2"
	heavy := nodes(1, nil)
	heavy[0].Weight = 1 << 21
	bad := usual
	bad.R = 1
	for what, f := range map[string]func() (*ring.Map, error){
		"nobody":       func() (*ring.Map, error) { return ring.Static(ring.ID{}, usual, nil, nil) },
		"a name twice": func() (*ring.Map, error) { return ring.Static(ring.ID{}, usual, twice, nil) },
		"too heavy":    func() (*ring.Map, error) { return ring.Static(ring.ID{}, usual, heavy, nil) },
		"r+w":          func() (*ring.Map, error) { return ring.Static(ring.ID{}, bad, nodes(3, nil), nil) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: a map", what)
		}
	}
}

// TestEagerIdle: under the eager strategy a newcomer to a full cluster stays idle, and takes over when another node leaves.
func TestEagerIdle(t *testing.T) {
	m, err := ring.Static(ring.ID{}, usual, nodes(4, nil), ring.ByNode{Recommender: ring.Eager{}})
	if err != nil {
		t.Fatal(err)
	}
	by, _ := ring.StrategyOf("eager")
	joined, moves := replan(t, by, m, nodes(5, nil))
	if len(moves) != 0 {
		t.Errorf("%d moves", len(moves))
	}
	list := slices.Clone(joined.Nodes)
	list[0].State = ring.NodeDraining
	left, _ := replan(t, by, joined, list)
	before, _ := counts(m)
	if copies, _ := counts(left); copies["n04"] < before["n00"]*2/3 || copies["n00"] != 0 {
		t.Errorf("the newcomer has %d copies of the %d of the node that left, which has %d", copies["n04"], before["n00"], copies["n00"])
	}
}

// TestSplittingBackup: under the strategy of the splitting document, the giver of a primary stays as the backup while its node is
// the emptier one, and a cluster that grows by one node at a time is balanced after each.
func TestSplittingBackup(t *testing.T) {
	s := ring.Settings{N: 2, R: 1, W: 2, DW: 1, Buckets: 16, Slices: 16}
	by, _ := ring.StrategyOf("splitting")
	m, err := ring.Static(ring.ID{}, s, nodes(1, nil), by)
	if err != nil {
		t.Fatal(err)
	}
	stays := 0
	for n := 2; n <= 8; n++ {
		var moves []ring.Move
		was := m
		m, moves = replan(t, by, m, nodes(n, nil))
		copies, _ := counts(m)
		if least, most := spread(m, copies); most-least > 1 {
			t.Errorf("%d nodes have %d to %d copies", n, least, most)
		}
		for _, mv := range moves {
			if old := was.Lookup(mv.Bucket.First()).Owners; mv.Why == ring.Balance && mv.Owners[0] == mv.In && len(old) > 1 && mv.Owners[1] == old[0] {
				stays++
			}
		}
	}
	if stays == 0 {
		t.Error("no giver of a primary has stayed as the backup")
	}
}

func BenchmarkPlan(b *testing.B) {
	s := usual
	s.Buckets = 4096
	m := static(b, s, nodes(99, nil))
	joined, err := m.WithNodes(nodes(100, nil))
	if err != nil {
		b.Fatal(err)
	}
	for _, by := range ring.Strategies() {
		b.Run(by.Name(), func(b *testing.B) {
			for b.Loop() {
				by.Plan(joined, ring.Constraints{})
			}
		})
	}
}
