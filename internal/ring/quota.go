package ring

import (
	"cmp"
	"math/bits"
	"slices"
)

// Quota is the default strategy: each node has its share by weight of the copies, as far as the zones permit, and of the primaries.
// It moves as few copies as necessary. It uses only integers, so that every machine makes the same plan.
type Quota struct{}

// Name returns "quota".
func (Quota) Name() string { return "quota" }

// Plan fills holes, empties draining nodes, repairs zones, balances copies, then primaries.
func (Quota) Plan(m *Map, c Constraints) []Move {
	q := quota{table: newTable(m, c)}
	if q.want == 0 {
		return nil
	}
	q.copies = q.shares()
	q.fill(q.neediest)
	q.unzone(q.neediest)
	if q.balances() {
		for !q.full() && q.balance() {
		}
	}
	q.primaries()
	return q.moves
}

// quota is a plan under construction.
type quota struct {
	*table
	copies []share // of each node
}

// share is a number of copies, in parts of 1/2^shareBits.
type share uint64

const shareBits = 20

func (s share) floor() int { return int(s >> shareBits) }
func (s share) ceil() int  { return int((s + 1<<shareBits - 1) >> shareBits) }

// over returns by how much a count is above the share.
func (s share) over(n int) int64 { return int64(n)<<shareBits - int64(s) }

// shares returns what each node should have: filled by weight like water, first over zones, then over the nodes of each.
func (q *quota) shares() []share {
	all := make([]share, len(q.nodes))
	var names []string
	in := map[string][]int{}
	for i := range q.nodes {
		if n := &q.nodes[i]; holds(n) {
			if in[n.Zone] == nil {
				names = append(names, n.Zone)
			}
			in[n.Zone] = append(in[n.Zone], i)
		}
	}
	rows := uint64(len(q.rows)) << shareBits
	var tubs []tub
	for _, name := range names {
		b := tub{most: rows * uint64(min(q.zones.cap, len(in[name])))}
		for _, i := range in[name] {
			b.weight += uint64(max(1, q.nodes[i].Weight))
		}
		tubs = append(tubs, b)
	}
	pour(tubs, rows*uint64(q.want))
	for z, name := range names {
		var inner []tub
		for _, i := range in[name] {
			inner = append(inner, tub{weight: uint64(max(1, q.nodes[i].Weight)), most: rows})
		}
		pour(inner, tubs[z].got)
		for k, i := range in[name] {
			all[i] = share(inner[k].got)
		}
	}
	return all
}

// tub takes a share of what is poured, by its weight, and no more than most.
type tub struct{ weight, most, got uint64 }

// pour divides an amount by weight. What does not fit into one tub goes into the others.
func pour(tubs []tub, amount uint64) {
	full := make([]bool, len(tubs))
	for {
		var weight uint64
		rest, more := amount, false
		for i, b := range tubs {
			if full[i] {
				rest -= b.most
			} else {
				weight += b.weight
			}
		}
		if weight == 0 {
			return
		}
		for i := range tubs {
			if b := &tubs[i]; !full[i] {
				if b.got = mulDiv(rest, b.weight, weight); b.got >= b.most {
					b.got, full[i], more = b.most, true, true
				}
			}
		}
		if !more {
			return
		}
	}
}

// mulDiv returns a*b/c, rounded down, for b at most c.
func mulDiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	q, _ := bits.Div64(high, low, c)
	return q
}

// neediest returns the node that is furthest below its share and may take a place.
func (q *quota) neediest(r *row, place int) int {
	best := nobody
	for n := range q.nodes {
		if !q.fits(r, place, n) {
			continue
		}
		if best == nobody || cmp.Or(cmp.Compare(q.copies[n].over(q.load[n]), q.copies[best].over(q.load[best])),
			-cmp.Compare(q.draw(r, n), q.draw(r, best))) < 0 {
			best = n
		}
	}
	return best
}

// balance makes one move, or a chain of moves, that brings a node nearer to its share. It reports whether it made one.
func (q *quota) balance() bool {
	givers, takers := q.sides()
	for _, to := range takers {
		for _, from := range givers {
			over, under := q.load[from] > q.copies[from].ceil(), q.load[to] < q.copies[to].floor()
			if (over || under) && q.give(from, to) {
				return true
			}
		}
	}
	for _, to := range takers {
		for _, from := range givers {
			over, under := q.load[from] > q.copies[from].ceil(), q.load[to] < q.copies[to].floor()
			if (over || under) && q.chain(from, to) {
				return true
			}
		}
	}
	return false
}

