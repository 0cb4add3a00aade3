package history

import (
	"cmp"
	"iter"
	"slices"
)

// Kind is the promise that an answer breaks. The package comment explains the kinds.
type Kind string

// The kinds.
const (
	Lost        Kind = "lost"
	Stale       Kind = "stale"
	Resurrected Kind = "resurrected"
	Invented    Kind = "invented"
	Duplicate   Kind = "duplicate"
	Denied      Kind = "denied"
	Doubled     Kind = "doubled"
)

// Violation is an answer that breaks a promise. A report has at most one of each kind for each element or key: the first that was
// found.
type Violation struct {
	Kind   Kind
	Name   string // of the set or the filter
	Item   string // the element or the key
	answer *Op
	why    *Op   // the add or remove that the answer should have seen
	around []*Op // operations on the item, by their beginning
}

// Check judges the history. All clients must have stopped.
func (r *Recorder) Check() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := checker{groups: map[groupName]*group{}, losses: r.losses}
	tries := map[*Op][]*Op{}
	for o := range r.all() {
		if o.first != nil {
			tries[o.first] = append(tries[o.first], o)
		}
	}
	for o := range r.all() {
		c.report.count(o)
		if again := tries[o]; again != nil {
			o = c.together(append([]*Op{o}, again...))
		}
		if o.first == nil {
			c.take(o)
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

// all returns all operations.
func (r *Recorder) all() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		for _, client := range r.clients {
			for _, slab := range client.slabs {
				for i := range slab {
					if !yield(&slab[i]) {
						return
					}
				}
			}
		}
	}
}

// together returns the one operation that all tries of a request are. It begins with the first try that did not fail, and is acknowledged by the
// first acknowledgement: later tries have no effect.
func (c *checker) together(tries []*Op) *Op {
	slices.SortStableFunc(tries, byBegin)
	all := *tries[0]
	all.tries, all.outcome, all.events = tries, Fail, nil
	begin := forever
	for _, o := range tries {
		if o.outcome != Fail {
			begin = min(begin, o.begin)
		}
		if o.outcome == OK && (all.outcome != OK || o.end < all.end) {
			all.outcome, all.end, all.err = OK, o.end, o.err
		}
		if o.outcome == Unknown && all.outcome == Fail {
			all.outcome, all.end = Unknown, forever
		}
		all.events = append(all.events, o.events...)
	}
	if all.outcome == OK && tries[0].outcome != OK {
		c.report.Settled++
	}
	if begin != forever {
		all.begin = begin
	}
	return &all
}

// groupName is the name of a set or a filter.
type groupName struct {
	filter bool
	name   string
}

type checker struct {
	groups map[groupName]*group
	order  []*group
	losses []*loss
	report Report
}

// group has the operations on one set or filter.
type group struct {
	groupName
	ids     map[string]*item
	items   []*item
	reads   []*Op // whole reads that were answered, by their beginning
	partial []*Op // reads that were interrupted
	ends    leastOf
	dropped []*Op
	wide    takers
	drops   settledOps // dropped
}

// item has the operations on one element or key.
type item struct {
	name    string
	adds    []*Op // that did not fail
	removes []*Op // the same; includes removes of the whole set whose context showed the item
	shown   []int // indexes in reads
	present []*Op // other answers that have it
	absent  []*Op // other answers without it
	last    *Op   // the read that was recorded last, to detect duplicates
	twice   *Op
	named   []named // what answers said of the adds that keep the item
}

// named is an answer that names adds of an item.
type named struct {
	op   *Op
	text string
}

