package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"bigset/server/peer"
)

// FilterDrop is a client's request to drop a whole filter.
type FilterDrop struct {
	Filter
	Quorum Quorum // W; DW is ignored: a drop is on disk when a replica acknowledges it
}

// DropFilter drops a filter, in its generation and all earlier ones. It answers when W replicas of every slice have the drop on disk, with
// the errors of a Write; repeating it changes nothing. From then on no check is answered if R+W > N, and no mark if 2W > N: they fail with
// bigset.ErrNoFilter. Marks that are still in progress or in hints are refused by the replicas that know of the drop.
//
// A replica that missed the drop gets no hint, but learns of it from the others by anti-entropy: they remember it for good. Until then its
// slices only take up space: every request names a generation, and a new filter of the same name replaces the old one.
func (c *Coordinator) DropFilter(ctx context.Context, d FilterDrop) error {
	q, err := c.planFilter(&d.Filter, d.Quorum)
	if err != nil {
		return err
	}
	d.Name = bytes.Clone(d.Name) // the requests to replicas refer to it
	o := &dropping{operation: c.newOperation(d.Name, q, nil), filter: d.Filter, acked: make([]int, d.Options.Slices), slicesOf: map[string][]uint32{}}
	o.count = o.countNode
	for s := range d.Options.Slices {
		_, l := place(c.opt.PlaceSlice(d.Name, s), q)
		if short, of := l.short(q.W); of > 0 {
			return fmt.Errorf("slice %d: %w", s, &QuorumError{Set: d.Name, Answered: short, Of: of})
		}
		o.lists = append(o.lists, l.lists...)
		o.add(s, l.write)
	}
	_, err = o.await(ctx, o.run)
	if errors.Is(err, ErrUnknown) {
		o.mu.Lock()
		defer o.mu.Unlock()
		err = fmt.Errorf("drop of %d of %d slices: %w", o.short(), len(o.acked), err)
	}
	return err
}

// dropping is a drop of a filter in progress. A replica is asked once for all its slices. The result counts the replicas of the slice that
// the fewest have acknowledged.
type dropping struct {
	*operation
	filter   Filter
	replicas []peer.SliceReplica // one of each node
	slicesOf map[string][]uint32 // by node
	acked    []int               // by slice: replicas that have dropped it; guarded by mu
}

// add records which replicas hold a slice.
func (o *dropping) add(slice uint32, replicas []peer.SliceReplica) {
	for _, rep := range replicas {
		node := rep.Member().Node
		if o.slicesOf[node] == nil {
			o.replicas = append(o.replicas, rep)
		}
		o.slicesOf[node] = append(o.slicesOf[node], slice)
	}
}

// run drops the filter at all nodes.
func (o *dropping) run(context.Context) {
	if !o.begin() {
		return
	}
	o.mu.Lock()
	o.sent = len(o.replicas)
	o.mu.Unlock()
	var late lateSends
	for _, rep := range o.replicas {
		node := rep.Member().Node
		late.add(o.c.send(peer.Member{}, delivery{node: node, name: o.name, size: int64(len(o.name)), give: func(ctx context.Context) error {
			_, err := rep.DropGeneration(ctx, o.name, o.filter.Options.Slices, o.filter.Generation)
			return err
		}}, func(err error) { o.ack(node, err) }))
	}
	late.do()
}

// countNode counts a node for the slices that it has.
func (o *dropping) countNode(node string) {
	if o.lists != nil {
		o.ackedBy = append(o.ackedBy, node)
	}
	for _, s := range o.slicesOf[node] {
		o.acked[s]++
	}
	o.result.Acked = slices.Min(o.acked)
}

// short returns how many slices have been dropped at too few replicas.
func (o *dropping) short() (n int) {
	for _, acked := range o.acked {
		if acked < o.q.W {
			n++
		}
	}
	return n
}
