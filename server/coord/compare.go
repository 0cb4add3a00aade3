package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/server/peer"
)

// Equal Seen and Dead clocks say nothing about rot. Compare therefore compares the keys of replicas on demand. Two replicas hash (element,
// dot) over parts of the set, then over smaller parts where the hashes differ, and finally over single elements.
//
//	State of both ─ common = what both have seen and neither knows to be dead ─ hashes of the keys with those dots
//	          where they differ: hashes of smaller parts ... of elements ─ DotStatus, of both: live, dead, lost
//
// Only dots of the common clock are hashed. Both replicas must have a key for each of these, so a delta that one of them has missed does
// not count. If hashes still differ, each replica reports on the dots as of one moment, with its clocks: a dot that has since died is
// explained; a dot that was seen, is not dead, and is not under the element is damage.

// DamageKind says what is wrong with a key at a replica.
type DamageKind string

// The kinds of damage.
const (
	DamageLost       DamageKind = "lost"       // the replica has no key for the dot, which belongs to Element
	DamageWrong      DamageKind = "wrong"      // the replica has the dot under Element; most others have it under Right
	DamageUndecided  DamageKind = "undecided"  // the replica has the dot under Element, and as many replicas have it under other elements
	DamageUnreadable DamageKind = "unreadable" // the replica can't read all of the set; Element is nil
)

// Damage is one defect of a set at one replica.
type Damage struct {
	Kind    DamageKind
	Node    string
	Element []byte
	Right   []byte // for DamageWrong: the element of the dot at most replicas
	Dot     clock.Dot
	Err     error // for DamageUnreadable
	at      peer.Replica
}

// Comparison is the result of comparing the replicas of a set.
type Comparison struct {
	Elements  uint64 // compared, summed over all pairs of replicas
	Differ    int    // how often the keys of an element differed between two replicas
	Explained int    // how many of these differences the clocks explain: a dot has died since
	Damage    []Damage
	More      bool // there is more damage: the comparison stopped at DamageMax
	Healed    int  // keys that were put back or removed
}

// DamageMax is the maximum number of damaged keys that one comparison reports.
const DamageMax = 10_000

// compareMeans are the mean numbers of elements in a part, for each step of a comparison.
var compareMeans = []int{1024, 32, 1}

// Compare compares the keys of a set's replicas pairwise, and returns those that are damaged. It changes nothing, and may run while the set
// is written: a passing difference is explained. Replicas that are joining are left out. Compare can't see what all replicas have lost
// alike; Verify can. The error names the pairs that could not be compared.
func Compare(ctx context.Context, set []byte, replicas ...peer.Replica) (Comparison, error) {
	c := comparing{set: set, claims: map[clock.Dot][][]byte{}, unreadable: map[peer.Replica]bool{}}
	for _, r := range replicas {
		if r.Member().State == peer.Normal {
			c.all = append(c.all, r)
		}
	}
	var errs []error
	for i, a := range c.all {
		for _, b := range c.all[i+1:] {
			if c.unreadable[a] || c.unreadable[b] || c.sum.More {
				continue
			}
			if err := c.pair(ctx, a, b); err != nil && !c.leaveUnreadable(err) {
				errs = append(errs, fmt.Errorf("coord: compare %.64q: %w", set, err))
			}
		}
	}
	for _, d := range slices.SortedFunc(maps.Keys(c.claims), clock.Dot.Compare) {
		if err := c.decide(ctx, d, c.claims[d]); err != nil && !c.leaveUnreadable(err) {
			errs = append(errs, fmt.Errorf("coord: compare %.64q: %w", set, err))
		}
	}
	return c.sum, errors.Join(errs...)
}

// comparing is one Compare.
type comparing struct {
	set        []byte
	all        []peer.Replica
	sum        Comparison
	claims     map[clock.Dot][][]byte // elements under which one replica has a dot and another does not, for dots that one of them has lost
	unreadable map[peer.Replica]bool
}

// leaveUnreadable reports whether an error says that a replica can't read its data, and records that.
func (c *comparing) leaveUnreadable(err error) bool {
	var e *replicaError
	if !errors.As(err, &e) || !errors.Is(e.err, bigset.ErrCorrupt) {
		return false
	}
	if !c.unreadable[e.at] {
		c.unreadable[e.at] = true
		c.sum.Damage = append(c.sum.Damage, Damage{Kind: DamageUnreadable, Node: e.at.Member().Node, Err: e.err, at: e.at})
	}
	return true
}

// pair compares two replicas.
func (c *comparing) pair(ctx context.Context, a, b peer.Replica) error {
	sa, _, err := stateOf(ctx, c.set, a)
	if err != nil {
		return err
	}
	sb, _, err := stateOf(ctx, c.set, b)
	if err != nil {
		return err
	}
	common := sa.Seen.Clone()
	common.Intersect(sb.Seen)
	common.Subtract(sa.Dead)
	if common.Subtract(sb.Dead); common.Empty() {
		return nil
	}
	return c.parts(ctx, a, b, bigset.ElementRange{Within: common}, 0)
}