// take assigns an operation to its group and items.
func (c *checker) take(o *Op) {
	key := groupName{o.kind >= mark, o.name}
	g := c.groups[key]
	if g == nil {
		g = &group{groupName: key, ids: map[string]*item{}}
		c.groups[key] = g
		c.order = append(c.order, g)
	}
	for _, e := range o.events {
		it := g.item(e.item)
		it.named = append(it.named, named{o, e.text})
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

// settle assigns what reads have shown to their items, when all reads are known.
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

// coverEnd returns the time until which an add may have begun if this remove can have taken it.
func coverEnd(o *Op) int64 {
	if o.context != nil {
		return o.context.end
	}
	return o.over()
}

// takers finds out when the first operation began that can have taken an add.
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

// first returns when the first operation began that can have taken an add that began at a given time, or forever if there is none.
func (t takers) first(begin int64) int64 {
	if i, _ := slices.BinarySearch(t.covers, begin); i < len(t.covers) {
		return t.least[i]
	}
	return forever
}

// known is what is known about an item, prepared for questions about points in time.
type known struct {
	acks     []int64 // when adds were acknowledged, rising
	latest   []*Op   // the add that began last among this one and those before it
	own      takers
	begins   []int64    // of adds, rising
	openest  []int64    // the latest acknowledgement of this add and those before it
	changes  settledOps // adds and removes
	ready    []int64    // when reads have to see removes, rising
	covering []*Op      // the remove whose context began last among this one and those before it
	once     bool       // all that answers have shown of the item is one add
}

func (c *checker) know(g *group, it *item) *known {
	k := &known{own: newTakers(it.removes), once: c.once(it)}
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

// settledOps finds out when all operations that began by a given time were acknowledged.
type settledOps struct {
	begins []int64 // rising
	acks   []int64 // the latest acknowledgement of this one and those before it
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

// knowRemoves finds the removes that are certain, and the times from which they are.
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
		ready := o.end
		if !k.once {
			ready = max(o.end, k.changes.when(seen), g.drops.when(seen))
		}
		removes = append(removes, sure{ready, o})
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

// has reports whether an answer has an item. Answers that are used as contexts are sorted once.
func (o *Op) has(name string) bool {
	if o.sorted == nil {
		o.sorted = slices.Clone(o.items)
		slices.Sort(o.sorted)
	}
	_, ok := slices.BinarySearch(o.sorted, name)
	return ok
}

// atMost returns how many of the rising times are no later than t; before returns how many are earlier.
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

// missed returns the add that an answer without the item had to see, or nil. begin and end are the times of the answer.
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

// dead returns the remove after which an answer can't have the item, or nil.
func (k *known) dead(begin, end int64) *Op {
	n := before(k.ready, begin)
	if n == 0 {
		return nil
	}
	x := k.covering[n-1]
	if k.once {
		return x
	}
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
	k := c.know(g, it)
	c.report.countItem(k, g, it)
	lost := c.lost(g, it, k)
	if lost != nil {
		c.report.add(g, it, *lost)
	}
	if g.filter {
		c.report.countAfterDrop(k, g, it)
		return
	}
	if it.twice != nil {
		c.report.add(g, it, Violation{Kind: Duplicate, answer: it.twice})
	}
	if v := it.doubled(k.once); v != nil {
		c.report.add(g, it, *v)
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

// once reports whether all answers with an item have to show the same add: one request has added it, and no fault can have taken its effect before
// the acknowledgement, after which a repetition makes another one.
func (c *checker) once(it *item) bool {
	if len(it.adds) != 1 {
		return false
	}
	a := it.adds[0]
	return !slices.ContainsFunc(c.losses, func(l *loss) bool { return l.begin <= a.acknowledged() && a.begin <= l.end })
}

// doubled looks for an answer by which a request had more than one effect: it names another add than an earlier answer to the same request, or
// than an earlier answer with the item, which only this request has added.
func (it *item) doubled(once bool) *Violation {
	first := map[*Op]named{} // of each request
	var other *named         // that any answer is compared with
	slices.SortStableFunc(it.named, func(a, b named) int { return cmp.Compare(a.op.end, b.op.end) })
	for i, n := range it.named {
		if n.op.kind == add {
			if was, ok := first[n.op]; ok && was.text != n.text {
				return &Violation{Kind: Doubled, answer: n.op, why: was.op}
			}
			first[n.op] = n
		}
		switch {
		case len(it.adds) != 1 || !once && n.op.begin < it.adds[0].acknowledged() && n.op != it.adds[0]: // maybe of what was lost
		case other == nil:
			other = &it.named[i]
		case other.text != n.text:
			return &Violation{Kind: Doubled, answer: n.op, why: other.op}
		}
	}
	return nil
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

// lost looks for an answer that must have the item and does not.
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

// missedRead returns the first whole read that must have the item and does not, among those between the reads that show it.
// Between two acknowledgements of adds, all reads had to see the same add, so only the one of them that ended first is checked.
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

// firstAfter returns how many of the reads of a range began at t or before.
func (g *group) firstAfter(from, to int, t int64) int {
	n, _ := slices.BinarySearchFunc(g.reads[from:to], t, func(r *Op, t int64) int {
		if r.begin <= t {
			return -1
		}
		return 1
	})
	return n
}

// back reports whether a later answer has the item again, without an add in between that explains it.
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

// leastOf finds the index of the least number in a range.
type leastOf struct {
	values []int64
	rows   [][]int32 // row k has the index of the least of 2^k numbers, starting at each
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
