package ring

import (
	"cmp"
	"fmt"
	"slices"
)

// Delta is one change of a map: what a holder of the map before needs to have the one after. Versions are consecutive: a member
// that misses one loads the whole map.
type Delta struct {
	Generation uint64
	From       uint64   // the version that it was planned from; it makes From+1
	Term       uint64   // of the manager that made it
	Nodes      []Node   // all nodes, or nil if they do not change
	Members    []Member // that are appended to the table
	// Assignments replace those that have their slots. Together they must have exactly the slots of the replaced ones.
	Assignments []Assignment
}

// Apply returns the map after a change. Its error is ErrVersion or ErrTerm for a change that was planned from another map (R7),
// ErrEpoch for one that breaks M4, and ErrMap for one that breaks M1. Check checks the other invariants.
func (m *Map) Apply(d *Delta) (*Map, error) {
	switch {
	case d.Generation != m.Generation || d.From != m.Version:
		return nil, fmt.Errorf("%w: from version %d.%d, this is %d.%d", ErrVersion, d.Generation, d.From, m.Generation, m.Version)
	case d.Term < m.Term:
		return nil, fmt.Errorf("%w: term %d, this map has %d", ErrTerm, d.Term, m.Term)
	}
	out := *m
	out.Version, out.Term = m.Version+1, d.Term
	out.Members = append(slices.Clip(m.Members), d.Members...)
	if d.Nodes != nil {
		out.Nodes = d.Nodes
	}
	if err := out.replace(d.Assignments); err != nil {
		return nil, err
	}
	return &out, nil
}

// Diff returns the change that turns before into after, which must be the next version.
func Diff(before, after *Map) (*Delta, error) {
	if after.Generation != before.Generation || after.Version != before.Version+1 || len(after.Members) < len(before.Members) {
		return nil, fmt.Errorf("%w: from version %d.%d to %d.%d", ErrVersion, before.Generation, before.Version, after.Generation, after.Version)
	}
	d := &Delta{Generation: before.Generation, From: before.Version, Term: after.Term, Members: after.Members[len(before.Members):]}
	if !slices.Equal(before.Nodes, after.Nodes) {
		d.Nodes = after.Nodes
	}
	for n := range pages {
		if p, q := &before.pages[n], &after.pages[n]; &p.list[0] == &q.list[0] && len(p.list) == len(q.list) {
			continue // the page is shared
		}
		after.page(n, func(a *Assignment) bool {
			if old := before.Lookup(a.Bucket.First()); old.Bucket != a.Bucket || old.Epoch != a.Epoch || old.Since != a.Since || old.Moved != a.Moved || !old.SameContent(a) {
				d.Assignments = append(d.Assignments, *a)
			}
			return true
		})
	}
	return d, nil
}

// replace replaces the assignments that have the slots of news.
func (m *Map) replace(news []Assignment) error {
	news = slices.Clone(news)
	slices.SortFunc(news, func(a, b Assignment) int { return cmp.Compare(a.Bucket.First(), b.Bucket.First()) })
	for len(news) > 0 {
		first, last, n := m.touched(news)
		if err := m.merge(first, last, news[:n]); err != nil {
			return err
		}
		news = news[n:]
	}
	return nil
}

// touched returns the pages that the first assignments of a list change, and how many assignments of the list those are. Neither
// the old nor the new assignments of these pages have slots beyond them.
func (m *Map) touched(news []Assignment) (first, last, n int) {
	top := func(s Slot) int { return int(s >> 24) }
	begin := news[0].Bucket.First()
	first = top(min(begin, m.Lookup(begin).Bucket.First()))
	last = -1
	for ; n < len(news); n++ {
		b := news[n].Bucket
		if last >= 0 && top(b.First()) > last {
			break
		}
		last = max(last, top(b.Last()), top(m.Lookup(b.Last()).Bucket.Last()))
	}
	return first, last, n
}

// merge replaces assignments in some pages.
func (m *Map) merge(first, last int, news []Assignment) error {
	var list []Assignment
	removed := 0
	rest := news
	for n := first; n <= last; n++ {
		var err error
		m.page(n, func(old *Assignment) bool {
			var over bool
			if over, err = overlaps(old, news); over {
				removed++
				return err == nil
			}
			for len(rest) > 0 && rest[0].Bucket.First() < old.Bucket.First() {
				list, rest = append(list, rest[0]), rest[1:]
			}
			list = append(list, *old)
			return true
		})
		if err != nil {
			return err
		}
	}
	list = append(list, rest...)
	m.count += len(news) - removed
	return m.lay(first, last, list)
}

// overlaps reports whether an assignment has slots of new ones, and checks M4: each of those has a higher epoch, or the same epoch
// and content.
func overlaps(old *Assignment, news []Assignment) (over bool, err error) {
	i, found := slices.BinarySearchFunc(news, old.Bucket.First(), func(a Assignment, s Slot) int { return cmp.Compare(a.Bucket.First(), s) })
	if !found && i > 0 {
		i-- // it may begin before the old one
	}
	for ; i < len(news) && news[i].Bucket.First() <= old.Bucket.Last(); i++ {
		a := &news[i]
		if !a.Bucket.Meets(old.Bucket) {
			continue
		}
		over = true
		wider := a.Bucket.Bits() < old.Bucket.Bits()
		if a.Epoch < old.Epoch || a.Epoch == old.Epoch && (wider || !a.SameContent(old)) {
			return over, fmt.Errorf("%w: M4: bucket %v has epoch %d, %v had %d", ErrEpoch, a.Bucket, a.Epoch, old.Bucket, old.Epoch)
		}
	}
	return over, nil
}
