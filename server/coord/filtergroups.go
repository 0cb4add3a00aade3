package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

// groupKeysMax is the maximum number of keys of a request that go to a node in one frame.
const groupKeysMax = 5000

// sliceGroup is a group of slices of one filter that the same replicas hold. Keys of all of them go to a replica in one frame, so if all
// nodes hold all slices, a batch takes one frame per node.
type sliceGroup struct {
	at    placed[peer.SliceReplica]
	parts []*part
	keys  []peer.SliceKeys // of the parts, in the order of the slices
	n     int              // number of keys
}

// sliceGroups groups parts, and returns those that must be done separately: parts of moving ranges, with too many keys, or alone in their
// group.
func (c *Coordinator) sliceGroups(f *Filter, q Quorum, parts []*part) (groups []*sliceGroup, left []*part) {
	known := map[*peer.SliceReplica]*sliceGroup{} // by the list of replicas, if several slices share one list
	at := c.placeSlices(f.Name)
	var last struct { // the last slice's list of replicas, and its group
		list *peer.SliceReplica
		g    *sliceGroup
	}
	for _, p := range parts {
		_, l := place(at(p.slice), q)
		var g *sliceGroup
		if len(l.read) > 0 && l.lists == nil {
			if last.list != &l.read[0] {
				last.list, last.g = &l.read[0], known[&l.read[0]]
			}
			g = last.g
		}
		if g == nil || g.n+len(p.hashes) > groupKeysMax {
			if l.lists != nil || len(p.hashes) > groupKeysMax || len(l.read) == 0 || slices.ContainsFunc(l.write, notMany) {
				left = append(left, p)
				continue
			}
			i := slices.IndexFunc(groups, func(g *sliceGroup) bool { return g.n+len(p.hashes) <= groupKeysMax && sameReplicas(g.at.read, l.read) })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &sliceGroup{at: l, parts: make([]*part, 0, len(parts)), keys: make([]peer.SliceKeys, 0, len(parts))})
			}
			g = groups[i]
			known[&l.read[0]] = g
			last.list, last.g = &l.read[0], g
		}
		g.parts, g.n = append(g.parts, p), g.n+len(p.hashes)
		g.keys = append(g.keys, peer.SliceKeys{Slice: p.slice, Hashes: p.hashes})
	}
	groups = slices.DeleteFunc(groups, func(g *sliceGroup) bool {
		if len(g.parts) == 1 {
			left = append(left, g.parts...)
		}
		return len(g.parts) == 1
	})
	return groups, left
}

// placeSlices returns the placement of the slices of a filter.
func (c *Coordinator) placeSlices(filter []byte) func(slice uint32) Placement[peer.SliceReplica] {
	if c.opt.PlaceSlices != nil {
		return c.opt.PlaceSlices(filter)
	}
	return func(slice uint32) Placement[peer.SliceReplica] { return c.opt.PlaceSlice(filter, slice) }
}

func notMany(rep peer.SliceReplica) bool {
	_, many := rep.(peer.ManySlices)
	return !many
}

// sameReplicas reports whether two lists have the same replicas, with the same one first. The same node in another epoch is another
// replica.
func sameReplicas(a, b []peer.SliceReplica) bool {
	if len(a) != len(b) || len(a) == 0 || a[0] != b[0] {
		return false
	}
	return !slices.ContainsFunc(a, func(r peer.SliceReplica) bool { return !slices.Contains(b, r) })
}

// groupWork does a request on all keys of a group, and returns the outcome for each slice.
type groupWork func(ctx context.Context, spec bigset.SliceSpec, g *sliceGroup) []groupAnswer

// groupAnswer is the outcome of a request on one slice of a group.
type groupAnswer struct {
	answers []bool
	err     error
	left    bool // neither: the slice must be done separately, since another replica may do it
	unknown bool // if left: a replica was asked to mark the keys, and the outcome is unknown
}

// inGroups does what can be done in groups, and returns the parts that are left.
func (g *gatherSlices) inGroups(ctx context.Context, c *Coordinator, q Quorum, parts []*part, work groupWork) (left []*part) {
	groups, left := c.sliceGroups(&g.filter, q, parts)
	over := c.run.NewSignal()
	going := len(groups)
	done := func(group *sliceGroup) {
		answers := work(ctx, bigset.SliceSpec{Name: g.filter.Name, Generation: g.filter.Generation, Options: g.filter.Options}, group)
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, p := range group.parts {
			switch a := &answers[i]; {
			case a.left:
				p.unknown = a.unknown
				left = append(left, p)
			case a.err != nil:
				g.failed(p, p.places, a.err)
			default:
				for j, place := range p.places {
					g.answers[place] = a.answers[j]
				}
			}
		}
		if going--; going == 0 {
			over.Set()
		}
	}
	switch len(groups) {
	case 0:
	case 1:
		done(groups[0])
	default:
		for _, group := range groups {
			c.run.Go(func() { done(group) })
		}
		_ = over.Wait(context.Background()) // the workers end when ctx does
	}
	return left
}

