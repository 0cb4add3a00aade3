package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/convergence"
	"bigset/internal/ring"
	"bigset/keyscheme"
	membership "bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
)

// filterSlices is the number of slices of a schedule's filter.
const filterSlices = 4

// filterName is the name of a schedule's filter.
var filterName = []byte("filter")

// marks is the oracle of a filter, which is created, dropped and cleared: what is known of its generations.
type marks struct {
	lives   map[uint64]*filterLife
	served  bool   // its creation was acknowledged, and nothing has begun to remove it since
	cleared bool   // that was acknowledged, and no creation has begun since
	kept    uint64 // the generation whose clear was acknowledged: the next creation brings it back
	gone    uint64 // the last generation whose drop was acknowledged
}

// filterLife is one generation of a filter: the keys that a client has asked to mark, and those whose mark was acknowledged.
type filterLife struct {
	begun, acked map[string]bool
	news         map[string]int // keys that were reported as new, and how many members had lost something at that time
	dropping     bool           // a drop may have been done
}

// life returns a generation.
func (m *marks) life(generation uint64) *filterLife {
	if m.lives == nil {
		m.lives = map[uint64]*filterLife{}
	}
	l := m.lives[generation]
	if l == nil {
		l = &filterLife{map[string]bool{}, map[string]bool{}, map[string]int{}, false}
		m.lives[generation] = l
	}
	return l
}

// dropping reports whether a drop may have been done.
func (m *marks) dropping() bool {
	for _, l := range m.lives {
		if l.dropping {
			return true
		}
	}
	return false
}

// filterDefaults are the options of a schedule's filter. What it acknowledges may be only in memory: then a crash makes the member
// join.
func (c *cluster) filterDefaults() bigset.FilterOptions {
	o := bloomslice.Options{Capacity: 20_000, Probability: 1e-6, Scale: 4, Reduction: 0.9}
	return bigset.FilterOptions{Options: o, Durability: c.filterDurability}
}

// found returns the filter as the member of a process knows it, and judges whether it should know it.
func (c *cluster) found(t *step, p *process) (f coord.Filter, ok bool) {
	m := &c.facts.marks
	x, err := p.filters.Find(context.Background(), filterName)
	switch {
	case err == nil:
		f = x.(*membership.Filter).Spec()
		if f.Generation <= m.gone {
			c.facts.violated(convergence.Resurrected, "%s serves a filter whose drop was acknowledged", p.node)
		}
		if m.cleared {
			c.facts.violated(convergence.Resurrected, "%s serves a filter whose clear was acknowledged", p.node)
		}
		return f, true
	case errors.Is(err, bigset.ErrNoFilter) && m.served:
		c.facts.violated(convergence.Lost, "%s does not know the filter, whose creation was acknowledged", p.node)
	}
	t.note = err.Error()
	c.failed("filter", err)
	return f, false
}

// change does one of those changes of filters that all members apply. Only one change runs at a time.
func (c *cluster) change(t *step) {
	c.turns.Yield(func() bool { return !c.changing })
	c.changing = true
	defer func() { c.changing = false }()
	c.stats.Operations++
	p, m := c.coordinator(t, 0), &c.facts.marks
	var err error
	switch t.kind {
	case "create-filter":
		err = c.create(t, p)
	case "drop-filter":
		f, ok := c.found(t, p)
		if !ok {
			return
		}
		m.kept = 0
		life, was, dropping := m.life(f.Generation), m.served, m.life(f.Generation).dropping
		m.served, life.dropping = false, true
		switch err = p.answers(p.filters.Drop(context.Background(), filterName)); {
		case err == nil:
			m.gone, c.dropped = max(m.gone, f.Generation), f.Options
		case refused(err):
			m.served, life.dropping = was, dropping
		}
	case "clear-filter":
		err = c.clear(t, p)
	case "flush-filter":
		err = p.answers(p.filters.Flush(context.Background(), filterName))
	}
	c.changed(t, err)
}

