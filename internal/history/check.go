package history

import (
	"cmp"
	"slices"
)

// Kind is which promise an answer breaks. The package comment says what they mean.
type Kind string

// The kinds.
const (
	Lost        Kind = "lost"
	Stale       Kind = "stale"
	Resurrected Kind = "resurrected"
	Invented    Kind = "invented"
	Duplicate   Kind = "duplicate"
	Denied      Kind = "denied"
)

// Violation is an answer that breaks a promise. There is at most one of a kind for each element or key: the first that was found.
type Violation struct {
	Kind   Kind
	Name   string // of the set or the filter
	Item   string // the element or the key
	answer *Op
	why    *Op   // the add, or the remove, that the answer should have seen
	around []*Op // operations on the item, by their beginning
}

// Check judges the history. All clients have stopped.
func (r *Recorder) Check() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := checker{groups: map[groupName]*group{}}
	for _, client := range r.clients {
		for _, slab := range client.slabs {
			for i := range slab {
				c.take(&slab[i])
			}
		}
	}
	for _, g := range c.order {
		g.settle()
	}
	for _, g := range c.order {
		for _, it := range g.items {
			c.judge(g, it)
		}
	}
	return &c.report
}

// groupName is the name of a set or a filter.
type groupName struct {
	filter bool
	name   string
}

type checker struct {
	groups map[groupName]*group
	order  []*group
	report Report
}

// group is everything of one set or filter.
type group struct {
	groupName
	ids     map[string]*item
	items   []*item
	reads   []*Op // whole reads that were answered, by their beginning
	partial []*Op // reads that broke off
	ends    leastOf
	dropped []*Op
	wide    takers
	drops   settledOps // dropped
}

// item is everything of one element or key.
type item struct {
	name    string
	adds    []*Op // that did not fail
	removes []*Op // the same; those of the whole set that showed the item in their context, too
	shown   []int // indexes in reads
	present []*Op // other answers that have it
	absent  []*Op // other answers that lack it
	last    *Op   // the read that was taken last, to see duplicates
	twice   *Op
}

// take files an operation where it belongs.
func (c *checker) take(o *Op) {
	c.report.count(o)
	key := groupName{o.kind >= mark, o.name}
	g := c.groups[key]
	if g == nil {
		g = &group{groupName: key, ids: map[string]*item{}}
		c.groups[key] = g
		c.order = append(c.order, g)
	}
	switch o.kind {
	case read:
		if o.outcome == OK {
			g.reads = append(g.reads, o)
		} else {
			g.partial = append(g.partial, o)
		}
		return
	case removeAll, dropFilter:
		if o.outcome != Fail {
			g.dropped = append(g.dropped, o)
		}
		return
	case lookup, check:
		if o.outcome != OK {
			return
		}
		for _, name := range o.absent {
			it := g.item(name)
			it.absent = append(it.absent, o)
		}
		for _, name := range o.items {
			it := g.item(name)
			it.present = append(it.present, o)
		}
		return
	}
	if o.outcome == Fail {
		return
	}
	for _, name := range o.items {
		it := g.item(name)
		if o.kind == remove {
			it.removes = append(it.removes, o)
		} else {
			it.adds = append(it.adds, o)
		}
	}
}

func (g *group) item(name string) *item {
	it := g.ids[name]
	if it == nil {
		it = &item{name: name}
		g.ids[name] = it
		g.items = append(g.items, it)
	}
	return it
}

// settle files what reads have shown, when all reads are known.
func (g *group) settle() {
	slices.SortStableFunc(g.reads, byBegin)
	ends := make([]int64, len(g.reads))
	for i, r := range g.reads {
		ends[i] = r.end
		for _, name := range r.items {
			it := g.item(name)
			if it.last == r {
				it.twice = r
				continue
			}
			it.last = r
			it.shown = append(it.shown, i)
		}
	}
	g.ends = newLeastOf(ends)
	for _, r := range g.partial {
		for _, name := range r.items {
			it := g.item(name)
			if it.last == r {
				it.twice = r
				continue
			}
			it.last = r
			it.present = append(it.present, r)
		}
	}
	for _, o := range g.dropped {
		if o.context != nil {
			for name := range unique(o.context.items) {
				it := g.item(name)
				it.removes = append(it.removes, o)
			}
		}
	}
	g.wide = newTakers(g.dropped)
	g.drops = newSettled(g.dropped)
}

func unique(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

func byBegin(a, b *Op) int { return cmp.Compare(a.begin, b.begin) }

// coverEnd is until when adds may have begun that a remove can have taken.
func coverEnd(o *Op) int64 {
	if o.context != nil {
		return o.context.end
	}
	return o.over()
}

// takers answers when the first operation began that can have taken an add.
type takers struct {
	covers []int64 // coverEnd of each, rising
	least  []int64 // the least beginning of this one and those after it
}

func newTakers(ops []*Op) takers {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(coverEnd(a), coverEnd(b)) })
	t := takers{make([]int64, len(ops)), make([]int64, len(ops))}
	least := forever
	for i := len(ops) - 1; i >= 0; i-- {
		least = min(least, ops[i].begin)
		t.covers[i], t.least[i] = coverEnd(ops[i]), least
	}
	return t
}

