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

// groupKeysMax is how many keys of a request go to a node in one frame.
const groupKeysMax = 5000

// sliceGroup is slices of one filter that the same replicas hold. Keys of all of them go to a replica in one frame, so that a batch takes one frame a node where
// all nodes hold all slices.
type sliceGroup struct {
	at    placed[peer.SliceReplica]
	parts []*part
	keys  []peer.SliceKeys // of the parts, in their order: by slice
	n     int              // keys
}

// sliceGroups puts parts together, and returns those that are to be done by themselves: of ranges that move, with too many keys, or alone in their group.
func (c *Coordinator) sliceGroups(f *Filter, q Quorum, parts []*part) (groups []*sliceGroup, left []*part) {
	known := map[*peer.SliceReplica]*sliceGroup{} // by the list of replicas, where several slices have one list
	for _, p := range parts {
		_, l := place(c.opt.PlaceSlice(f.Name, p.slice), q)
		var g *sliceGroup
		if len(l.read) > 0 && l.lists == nil {
			g = known[&l.read[0]]
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

func notMany(rep peer.SliceReplica) bool {
	_, many := rep.(peer.ManySlices)
	return !many
}

// sameReplicas reports whether two lists have the same nodes, and the same one first.
func sameReplicas(a, b []peer.SliceReplica) bool {
	node := func(r peer.SliceReplica) string { return r.Member().Node }
	if len(a) != len(b) || len(a) == 0 || node(a[0]) != node(b[0]) {
		return false
	}
	return !slices.ContainsFunc(a, func(x peer.SliceReplica) bool {
		return !slices.ContainsFunc(b, func(y peer.SliceReplica) bool { return node(x) == node(y) })
	})
}

// groupWork does a request on all keys of a group. What it could not do of some slices, and another may, it leaves to be done by itself.
type groupWork func(ctx context.Context, spec bigset.SliceSpec, g *sliceGroup) (answers [][]bool, errs []error, left []bool)

// inGroups does what can be done in groups, and returns the parts that are left.
func (g *gatherSlices) inGroups(ctx context.Context, c *Coordinator, q Quorum, parts []*part, work groupWork) (left []*part) {
	groups, left := c.sliceGroups(&g.filter, q, parts)
	over := c.run.NewSignal()
	going := len(groups)
	done := func(group *sliceGroup) {
		answers, errs, again := work(ctx, bigset.SliceSpec{Name: g.filter.Name, Generation: g.filter.Generation, Options: g.filter.Options}, group)
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, p := range group.parts {
			switch {
			case again != nil && again[i]:
				left = append(left, p)
			case errs[i] != nil:
				g.failed(p, p.places, errs[i])
			default:
				for j, place := range p.places {
					g.answers[place] = answers[i][j]
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
		_ = over.Wait(context.Background()) // work ends when ctx does
	}
	return left
}

// checkGroup asks R replicas about all keys of a group.
func (c *Coordinator) checkGroup(ctx context.Context, q Quorum, spec bigset.SliceSpec, g *sliceGroup) (found [][]bool, errs []error, left []bool) {
	found, errs, left = make([][]bool, len(g.parts)), make([]error, len(g.parts)), make([]bool, len(g.parts))
	answers, err := ask(ctx, c, spec.Name, q.R, g.at.read, func(ctx context.Context, rep peer.SliceReplica) ([]peer.SliceAnswers, error) {
		all, m, err := rep.(peer.ManySlices).CheckMany(ctx, spec, g.keys)
		switch {
		case errors.Is(err, bigset.ErrNoFilter): // an answer, too
			return []peer.SliceAnswers{{Err: fmt.Errorf("%s: %w", m.Node, err)}}, nil
		case err == nil && m.State != peer.Normal: // it may lack what it has not found
			err = fmt.Errorf("%w: %v", peer.ErrJoining, m)
		case err == nil && len(all) != len(g.keys):
			err = fmt.Errorf("%w: answers about %d slices, not %d", peer.ErrFrame, len(all), len(g.keys))
		}
		return all, err
	})
	yes := make([]bool, g.n)
	for i, p := range g.parts {
		if errs[i] = err; err != nil {
			continue
		}
		found[i], yes = yes[:len(p.hashes):len(p.hashes)], yes[len(p.hashes):]
		for _, a := range answers {
			switch one := a[min(i, len(a)-1)]; {
			case errors.Is(one.Err, bigset.ErrNoFilter):
				errs[i] = one.Err
			case one.Err != nil || len(one.Answers) != len(p.hashes): // another replica may answer about this slice
				left[i] = true
			default:
				for j, has := range one.Answers {
					found[i][j] = found[i][j] || has
				}
			}
		}
		left[i] = left[i] && errs[i] == nil
	}
	return found, errs, left
}

// markingGroup is a request to mark keys of many slices that is under way.
type markingGroup struct {
	*operation
	of   *sliceGroup
	spec bigset.SliceSpec
	hung *nodes

	// Guarded by mu, each by slice.
	acked []int    // replicas that have the marks
	added [][]bool // keys that were new to all who have answered
	left  []bool   // slices that are to be marked by themselves
	errs  []error  // what replicas have said against a slice
}

// markGroup marks all keys of a group: markSlice for many slices.
func (c *Coordinator) markGroup(ctx context.Context, q Quorum, spec bigset.SliceSpec, g *sliceGroup, hung *nodes) (added [][]bool, errs []error, left []bool) {
	n := len(g.parts)
	o := &markingGroup{operation: c.newOperation(spec.Name, q, nil), of: g, spec: spec, hung: hung,
		acked: make([]int, n), added: make([][]bool, n), left: make([]bool, n), errs: make([]error, n)}
	errs = make([]error, n)
	if short, of := g.at.short(q.W); of > 0 {
		for i := range errs {
			errs[i] = &QuorumError{Set: spec.Name, Answered: short, Of: of}
		}
		return nil, errs, nil
	}
	_, err := o.await(ctx, o.run)
	o.mu.Lock()
	defer o.mu.Unlock()
	added = make([][]bool, n)
	for i := range g.parts {
		switch {
		case o.left[i]:
		case o.over, o.acked[i] < q.W:
			errs[i] = errors.Join(err, o.errs[i])
		default:
			added[i] = slices.Clone(o.added[i])
		}
	}
	return added, errs, slices.Clone(o.left)
}

// run has one replica decide on all slices, and the others do what it has decided.
func (o *markingGroup) run(ctx context.Context) {
	marked, by, err := o.mint(ctx)
	if err != nil {
		o.mu.Lock()
		unknown := o.began
		o.mu.Unlock()
		o.finish(!unknown || errors.Is(err, bigset.ErrNoFilter), err)
		return
	}
	from := by.Member()
	var marks []peer.SliceMarks
	var at []int
	o.mu.Lock()
	o.result.By, o.sent = from, len(o.of.at.write)
	for i := range marked {
		m := &marked[i]
		if m.Err != nil { // the replica that is asked for this slice alone decides, or another one
			o.left[i] = true
			o.of.parts[i].unknown = !peer.Refused(m.Err) && !errors.Is(m.Err, peer.ErrUnavailable)
			continue
		}
		o.added[i], o.acked[i] = slices.Clone(m.Added), 1
		marks, at = append(marks, m.SliceMarks), append(at, i)
	}
	o.answered++
	o.mu.Unlock()
	o.settle()
	for _, rep := range o.of.at.write {
		if rep != by && len(marks) > 0 {
			o.give(from, rep.(peer.ManySlices), marks, at)
		}
	}
	if len(marks) == 0 {
		o.settled.Set()
	}
}

// mint has the first replica that can decide on the marks: marking.mint.
func (o *markingGroup) mint(ctx context.Context) ([]peer.SliceMarked, peer.SliceReplica, error) {
	var errs []error
	unknown := false
	patience := o.c.opt.Timeout / time.Duration(len(o.of.at.read)+1)
	for _, rep := range o.hung.last(o.of.at.read) {
		if !o.begin() {
			break
		}
		marked, err := o.decide(ctx, rep, patience)
		if err == nil {
			return marked, rep, nil
		}
		err = fmt.Errorf("%s: %w", rep.Member().Node, err)
		refused := peer.Refused(err)
		if unknown = unknown || !refused && !errors.Is(err, peer.ErrUnavailable); !unknown {
			o.nothing()
		}
		if errs = append(errs, err); refused {
			return nil, nil, errors.Join(errs...)
		}
	}
	return nil, nil, &QuorumError{Set: o.name, Of: 1, Err: errors.Join(errs...)}
}

// decide asks one replica for the marks.
func (o *markingGroup) decide(ctx context.Context, rep peer.SliceReplica, patience time.Duration) ([]peer.SliceMarked, error) {
	ctx, cancel := deadline(ctx, o.c.run, patience)
	defer cancel()
	marked, by, err := rep.(peer.ManySlices).MarkMany(ctx, o.spec, o.of.keys)
	switch {
	case err != nil && ctx.Err() != nil:
		o.hung.add(rep.Member().Node)
	case err == nil && (by.State != peer.Normal || peer.CheckMarked(marked, o.of.keys) != nil || !o.asked(marked)):
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

// give gives marks to a replica in the background. at are their places in the group.
func (o *markingGroup) give(from peer.Member, rep peer.ManySlices, marks []peer.SliceMarks, at []int) {
	node, size := rep.Member().Node, int64(0)
	for i := range marks {
		size += int64(layerBytes*len(marks[i].Layers) + markBytes*len(marks[i].Marks))
	}
	if err := o.c.take(node, size); err != nil {
		o.took(from, node, marks, at, nil, err)
		return
	}
	o.c.run.Go(func() {
		defer o.c.give(node, size)
		ctx, cancel := deadline(o.c.life, o.c.run, o.c.opt.SendTimeout)
		defer cancel()
		answers, _, err := rep.ApplyMarksMany(ctx, o.spec, marks)
		if err == nil && len(answers) != len(marks) {
			err = fmt.Errorf("%w: answers about %d slices, not %d", peer.ErrFrame, len(answers), len(marks))
		}
		o.took(from, node, marks, at, answers, err)
	})
}

// took takes a replica's answer to marks. What it has not taken becomes hints. That the filter was dropped decides for all: nothing of it will be seen any more.
func (o *markingGroup) took(from peer.Member, node string, marks []peer.SliceMarks, at []int, answers []peer.SliceAnswers, whole error) {
	o.mu.Lock()
	o.answered++
	o.mu.Unlock()
	for j, i := range at {
		err := whole
		if err == nil {
			err = answers[j].Err
		}
		if err != nil {
			m := marks[j].Of(o.spec)
			o.c.missed(from, &delivery{node: node, name: o.name, what: peer.Marks(m)}, err)
			if errors.Is(err, bigset.ErrNoFilter) {
				o.finish(true, fmt.Errorf("%s: %w", node, err))
				return
			}
		}
		o.mu.Lock()
		if err != nil {
			o.errs[i] = errors.Join(o.errs[i], fmt.Errorf("%s: %w", node, err))
		} else {
			o.acked[i]++
			for k := range o.added[i] {
				o.added[i][k] = o.added[i][k] && k < len(answers[j].Answers) && answers[j].Answers[k]
			}
		}
		o.mu.Unlock()
	}
	o.settle()
}

// settle ends the wait when every slice has its quorum, or when all replicas have answered.
func (o *markingGroup) settle() {
	o.mu.Lock()
	least := o.q.N
	for i, n := range o.acked {
		if !o.left[i] {
			least = min(least, n)
		}
	}
	o.result.Acked = least
	done := o.reached() || o.answered == o.sent
	o.mu.Unlock()
	if done {
		o.settled.Set()
	}
}
