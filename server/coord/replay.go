package coord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"bigset"
	"bigset/server/peer"
)

// Backlog is the backlog of hints for a node.
type Backlog struct {
	Count  int       // number of hints
	Bytes  int64     // their size
	Oldest time.Time // when the oldest was added; zero if there is none
}

// Backlog returns the backlog for a node. It takes constant time.
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

// Nodes returns the nodes that have hints, ascending.
func (h *Hints) Nodes() (nodes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for node, b := range h.nodes {
		if b.count > 0 {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// replayFailsMax is how many sets and slices may fail in one replay before the node is considered away.
const replayFailsMax = 4

// Targets find a node's replicas, or return nil if it has none, and define how many hints they are given at once. A nil function finds
// none.
type Targets struct {
	Set   func(set []byte) peer.Replica
	Slice func(filter []byte, slice uint32) peer.SliceReplica

	// Window is the maximum number of hints in progress; the default is 1. A replay begins with one, doubles that while all arrive, and
	// begins with one again when one does not: so a node that is away or busy is seldom called in vain.
	Window int
	// Runner runs the hints of a window; the default is Goroutines.
	Runner Runner
}

// delivery returns how to give a hint to its replica, and the hint's set or slice. If the node has no replica, d.give is nil.
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

// windowBytes is the maximum size of the hints in progress to one node, unless a single one is larger.
const windowBytes = 4 << 20

// Replay sends a node its hints, in the order in which they were added, a window at a time. A hint is removed when the node has
// acknowledged it: a delta when it is on disk there. Each delta of a window is synced as if it came alone, but all of them reach the
// replica together, so that its store commits and syncs them together. The order within a window is undefined, which a replica's Apply and
// ApplyMarks allow.
//
// If a hint does not reach the node, the hints of its set or slice in later windows wait for the next replay, and the others continue, so
// that a set that is damaged there holds up no other. After a few such failures the replay ends. If the node has no replica of a set or
// slice, the hint stays until it is too old, and so does a hint of another version of this program. Replay returns how many hints have
// arrived, and why others have not. If a replay for the node is already in progress, it returns at once.
func (h *Hints) Replay(ctx context.Context, node string, to Targets) (sent int, err error) {
	if !h.claim(node) {
		return 0, nil
	}
	defer h.release(node)
	h.expire(node)
	if to.Runner == nil {
		to.Runner = Goroutines{}
	}
	r := &replay{h: h, node: node, to: to, failed: map[string]error{}}
	err = r.run(ctx)
	if r.sent > 0 {
		h.opt.Events(Event{Kind: EventHintReplayed, Node: node, Count: r.sent, Bytes: r.bytes})
	}
	if r.kept.Count > 0 {
		h.opt.Events(r.kept)
	}
	return r.sent, errors.Join(append(slices.Collect(maps.Values(r.failed)), err)...)
}

// replay is one Replay.
type replay struct {
	h      *Hints
	node   string
	to     Targets
	last   uint64 // the id of the last hint that was considered
	sent   int
	bytes  int64
	kept   Event            // hints that this version can't read, and that stay
	failed map[string]error // by set or slice
}

// pending is a hint of a window, with its outcome.
type pending struct {
	*hint
	delivery
	of  string // the set or slice
	err error
}

// run sends window after window.
func (r *replay) run(ctx context.Context) error {
	for size := 1; ; {
		w, err := r.window(size)
		before := len(r.failed)
		r.give(ctx, w)
		r.settle(w)
		switch failed := len(r.failed); {
		case failed >= replayFailsMax || failed > 0 && ctx.Err() != nil:
			return nil
		case err != nil || len(w) == 0:
			return err
		case failed > before:
			size = 1
		default:
			size = min(2*size, max(1, r.to.Window))
		}
	}
}

// window returns the next hints that can be sent. It removes damaged ones on the way.
func (r *replay) window(size int) (w []pending, err error) {
	for total := int64(0); len(w) < size && total < windowBytes; {
		e, what, err := r.h.next(r.node, r.last)
		if e == nil {
			return w, err
		}
		if err != nil && !errors.Is(err, errRecord) && !errors.Is(err, peer.ErrFrame) {
			return w, fmt.Errorf("coord: read a hint for %s: %w", r.node, err)
		}
		r.last = e.id
		if foreign(err) {
			r.kept.Kind, r.kept.Node, r.kept.Err = EventHintFailed, r.node, err
			r.kept.Count++
			r.kept.Bytes += e.size
			continue
		}
		if err != nil {
			r.h.opt.Events(Event{Kind: EventHintFailed, Node: r.node, Count: 1, Bytes: e.size, Err: err})
			r.h.done(e)
			continue
		}
		d, of := r.to.delivery(what)
		if d.give == nil || r.failed[of] != nil {
			continue
		}
		w = append(w, pending{hint: e, delivery: d, of: of})
		total += e.size
	}
	return w, nil
}

// give gives the node all hints of a window at once, and returns when each has an answer or an error.
func (r *replay) give(ctx context.Context, w []pending) {
	switch len(w) {
	case 0:
		return
	case 1:
		w[0].err = w[0].delivery.give(ctx)
		return
	}
	var left atomic.Int64
	left.Store(int64(len(w)))
	all := r.to.Runner.NewSignal()
	for i := range w {
		r.to.Runner.Go(func() {
			w[i].err = w[i].delivery.give(ctx)
			if left.Add(-1) == 0 {
				all.Set()
			}
		})
	}
	_ = all.Wait(context.WithoutCancel(ctx)) // each ends with ctx
}

// settle removes the hints that have arrived or are refused for good.
func (r *replay) settle(w []pending) {
	var done []*hint
	for i := range w {
		p := &w[i]
		switch {
		case p.err == nil:
			r.sent++
			r.bytes += p.hint.size
		case peer.Refused(p.err):
			r.h.opt.Events(Event{Kind: EventRefused, Node: r.node, Set: p.name, Count: 1, Bytes: p.hint.size, Err: p.err})
		default:
			r.failed[p.of] = fmt.Errorf("coord: replay to %s: %w", r.node, p.err)
			continue
		}
		done = append(done, p.hint)
	}
	r.h.done(done...)
}

// foreign reports whether a hint that can't be read may be of another version of this program. Such a hint stays until that version runs
// again, or until it is too old.
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

// expireEvery is how often a node's hints are looked through for those that are too old: there may be a million.
const expireEvery = time.Minute

// expire drops a node's hints that are too old.
func (h *Hints) expire(node string) {
	var old []*hint
	var bytes int64
	h.mu.Lock()
	now := h.opt.Now()
	b := h.nodes[node]
	if b == nil || !b.looked.IsZero() && now.Sub(b.looked).Abs() < expireEvery { // the clock may jump
		h.mu.Unlock()
		return
	}
	b.looked = now
	before := now.Add(-h.opt.AgeMax).Unix()
	h.index.AscendGreaterOrEqual(&hint{node: node}, func(e *hint) bool {
		if e.node == node && e.at < before {
			old = append(old, e)
			bytes += e.size
		}
		return e.node == node
	})
	h.mu.Unlock()
	h.done(old...)
	if len(old) > 0 {
		h.opt.Events(Event{Kind: EventHintExpired, Node: node, Count: len(old), Bytes: bytes})
	}
}

// next reads the node's first hint after an id; nil if there is none or the hints are closed. An error with a hint says that the hint can't
// be read.
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

// Replay sends a node its hints; see Hints.Replay.
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
		Window: c.opt.HintWindow, Runner: c.run,
	})
}

// at returns the replica of a node, or the zero value.
func at[R interface{ Member() peer.Member }](node string, preflist []R) (found R) {
	for _, rep := range preflist {
		if rep.Member().Node == node {
			return rep
		}
	}
	return found
}

// replaying does Replay for all nodes that have hints, in parallel, and repeats that until the coordinator is closed.
func (c *Coordinator) replaying() {
	c.run.After(c.opt.HintInterval, func() {
		for _, node := range c.opt.Hints.Nodes() {
			if !c.enter() {
				return
			}
			c.run.Go(func() { // so that a node that hangs does not delay the others
				defer c.leave()
				ctx, cancel := Deadline(c.life, c.run, c.opt.SendTimeout)
				defer cancel()
				_, _ = c.Replay(ctx, node) // what did not arrive stays
			})
		}
		if c.life.Err() == nil {
			c.replaying()
		}
	})
}
