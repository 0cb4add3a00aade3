package coord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"bigset"
	"bigset/server/peer"
)

// Backlog is what waits for a node.
type Backlog struct {
	Count  int       // of hints
	Bytes  int64     // of them
	Oldest time.Time // when the first of them was added; zero where there is none
}

// Backlog returns what waits for a node. It takes the same time however much that is.
func (h *Hints) Backlog(node string) (b Backlog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.nodes[node]; n != nil {
		b.Count, b.Bytes = n.count, n.bytes
	}
	h.index.AscendGreaterOrEqual(&hint{node: node}, func(e *hint) bool {
		if e.node == node {
			b.Oldest = time.Unix(e.at, 0)
		}
		return false
	})
	return b
}

// Pending returns how many hints there are for a node, and how many bytes they are.
func (h *Hints) Pending(node string) (count int, bytes int64) {
	b := h.Backlog(node)
	return b.Count, b.Bytes
}

// Nodes returns the nodes for which there are hints, ascending.
func (h *Hints) Nodes() (nodes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index.Ascend(func(e *hint) bool {
		if n := len(nodes); n == 0 || nodes[n-1] != e.node {
			nodes = append(nodes, e.node)
		}
		return true
	})
	return nodes
}

// replayFailsMax is how many sets and slices may fail in one replay until the node is taken for one that is not there.
const replayFailsMax = 4

// Targets find a node's replicas, or return nil where it has none. A nil function is none of any.
type Targets struct {
	Set   func(set []byte) peer.Replica
	Slice func(filter []byte, slice uint32) peer.SliceReplica
}

// delivery returns how a hint is given to its replica, and the set or the slice that it is of. There is nothing to give where the node
// has no replica.
func (t *Targets) delivery(what peer.Message) (d delivery, of string) {
	switch m := what.(type) {
	case peer.Delta:
		if t.Set != nil {
			if rep := t.Set(m.Set); rep != nil {
				d = deltaTo(rep, bigset.Delta(m), bigset.Sync)
			}
		}
		of = fmt.Sprintf("set %q", m.Set)
	case peer.Marks:
		if t.Slice != nil {
			if rep := t.Slice(m.Name, m.Slice); rep != nil {
				d = marksTo(rep, bigset.Marks(m), func([]bool) {})
			}
		}
		of = fmt.Sprintf("slice %d of %q", m.Slice, m.Name)
	}
	return d, of
}

// Replay sends a node the hints that there are for it, in the order in which they came, each gone when the node has acknowledged it: a
// delta when it is on disk there. Where one does not reach it, those of its set or slice stay behind it and others go on, so that one
// that is damaged there holds up no other; after some such failures it ends. Where the node has no replica of a set or slice the hint
// stays until it is too old, and so does one of another version of this program. It returns how many have arrived, and why others have not. While one replay for a node is under way, others
// return at once.
func (h *Hints) Replay(ctx context.Context, node string, to Targets) (sent int, err error) {
	if !h.claim(node) {
		return 0, nil
	}
	defer h.release(node)
	var bytes int64
	defer func() {
		if sent > 0 {
			h.opt.Events(Event{Kind: EventHintReplayed, Node: node, Count: sent, Bytes: bytes})
		}
	}()
	kept := Event{Kind: EventHintFailed, Node: node} // hints that can't be read here, and stay
	defer func() {
		if kept.Count > 0 {
			h.opt.Events(kept)
		}
	}()
	h.expire(node)
	failed := map[string]error{} // by set or slice
	defer func() { err = errors.Join(append(slices.Collect(maps.Values(failed)), err)...) }()
	for last := uint64(0); ; {
		e, what, err := h.next(node, last)
		if e == nil {
			return sent, err
		}
		last = e.id
		if err != nil && !errors.Is(err, errRecord) && !errors.Is(err, peer.ErrFrame) {
			return sent, fmt.Errorf("coord: read a hint for %s: %w", node, err)
		}
		if foreign(err) {
			kept.Count++
			kept.Bytes += e.size
			kept.Err = err
			continue
		}
		if err != nil {
			h.opt.Events(Event{Kind: EventHintFailed, Node: node, Count: 1, Bytes: e.size, Err: err})
			h.done(e)
			continue
		}
		d, of := to.delivery(what)
		if d.give == nil || failed[of] != nil {
			continue
		}
		if err := d.give(ctx); peer.Refused(err) {
			h.opt.Events(Event{Kind: EventRefused, Node: node, Set: d.name, Count: 1, Bytes: e.size, Err: err})
		} else if err != nil {
			failed[of] = fmt.Errorf("coord: replay to %s: %w", node, err)
			if len(failed) == replayFailsMax || ctx.Err() != nil {
				return sent, nil
			}
			continue
		} else {
			sent++
			bytes += e.size
		}
		h.done(e)
	}
}