// first returns when the first operation began that can have taken an add which began at a time; forever if there is none.
func (t takers) first(begin int64) int64 {
	if i, _ := slices.BinarySearch(t.covers, begin); i < len(t.covers) {
		return t.least[i]
	}
	return forever
}

// known is what is known about an item, prepared for questions about moments.
type known struct {
	acks     []int64 // when adds were acknowledged, rising
	latest   []*Op   // the add that began last of this one and those before it
	own      takers
	begins   []int64    // of adds, rising
	openest  []int64    // the greatest acknowledgement of this add and those before it
	changes  settledOps // adds and removes
	ready    []int64    // when removes are to be seen by reads, rising
	covering []*Op      // the remove whose context began last of this one and those before it
}

func know(g *group, it *item) *known {
	k := &known{own: newTakers(it.removes)}
	adds := slices.Clone(it.adds)
	slices.SortStableFunc(adds, byBegin)
	for i, a := range adds {
		k.begins = append(k.begins, a.begin)
		k.openest = append(k.openest, a.acknowledged())
		if i > 0 {
			k.openest[i] = max(k.openest[i], k.openest[i-1])
		}
	}
	slices.SortStableFunc(adds, func(a, b *Op) int { return cmp.Compare(a.acknowledged(), b.acknowledged()) })
	for i, a := range adds {
		if a.outcome != OK {
			break
		}
		if i > 0 && k.latest[i-1].begin > a.begin {
			a = k.latest[i-1]
		}
		k.latest = append(k.latest, a)
		k.acks = append(k.acks, adds[i].end)
	}
	k.knowRemoves(g, it)
	return k
}

// settledOps answers when all operations that began until a time were acknowledged.
type settledOps struct {
	begins []int64 // rising
	acks   []int64 // the greatest acknowledgement of this one and those before it
}

func newSettled(ops []*Op) (s settledOps) {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, byBegin)
	last := int64(0)
	for _, o := range ops {
		last = max(last, o.acknowledged())
		s.begins, s.acks = append(s.begins, o.begin), append(s.acks, last)
	}
	return s
}

func (s settledOps) when(t int64) int64 {
	if n := atMost(s.begins, t); n > 0 {
		return s.acks[n-1]
	}
	return 0
}

// knowRemoves finds the removes that are sure, and from when on.
func (k *known) knowRemoves(g *group, it *item) {
	if len(it.removes) == 0 {
		return
	}
	k.changes = newSettled(append(slices.Clone(it.adds), it.removes...))
	type sure struct {
		ready int64
		op    *Op
	}
	var removes []sure
	for _, o := range it.removes {
		if o.outcome != OK || o.context == nil || o.context.outcome != OK || !o.context.has(it.name) {
			continue
		}
		seen := o.context.end
		removes = append(removes, sure{max(o.end, k.changes.when(seen), g.drops.when(seen)), o})
	}
	slices.SortStableFunc(removes, func(a, b sure) int { return cmp.Compare(a.ready, b.ready) })
	for i, s := range removes {
		if i > 0 && k.covering[i-1].context.begin > s.op.context.begin {
			s.op = k.covering[i-1]
		}
		k.covering = append(k.covering, s.op)
		k.ready = append(k.ready, removes[i].ready)
	}
}

// has reports whether an answer has an item. Answers that are contexts are sorted once.
func (o *Op) has(name string) bool {
	if o.sorted == nil {
		o.sorted = slices.Clone(o.items)
		slices.Sort(o.sorted)
	}
	_, ok := slices.BinarySearch(o.sorted, name)
	return ok
}

// atMost returns how many of rising times are no later than t, before how many are earlier.
func atMost(times []int64, t int64) int {
	n, _ := slices.BinarySearchFunc(times, t, func(x, t int64) int {
		if x <= t {
			return -1
		}
		return 1
	})
	return n
}

func before(times []int64, t int64) int {
	n, _ := slices.BinarySearch(times, t)
	return n
}

// missed returns the add that an answer without the item had to see, nil if there is none. The answer began and ended at these times.
func (k *known) missed(g *group, begin, end int64) *Op {
	n := before(k.acks, begin)
	if n == 0 {
		return nil
	}
	a := k.latest[n-1]
	if end < min(k.own.first(a.begin), g.wide.first(a.begin)) {
		return a
	}
	return nil
}

