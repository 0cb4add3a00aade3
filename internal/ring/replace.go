package ring

import (
	"fmt"
	"slices"
)

// Replace returns the map in which a node has come back as another member: its disk may have lost acknowledged data. The new member
// joins every bucket of the old one, and the whole map has the next epoch. It is for clusters of fixed members, whose buckets have
// one epoch: no member may serve by the new map before all other members have adopted it durably.
//
//	stable  a b c1                 c comes back as c2  =>  copying  a b c1, next a b c2
//	copying a b c1, next a b c2    c comes back as c3  =>  copying  a b c1, next a b c3
//
// The old member stays in Owners until the new one is whole. It never answers again, so a read needs R of the others, and R3 counts
// which of them the new one has to copy. The error is ErrStep while a bucket of the old member settles: Advance ends that first.
func (m *Map) Replace(old, by Member) (*Map, error) {
	n := m.Node(old.Node)
	if n == nil || old.Node != by.Node || old == by || n.Member != old {
		return nil, fmt.Errorf("%w: %v can't be replaced by %v", ErrMember, old, by)
	}
	return m.raise(Delta{Nodes: m.nodesWith(old, by), Members: newcomers(m.Members, by)}, func(a *Assignment) (Assignment, error) {
		i := slices.Index(a.Next, old)
		switch {
		case i < 0:
			return *a, nil
		case a.State == Settling:
			return *a, fmt.Errorf("%w: bucket %v is settling", ErrStep, a.Bucket)
		}
		b := *a
		b.State, b.Next = Copying, slices.Clone(a.Next)
		b.Next[i] = by
		return b, nil
	})
}

// nodesWith returns the nodes with one member replaced by another.
func (m *Map) nodesWith(old, by Member) []Node {
	nodes := slices.Clone(m.Nodes)
	for i := range nodes {
		if nodes[i].Member == old {
			nodes[i].Member = by
		}
	}
	return nodes
}

func newcomers(table []Member, m Member) []Member {
	if slices.Contains(table, m) {
		return nil
	}
	return []Member{m}
}

// Progress is what members have reported. Its methods must not change the map.
type Progress interface {
	// Copied returns what a joiner has copied of a bucket and holds durably.
	Copied(b Bucket, joiner Member) Copies
	// Seen returns the highest epoch that a member has adopted durably for a bucket, or 0 if that is not known.
	Seen(b Bucket, m Member) uint64
	// Buried reports whether a member never answers again under its incarnation.
	Buried(m Member) bool
}

// Advance returns the map after every step that the reports permit: buckets whose joiners are whole settle (R3), those that have
// settled become stable (R4). The whole map has the next epoch. It is for clusters of fixed members. It returns the same map if no
// step is possible.
func (m *Map) Advance(p Progress) (*Map, error) {
	any := false
	for a := range m.All() {
		if _, ok := m.advanced(a, p); ok {
			any = true
			break
		}
	}
	if !any {
		return m, nil
	}
	return m.raise(Delta{}, func(a *Assignment) (Assignment, error) {
		if b, ok := m.advanced(a, p); ok {
			return b, nil
		}
		return *a, nil
	})
}

// advanced returns the next step of an assignment, and whether the reports permit it.
func (m *Map) advanced(a *Assignment, p Progress) (b Assignment, ok bool) {
	var err error
	switch {
	case a.State == Copying && a.Whole(m.Settings, p):
		b, err = a.CutOver()
	case a.State == Settling && a.Settled(m.Settings, func(who Member) uint64 { return p.Seen(a.Bucket, who) }, p.Buried):
		b, err = a.Finish()
	default:
		return b, false
	}
	return b, err == nil
}

// Whole reports whether all joiners of an assignment that is copying are whole (R3).
func (a *Assignment) Whole(s Settings, p Progress) bool {
	if a.State != Copying {
		return false
	}
	for _, who := range a.Joining() {
		if !a.Sources(who, s).Whole(p.Copied(a.Bucket, who)) {
			return false
		}
	}
	return true
}

// raise returns the map under its next epoch, with the result of change for each assignment. An assignment that change leaves as it
// is keeps its Since.
func (m *Map) raise(d Delta, change func(*Assignment) (Assignment, error)) (*Map, error) {
	epoch := m.Epoch() + 1
	d.Generation, d.From, d.Term = m.Generation, m.Version, m.Term
	for a := range m.All() {
		b, err := change(a)
		if err != nil {
			return nil, err
		}
		b.Epoch = epoch
		if !b.SameContent(a) {
			b.Since = epoch
		}
		d.Assignments = append(d.Assignments, b)
	}
	out, err := m.Apply(&d)
	if err != nil {
		return nil, err
	}
	return out, out.Check(Limits{})
}

// Join is what a joining member has to copy of one range of slots.
type Join struct {
	First, Last Slot
	// Buckets are those of the range, in order. The member is whole in each of them when it has what Sources requires for that
	// bucket.
	Buckets []Bucket
	Sources
}

// Joins returns what a member has to copy, in the order of slots: neighbouring buckets with the same sources are one range.
func (m *Map) Joins(who Member) (joins []Join) {
	for a := range m.All() {
		s := a.Sources(who, m.Settings)
		if len(s.From) == 0 {
			continue
		}
		if n := len(joins) - 1; n >= 0 && joins[n].Last+1 == a.Bucket.First() && joins[n].Sources.equal(s) {
			joins[n].Last, joins[n].Buckets = a.Bucket.Last(), append(joins[n].Buckets, a.Bucket)
			continue
		}
		joins = append(joins, Join{First: a.Bucket.First(), Last: a.Bucket.Last(), Buckets: []Bucket{a.Bucket}, Sources: s})
	}
	return joins
}

func (s Sources) equal(o Sources) bool {
	return s.Epoch == o.Epoch && s.Need == o.Need && s.Replaced == o.Replaced && slices.Equal(s.From, o.From)
}

// Accept returns the assignment in which the data of the joiners counts as complete although R3 can't be met. That takes an
// operator's command, or the rule of a cluster in which all members may have lost what came last. What no member has is lost. The
// caller must have united the data of the joiners before.
func (a *Assignment) Accept() (Assignment, error) {
	if a.State != Copying {
		return Assignment{}, fmt.Errorf("%w: bucket %v is %v, must be copying", ErrStep, a.Bucket, a.State)
	}
	return a.step(Stable, a.Next, a.Next), nil
}
