package ring

import (
	"cmp"
	"slices"
)

// Recommender decides for one node at a time what it takes, given a map in which its recommendations to other nodes are already
// done.
type Recommender interface {
	Name() string
	Recommend(m *Map, node string) []Move
}

// ByNode makes a Strategy of a Recommender. It asks for the node that started last first, so that in a rolling upgrade the new
// nodes take what the old ones give up. It repeats until nothing more is recommended.
type ByNode struct{ Recommender }

// Plan asks for each node in turn.
func (b ByNode) Plan(m *Map, c Constraints) (moves []Move) {
	order := make([]int, len(m.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(-cmp.Compare(m.Nodes[i].Started, m.Nodes[j].Started), cmp.Compare(m.Nodes[i].Node, m.Nodes[j].Node))
	})
	for again := true; again; {
		again = false
		for _, i := range order {
			some := b.Recommend(m, m.Nodes[i].Node)
			some = slices.DeleteFunc(some, func(mv Move) bool { return c.Keep != nil && c.Keep(m.Lookup(mv.Bucket.First())) })
			if c.Most > 0 {
				some = some[:min(len(some), c.Most-len(moves))]
			}
			if len(some) == 0 {
				continue
			}
			next, err := m.Done(some)
			if err != nil {
				return moves // not a valid recommendation
			}
			m, moves, again = next, append(moves, some...), true
		}
	}
	return moves
}

// Eager is the strategy of FiloDB: a node takes unheld copies until it has the average number of copies, rounded up. No copy moves
// for the sake of balance, so a node that joins a full cluster stays idle until another one leaves.
type Eager struct{}

// Name returns "eager".
func (Eager) Name() string { return "eager" }

// Recommend returns what a node takes.
func (Eager) Recommend(m *Map, node string) []Move {
	e := eager{newTable(m, Constraints{})}
	n, ok := e.index[node]
	if !ok || e.nodes[n].State != NodeActive || e.want == 0 {
		return nil
	}
	take := func(r *row, place int) int {
		if e.fits(r, place, n) && (e.room(n) > 0 || e.last(r, place, n)) {
			return n
		}
		return nobody
	}
	e.fill(take)
	e.unzone(take)
	return e.moves
}

type eager struct{ *table }

// room returns how many copies a node may take: the average, rounded up, less what it has.
func (e eager) room(n int) int {
	return (len(e.rows)*e.want+e.zones.places-1)/e.zones.places - e.load[n]
}

// last reports whether a node has to take a place beyond its room, because no node with room can: it is the emptiest that can.
func (e eager) last(r *row, place, n int) bool {
	for o := range e.nodes {
		if o == n || !e.fits(r, place, o) {
			continue
		}
		if e.room(o) > 0 || cmp.Or(cmp.Compare(e.load[o], e.load[n]), e.newest(o, n)) < 0 {
			return false
		}
	}
	return true
}
