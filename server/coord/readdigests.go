package coord

import (
	"context"
	"errors"
	"fmt"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/readcore"
	"bigset/server/peer"
)

// digestMean is the approximate number of elements in a part of which a replica sends a digest. A part must end within the chunks of the
// first stream that are in memory.
const digestMean = 64

// countsAheadMax is how many answers with digests may wait to be compared. An answer covers as many elements as sixteen chunks: with one, the
// other replica pauses while the coordinator goes through the answer before.
const countsAheadMax = 3

// digestRunMin is how many times Options.DigestAfter elements digests must have saved for the next digests to be requested just as early.
const digestRunMin = 4

// digesting decides when a read asks for digests: after a number of elements in which the replicas agreed. If they then turn out to differ,
// the counting was in vain. So digesting waits twice as long each time, unless digests have saved far more than that before.
type digesting struct {
	least int  // Options.DigestAfter; 0 means never
	wait  int  // elements in agreement after which digests are requested
	calm  int  // elements since replicas differed or one failed
	never bool // a replica runs an older program
}

// merged records what was merged.
func (d *digesting) merged(r *readcore.Result) {
	if d.calm += len(r.Elements); len(r.Lacking) > 0 {
		d.calm = 0
	}
}

// failed records that a replica failed or differs.
func (d *digesting) failed() { d.calm = 0 }

// due reports whether it is time to ask for digests.
func (d *digesting) due() bool { return d.least > 0 && !d.never && d.calm >= d.wait }

// ended records that digests ended because the replicas differ, after saved elements.
func (d *digesting) ended(saved uint64) {
	d.calm = 0
	if d.wait *= 2; saved >= digestRunMin*uint64(d.least) {
		d.wait = d.least
	}
}

// errUnlike is the error for a replica that has shown other elements than the first one.
var errUnlike = errors.New("coord: a replica's digests differ")

// digest asks all replicas but the first for digests instead of elements, if possible.
func (g *gathering) digest() {
	first := g.streams[0]
	for i, s := range g.streams[1:] {
		if s.match != nil {
			continue
		}
		rest := g.merge.Rest(0)
		if first.done && rest == nil {
			return
		}
		after, ok := g.merge.Resume(i + 1)
		if !ok {
			continue
		}
		m := &match{}
		if rest != nil {
			m.show(rest)
		}
		g.mu.Lock()
		for _, c := range first.chunks[:g.shown] {
			m.show(c)
		}
		g.mu.Unlock()
		g.again(i+1, m, after)
	}
}

// again restarts stream i at its replica: for digests, or for chunks if m is nil.
func (g *gathering) again(i int, m *match, after []byte) {
	s := g.streams[i]
	s.stop()
	g.pump(i, &stream{g: g, rep: s.rep, begun: true, match: m}, after)
}

// unlike restarts a stream of digests as a stream of chunks, because the digests differ or its replica can't make them.
func (g *gathering) unlike(i int, cause error) {
	if errors.Is(cause, peer.ErrFrameKind) {
		g.digests.never = true
	}
	g.digests.ended(g.streams[i].match.alike)
	if after, ok := g.merge.Resume(i); ok {
		g.again(i, nil, after)
	}
}

// whole restarts all streams of digests as streams of chunks: the first stream has failed, so nothing can stand for theirs.
func (g *gathering) whole() {
	for i, s := range g.streams {
		if s.match == nil {
			continue
		}
		if after, ok := g.merge.Resume(i); ok {
			g.again(i, nil, after)
		}
	}
}

// show gives the matches what the first stream has delivered. It is called with mu held.
func (g *gathering) show() {
	for first := g.streams[0]; g.shown < len(first.chunks); g.shown++ {
		for _, s := range g.streams {
			if s.match != nil {
				s.match.show(first.chunks[g.shown])
			}
		}
	}
}

// matched returns the next chunk of a stream of digests, or nil if it must wait for an answer or for the first stream. It is called with mu
// held.
func (g *gathering) matched(s *stream) (*fold.Chunk, error) {
	for {
		chunk, what := s.match.take()
		switch what {
		case matchAlike:
			return chunk, nil
		case matchUnlike:
			return nil, errUnlike
		case matchNoChunk:
			if first := g.streams[0]; len(first.chunks) >= aheadMax || first.err != nil { // no chunk comes before the merge continues, which waits for this stream
				return nil, errUnlike
			}
			return nil, nil
		}
		if len(s.counts) == 0 {
			return nil, s.err
		}
		s.match.answer(s.counts[0])
		s.counts = s.counts[1:]
		s.taken()
	}
}

// pumpDigests requests digests of the elements of a read, up to countsAheadMax answers ahead.
func (s *stream) pumpDigests(ctx context.Context, o bigset.ReadOptions) {
	r := bigset.CountRange{From: o.From, To: o.To, Prefix: o.Prefix, After: o.After, Mean: digestMean, Clock: true}
	var from peer.Member
	var seen *clock.Clock
	for {
		counts, by, err := s.rep.CountParts(ctx, s.g.req.Set, r)
		switch {
		case err != nil:
		case by.State != peer.Normal:
			err = fmt.Errorf("%w: %v", peer.ErrJoining, by)
		case !goesOn(&counts, r.After):
			err = fmt.Errorf("%w: digests of no parts after %.64q", peer.ErrAnswer, r.After)
		case seen != nil && (!by.Is(from) || !counts.Clock.Descends(seen)):
			err = fmt.Errorf("%w: %v has forgotten what it had seen", peer.ErrAnswer, by)
		}
		if err != nil {
			s.end(err)
			return
		}
		from, seen = by, counts.Clock
		room, ok := s.offer(nil, &counts)
		if !ok || counts.Done || room != nil && room.Wait(ctx) != nil {
			return
		}
		r.After = counts.Parts[len(counts.Parts)-1].Bound
	}
}
