package ring

import (
	"cmp"
	"slices"
)

// Rendezvous is the strategy that needs no table: each bucket goes to the nodes that have the highest hashes with it, as far as the
// zones permit. It is a baseline: the load of nodes varies randomly.
type Rendezvous struct{}

// Name returns "rendezvous".
func (Rendezvous) Name() string { return "rendezvous" }

// Plan moves each bucket, one copy at a time, to where its hashes put it.
func (Rendezvous) Plan(m *Map, c Constraints) []Move {
	z := rendezvous{table: newTable(m, c)}
	if z.want == 0 {
		return nil
	}
	z.weigh()
	for i := range z.rows {
		if r := &z.rows[i]; !r.fixed {
			z.align(r, z.desired(r))
		}
	}
	return z.moves
}

type rendezvous struct {
	*table
	draws []int // how often each node draws for a bucket: its weight, in the smallest whole numbers
}

// drawsMax bounds the cost of a heavy node.
const drawsMax = 64

// weigh turns weights into numbers of draws.
func (z *rendezvous) weigh() {
	var most uint32 = 1
	for i := range z.nodes {
		most = max(most, z.nodes[i].Weight)
	}
	for i := range z.nodes {
		w := max(1, z.nodes[i].Weight)
		if most > drawsMax {
			w = max(1, uint32(uint64(w)*drawsMax/uint64(most)))
		}
		z.draws = append(z.draws, int(w))
	}
}

// desired returns the nodes at which a bucket should be, the primary first: only nodes that take copies, and those that have a copy
// of it.
func (z *rendezvous) desired(r *row) (list []int) {
	type drawn struct {
		node int
		best uint64
	}
	var order []drawn
	for n := range z.nodes {
		if s := z.nodes[n].State; s == NodeActive || s == NodeDown && slices.Contains(r.nodes, n) {
			d := drawn{node: n}
			for k := range z.draws[n] {
				d.best = max(d.best, mix(z.draw(r, n)+uint64(k)))
			}
			order = append(order, d)
		}
	}
	slices.SortFunc(order, func(a, b drawn) int { return cmp.Or(-cmp.Compare(a.best, b.best), cmp.Compare(a.node, b.node)) })
	in := map[string]int{}
	for _, d := range order {
		if zone := z.nodes[d.node].Zone; len(list) < z.want && in[zone] < z.zones.cap {
			in[zone]++
			list = append(list, d.node)
		}
	}
	return list
}

// align replaces the members of a row, one per move, and then puts them in order.
func (z *rendezvous) align(r *row, nodes []int) {
	for _, n := range nodes {
		if slices.Contains(r.nodes, n) {
			continue
		}
		if z.full() {
			return
		}
		place := len(r.nodes)
		if i := slices.IndexFunc(r.members, func(m Member) bool { return m.Node == z.nodes[n].Node }); i >= 0 {
			place = i // its earlier incarnation
		} else if i := slices.IndexFunc(r.nodes, func(o int) bool { return !slices.Contains(nodes, o) }); i >= 0 && len(r.nodes) >= len(nodes) {
			place = i
		}
		why := Balance
		if place == len(r.nodes) || r.nodes[place] == nobody {
			why = Fill
		} else if z.nodes[r.nodes[place]].State == NodeDraining {
			why = Drain
		}
		z.put(r, place, n, why)
	}
	members := make([]Member, len(nodes))
	for i, n := range nodes {
		members[i] = z.nodes[n].Member
	}
	if !z.full() && sameMembers(members, r.members) && !slices.Equal(members, r.members) {
		z.set(r, members, Member{}, Member{}, Primary)
	}
}
