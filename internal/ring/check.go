package ring

import "fmt"

// Limits are what Check requires beyond a map's form. The zero Limits require nothing.
type Limits struct {
	Moves int // moves in flight at most (M5); 0 is any number
	In    int // moves in flight into one node at most (M5); 0 is any number
	// Placed requires M7 and M8 as well: each bucket has as many copies as there are nodes for, and no zone has too many. A map
	// that has just lost a node does not satisfy that.
	Placed bool
}

// Check returns nil if the map has these invariants. Otherwise its error is ErrMap, or names the part that is bad. M4 needs two
// maps: Apply checks it.
//
//	M1  Buckets are disjoint, in order, and have all slots.
//	M2  Each list has 1 to N members, and no node twice.
//	M3  An assignment is stable exactly if its lists are equal.
//	M5  No more moves are in flight than the limits say, in all and into one node.
//	M6  All members of lists are in the table.
//	M7  No zone has more copies of a bucket than its share, which is N divided by the zones, unless no other place exists. Copies at
//	    nodes that are draining or lost do not count.
//	M8  A list is shorter than N only if there are fewer than N nodes.
func (m *Map) Check(l Limits) error {
	if err := m.Settings.Check(); err != nil {
		return err
	}
	if err := m.checkTables(); err != nil {
		return err
	}
	members := make(map[Member]bool, len(m.Members))
	for _, who := range m.Members {
		members[who] = true
	}
	var next uint64
	for a := range m.All() {
		if err := m.checkAssignment(a, next, members); err != nil {
			return err
		}
		next = uint64(a.Bucket.Last()) + 1
	}
	if next != 1<<32 {
		return fmt.Errorf("%w: M1: the assignments end at slot %08x", ErrMap, next)
	}
	if err := m.checkMoves(l); err != nil {
		return err
	}
	if l.Placed {
		return m.checkPlaced()
	}
	return nil
}

func (m *Map) checkAssignment(a *Assignment, next uint64, members map[Member]bool) error {
	if uint64(a.Bucket.First()) != next {
		return fmt.Errorf("%w: M1: bucket %v begins at slot %08x, not at %08x", ErrMap, a.Bucket, a.Bucket.First(), next)
	}
	if err := a.Check(m.N); err != nil {
		return err
	}
	for _, who := range a.Everyone() {
		if !members[who] {
			return fmt.Errorf("%w: M6: member %v of bucket %v is in no table", ErrMap, who, a.Bucket)
		}
	}
	return nil
}

// checkTables checks the tables of nodes and members.
func (m *Map) checkTables() error {
	if len(m.Nodes) > NodesMax || len(m.Members) > MembersMax {
		return fmt.Errorf("%w: %d nodes and %d members, at most %d and %d", ErrMap, len(m.Nodes), len(m.Members), NodesMax, MembersMax)
	}
	known := make(map[Member]bool, len(m.Members))
	for _, who := range m.Members {
		if err := who.Check(); err != nil {
			return err
		}
		if known[who] {
			return fmt.Errorf("%w: M6: member %v is twice in the table", ErrMap, who)
		}
		known[who] = true
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if err := n.Check(); err != nil {
			return err
		}
		switch {
		case i > 0 && m.Nodes[i-1].Node >= n.Node:
			return fmt.Errorf("%w: node %s is not before node %s", ErrMap, m.Nodes[i-1].Node, n.Node)
		case !known[n.Member]:
			return fmt.Errorf("%w: M6: node %v is not in the table of members", ErrMap, n.Member)
		}
	}
	return nil
}

// checkMoves checks M5.
func (m *Map) checkMoves(l Limits) error {
	all, in := 0, map[string]int{}
	for a := range m.All() {
		if a.State == Stable {
			continue
		}
		all++
		for _, who := range a.Joining() {
			in[who.Node]++
			if n := in[who.Node]; l.In > 0 && n > l.In {
				return fmt.Errorf("%w: %w: M5: %d moves into node %s, at most %d", ErrMap, ErrLimit, n, who.Node, l.In)
			}
		}
	}
	if l.Moves > 0 && all > l.Moves {
		return fmt.Errorf("%w: %w: M5: %d moves in flight, at most %d", ErrMap, ErrLimit, all, l.Moves)
	}
	return nil
}

// checkPlaced checks M7 and M8.
func (m *Map) checkPlaced() error {
	rule := newZones(m.Nodes, m.N)
	for a := range m.All() {
		if want := min(m.N, rule.places); len(a.Next) < want {
			return fmt.Errorf("%w: M8: bucket %v has %d copies, but there are nodes for %d", ErrMap, a.Bucket, len(a.Next), want)
		}
		count := map[string]int{}
		for _, who := range a.Next {
			n := m.Node(who.Node)
			if n == nil || !holds(n) {
				continue
			}
			if count[n.Zone]++; count[n.Zone] > rule.cap {
				return fmt.Errorf("%w: M7: zone %q has more than %d copies of bucket %v", ErrMap, n.Zone, rule.cap, a.Bucket)
			}
		}
	}
	return nil
}

// zones is the rule of M7 for a set of nodes.
type zones struct {
	places int // nodes that can hold copies
	cap    int // copies of a bucket that one zone may have
}

// newZones returns the rule: the smallest share of a zone, N divided by the zones or more, that leaves a place for all copies.
func newZones(nodes []Node, n int) zones {
	size := map[string]int{}
	places := 0
	for i := range nodes {
		if holds(&nodes[i]) {
			size[nodes[i].Zone]++
			places++
		}
	}
	want := min(n, places)
	z := zones{places: places, cap: 1}
	if len(size) > 0 {
		z.cap = (n + len(size) - 1) / len(size)
	}
	for {
		room := 0
		for _, s := range size {
			room += min(s, z.cap)
		}
		if room >= want {
			return z
		}
		z.cap++
	}
}

// holds reports whether placement leaves copies at a node.
func holds(n *Node) bool { return n.State == NodeActive || n.State == NodeDown }