// parts compares a range in parts, and descends into those that differ.
func (c *comparing) parts(ctx context.Context, a, b peer.Replica, r bigset.ElementRange, step int) error {
	r.Mean = compareMeans[step]
	as, bs := &digestStream{at: a, set: c.set, r: r}, &digestStream{at: b, set: c.set, r: r}
	pa, okA, err := as.next(ctx)
	if err != nil {
		return err
	}
	pb, okB, err := bs.next(ctx)
	if err != nil {
		return err
	}
	var sumA, sumB bigset.ElementDigest // since the last bound that both have
	part := r
	for okA || okB {
		order := 0
		switch {
		case !okA:
			order = 1
		case !okB:
			order = -1
		default:
			order = bytes.Compare(pa.Bound, pb.Bound)
		}
		if order <= 0 {
			sumA.Join(&pa)
			part.UpTo = pa.Bound
			if pa, okA, err = as.next(ctx); err != nil {
				return err
			}
		}
		if order >= 0 {
			sumB.Join(&pb)
			part.UpTo = pb.Bound
			if pb, okB, err = bs.next(ctx); err != nil {
				return err
			}
		}
		if order != 0 && r.Mean > 1 {
			continue
		}
		if err := c.part(ctx, a, b, part, step, &sumA, &sumB); err != nil {
			return err
		}
		part.After, sumA, sumB = part.UpTo, bigset.ElementDigest{}, bigset.ElementDigest{}
	}
	part.UpTo = r.UpTo
	return c.part(ctx, a, b, part, step, &sumA, &sumB)
}

// part compares one part. At the step of single elements, a part is the element at its end.
func (c *comparing) part(ctx context.Context, a, b peer.Replica, r bigset.ElementRange, step int, sumA, sumB *bigset.ElementDigest) error {
	if step == 0 {
		c.sum.Elements += max(sumA.Elements, sumB.Elements)
	}
	switch {
	case sumA.Same(sumB) || c.sum.More:
		return nil
	case step+1 < len(compareMeans):
		return c.parts(ctx, a, b, r, step+1)
	}
	return c.element(ctx, a, b, r.UpTo)
}

// element compares an element whose keys differ.
func (c *comparing) element(ctx context.Context, a, b peer.Replica, element []byte) error {
	c.sum.Differ++
	ja, err := statusesAt(ctx, a, c.set, element, nil)
	if err != nil {
		return err
	}
	jb, err := statusesAt(ctx, b, c.set, element, ja.Live)
	if err != nil {
		return err
	}
	lost := lostOf(ja.Live, jb.Statuses)
	if ja, err = statusesAt(ctx, a, c.set, element, jb.Live); err != nil {
		return err
	}
	lost = append(lost, lostOf(jb.Live, ja.Statuses)...)
	if len(lost) == 0 {
		c.sum.Explained++
	}
	for _, d := range lost {
		known := false
		for _, e := range c.claims[d] {
			known = known || bytes.Equal(e, element)
		}
		if !known {
			c.claims[d] = append(c.claims[d], bytes.Clone(element))
		}
	}
	c.sum.More = len(c.claims) >= DamageMax
	return nil
}

// lostOf returns those dots that a replica has lost.
func lostOf(dots []clock.Dot, statuses []bigset.DotStatus) (lost []clock.Dot) {
	for i, v := range statuses {
		if v == bigset.Lost {
			lost = append(lost, dots[i])
		}
	}
	return lost
}

func statusesAt(ctx context.Context, at peer.Replica, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, error) {
	j, _, err := at.DotStatus(ctx, set, element, dots)
	if err == nil && len(j.Statuses) != len(dots) {
		err = fmt.Errorf("%w: status of %d dots, of %d", peer.ErrFrame, len(j.Statuses), len(dots))
	}
	if err != nil {
		return j, &replicaError{at, err}
	}
	return j, nil
}

// decide determines the damage of a dot that some replicas have under some elements. A dot belongs to one element for ever, and the
// majority of the replicas that have it decides which.
func (c *comparing) decide(ctx context.Context, d clock.Dot, elements [][]byte) error {
	has := make([][]peer.Replica, len(elements))
	lost := map[peer.Replica]int{} // under how many of the elements
	holders := 0
	for i, e := range elements {
		for _, r := range c.all {
			if c.unreadable[r] {
				continue
			}
			j, err := statusesAt(ctx, r, c.set, e, []clock.Dot{d})
			if err != nil {
				return err
			}
			switch j.Statuses[0] {
			case bigset.Dead:
				return nil // it no longer matters
			case bigset.Live:
				has[i] = append(has[i], r)
				holders++
			case bigset.Lost:
				lost[r]++
			}
		}
	}
	right := -1
	for i := range elements {
		if 2*len(has[i]) > holders {
			right = i
		}
	}
	for i, e := range elements {
		for _, r := range has[i] {
			if right < 0 {
				c.damage(Damage{Kind: DamageUndecided, Element: e, Dot: d, at: r})
			} else if i != right {
				c.damage(Damage{Kind: DamageWrong, Element: e, Right: elements[right], Dot: d, at: r})
			}
		}
	}
	for _, r := range c.all {
		if lost[r] == len(elements) {
			e := elements[max(right, 0)]
			c.damage(Damage{Kind: DamageLost, Element: e, Dot: d, at: r})
		}
	}
	return nil
}