// sides returns the nodes that can give a copy, the fullest first, and those that can take one, the emptiest first.
func (q *quota) sides() (givers, takers []int) {
	for n := range q.nodes {
		if q.load[n] > q.copies[n].floor() {
			givers = append(givers, n)
		}
		if q.nodes[n].State == NodeActive && q.load[n] < q.copies[n].ceil() {
			takers = append(takers, n)
		}
	}
	over := func(n int) int64 { return q.copies[n].over(q.load[n]) }
	slices.SortFunc(givers, func(a, b int) int { return cmp.Or(-cmp.Compare(over(a), over(b)), q.newest(b, a)) })
	slices.SortFunc(takers, func(a, b int) int { return cmp.Or(cmp.Compare(over(a), over(b)), q.newest(a, b)) })
	return givers, takers
}

// give moves a bucket from one node to another: the bucket with the highest draw for the receiver.
func (q *quota) give(from, to int) bool {
	r, place := q.best(from, to)
	if r == nil {
		return false
	}
	q.put(r, place, to, Balance)
	return true
}

// best returns the bucket that from should give to to, or nil if it has none to give.
func (q *quota) best(from, to int) (best *row, place int) {
	var highest uint64
	for i := range q.rows {
		r := &q.rows[i]
		p := slices.Index(r.nodes, from)
		if p < 0 || r.fixed || !q.fits(r, p, to) {
			continue
		}
		if d := q.draw(r, to); best == nil || d > highest {
			best, place, highest = r, p, d
		}
	}
	return best, place
}

// chain moves a bucket from one node to another by way of a third, if no bucket can move directly.
func (q *quota) chain(from, to int) bool {
	for by := range q.nodes {
		if by == from || by == to || q.nodes[by].State != NodeActive {
			continue
		}
		r, place := q.best(by, to)
		s, other := q.best(from, by)
		if r == nil || s == nil || r == s {
			continue
		}
		q.put(r, place, to, Balance)
		q.put(s, other, by, Balance)
		return true
	}
	return false
}

// primaries swaps primaries with backups until each node has its share of primaries, or no more can be done.
func (q *quota) primaries() {
	want := q.primaryShares()
	for !q.full() && q.swapPath(want) {
	}
}

// primaryShares returns how many primaries each node should have: its part of the copies that active nodes have.
func (q *quota) primaryShares() []share {
	var sum uint64
	for n := range q.nodes {
		if q.nodes[n].State == NodeActive {
			sum += uint64(q.load[n])
		}
	}
	want := make([]share, len(q.nodes))
	for n := range q.nodes {
		if sum > 0 && q.nodes[n].State == NodeActive {
			want[n] = share(mulDiv(uint64(len(q.rows))<<shareBits, uint64(q.load[n]), sum))
		}
	}
	return want
}

// swapPath finds the shortest path from a node with too many primaries to one with too few, in which each step makes a backup the
// primary, and makes these swaps.
func (q *quota) swapPath(want []share) bool {
	type step struct {
		from  int // node
		row   *row
		place int
	}
	by := q.byPrimary()
	for start := range q.nodes {
		over := q.first[start] > want[start].ceil()
		if q.first[start] <= want[start].floor() {
			continue
		}
		came := map[int]step{start: {from: nobody}}
		for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if at != start && (q.first[at] < want[at].floor() || over && q.first[at] < want[at].ceil()) {
				for at != start {
					s := came[at]
					q.promote(s.row, s.place)
					at = s.from
				}
				return true
			}
			for _, r := range by[at] {
				for place := 1; place < len(r.nodes); place++ {
					n := r.nodes[place]
					if _, seen := came[n]; n != nobody && !seen && q.nodes[n].State == NodeActive {
						came[n] = step{at, r, place}
						queue = append(queue, n)
					}
				}
			}
		}
	}
	return false
}

// byPrimary returns for each node the buckets whose primary it is.
func (q *quota) byPrimary() [][]*row {
	by := make([][]*row, len(q.nodes))
	for i := range q.rows {
		if r := &q.rows[i]; !r.fixed && len(r.nodes) > 1 && r.nodes[0] != nobody {
			by[r.nodes[0]] = append(by[r.nodes[0]], r)
		}
	}
	return by
}

// promote swaps the first member of a row with the one at place.
func (t *table) promote(r *row, place int) {
	members := slices.Clone(r.members)
	members[0], members[place] = members[place], members[0]
	t.set(r, members, Member{}, Member{}, Primary)
}
