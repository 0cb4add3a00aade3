package ring

import (
	"cmp"
	"slices"
)

// Splitting is the strategy of the bucket-splitting document: the emptiest node receives from the fullest one. A node that receives
// a primary becomes the primary. The node that gave it stays as a backup, and the last backup leaves, unless its node is the
// emptier one. Primaries and backups are balanced separately, as far as the moving copies permit.
type Splitting struct{}

// Name returns "splitting".
func (Splitting) Name() string { return "splitting" }

// Plan fills holes with the emptiest nodes, then balances.
func (Splitting) Plan(m *Map, c Constraints) []Move {
	s := splitting{newTable(m, c)}
	if s.want == 0 {
		return nil
	}
	s.fill(s.emptiest)
	s.unzone(s.emptiest)
	if s.balances() {
		for !s.full() && s.balance() {
		}
	}
	return s.moves
}

type splitting struct{ *table }

// compare orders nodes by how full they are for their weight; among equals the newest counts as the emptier.
func (s splitting) compare(a, b int) int {
	return cmp.Or(s.fuller(a, b), s.newest(a, b))
}

// fuller compares how full two nodes are for their weight.
func (s splitting) fuller(a, b int) int {
	wa, wb := int64(max(1, s.nodes[a].Weight)), int64(max(1, s.nodes[b].Weight))
	return cmp.Compare(int64(s.load[a])*wb, int64(s.load[b])*wa)
}

func (s splitting) emptiest(r *row, place int) int {
	best := nobody
	for n := range s.nodes {
		if s.fits(r, place, n) && (best == nobody || s.compare(n, best) < 0) {
			best = n
		}
	}
	return best
}

// gains reports whether moving a copy makes two nodes more equal.
func (s splitting) gains(from, to int) bool {
	wf, wt := int64(max(1, s.nodes[from].Weight)), int64(max(1, s.nodes[to].Weight))
	return int64(s.load[from]-1)*wt >= int64(s.load[to]+1)*wf
}

// balance moves one copy from the fullest node that can give one to the emptiest that can take one. It reports whether it moved
// one.
func (s splitting) balance() bool {
	var active []int
	for n := range s.nodes {
		if s.nodes[n].State == NodeActive {
			active = append(active, n)
		}
	}
	slices.SortFunc(active, s.compare)
	for _, to := range active {
		for i := len(active) - 1; i >= 0 && s.gains(active[i], to); i-- {
			if s.give(active[i], to) {
				return true
			}
		}
	}
	return false
}

// give moves a bucket between two nodes: as the primary if the giver has more primaries, otherwise as a backup; if only one of the
// two is possible, that one.
func (s splitting) give(from, to int) bool {
	asPrimary := s.first[from] > s.first[to]
	return s.giveAs(from, to, asPrimary) || s.giveAs(from, to, !asPrimary)
}

func (s splitting) giveAs(from, to int, asPrimary bool) bool {
	for i := range s.rows {
		r := &s.rows[i]
		place := slices.Index(r.nodes, from)
		if place < 0 || r.fixed || (place == 0) != asPrimary {
			continue
		}
		leaves := place // the copy at this place is removed
		if last := len(r.nodes) - 1; asPrimary && last > 0 && r.nodes[last] != nobody && s.gains(r.nodes[last], to) && s.fuller(r.nodes[last], from) >= 0 {
			leaves = last
		}
		if !s.fits(r, leaves, to) {
			continue
		}
		members := slices.Delete(slices.Clone(r.members), leaves, leaves+1)
		in := s.nodes[to].Member
		if !asPrimary {
			members = slices.Insert(members, place, in)
		} else {
			members = slices.Insert(members, 0, in)
		}
		s.set(r, members, r.members[leaves], in, Balance)
		return true
	}
	return false
}
