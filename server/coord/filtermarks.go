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

// MarkFilter marks keys of a filter, and reports which were new. One replica of a key's slice decides in which layer of its own the key
// goes, or in whose layer it was found. The others do the same, even for a key that was present, for they may not have it. MarkFilter
// answers when W have done so, as durably as the filter promises: from then on, if R+W > N, no check denies the key. A key was new if all
// replicas that had answered by then say so. If several requests mark one key concurrently and 2W > N, at most one of them sees it as new,
// and maybe none.
//
// Each slice is marked by itself. If some fail, the error is a *FilterError, which names their keys. What errors.Is finds in it applies to
// these keys, as for a Write: with ErrUnknown, a key may be marked; without it, no key is or will be. The answers about the other keys
// still hold. Marking a key again does no harm, except that it may not be reported as new. The error for a filter that was dropped or
// replaced by a later one is bigset.ErrNoFilter.
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

// marking is a request to mark keys of one slice, in progress.
type marking struct {
	*operation
	at     placed[peer.SliceReplica]
	spec   bigset.SliceSpec
	hashes []bloomslice.Hash
	hung   *nodes // for which a part of the request has waited in vain
	added  []bool // keys that were new to all replicas that have answered; guarded by mu
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

// last returns replicas in order, but with the given nodes last.
func (n *nodes) last(replicas []peer.SliceReplica) (all []peer.SliceReplica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var end []peer.SliceReplica
	for _, rep := range replicas {
		if slices.Contains(n.names, rep.Member().Node) {
			end = append(end, rep)
		} else {
			all = append(all, rep)
		}
	}
	return append(all, end...)
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

// run lets one replica decide; the others follow its decision.
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

// report records which keys were new at one of the replicas.
func (o *marking) report(added []bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.added {
		o.added[i] = o.added[i] && i < len(added) && added[i]
	}
}

// answered takes the answer of a replica to marks. A replica that knows the filter to be dropped decides for all: none of its marks will be
// seen again.
func (o *marking) answered(node string, err error) {
	if errors.Is(err, bigset.ErrNoFilter) {
		o.finish(true, fmt.Errorf("%s: %w", node, err))
		return
	}
	o.ack(node, err)
}

// errMarks is the error for an answer that does not match the question.
var errMarks = errors.New("coord: marks of other keys, or of a replica that may not decide")

// mint lets the first replica that can decide on the marks do so. If a replica's outcome is unknown, the next one is still asked: a key in
// layers of both does no harm, and a replica that hangs would hold up the slice. So each replica gets its share of the time, and one that
// has exceeded it is asked last for the rest of the request. An error, as long as nothing has begun, means that nothing has happened.
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

// asked reports whether marks are of the keys and the slice that a replica was asked for.
func (o *marking) asked(m *bigset.Marks) bool {
	return bytes.Equal(m.Name, o.spec.Name) && m.Slice == o.spec.Slice && m.Generation == o.spec.Generation && m.Options == o.spec.Options &&
		slices.EqualFunc(m.Marks, o.hashes, func(m bigset.Mark, h bloomslice.Hash) bool { return m.Hash == h })
}