// foreign reports whether a hint that can't be read may be one of another version of this program: it stays until that runs again, or until it
// is too old.
func foreign(err error) bool {
	return errors.Is(err, peer.ErrFrameVersion) || errors.Is(err, peer.ErrFrameKind) || errors.Is(err, peer.ErrSetSlice)
}

// claim makes this the only replay for a node.
func (h *Hints) claim(node string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, busy := h.busy[node]
	h.busy[node] = struct{}{}
	return !busy
}

func (h *Hints) release(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, node)
}

// expire drops a node's hints that are too old.
func (h *Hints) expire(node string) {
	var old []*hint
	var bytes int64
	h.mu.Lock()
	before := h.opt.Now().Add(-h.opt.AgeMax).Unix()
	h.index.AscendGreaterOrEqual(&hint{node: node}, func(e *hint) bool {
		if e.node == node && e.at < before {
			old = append(old, e)
			bytes += e.size
		}
		return e.node == node
	})
	h.mu.Unlock()
	for _, e := range old {
		h.done(e)
	}
	if len(old) > 0 {
		h.opt.Events(Event{Kind: EventHintExpired, Node: node, Count: len(old), Bytes: bytes})
	}
}

// next reads the node's first hint behind an id; nil when there is none, or the hints are closed. An error with a hint says that it
// can't be read.
func (h *Hints) next(node string, last uint64) (found *hint, what peer.Message, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, ErrClosed
	}
	h.index.AscendGreaterOrEqual(&hint{node: node, id: last + 1}, func(e *hint) bool {
		if e.node == node {
			found = e
		}
		return false
	})
	if found == nil {
		return nil, nil, nil
	}
	payload, err := h.payload(found)
	if err != nil {
		return found, nil, err
	}
	_, frame, ok := parseHint(payload[1:])
	if !ok {
		return found, nil, errRecord
	}
	what, _, err = peer.Decode(frame)
	switch what.(type) {
	case peer.Delta, peer.Marks:
		return found, what, nil
	case nil:
		return found, nil, err
	}
	return found, nil, fmt.Errorf("%w: a %T is no hint", peer.ErrFrame, what)
}

// payload reads a hint's record.
func (h *Hints) payload(e *hint) (payload []byte, err error) {
	file, err := h.folder.Open(segmentName(e.seg.seq))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	payload, err = readRecord(io.NewSectionReader(file, e.off, math.MaxInt64-e.off))
	if err == io.EOF {
		err = errRecord
	}
	return payload, err
}

// Replay sends a node the hints that there are for it; see Hints.Replay.
func (c *Coordinator) Replay(ctx context.Context, node string) (sent int, err error) {
	if c.opt.Hints == nil {
		return 0, nil
	}
	return c.opt.Hints.Replay(ctx, node, Targets{
		Set: func(set []byte) peer.Replica { return at(node, c.opt.Place(set).all()) },
		Slice: func(filter []byte, slice uint32) peer.SliceReplica {
			if c.opt.PlaceSlice == nil {
				return nil
			}
			return at(node, c.opt.PlaceSlice(filter, slice).all())
		},
	})
}

// at returns the replica of a node, or none.
func at[R interface{ Member() peer.Member }](node string, preflist []R) (found R) {
	for _, rep := range preflist {
		if rep.Member().Node == node {
			return rep
		}
	}
	return found
}

// replaying does Replay for all nodes that have hints, each beside the others, and does so again, until the coordinator is closed.
func (c *Coordinator) replaying() {
	c.run.After(c.opt.HintInterval, func() {
		for _, node := range c.opt.Hints.Nodes() {
			if !c.enter() {
				return
			}
			c.run.Go(func() { // so that one that hangs keeps none of the others
				defer c.leave()
				ctx, cancel := deadline(c.life, c.run, c.opt.SendTimeout)
				defer cancel()
				_, _ = c.Replay(ctx, node) // what did not arrive stays
			})
		}
		if c.life.Err() == nil {
			c.replaying()
		}
	})
}