// changed records the outcome of a change.
func (c *cluster) changed(t *step, err error) {
	switch {
	case err == nil:
		c.count(t.kind)
		if t.note == "" {
			t.note = "acknowledged"
		}
	default:
		t.note = err.Error()
		c.failed(t.kind, err)
	}
}

// refused reports whether an error says that nothing has happened.
func refused(err error) bool {
	return !errors.Is(err, coord.ErrUnknown) && !errors.Is(err, door.ErrUnknown) &&
		(errors.Is(err, door.ErrUnavailable) || errors.Is(err, bigset.ErrNoFilter) || errors.Is(err, bigset.ErrFilterOpen))
}

// create creates the filter, or brings it back with what it had.
func (c *cluster) create(t *step, p *process) error {
	m := &c.facts.marks
	was := m.served
	m.cleared = false
	capacity, probability := uint64(20_000), 1e-6
	created, err := p.filters.Create(context.Background(), filterName, door.FilterCreate{Capacity: &capacity, Probability: &probability})
	switch err = p.answers(err); {
	case err != nil:
	case !created:
		t.note = "it exists"
	case was:
		c.facts.violated(convergence.Lost, "%s has created a filter that exists", p.node)
	default:
		m.served = true
		if f, ok := c.found(t, p); ok && m.kept > 0 && f.Generation != m.kept {
			c.facts.violated(convergence.Lost, "%s has created a new filter in place of one that was cleared", p.node)
		}
		m.kept = 0
	}
	return err
}

// clear closes the filter everywhere, and removes its name. Its content comes back with its name.
func (c *cluster) clear(t *step, p *process) error {
	m := &c.facts.marks
	f, ok := c.found(t, p)
	if !ok {
		return bigset.ErrNoFilter
	}
	if err := p.answers(p.filters.Close(context.Background(), filterName)); err != nil {
		return err
	}
	was := m.served
	m.served = false
	err := p.answers(p.filters.Clear(context.Background(), filterName))
	switch {
	case err == nil:
		m.cleared, m.kept = true, f.Generation
	case refused(err):
		m.served = was
	}
	return err
}

// keys returns the keys that a step names.
func (t *step) keys() (keys [][]byte) {
	for _, o := range t.ops {
		keys = append(keys, []byte(o.element))
	}
	return keys
}

// unanswered returns the keys that an error leaves without an answer: none, some, or all.
func unanswered(err error, keys int) map[int]bool {
	lost := map[int]bool{}
	var some *coord.FilterError
	switch {
	case err == nil:
	case errors.As(err, &some) && !errors.Is(err, errEnded):
		for _, i := range some.Keys {
			lost[i] = true
		}
	default:
		for i := range keys {
			lost[i] = true
		}
	}
	return lost
}

// mark marks keys of the filter.
func (c *cluster) mark(t *step) {
	keys, p, q := t.keys(), c.coordinator(t, 0), c.quorum(t)
	c.stats.Operations += len(keys)
	f, ok := c.found(t, p)
	if !ok {
		return
	}
	life, gone := c.facts.marks.life(f.Generation), c.facts.marks.gone
	for _, key := range keys {
		life.begun[string(key)] = true
	}
	outages := c.outages
	added, err := p.MarkFilter(context.Background(), coord.FilterKeys{Filter: f, Keys: keys, Quorum: q})
	if err = p.answers(err); err != nil {
		t.note = err.Error()
		c.failed("mark", err)
	}
	lost := unanswered(err, len(keys))
	for i, key := range keys {
		if lost[i] {
			continue
		}
		if f.Generation <= gone {
			c.facts.violated(convergence.Resurrected, "a mark in a filter is acknowledged after its drop was")
		}
		c.count("mark")
		t.note += " acknowledged " + string(key)
		if outages == c.outages || f.Options.Durability == bigset.FilterSync {
			life.acked[string(key)] = true
			p.marked = append(p.marked, marked{f.Generation, string(key)})
		}
		if added[i] {
			c.isNew(life, string(key))
		}
	}
}

