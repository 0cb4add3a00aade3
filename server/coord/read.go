package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"bigset"
	"bigset/fold"
	"bigset/readcore"
	"bigset/server/peer"
)

// Read is a client's request to read a set, or a part of it.
type Read struct {
	Set     []byte
	Options bigset.ReadOptions
	Quorum  Quorum
	// NotFoundFails says that a replica that has never heard of the set counts as failed. Otherwise it counts as one that has seen nothing
	// of it, and the set is not found if all R say so.
	NotFoundFails bool
	// Passing says that the caller does not use a part after asking for the next one, so that its memory can be reused.
	Passing bool
}

// Read streams the elements that R replicas have together, in order, in parts: each as soon as it is certain, and none twice. The first
// part has the context of the whole set, and usually no elements; see readcore.Result. A replica that fails, or takes too long, is replaced
// by another in mid-stream, and a part with a second context follows. The read ends with a part that is Done, or with an error;
// *QuorumError means that no replica was left.
//
// After Options.DigestAfter elements on which the replicas agree, an ascending read without a limit asks all replicas but the first for
// digests of parts (peer.Replica.CountParts). It continues with the elements of the first replica while the digests match them: both
// replicas have then shown the same elements, by the same dots, and a merge leaves these unchanged whatever the clocks say. A chunk stands
// for another replica's if all parts up to its end were alike. From the first part that differs, that replica sends elements again, and
// what follows is merged as before. The contexts remain valid, because each answer comes with a clock that has seen everything that the
// replica's first one had; an answer without such a clock ends the stream, as a failure does. Two different contents have the same digest
// with a probability of at most 2^-64.
//
// A part is one moment at each replica; the read as a whole is not one moment of the set. An operation on the whole set must use all
// contexts that were given. At most four chunks, or answers with digests, per replica are in memory. The consumer sets the pace, may stop
// at any part, and may keep its parts unless Passing is set. The error is ErrBusy if too many reads are in progress (Options.ReadsMax).
func (c *Coordinator) Read(ctx context.Context, r Read) iter.Seq2[readcore.Result, error] {
	return func(yield func(readcore.Result, error) bool) {
		if err := c.beginRead(ctx); err != nil {
			yield(readcore.Result{}, err)
			return
		}
		defer c.endRead()
		q, l, err := c.plan(r.Set, r.Quorum)
		if err != nil {
			yield(readcore.Result{}, err)
			return
		}
		r.Set = bytes.Clone(r.Set) // repairs refer to it
		c.read(ctx, r, q, l)(yield)
	}
}

