package ring

import (
	"cmp"
	"fmt"
	"slices"
)

// Static returns the map of a cluster whose members are fixed: a strategy places buckets without owners, all at epoch 1. The result
// is the same for the same nodes in any order, and does not depend on when they started or what state they are in. A nil strategy
// is Quota.
func Static(cluster ID, s Settings, nodes []Node, by Strategy) (*Map, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: a cluster needs at least one node", ErrMember)
	}
	buckets, err := Buckets(s.Buckets)
	if err != nil {
		return nil, err
	}
	h := Head{Cluster: cluster, Generation: 1, Version: 1, Settings: s, Nodes: slices.Clone(nodes)}
	for i := range h.Nodes {
		h.Nodes[i].Started, h.Nodes[i].State = 0, NodeActive
	}
	slices.SortFunc(h.Nodes, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	h.Members = enrol(nil, h.Nodes)
	empty := make([]Assignment, len(buckets))
	for i, b := range buckets {
		empty[i] = Assignment{Bucket: b, Epoch: 1, Since: 1}
	}
	m, err := New(h, empty)
	if err == nil {
		err = m.checkTables()
	}
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = Quota{}
	}
	return m.born(by)
}

// born returns a map with the owners that a strategy gives to a map without any.
func (m *Map) born(by Strategy) (*Map, error) {
	at := map[Bucket][]Member{}
	for _, mv := range by.Plan(m, Constraints{}) {
		at[mv.Bucket] = mv.Owners
	}
	list := make([]Assignment, 0, m.count)
	for a := range m.All() {
		b := *a
		b.Owners, b.Next = at[a.Bucket], at[a.Bucket]
		list = append(list, b)
	}
	out, err := New(m.Head, list)
	if err != nil {
		return nil, err
	}
	return out, out.Check(Limits{Placed: true})
}
