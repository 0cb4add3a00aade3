package cluster

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"bigset/bloomslice"
	"bigset/internal/ring"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// replica is a copy of sets and of slices.
type replica interface {
	peer.Replica
	peer.ManySlices
	peer.ManyDeltas
	peer.RequestLister
}

// live contains the routes of requests under one epoch. It is immutable except for the cached order in which members are asked.
type live struct {
	view  View
	epoch uint64
	self  int
	*ownership
	replicas []replica            // by position in the record: the local one is gated
	origin   int                  // the only member that answers reads, or -1
	near     func(member int) int // how far a member is: the nearest are asked first
	now      func() time.Time
	pairs    []coord.Share // what this member compares with others

	placed atomic.Pointer[placedAll] // the current placements
}

// ownership says which members own which range. All epochs have the same ranges, because a member's disk does not affect them. The plan of many
// buckets takes seconds.
type ownership struct {
	bits    int     // slots are divided into 1 << bits buckets
	owners  [][]int // of each bucket, in the order of the map: positions in the record
	classes [][]int // the distinct lists of owners
	class   []int   // of each bucket: its list
}

// newOwnership computes the ranges of a cluster with these members and settings. Its ID does not matter.
func newOwnership(ids []string, s ring.Settings) (*ownership, error) {
	a := &ownership{}
	var nodes []ring.Node
	for _, id := range ids {
		nodes = append(nodes, ring.Node{Member: ring.Member{Node: id}})
	}
	m, err := ring.Static(ring.ID{}, s, nodes, nil)
	if err != nil {
		return nil, err
	}
	for 1<<a.bits < s.Buckets {
		a.bits++
	}
	for b := range s.Buckets {
		var owners []int
		for _, o := range m.Lookup(ring.Slot(b << (32 - a.bits))).Owners {
			owners = append(owners, slices.Index(ids, o.Node))
		}
		a.owners = append(a.owners, owners)
		class := slices.IndexFunc(a.classes, func(c []int) bool { return slices.Equal(c, owners) })
		if class < 0 {
			class = len(a.classes)
			a.classes = append(a.classes, owners)
		}
		a.class = append(a.class, class)
	}
	return a, nil
}

// placedAll contains the placements of all lists of owners at one moment, as far as they have been needed. Requests on many slices need
// thousands a second.
type placedAll struct {
	at     time.Time
	sets   []atomic.Pointer[coord.Placement[peer.Replica]]
	slices []atomic.Pointer[coord.Placement[peer.SliceReplica]]
}

// placedTime is how long a placement is used: a change in which members are near takes effect that much later.
const placedTime = 20 * time.Millisecond

// newLive returns the routes of a view over the ranges of its cluster.
func newLive(v View, a *ownership, replicas []replica, near func(int) int, now func() time.Time) *live {
	l := &live{view: v, epoch: v.Epoch(), self: v.Self, ownership: a, replicas: replicas, origin: -1, near: near, now: now}
	if r := v.Record; r.Origin != "" {
		l.origin = r.entry(r.Origin)
	}
	l.pairs = l.shares()
	return l
}

// moment returns the current placements.
func (l *live) moment() *placedAll {
	all := l.placed.Load()
	if now := l.now(); all == nil || now.Sub(all.at) > placedTime {
		all = &placedAll{now, make([]atomic.Pointer[coord.Placement[peer.Replica]], len(l.classes)), make([]atomic.Pointer[coord.Placement[peer.SliceReplica]], len(l.classes))}
		l.placed.Store(all)
	}
	return all
}

// place returns the placement of a slot: a kept one, or one computed now.
func place[R interface{ Member() peer.Member }](l *live, s keyscheme.Slot, kept []atomic.Pointer[coord.Placement[R]]) coord.Placement[R] {
	at := &kept[l.class[uint64(s)>>(32-l.bits)]]
	if p := at.Load(); p != nil {
		return *p
	}
	p := placement[R](l, s)
	at.Store(&p)
	return p
}

// holders returns the owners of a slot.
func (l *live) holders(s keyscheme.Slot) []int { return l.owners[uint64(s)>>(32-l.bits)] }

// seat returns the seat of this member among the owners of a slot: its position in the map, which any member that takes the position has as
// well. The origin, if it is not an owner, has the seat of the first owner until the owners have copied its data: filters made without a
// cluster are filled from seat 0, and the first owner mints no marks before then.
func (l *live) seat(s keyscheme.Slot) (bloomslice.Seat, bool) {
	if at := slices.Index(l.holders(s), l.self); at >= 0 {
		return bloomslice.Seat(at), at < bloomslice.OwnersMax
	}
	return 0, l.origin == l.self
}

// ordered returns owners, the nearest first.
func (l *live) ordered(owners []int) []int {
	out := slices.Clone(owners)
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(l.near(a), l.near(b)) })
	return out
}

// readers returns the members that answer reads of what some owners hold, the nearest first. These are the owners or, until they have
// copied its data, the origin.
func (l *live) readers(owners []int) []int {
	if l.origin >= 0 {
		return []int{l.origin}
	}
	return l.ordered(owners)
}

// placement returns the placement of a slot for a coordinator.
func placement[R interface{ Member() peer.Member }](l *live, s keyscheme.Slot) (p coord.Placement[R]) {
	pick := func(members []int) (list []R) {
		for _, i := range members {
			list = append(list, any(l.replicas[i]).(R))
		}
		return list
	}
	owners := pick(l.ordered(l.holders(s)))
	if l.origin < 0 {
		return coord.Placement[R]{Read: owners}
	}
	old := pick([]int{l.origin})
	return coord.Placement[R]{Read: old, Write: [][]R{old, owners}}
}

// shares returns the ranges that this member and another one both hold. Each pair of members occurs once in the cluster, at the member that
// comes first in the record.
func (l *live) shares() (all []coord.Share) {
	for other := l.self + 1; other < len(l.replicas); other++ {
		first := -1
		for b := 0; b <= len(l.owners); b++ {
			both := b < len(l.owners) && slices.Contains(l.owners[b], l.self) && slices.Contains(l.owners[b], other)
			switch {
			case both && first < 0:
				first = b
			case !both && first >= 0:
				all = append(all, coord.Share{A: l.replicas[l.self], B: l.replicas[other], First: l.firstOf(first), Last: l.lastOf(b - 1)})
				first = -1
			}
		}
	}
	return all
}

func (l *live) firstOf(bucket int) keyscheme.Slot {
	return keyscheme.Slot(uint64(bucket) << (32 - l.bits))
}

func (l *live) lastOf(bucket int) keyscheme.Slot {
	return keyscheme.Slot(uint64(bucket+1)<<(32-l.bits) - 1)
}

// run is a sequence of adjacent ranges with the same owners.
type run struct {
	first, last keyscheme.Slot
	owners      []int
	class       int // of ownership.classes: a list of these owners
}

// runs returns the ranges that this member holds.
func (l *live) runs() []run {
	return slices.DeleteFunc(l.ranges(), func(r run) bool { return !slices.Contains(r.owners, l.self) })
}

// ranges returns all ranges with their holders.
func (l *live) ranges() (all []run) {
	for b, owners := range l.owners {
		if n := len(all) - 1; n >= 0 && all[n].last+1 == l.firstOf(b) && sameMembers(all[n].owners, owners) {
			all[n].last = l.lastOf(b)
			continue
		}
		all = append(all, run{l.firstOf(b), l.lastOf(b), owners, l.class[b]})
	}
	return all
}

func sameMembers(a, b []int) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(i int) bool { return !slices.Contains(b, i) })
}
