package ring

import (
	"cmp"
	"fmt"
	"slices"
)

// Why is the reason for a move.
type Why byte

const (
	Fill    Why = iota // a bucket has too few copies, or one at a node that does not come back
	Drain              // the node that gives the copy is to be emptied
	Zone               // a zone has too many copies of the bucket
	Balance            // the receiver has too little
	Primary            // the primary changes; no data moves
	whys
)

// String returns the reason in one word.
func (w Why) String() string {
	if w < whys {
		return [...]string{"fill", "drain", "zone", "balance", "primary"}[w]
	}
	return fmt.Sprintf("reason %d", byte(w))
}

// Move is one change of one bucket's owners.
type Move struct {
	Bucket  Bucket
	Out, In Member   // the member that gives a copy and the one that gets it; the zero Member is none
	Owners  []Member // the list after the move
	Why     Why
}

// String returns the move in one line.
func (m Move) String() string {
	return fmt.Sprintf("%v %v: %v -> %v, then %v", m.Why, m.Bucket, m.Out, m.In, m.Owners)
}

// Constraints bound a plan.
type Constraints struct {
	Most int // moves at most; 0 is any number
	// NoBalance leaves copies where they are unless they have to leave or a bucket has too few.
	NoBalance bool
	// Keep selects buckets that stay as they are; nil selects none. Buckets that are not stable always stay.
	Keep func(*Assignment) bool
}

// Strategy decides where copies go. Plan is pure: equal maps have equal plans, on every machine. It returns moves in the order in
// which they are made: each is chosen as if those before it had been made. A bucket in motion counts as being at its destination.
type Strategy interface {
	Name() string
	Plan(m *Map, c Constraints) []Move
}

// Strategies returns all strategies; the first is the default.
func Strategies() []Strategy {
	return []Strategy{Quota{}, Splitting{}, ByNode{Eager{}}, Rendezvous{}}
}

// StrategyOf returns the strategy of that name, or the default one for the empty name.
func StrategyOf(name string) (Strategy, bool) {
	for _, s := range Strategies() {
		if name == "" || s.Name() == name {
			return s, true
		}
	}
	return nil, false
}

// Done returns the map after moves, as if they took no time: the buckets are stable at their new owners, under a higher epoch. It
// is for planning, and for the birth of a cluster.
func (m *Map) Done(moves []Move) (*Map, error) {
	last := map[Bucket]Move{}
	for _, mv := range moves {
		last[mv.Bucket] = mv
	}
	d := &Delta{Generation: m.Generation, From: m.Version, Term: m.Term}
	for a := range m.All() {
		if mv, ok := last[a.Bucket]; ok {
			d.Assignments = append(d.Assignments, a.step(Stable, mv.Owners, mv.Owners))
		}
	}
	return m.Apply(d)
}

// table is a map for which a plan is being made: it counts the changes of each move.
type table struct {
	m     *Map
	c     Constraints
	nodes []Node // as in the map
	index map[string]int
	names []uint64 // hash of each node's name
	rows  []row
	zones zones
	want  int   // copies that each bucket should have
	load  []int // copies of each node
	first []int // primaries of each node
	moves []Move
}

// row is a bucket, and its members after the moves so far.
type row struct {
	a       *Assignment
	members []Member
	nodes   []int // of the members; nobody for a member that does not count
	fixed   bool  // the bucket stays as it is
}

// nobody is the node of a member that is lost, or that is an earlier incarnation of its node.
const nobody = -1

func newTable(m *Map, c Constraints) *table {
	t := &table{m: m, c: c, nodes: m.Nodes, index: make(map[string]int, len(m.Nodes)), zones: newZones(m.Nodes, m.N)}
	t.load, t.first = make([]int, len(t.nodes)), make([]int, len(t.nodes))
	for i := range t.nodes {
		t.index[t.nodes[i].Node] = i
		t.names = append(t.names, hashName(t.nodes[i].Node))
	}
	t.want = min(m.N, t.zones.places)
	t.rows = make([]row, 0, m.count)
	for a := range m.All() {
		r := row{a: a, members: a.Next, fixed: a.State != Stable || c.Keep != nil && c.Keep(a)}
		for _, who := range r.members {
			r.nodes = append(r.nodes, t.nodeOf(who))
		}
		t.rows = append(t.rows, r)
		t.count(&t.rows[len(t.rows)-1], 1)
	}
	return t
}

// nodeOf returns the node of a member, or nobody.
func (t *table) nodeOf(who Member) int {
	i, ok := t.index[who.Node]
	if !ok || t.nodes[i].Member != who || t.nodes[i].State == NodeLost {
		return nobody
	}
	return i
}

// count adds a row to the counts, or removes it if by is -1.
func (t *table) count(r *row, by int) {
	for i, n := range r.nodes {
		if n == nobody {
			continue
		}
		if t.load[n] += by; i == 0 {
			t.first[n] += by
		}
	}
}