// read is Read with a given quorum and placement, within the room of a read.
func (c *Coordinator) read(ctx context.Context, r Read, q Quorum, l placed[peer.Replica]) iter.Seq2[readcore.Result, error] {
	return func(yield func(readcore.Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // this stops the replicas
		g := &gathering{c: c, ctx: ctx, req: r, q: q, spare: slices.Clone(l.read), tried: map[peer.Replica]int{}, wake: c.run.NewSignal(),
			merge: readcore.New(readcore.Options{Streams: q.R, Reverse: r.Options.Reverse, Limit: r.Options.Limit, Passing: r.Passing})}
		defer g.stop()
		if r.Options.Limit == 0 && !r.Options.Reverse && q.R > 1 {
			g.digests.least, g.digests.wait = c.opt.DigestAfter, c.opt.DigestAfter
		}
		stopped, err := g.run(yield)
		if err != nil && !stopped {
			yield(readcore.Result{}, err)
		}
	}
}

// batchSize is the number of elements in a chunk if a request does not set it.
const batchSize = 1000

// triesMax is how often a replica is asked in one read: it may recover after a failure.
const triesMax = 2

// gathering is one quorum read.
type gathering struct {
	c       *Coordinator
	ctx     context.Context
	req     Read
	q       Quorum
	merge   *readcore.Merge
	spare   []peer.Replica // not being read, in the order in which they will be
	digests digesting
	tried   map[peer.Replica]int
	errs    []error

	repaired int // elements for which repairs were sent
	hedges   int // replicas that were replaced because their first chunk took too long

	streams []*stream
	shown   int        // chunks of the first stream that wait and have been given to the matches
	mu      sync.Mutex // guards what streams deliver
	wake    Signal     // set when a stream has delivered; never nil: a stream may deliver before the next one begins
}

// aheadMax is how many chunks of a stream may wait to be taken. With one, the reader and the merger would wait for each other at every
// chunk.
const aheadMax = 3

// stream reads from one replica, ahead of what has been taken.
type stream struct {
	g      *gathering
	rep    peer.Replica
	cancel context.CancelFunc

	// Under the gathering's lock.
	chunks []*fold.Chunk        // not taken yet, aheadMax at most
	scrap  []*fold.Chunk        // chunks whose memory may be reused
	err    error                // why no more chunks will come
	room   Signal               // set when there is room for another chunk; nil while there is room
	timer  func()               // stops the wait for the next chunk
	begun  bool                 // a chunk has come
	hedged bool                 // the first chunk has less time than others
	counts []*bigset.PartCounts // the answers of a stream of digests, instead of chunks

	match *match // makes chunks of the digests; nil for a stream of chunks
	done  bool   // the last chunk was taken, or there is none
}

// run merges until the read is done.
func (g *gathering) run(yield func(readcore.Result, error) bool) (stopped bool, err error) {
	g.streams = make([]*stream, g.q.R)
	for i := range g.streams {
		if err := g.start(i, nil); err != nil {
			return false, err
		}
	}
	var wanted []int
	for {
		g.mu.Lock()
		wake := g.c.run.NewSignal()
		g.wake = wake
		g.mu.Unlock()
		progress := false
		for _, i := range g.merge.Wants(wanted[:0]) {
			took, err := g.take(i)
			if err != nil {
				return false, err
			}
			progress = progress || took
		}
		for r, ok := g.merge.Step(); ok; r, ok = g.merge.Step() {
			if r.NotFound {
				return false, fmt.Errorf("%w: %q", bigset.ErrNotFound, g.req.Set)
			}
			g.repair(r.Lacking)
			g.digests.merged(&r)
			if !yield(r, nil) {
				return true, nil
			}
			if r.Done {
				return false, nil
			}
		}
		if g.digests.due() {
			g.digest()
		}
		if progress {
			continue
		}
		if err := wake.Wait(g.ctx); err != nil {
			return false, err
		}
	}
}

// stop ends all streams.
func (g *gathering) stop() {
	for _, s := range g.streams {
		if s != nil {
			s.stop()
		}
	}
}

// take gives the merge the next chunk of stream i, if there is one.
func (g *gathering) take(i int) (took bool, err error) {
	s := g.streams[i]
	g.mu.Lock()
	if c := g.merge.Scrap(i); c != nil && s.match == nil { // the memory of a chunk that stands for another is the first stream's
		s.scrap = append(s.scrap, c)
	}
	g.show()
	chunk, failed := g.next(s)
	g.mu.Unlock()
	switch {
	case chunk != nil:
		s.done = chunk.Done
		failed = g.merge.Admit(i, chunk)
	case failed == nil:
		return false, nil
	case s.match != nil && (errors.Is(failed, errUnlike) || errors.Is(failed, peer.ErrFrameKind)):
		g.unlike(i, failed)
		return true, nil
	case errors.Is(failed, bigset.ErrNotFound) && !g.req.NotFoundFails:
		failed = g.merge.NotFound(i)
		s.done = failed == nil
	}
	if failed == nil {
		return true, nil
	}
	return true, g.replace(i, failed)
}

// replace replaces a replica that failed with another.
func (g *gathering) replace(i int, cause error) error {
	s := g.streams[i]
	s.stop()
	g.errs = append(g.errs, fmt.Errorf("%s: %w", s.rep.Member().Node, cause))
	g.mu.Lock()
	hedged := s.hedged && errors.Is(cause, context.DeadlineExceeded)
	if hedged {
		g.hedges++
		g.tried[s.rep]-- // being slow is not a failure: it may be asked again
	}
	g.mu.Unlock()
	if hedged {
		g.c.opt.Events(Event{Kind: EventHedged, Node: s.rep.Member().Node, Set: g.req.Set, Count: 1})
	}
	if g.tried[s.rep] < triesMax {
		g.spare = append(g.spare, s.rep)
	}
	g.merge.Fail(i)
	if i == 0 {
		g.whole()
	}
	g.digests.failed()
	return g.start(i, g.merge.Replace(i))
}

// start begins stream i after an element, with the next replica.
func (g *gathering) start(i int, after []byte) error {
	for len(g.spare) > 0 {
		rep := g.spare[0]
		g.spare = g.spare[1:]
		if m := rep.Member(); m.State != peer.Normal {
			g.errs = append(g.errs, fmt.Errorf("%w: %v", peer.ErrJoining, m))
			continue
		}
		g.tried[rep]++
		g.pump(i, &stream{g: g, rep: rep}, after)
		return nil
	}
	return &QuorumError{Set: g.req.Set, Answered: g.q.R - 1, Of: g.q.R, Err: errors.Join(g.errs...)}
}

// pump begins stream i after an element.
func (g *gathering) pump(i int, s *stream, after []byte) {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(g.ctx)
	g.mu.Lock()
	g.streams[i] = s
	if i == 0 {
		g.shown = 0
	}
	s.expect()
	g.mu.Unlock()
	pump := s.pump
	if s.match != nil {
		pump = s.pumpDigests
	}
	g.c.run.Go(func() { pump(ctx, g.options(after)) })
}

// options returns the options of one replica's read. It has no limit, since what a replica has may not survive the merge; but its chunks
// are limited.
func (g *gathering) options(after []byte) bigset.ReadOptions {
	o := g.req.Options
	if o.Limit > 0 && (o.BatchSize == 0 || o.BatchSize > o.Limit) {
		o.BatchSize = min(o.Limit, batchSize)
	}
	o.Limit = 0
	if after != nil {
		o.After = after
	}
	return o
}

// next takes the oldest chunk that a stream has received or its digests have yielded. Otherwise it returns nil, and why no more will come.
// It is called with mu held.
func (g *gathering) next(s *stream) (*fold.Chunk, error) {
	if s.match != nil {
		return g.matched(s)
	}
	if len(s.chunks) == 0 {
		return nil, s.err
	}
	chunk := s.chunks[0]
	s.chunks = slices.Delete(s.chunks, 0, 1)
	if s == g.streams[0] {
		g.shown--
	}
	s.taken()
	return chunk, nil
}

// taken signals that there is room for another chunk.
func (s *stream) taken() {
	if s.room != nil {
		s.room.Set()
		s.room = nil
		s.expect()
	}
}

// expect starts the timer for the next chunk.
func (s *stream) expect() {
	patience := s.g.c.opt.ChunkTimeout
	s.hedged = s.g.c.opt.HedgeTime > 0 && !s.begun && s.g.hedges < hedgesMax
	if s.hedged {
		patience = min(patience, s.g.c.opt.HedgeTime<<s.g.hedges)
	}
	s.timer = s.g.c.run.After(patience, func() { s.end(context.DeadlineExceeded) })
}

// hedgesMax is how many replicas of a read may be replaced early.
const hedgesMax = 4

// pump reads chunks while there is room for them.
func (s *stream) pump(ctx context.Context, o bigset.ReadOptions) {
	o.Scrap = s.reuse
	for chunk, err := range s.rep.Read(ctx, s.g.req.Set, o) {
		if err != nil {
			s.end(err)
			return
		}
		room, ok := s.offer(chunk, nil)
		if !ok || chunk.Done || room != nil && room.Wait(ctx) != nil {
			return
		}
	}
	s.end(errEnded)
}

// reuse returns a chunk whose memory may be reused, or nil.
func (s *stream) reuse() (c *fold.Chunk) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if last := len(s.scrap) - 1; last >= 0 {
		c, s.scrap = s.scrap[last], s.scrap[:last]
	}
	return c
}

// stop ends the read at the replica. What is still on its way is not taken.
func (s *stream) stop() {
	s.cancel()
	s.end(errEnded)
}

// errEnded is the error for a replica's stream that ended too early.
var errEnded = errors.New("coord: a replica's stream ended too early")

// offer delivers a chunk, or an answer of a stream of digests. It returns a signal that is set when there is room for the next one, or nil
// if there is room now; ok is false if no more are wanted.
func (s *stream) offer(chunk *fold.Chunk, counts *bigset.PartCounts) (room Signal, ok bool) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.timer()
	if s.err != nil {
		return nil, false
	}
	var done, full bool
	if counts != nil {
		s.counts = append(s.counts, counts)
		done, full = counts.Done, len(s.counts) >= countsAheadMax
	} else {
		s.chunks = append(s.chunks, chunk)
		done, full = chunk.Done, len(s.chunks) >= aheadMax
	}
	s.begun = true
	switch {
	case done:
	case !full:
		s.expect()
	default:
		s.room = s.g.c.run.NewSignal()
	}
	s.g.wake.Set()
	return s.room, true
}

// end records that no more chunks come.
func (s *stream) end(err error) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.timer()
	if s.err == nil {
		s.err = err
	}
	s.g.wake.Set()
}
