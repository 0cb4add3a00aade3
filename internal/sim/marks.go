package sim

import (
	"context"
	"errors"
	"maps"
	"slices"

	"bigset"
	"bigset/bloomslice"
	"bigset/convergence"
	"bigset/internal/ring"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
)

// filterSlices is in how many slices the filter of a schedule is cut.
const filterSlices = 4

// marks is the oracle of a filter: the keys that somebody has asked to mark, and those of them whose mark was acknowledged.
type marks struct {
	begun, acked map[string]bool
	news         map[string]int // how often a key was called new
}

// newFilter returns the filter of a schedule. What it acknowledges may be in memory only: then a crash makes the member join.
func (c *cluster) newFilter() coord.Filter {
	o := bloomslice.Options{Capacity: 20_000, Probability: 1e-6, Scale: 4, Reduction: 0.9, Slices: filterSlices, Owners: uint32(c.script.settings().N)}
	d := []bigset.FilterDurability{bigset.FilterSync, bigset.FilterSync, bigset.FilterInterval}[c.rand.IntN(3)]
	return coord.Filter{Name: []byte("filter"), Generation: 1, Options: bigset.FilterOptions{Options: o, Durability: d}}
}

// keys are the keys that a step names.
func (t *step) keys() (keys [][]byte) {
	for _, o := range t.ops {
		keys = append(keys, []byte(o.element))
	}
	return keys
}

// unanswered returns the keys about which an error leaves no answer: none, some, or all.
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
	for _, key := range keys {
		c.facts.marks.begun[string(key)] = true
	}
	added, err := p.MarkFilter(context.Background(), coord.FilterKeys{Filter: c.filter, Keys: keys, Quorum: q})
	if err = p.answers(err); err != nil {
		t.note = err.Error()
		c.failed("mark", err)
	}
	lost := unanswered(err, len(keys))
	for i, key := range keys {
		if lost[i] {
			continue
		}
		c.some["marked"]++
		t.note += " acknowledged " + string(key)
		c.facts.marks.acked[string(key)] = true
		p.marked = append(p.marked, string(key))
		if added[i] {
			c.facts.marks.news[string(key)]++
		}
		if c.facts.marks.news[string(key)] > 1 {
			c.facts.violated(convergence.Failed, "%q was new twice", key)
		}
	}
}

// check asks whether keys are in the filter.
func (c *cluster) check(t *step) {
	keys, p, acked := t.keys(), c.coordinator(t, 0), maps.Clone(c.facts.marks.acked)
	c.stats.Operations += len(keys)
	present, err := p.CheckFilter(context.Background(), coord.FilterKeys{Filter: c.filter, Keys: keys, Quorum: c.quorum(t)})
	if err = p.answers(err); err != nil {
		t.note = err.Error()
		c.failed("check", err)
	}
	lost := unanswered(err, len(keys))
	for i, key := range keys {
		switch {
		case lost[i]:
			continue
		case !present[i] && acked[string(key)]:
			c.facts.violated(convergence.Lost, "a check denies %q, which was acknowledged", key)
		case present[i] && !c.facts.marks.begun[string(key)]:
			c.facts.violated(convergence.Phantom, "a check finds %q, which nobody has marked", key)
		}
		c.facts.checks++
		c.some["checked"]++
	}
}

// spec names the slice of a key.
func (c *cluster) spec(key string) (bigset.SliceSpec, bloomslice.Hash) {
	h := bloomslice.Sum([]byte(key))
	return bigset.SliceSpec{Name: c.filter.Name, Slice: h.Slice(filterSlices), Generation: c.filter.Generation, Options: c.filter.Options}, h
}

// owns reports whether a member holds a slot.
func (c *cluster) owns(m *member, s keyscheme.Slot) bool {
	return slices.ContainsFunc(c.static.Lookup(ring.Slot(s)).Owners, func(o ring.Member) bool { return o.Node == m.node })
}

// markedAt checks that all members that hold the slice of a key have it.
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

// exchangeSlices has those that hold a slice exchange what they have, directly, and checks that all have the same then, and what was acknowledged.
func (c *cluster) exchangeSlices() {
	for n := range uint32(filterSlices) {
		spec := bigset.SliceSpec{Name: c.filter.Name, Slice: n}
		var pairs [][2]*member
		for i, a := range c.members {
			for _, b := range c.members[:i] {
				if c.owns(a, spec.Slot()) && c.owns(b, spec.Slot()) {
					pairs = append(pairs, [2]*member{a, b})
				}
			}
		}
		for range 2 { // the first member has all that the last one has after the second round
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
	for _, key := range slices.Sorted(maps.Keys(c.facts.marks.acked)) {
		c.markedAt(key, "at the end")
	}
}

// began is begin for marks.
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