// errOfAll returns the first error if each answer is an error of a kind: then the node has failed, and not some slices at it.
func errOfAll[A any](all []A, of func(*A) error, kind func(error) bool) error {
	for i := range all {
		if err := of(&all[i]); err == nil || !kind(err) {
			return nil
		}
	}
	return of(&all[0])
}

// markingGroup is a request to mark keys of many slices, in progress.
type markingGroup struct {
	*operation
	of     *sliceGroup
	spec   bigset.SliceSpec
	hung   *nodes
	slices []markedSlice // parallel to the group's parts; guarded by mu
}

// markedSlice is the progress of the marks of one slice of a group.
type markedSlice struct {
	acked   int    // replicas that have the marks
	added   []bool // keys that were new to all replicas that have answered
	left    bool   // the slice must be marked separately
	unknown bool   // if left: a replica was asked, and it is unknown whether it has marked the keys
	refused error  // a replica has refused the keys for all, or knows that the filter was dropped: the slice is decided
	err     error  // the replicas' errors
}

// markGroup marks all keys of a group: markSlice for many slices.
func (c *Coordinator) markGroup(ctx context.Context, q Quorum, spec bigset.SliceSpec, g *sliceGroup, hung *nodes) []groupAnswer {
	o := &markingGroup{operation: c.newOperation(spec.Name, q, nil), of: g, spec: spec, hung: hung, slices: make([]markedSlice, len(g.parts))}
	out, room := make([]groupAnswer, len(g.parts)), make([]bool, 0, g.n)
	if short, of := g.at.short(q.W); of > 0 {
		for i := range out {
			out[i].err = &QuorumError{Set: spec.Name, Answered: short, Of: of}
		}
		return out
	}
	_, err := o.await(ctx, o.run)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range out {
		switch s := &o.slices[i]; {
		case s.left:
			out[i] = groupAnswer{left: true, unknown: s.unknown}
		case s.refused != nil:
			out[i].err = s.refused
		case o.over, s.acked < q.W:
			out[i].err = errors.Join(err, s.err)
		default:
			from := len(room)
			room = append(room, s.added...)
			out[i].answers = room[from:len(room):len(room)]
		}
	}
	return out
}

// run lets one replica decide on all slices; the others follow its decision.
func (o *markingGroup) run(ctx context.Context) {
	marked, by, unknown, err := o.mint(ctx)
	if err != nil {
		o.finish(!unknown || errors.Is(err, bigset.ErrNoFilter), err)
		return
	}
	from := by.Member()
	o.mu.Lock()
	o.result.By, o.sent, o.answered = from, len(o.of.at.write), 1
	marks, at := o.minted(from.Node, marked, unknown)
	if len(marks) == 0 {
		o.sent = 1
	}
	o.mu.Unlock()
	o.settle()
	var late lateSends
	for _, rep := range o.of.at.write {
		if rep != by && len(marks) > 0 {
			late.add(o.give(from, rep.(peer.ManySlices), marks, at))
		}
	}
	late.do()
}

// minted takes the decision of a replica, and returns the marks for the others, with their indexes in the group. unknown says that an
// earlier replica may have marked some keys. A refused slice is decided, as in marking.run; any other slice that was not marked is left.
// minted is called with mu held.
func (o *markingGroup) minted(node string, marked []peer.SliceMarked, unknown bool) (marks []peer.SliceMarks, at []int) {
	marks, at = make([]peer.SliceMarks, 0, len(marked)), make([]int, 0, len(marked))
	room := make([]bool, 0, o.of.n)
	for i := range marked {
		s, m := &o.slices[i], &marked[i]
		refused := peer.Refused(m.Err)
		switch {
		case m.Err == nil:
			from := len(room)
			room = append(room, m.Added...)
			s.added, s.acked = room[from:len(room):len(room)], 1
			marks, at = append(marks, m.SliceMarks), append(at, i)
		case refused && !unknown || errors.Is(m.Err, bigset.ErrNoFilter):
			s.refused = fmt.Errorf("%s: %w", node, m.Err)
		default:
			s.left, s.unknown = true, unknown || !refused && !errors.Is(m.Err, peer.ErrUnavailable)
		}
	}
	return marks, at
}

// mint lets the first replica that can decide on the marks do so, as marking.mint does. unknown says that a replica that was asked before
// may have marked some keys.
func (o *markingGroup) mint(ctx context.Context) (marked []peer.SliceMarked, by peer.SliceReplica, unknown bool, err error) {
	var errs []error
	patience := o.c.opt.Timeout / time.Duration(len(o.of.at.read)+1)
	for _, rep := range o.hung.last(o.of.at.read) {
		if !o.begin() {
			break
		}
		marked, err := o.decide(ctx, rep, patience)
		if err == nil {
			return marked, rep, unknown, nil
		}
		err = fmt.Errorf("%s: %w", rep.Member().Node, err)
		refused := peer.Refused(err)
		if unknown = unknown || !refused && !errors.Is(err, peer.ErrUnavailable); !unknown {
			o.nothing()
		}
		if errs = append(errs, err); refused {
			return nil, nil, unknown, errors.Join(errs...)
		}
	}
	return nil, nil, unknown, &QuorumError{Set: o.name, Of: 1, Err: errors.Join(errs...)}
}