// set gives a bucket other owners, and records the move.
func (t *table) set(r *row, members []Member, out, in Member, why Why) {
	t.count(r, -1)
	r.members, r.nodes = members, make([]int, len(members))
	for i, who := range members {
		r.nodes[i] = t.nodeOf(who)
	}
	t.count(r, 1)
	t.moves = append(t.moves, Move{Bucket: r.a.Bucket, Out: out, In: in, Owners: members, Why: why})
}

// put gives the place of a row to a node. A place past the end is a new one.
func (t *table) put(r *row, place, node int, why Why) {
	members := slices.Clone(r.members)
	var out Member
	if place == len(members) {
		members = append(members, Member{})
	} else {
		out = members[place]
	}
	members[place] = t.nodes[node].Member
	t.set(r, members, out, members[place], why)
}

// full reports whether the plan has as many moves as it may.
func (t *table) full() bool { return t.c.Most > 0 && len(t.moves) >= t.c.Most }

// fits reports whether a node may take the place of a row: it takes copies, it has none of this bucket, and its zone does not have
// too many.
func (t *table) fits(r *row, place, node int) bool {
	n := &t.nodes[node]
	if n.State != NodeActive {
		return false
	}
	same := 0
	for i, o := range r.nodes {
		switch {
		case o == node || i != place && r.members[i].Node == n.Node:
			return false
		case i != place && o != nobody && holds(&t.nodes[o]) && t.nodes[o].Zone == n.Zone:
			same++
		}
	}
	return same < t.zones.cap
}

// hole is a place of a row that should have another member. A place past the end is a missing copy.
type hole struct {
	place int
	why   Why
}

// holes returns the holes of a row, the most urgent first.
func (t *table) holes(r *row) (list []hole) {
	if r.fixed {
		return nil
	}
	for i, n := range r.nodes {
		if n == nobody {
			list = append(list, hole{i, Fill})
		}
	}
	for i, n := range r.nodes {
		if n != nobody && t.nodes[n].State == NodeDraining {
			list = append(list, hole{i, Drain})
		}
	}
	if len(list) == 0 && len(r.nodes) < t.want {
		list = append(list, hole{len(r.nodes), Fill})
	}
	return list
}

// fill gives every hole to the node that choose returns, which may be nobody. A member whose node has come back in another
// incarnation is replaced by that incarnation.
func (t *table) fill(choose func(r *row, place int) int) {
	for i := range t.rows {
		r := &t.rows[i]
		for !t.full() && slices.ContainsFunc(t.holes(r), func(h hole) bool { return t.fillOne(r, h.place, h.why, choose) }) {
		}
	}
}

// fillOne fills one hole, and reports whether it could.
func (t *table) fillOne(r *row, place int, why Why, choose func(r *row, place int) int) bool {
	if why == Fill && place < len(r.members) {
		if n, ok := t.index[r.members[place].Node]; ok && t.fits(r, place, n) {
			t.put(r, place, n, why)
			return true
		}
	}
	if n := choose(r, place); n != nobody {
		t.put(r, place, n, why)
		return true
	}
	return false // a member that can't be replaced stays: fewer copies would be less safe
}

// unzone moves copies out of zones that have too many of a bucket.
func (t *table) unzone(choose func(r *row, place int) int) {
	for i := range t.rows {
		r := &t.rows[i]
		for place := len(r.nodes) - 1; place >= 0 && !r.fixed && !t.full(); place-- {
			if n := r.nodes[place]; n != nobody && t.crowded(r, n) {
				if to := choose(r, place); to != nobody {
					t.put(r, place, to, Zone)
				}
			}
		}
	}
}

// crowded reports whether a node's zone has too many copies of a row.
func (t *table) crowded(r *row, node int) bool {
	same := 0
	for _, n := range r.nodes {
		if n != nobody && holds(&t.nodes[n]) && t.nodes[n].Zone == t.nodes[node].Zone {
			same++
		}
	}
	return same > t.zones.cap
}

// balances reports whether a plan may balance: no node is down, and the caller allows it.
func (t *table) balances() bool {
	return !t.c.NoBalance && !slices.ContainsFunc(t.nodes, func(n Node) bool { return n.State == NodeDown })
}

// newest orders nodes: the last started first, then by name.
func (t *table) newest(a, b int) int {
	return cmp.Or(-cmp.Compare(t.nodes[a].Started, t.nodes[b].Started), cmp.Compare(t.nodes[a].Node, t.nodes[b].Node))
}

// draw is a number for a bucket and a node that breaks ties, so that the copies of a lost node come from all nodes and go to all
// nodes.
func (t *table) draw(r *row, node int) uint64 {
	return mix(t.names[node] ^ uint64(r.a.Bucket.First())<<8 ^ uint64(r.a.Bucket.Bits()))
}

// hashName is FNV-1a, then mixed. Places of buckets depend on it: it is fixed forever.
func hashName(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