// dead returns the remove after which an answer can't have the item, nil if there is none.
func (k *known) dead(begin, end int64) *Op {
	n := before(k.ready, begin)
	if n == 0 {
		return nil
	}
	x := k.covering[n-1]
	if m := atMost(k.begins, end); m > 0 && k.openest[m-1] >= x.context.begin {
		return nil
	}
	return x
}

// judge looks for violations of one item.
func (c *checker) judge(g *group, it *item) {
	if len(it.adds) == 0 && g.filter {
		return // a yes is never wrong
	}
	k := know(g, it)
	c.report.countItem(k, g, it)
	lost := c.lost(g, it, k)
	if lost != nil {
		c.report.add(g, it, *lost)
	}
	if g.filter {
		return
	}
	if it.twice != nil {
		c.report.add(g, it, Violation{Kind: Duplicate, answer: it.twice})
	}
	found := map[Kind]bool{}
	for _, o := range it.answers(g) {
		if atMost(k.begins, o.end) == 0 {
			if !found[Invented] {
				c.report.add(g, it, Violation{Kind: Invented, answer: o})
			}
			found[Invented] = true
		} else if x := k.dead(o.begin, o.end); x != nil && !found[Resurrected] {
			found[Resurrected] = true
			c.report.add(g, it, Violation{Kind: Resurrected, answer: o, why: x})
		}
	}
}

// answers returns all answers that have the item, by their beginning.
func (it *item) answers(g *group) []*Op {
	all := slices.Clone(it.present)
	for _, i := range it.shown {
		all = append(all, g.reads[i])
	}
	slices.SortStableFunc(all, byBegin)
	return all
}

// lost looks for an answer that lacks the item and may not.
func (c *checker) lost(g *group, it *item, k *known) *Violation {
	v := Violation{}
	for _, o := range it.absent {
		if a := k.missed(g, o.begin, o.end); a != nil && (v.answer == nil || o.begin < v.answer.begin) {
			v.answer, v.why = o, a
		}
	}
	if o, a := k.missedRead(g, it.shown); o != nil && (v.answer == nil || o.begin < v.answer.begin) {
		v.answer, v.why = o, a
	}
	if v.answer == nil {
		return nil
	}
	v.Kind = Lost
	if g.filter {
		v.Kind = Denied
	} else if it.back(g, v.answer) {
		v.Kind = Stale
	}
	return &v
}

// missedRead returns the first whole read that lacks the item and may not, among those between the reads that show it. Between two
// acknowledgements of adds all reads had to see the same add, so of those only the one that ended first is looked at.
func (k *known) missedRead(g *group, shown []int) (*Op, *Op) {
	from := 0
	for s := 0; s <= len(shown); s++ {
		to := len(g.reads)
		if s < len(shown) {
			to = shown[s]
		}
		for from < to {
			n := before(k.acks, g.reads[from].begin)
			next := to
			if n < len(k.acks) {
				next = min(to, from+g.firstAfter(from, to, k.acks[n]))
			}
			if n > 0 {
				r := g.reads[g.ends.least(from, next)]
				if a := k.missed(g, r.begin, r.end); a != nil {
					return r, a
				}
			}
			from = next
		}
		from = to + 1
	}
	return nil, nil
}

// firstAfter returns how many of the reads of a range began at a time or before it.
func (g *group) firstAfter(from, to int, t int64) int {
	n, _ := slices.BinarySearchFunc(g.reads[from:to], t, func(r *Op, t int64) int {
		if r.begin <= t {
			return -1
		}
		return 1
	})
	return n
}

// back reports whether a later answer has the item again, without an add in between that brought it.
func (it *item) back(g *group, missing *Op) bool {
	var next *Op
	for _, o := range it.answers(g) {
		if o.begin > missing.begin {
			next = o
			break
		}
	}
	return next != nil && !slices.ContainsFunc(it.adds, func(a *Op) bool { return a.begin > missing.begin && a.begin <= next.end })
}

// leastOf finds the index of the least of a range of numbers.
type leastOf struct {
	values []int64
	rows   [][]int32 // row k has the index of the least of 2^k numbers from each on
}

func newLeastOf(values []int64) leastOf {
	l := leastOf{values: values}
	row := make([]int32, len(values))
	for i := range row {
		row[i] = int32(i)
	}
	for width := 1; len(row) > 0; width *= 2 {
		l.rows = append(l.rows, row)
		if 2*width > len(values) {
			break
		}
		next := make([]int32, len(values)-2*width+1)
		for i := range next {
			next[i] = l.lesser(row[i], row[i+width])
		}
		row = next
	}
	return l
}

func (l leastOf) lesser(a, b int32) int32 {
	if l.values[b] < l.values[a] {
		return b
	}
	return a
}

// least returns the index of the least number in [from, to), which is not empty.
func (l leastOf) least(from, to int) int {
	k := 0
	for 2<<k <= to-from {
		k++
	}
	return int(l.lesser(l.rows[k][from], l.rows[k][to-1<<k]))
}