// isNew records that a key was reported as new. This may happen only once, unless a member has lost something since: before it is
// filled, it counts towards W, and it reports as new what it had.
func (c *cluster) isNew(life *filterLife, key string) {
	switch losses, before := life.news[key]; {
	case before && losses == c.losses:
		c.facts.violated(convergence.Failed, "%q was new twice", key)
	case before:
		c.count("new-again-after-loss")
	}
	life.news[key] = c.losses
}

// marked is a key of a generation of the filter whose mark was acknowledged.
type marked struct {
	generation uint64
	key        string
}

// check asks whether keys are in the filter.
func (c *cluster) check(t *step) {
	keys, p := t.keys(), c.coordinator(t, 0)
	c.stats.Operations += len(keys)
	f, ok := c.found(t, p)
	if !ok {
		return
	}
	life, gone := c.facts.marks.life(f.Generation), c.facts.marks.gone
	acked := maps.Clone(life.acked)
	present, err := p.CheckFilter(context.Background(), coord.FilterKeys{Filter: f, Keys: keys, Quorum: c.quorum(t)})
	if err = p.answers(err); err != nil {
		t.note = err.Error()
		c.failed("check", err)
	}
	lost := unanswered(err, len(keys))
	for i, key := range keys {
		switch {
		case lost[i]:
			continue
		case f.Generation <= gone:
			c.facts.violated(convergence.Resurrected, "a check is answered by a filter after its drop was acknowledged")
		case !present[i] && acked[string(key)] && life.acked[string(key)] && !life.dropping:
			c.facts.violated(convergence.Lost, "a check denies %q, which was acknowledged", key)
		case present[i] && !life.begun[string(key)]:
			c.facts.violated(convergence.Phantom, "a check finds %q, which was never marked", key)
		}
		t.note += fmt.Sprintf(" %s:%v", key, present[i])
		c.facts.checks++
		c.count("check")
	}
}

// spec returns the slice of a key, and the key's hash.
func (c *cluster) spec(key string) (bigset.SliceSpec, bloomslice.Hash) {
	h := bloomslice.Sum([]byte(key))
	return bigset.SliceSpec{Name: c.filter.Name, Slice: h.Slice(filterSlices), Generation: c.filter.Generation, Options: c.filter.Options}, h
}

// owns reports whether a member holds a slot.
func (c *cluster) owns(m *member, s keyscheme.Slot) bool {
	return slices.ContainsFunc(c.static.Lookup(ring.Slot(s)).Owners, func(o ring.Member) bool { return o.Node == m.node })
}

// markedAt checks that all members that hold the slice of a key have the key.
func (c *cluster) markedAt(key, when string) {
	spec, h := c.spec(key)
	for _, m := range c.members {
		if !c.owns(m, spec.Slot()) {
			continue
		}
		if present, _, err := m.Check(context.Background(), spec, []bloomslice.Hash{h}); err != nil || !present[0] {
			c.facts.violated(convergence.Lost, "%s %s does not have %q, which was acknowledged: %v", when, m.node, key, err)
		}
		c.facts.checks++
	}
}

// exchangeSlices lets the holders of each slice exchange what they have, directly, and checks that all then have the same,
// including what was acknowledged.
func (c *cluster) exchangeSlices() {
	for n := range uint32(filterSlices) {
		spec := bigset.SliceSpec{Name: filterName, Slice: n}
		var pairs [][2]*member
		for i, a := range c.members {
			for _, b := range c.members[:i] {
				if c.owns(a, spec.Slot()) && c.owns(b, spec.Slot()) {
					pairs = append(pairs, [2]*member{a, b})
				}
			}
		}
		for range 2 { // after the second round the first member has everything that the last one has
			for _, p := range pairs {
				if _, err := coord.ExchangeSlices(context.Background(), p[0].Replica, p[1].Replica, spec.Slot(), spec.Slot()); err != nil {
					c.facts.violated(convergence.Failed, "exchange of slices of %s and %s: %v", p[0].node, p[1].node, err)
				}
			}
		}
		for _, p := range pairs {
			e, err := coord.ExchangeSlices(context.Background(), p[0].Replica, p[1].Replica, spec.Slot(), spec.Slot())
			if err != nil || e.SlicesDiffer > 0 {
				c.facts.violated(convergence.Diverged, "%s and %s have slices that differ after they were exchanged: %+v, %v", p[0].node, p[1].node, e, err)
			}
		}
	}
	if c.filter.Generation > 0 {
		for _, key := range slices.Sorted(maps.Keys(c.facts.marks.life(c.filter.Generation).acked)) {
			c.markedAt(key, "at the end")
		}
	}
}