func (c *comparing) damage(d Damage) {
	d.Node = d.at.Member().Node
	c.sum.Damage = append(c.sum.Damage, d)
}

// digestStream streams the parts of a range at one replica, in order.
type digestStream struct {
	at    peer.Replica
	set   []byte
	r     bigset.ElementRange
	parts []bigset.ElementDigest
	done  bool
}

func (s *digestStream) next(ctx context.Context) (p bigset.ElementDigest, ok bool, err error) {
	for len(s.parts) == 0 && !s.done {
		d, _, err := s.at.ElementDigests(ctx, s.set, s.r)
		if errors.Is(err, bigset.ErrNotFound) { // the set has been dropped since
			d, err = bigset.ElementDigests{Done: true}, nil
		}
		for i := 0; i < len(d.Parts) && err == nil; i++ {
			if bound := d.Parts[i].Bound; s.r.After != nil && bytes.Compare(bound, s.r.After) <= 0 {
				err = fmt.Errorf("%w: parts of elements are not in order", peer.ErrFrame)
			} else {
				s.r.After = bound
			}
		}
		if err == nil && !d.Done && len(d.Parts) == 0 {
			err = fmt.Errorf("%w: no parts of elements, and not done", peer.ErrFrame)
		}
		if err != nil {
			return p, false, &replicaError{s.at, err}
		}
		s.parts, s.done = d.Parts, d.Done
	}
	if len(s.parts) == 0 {
		return p, false, nil
	}
	p, s.parts = s.parts[0], s.parts[1:]
	return p, true, nil
}

// Compare compares the keys of a set's replicas as the function Compare does, reports damage as events, and heals it from the other
// replicas: a key that is lost or unreadable is put back, a wrong key is corrected. Where the replicas disagree without a majority, the
// damage stays, and EventHealLeft reports it. The returned comparison is the one made before healing.
func (c *Coordinator) Compare(ctx context.Context, set []byte) (Comparison, error) {
	_, l, err := c.plan(set, Quorum{})
	if err != nil {
		return Comparison{}, err
	}
	replicas := l.write
	found, err := Compare(ctx, set, replicas...)
	for _, at := range replicas {
		h := healing{c: c, set: set, at: at, all: replicas}
		for i := range found.Damage {
			if d := &found.Damage[i]; d.at == at {
				h.damage = append(h.damage, d)
			}
		}
		if len(h.damage) > 0 {
			healed, failed := h.run(ctx)
			found.Healed += healed
			err = errors.Join(err, failed)
		}
	}
	return found, err
}

// healing is the healing of one replica after a comparison.
type healing struct {
	c      *Coordinator
	set    []byte
	at     peer.Replica
	all    []peer.Replica
	damage []*Damage
}

func (h *healing) run(ctx context.Context) (healed int, err error) {
	e := Event{Kind: EventDamage, Node: h.at.Member().Node, Set: h.set, Count: len(h.damage)}
	h.c.opt.Events(e)
	lost, left := &clock.Clock{}, &clock.Clock{}
	for _, d := range h.damage {
		n, failed := 0, error(nil)
		switch d.Kind {
		case DamageUnreadable:
			var rest *clock.Clock
			if n, rest, failed = healHoles(ctx, h.set, h.at, h.all...); rest != nil {
				left.Union(rest)
			}
		case DamageWrong:
			n, failed = h.wrong(ctx, d)
		case DamageLost:
			lost.Add(d.Dot)
		case DamageUndecided:
			left.Add(d.Dot)
		}
		healed, err = healed+n, errors.Join(err, failed)
	}
	n, rest, failed := Heal(ctx, h.set, lost, h.at, h.all...)
	left.Union(rest)
	if healed, err = healed+n, errors.Join(err, failed); healed > 0 {
		e.Kind, e.Count = EventHealed, healed
		h.c.opt.Events(e)
	}
	if err != nil || !left.Empty() {
		e.Kind, e.Count, e.Err = EventHealLeft, int(left.Len()), err
		h.c.opt.Events(e)
	}
	return healed, err
}

// wrong moves a key to its right element.
func (h *healing) wrong(ctx context.Context, d *Damage) (healed int, err error) {
	dots := []clock.Dot{d.Dot}
	r, _, err := h.at.Heal(ctx, bigset.Facts{Set: h.set, Keys: []fold.Element{{Name: d.Right, Dots: dots}}},
		[]fold.Element{{Name: d.Element, Dots: dots}})
	if err != nil {
		return r.Taken, &replicaError{h.at, err}
	}
	return r.Taken, nil
}
