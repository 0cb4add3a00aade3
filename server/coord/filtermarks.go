package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/peer"
)

// MarkFilter marks keys of a filter, and says which were new. One replica of a key's slice decides in which layer of its own the key goes,
// or in whose it was found, and the others do the same: also with a key that was there, for they may lack it. It answers when W have done
// so, as durably as the filter promises: from then on, where R+W > N, no check denies the key. A key was new when all that had answered
// by then say so. Of several requests that mark one key beside one another at most one is told so, where 2W > N, and maybe none.
//
// Each slice is marked for itself. Where some can't answer the error is a *FilterError, which names their keys: what errors.Is finds in it
// is said of these, as it is of a Write. ErrUnknown is one that may be marked; without it none is, nor will be. The answers about the
// others hold all the same. To mark a key again does no harm, but that it may not be called new. A filter that was dropped, or had to
// make room for a later one, is bigset.ErrNoFilter.
func (c *Coordinator) MarkFilter(ctx context.Context, r FilterKeys) ([]bool, error) {
	q, err := c.planFilter(&r.Filter, r.Quorum)
	if err != nil {
		return nil, err
	}
	hung := &nodes{}
	return c.eachSlice(ctx, &r, q, func(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) ([]bool, error) {
		return c.markSlice(ctx, q, spec, hashes, hung)
	}, func(ctx context.Context, spec bigset.SliceSpec, g *sliceGroup) []groupAnswer {
		return c.markGroup(ctx, q, spec, g, hung)
	})
}

// marking is a request to mark keys of one slice that is under way.
type marking struct {
	*operation
	at     placed[peer.SliceReplica]
	spec   bigset.SliceSpec
	hashes []bloomslice.Hash
	hung   *nodes // that a piece of the request has waited for in vain
	added  []bool // keys that were new to all who have answered; guarded by mu
}

// nodes is a set of nodes.
type nodes struct {
	mu    sync.Mutex
	names []string
}

func (n *nodes) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.names, name) {
		n.names = append(n.names, name)
	}
}

// last returns replicas in order, but those of the nodes behind the others.
func (n *nodes) last(replicas []peer.SliceReplica) (all []peer.SliceReplica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var behind []peer.SliceReplica
	for _, rep := range replicas {
		if slices.Contains(n.names, rep.Member().Node) {
			behind = append(behind, rep)
		} else {
			all = append(all, rep)
		}
	}
	return append(all, behind...)
}

func (c *Coordinator) markSlice(ctx context.Context, q Quorum, spec bigset.SliceSpec, hashes []bloomslice.Hash, hung *nodes) ([]bool, error) {
	q, l := place(c.opt.PlaceSlice(spec.Name, spec.Slice), q)
	if short, of := l.short(q.W); of > 0 {
		return nil, &QuorumError{Set: spec.Name, Answered: short, Of: of}
	}
	o := &marking{c.newOperation(spec.Name, q, l.lists), l, spec, hashes, hung, slices.Repeat([]bool{true}, len(hashes))}
	if _, err := o.await(ctx, o.run); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.added), nil
}

// run has one replica decide, and the others do what it has decided.
func (o *marking) run(ctx context.Context) {
	m, added, by, err := o.mint(ctx)
	if err != nil {
		o.mu.Lock()
		unknown := o.began
		o.mu.Unlock()
		o.finish(!unknown || errors.Is(err, bigset.ErrNoFilter), err)
		return
	}
	from := by.Member()
	o.mu.Lock()
	o.sent, o.result.By = len(o.at.write), from
	o.mu.Unlock()
	o.report(added)
	o.ack(from.Node, nil)
	var late lateSends
	for _, rep := range o.at.write {
		if rep != by {
			node := rep.Member().Node
			late.add(o.c.send(from, marksTo(rep, m, o.report), func(err error) { o.answered(node, err) }))
		}
	}
	late.do()
}

// report notes which keys were new at one of the replicas.
func (o *marking) report(added []bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.added {
		o.added[i] = o.added[i] && i < len(added) && added[i]
	}
}

// answered takes the answer of a replica to marks. One that knows the filter to be dropped decides for all: nothing of it will be seen
// any more.
func (o *marking) answered(node string, err error) {
	if errors.Is(err, bigset.ErrNoFilter) {
		o.finish(true, fmt.Errorf("%s: %w", node, err))
		return
	}
	o.ack(node, err)
}

// errMarks says that a replica's answer is not to what it was asked.
var errMarks = errors.New("coord: marks of other keys, or of a replica that may not decide")

// mint has the first replica that can decide on the marks. Where nobody knows what one has done the next is asked all the same: a key in
// layers of both is as good, and a replica that hangs would hold up the slice. So each has its part of the time, and one that has let it pass
// is asked last for what else there is in the request. The error, while nothing has begun, says that nothing has happened.
func (o *marking) mint(ctx context.Context) (bigset.Marks, []bool, peer.SliceReplica, error) {
	var errs []error
	unknown := false
	patience := o.c.opt.Timeout / time.Duration(len(o.at.read)+1)
	for _, rep := range o.hung.last(o.at.read) {
		if !o.begin() {
			break
		}
		m, added, err := o.decide(ctx, rep, patience)
		if err == nil {
			return m, added, rep, nil
		}
		err = fmt.Errorf("%s: %w", rep.Member().Node, err)
		refused := peer.Refused(err)
		if unknown = unknown || !refused && !errors.Is(err, peer.ErrUnavailable); !unknown {
			o.nothing()
		}
		if errs = append(errs, err); refused {
			return bigset.Marks{}, nil, nil, errors.Join(errs...)
		}
	}
	return bigset.Marks{}, nil, nil, &QuorumError{Set: o.name, Of: 1, Err: errors.Join(errs...)}
}

// decide asks one replica for the marks.
func (o *marking) decide(ctx context.Context, rep peer.SliceReplica, patience time.Duration) (bigset.Marks, []bool, error) {
	ctx, cancel := Deadline(ctx, o.c.run, patience)
	defer cancel()
	m, added, by, err := rep.Mark(ctx, o.spec, o.hashes)
	switch {
	case err != nil && ctx.Err() != nil:
		o.hung.add(rep.Member().Node)
	case err == nil && (by.State != peer.Normal || len(added) != len(o.hashes) || !o.asked(&m)):
		err = errMarks
	}
	return m, added, err
}

// asked reports whether marks are of the keys, and of the slice, that a replica was asked for.
func (o *marking) asked(m *bigset.Marks) bool {
	return bytes.Equal(m.Name, o.spec.Name) && m.Slice == o.spec.Slice && m.Generation == o.spec.Generation && m.Options == o.spec.Options &&
		slices.EqualFunc(m.Marks, o.hashes, func(m bigset.Mark, h bloomslice.Hash) bool { return m.Hash == h })
}