// decide asks one replica for the marks. A replica that could not begin with any slice, because it is joining or its disk is full, fails as
// a whole.
func (o *markingGroup) decide(ctx context.Context, rep peer.SliceReplica, patience time.Duration) ([]peer.SliceMarked, error) {
	ctx, cancel := Deadline(ctx, o.c.run, patience)
	defer cancel()
	marked, by, err := rep.(peer.ManySlices).MarkMany(ctx, o.spec, o.of.keys)
	if err != nil {
		if ctx.Err() != nil {
			o.hung.add(rep.Member().Node)
		}
		return nil, err
	}
	if peer.CheckMarked(marked, o.of.keys) != nil {
		return nil, errMarks
	}
	err = errOfAll(marked, func(m *peer.SliceMarked) error { return m.Err }, func(err error) bool {
		return errors.Is(err, peer.ErrUnavailable) && !peer.Refused(err)
	})
	if err != nil && ctx.Err() != nil { // the error is the replica's reaction to the deadline
		o.hung.add(rep.Member().Node)
	}
	if err == nil && (by.State != peer.Normal || !o.asked(marked)) {
		err = errMarks
	}
	return marked, err
}

// asked reports whether marks are of the keys that a replica was asked for.
func (o *markingGroup) asked(marked []peer.SliceMarked) bool {
	for i := range marked {
		if marked[i].Err == nil && !slices.EqualFunc(marked[i].Marks, o.of.keys[i].Hashes, func(m bigset.Mark, h bloomslice.Hash) bool { return m.Hash == h }) {
			return false
		}
	}
	return true
}

// give sends marks to a replica in the background, as Coordinator.send does. at are their indexes in the group.
func (o *markingGroup) give(from peer.Member, rep peer.ManySlices, marks []peer.SliceMarks, at []int) (late func()) {
	node, size := rep.Member().Node, int64(0)
	for i := range marks {
		size += int64(layerBytes*len(marks[i].Layers) + markBytes*len(marks[i].Marks))
	}
	if err := o.c.take(node, size); err != nil {
		return func() { o.took(from, node, marks, at, nil, err) }
	}
	o.c.run.Go(func() {
		defer o.c.give(node, size)
		ctx, cancel := Deadline(o.c.life, o.c.run, o.c.opt.SendTimeout)
		defer cancel()
		answers, _, err := rep.ApplyMarksMany(ctx, o.spec, marks)
		if err == nil && len(answers) != len(marks) {
			err = fmt.Errorf("%w: answers about %d slices, not %d", peer.ErrAnswer, len(answers), len(marks))
		}
		o.took(from, node, marks, at, answers, err)
	})
	return nil
}

// took takes a replica's answer to marks. Marks that it has not taken become hints. A replica that knows the filter of a slice to be
// dropped, or replaced, decides the slice: none of its marks will be seen again.
func (o *markingGroup) took(from peer.Member, node string, marks []peer.SliceMarks, at []int, answers []peer.SliceAnswers, whole error) {
	errOf := func(j int) error {
		if whole != nil {
			return whole
		}
		return answers[j].Err
	}
	var lost []lostMessage
	for j := range at {
		if err := errOf(j); err != nil {
			lost = append(lost, lostMessage{peer.Marks(marks[j].Of(o.spec)), err})
		}
	}
	if len(lost) > 0 {
		o.c.missedAll(from, node, o.name, lost)
	}
	o.mu.Lock()
	o.answered++
	for j, i := range at {
		s := &o.slices[i]
		if err := errOf(j); err != nil {
			err = fmt.Errorf("%s: %w", node, err)
			if s.err = errors.Join(s.err, err); s.refused == nil && errors.Is(err, bigset.ErrNoFilter) {
				s.refused = err
			}
			continue
		}
		s.acked++
		for k := range s.added {
			s.added[k] = s.added[k] && k < len(answers[j].Answers) && answers[j].Answers[k]
		}
	}
	o.mu.Unlock()
	o.settle()
}

// settle ends the wait when every slice is decided or has its quorum, or when all replicas have answered.
func (o *markingGroup) settle() {
	o.mu.Lock()
	least := o.q.N
	for i := range o.slices {
		if s := &o.slices[i]; !s.left && s.refused == nil {
			least = min(least, s.acked)
		}
	}
	o.result.Acked = least
	done := o.reached() || o.answered == o.sent
	o.mu.Unlock()
	if done {
		o.settled.Set()
	}
}