// agreed waits until all members know the same of the filter, and records it. No member may serve a filter that was dropped, or
// cleared.
func (c *cluster) agreed() {
	all := func() map[uint64]string {
		is := map[uint64]string{}
		for _, m := range c.members {
			if x, err := m.process.filters.Find(context.Background(), filterName); err == nil {
				is[x.(*membership.Filter).Spec().Generation] += " " + m.node
				c.filter = x.(*membership.Filter).Spec()
			} else if is[0] += " " + m.node; !errors.Is(err, bigset.ErrNoFilter) {
				is[0] += " (" + err.Error() + ")"
				is[math.MaxUint64] = "no answer"
			}
		}
		return is
	}
	if !c.await(wholeLimit, func() bool { return len(all()) == 1 }) {
		c.facts.violated(convergence.Diverged, "members do not agree on the filter: %v", all())
		return
	}
	var last step
	for _, m := range c.members {
		if _, ok := c.found(&last, m.process); !ok {
			c.filter = coord.Filter{}
		}
	}
	c.goneEverywhere()
}

// goneEverywhere checks that no member has anything of a generation whose drop was acknowledged.
func (c *cluster) goneEverywhere() {
	gone := c.facts.marks.gone
	if gone == 0 {
		return
	}
	for _, m := range c.members {
		for n := range uint32(filterSlices) {
			spec := bigset.SliceSpec{Name: filterName, Slice: n, Generation: gone, Options: c.dropped}
			if !c.owns(m, spec.Slot()) {
				continue
			}
			_, _, err := m.Check(context.Background(), spec, []bloomslice.Hash{bloomslice.Sum([]byte("a"))})
			if !errors.Is(err, bigset.ErrNoFilter) {
				c.facts.violated(convergence.Resurrected, "%s answers for a filter whose drop was acknowledged: %v", m.node, err)
			}
			c.facts.checks++
		}
	}
}

// began does what begin does, for marks.
func (o *own) began(d bigset.FilterDurability) error {
	if d == bigset.FilterSync {
		return o.begin(bigset.Sync)
	}
	return o.begin(bigset.NoSync)
}

func (o *own) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	if err := o.began(spec.Options.Durability); err != nil {
		return bigset.Marks{}, nil, o.Member(), err
	}
	return o.Replica.Mark(ctx, spec, hashes)
}

func (o *own) ApplyMarks(ctx context.Context, m bigset.Marks) ([]bool, peer.Member, error) {
	if err := o.began(m.Options.Durability); err != nil {
		return nil, o.Member(), err
	}
	return o.Replica.ApplyMarks(ctx, m)
}

func (o *own) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	if err := o.began(spec.Options.Durability); err != nil {
		return nil, o.Member(), err
	}
	return o.Replica.MarkMany(ctx, spec, groups)
}

func (o *own) ApplyMarksMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceMarks) ([]peer.SliceAnswers, peer.Member, error) {
	if err := o.began(spec.Options.Durability); err != nil {
		return nil, o.Member(), err
	}
	return o.Replica.ApplyMarksMany(ctx, spec, groups)
}

func (o *own) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	if err := o.began(p.Options.Durability); err != nil {
		return o.Member(), err
	}
	return o.Replica.MergePages(ctx, p)
}

func (o *own) FlushSlice(ctx context.Context, spec bigset.SliceSpec) (peer.Member, error) {
	if err := o.begin(bigset.Sync); err != nil {
		return o.Member(), err
	}
	return o.Replica.FlushSlice(ctx, spec)
}
