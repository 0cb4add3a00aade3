package remote

import (
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/fold"
	"bigset/keyscheme"
	"bigset/server/peer"
)

// stream sends the items of a sequence. It enters the gate before it takes each part from the sequence, and leaves before it sends the
// part. So a wait for a slow consumer does not hold up a change of the map, and no part is of a time after the change. stream calls put
// with each item, and once with after set when the sequence has ended. put returns a function that sends what is due, or nil if nothing is
// due yet.
func stream[V any](v *visit, c Class, first, last keyscheme.Slot, seq iter.Seq2[V, error], put func(item V, after bool) func(by peer.Member) error) ([]byte, error) {
	leave, err := v.enter(c, first, last)
	if err != nil {
		return nil, err
	}
	defer func() { leave() }()
	away := func(due func(peer.Member) error) error {
		by := v.rep.Member()
		leave()
		leave = func() {}
		return due(by)
	}
	for item, err := range seq {
		if err != nil {
			return nil, v.failed(v.rep.Member(), err)
		}
		due := put(item, false)
		if due == nil {
			continue
		}
		if err := away(due); err != nil {
			return nil, err
		}
		again, err := v.enter(c, first, last)
		if err != nil {
			return nil, err
		}
		leave = again
	}
	var none V
	if due := put(none, true); due != nil {
		if err := away(due); err != nil {
			return nil, err
		}
	}
	return v.answer(nil, v.rep.Member(), peer.Done{})
}

// part sends a part.
func (v *visit) part(by peer.Member, m peer.Message) error {
	buf := &v.bufs[v.sent%2]
	b, err := v.answer((*buf)[:0], by, m)
	if err != nil {
		return err
	}
	*buf = b
	v.sent++
	return v.send(b)
}

// batchMax is the maximum number of digests in one part.
const batchMax = 1024

// batches sends digests, many in a part.
func batches[P interface {
	~[]V
	peer.Message
}, V any](v *visit, first, last keyscheme.Slot, seq iter.Seq2[V, error]) ([]byte, error) {
	var batch P
	return stream(v, Compare, first, last, seq, func(item V, after bool) func(peer.Member) error {
		if !after {
			batch = append(batch, item)
		}
		if len(batch) == 0 || len(batch) < batchMax && !after {
			return nil
		}
		return func(by peer.Member) error {
			err := v.part(by, batch)
			batch = batch[:0]
			return err
		}
	})
}

func (v *visit) locate(m peer.Locate) ([]byte, error) {
	at := keyscheme.SetSlot(m.Set)
	return stream(v, Compare, at, at, v.rep.Locate(v.ctx, m.Set, m.Dots), func(f bigset.Facts, after bool) func(peer.Member) error {
		if after {
			return nil
		}
		return func(by peer.Member) error { return v.part(by, peer.Facts(f)) }
	})
}

func (v *visit) read(m peer.Read) ([]byte, error) {
	at := keyscheme.SetSlot(m.Set)
	var scrap *fold.Chunk // a chunk that has been sent
	m.Options.Scrap = func() *fold.Chunk {
		c := scrap
		scrap = nil
		return c
	}
	var known *clock.Clock // the latest clock that was sent
	return stream(v, Answer, at, at, v.rep.Read(v.ctx, m.Set, m.Options), func(c *fold.Chunk, after bool) func(peer.Member) error {
		if after {
			return nil
		}
		return func(by peer.Member) error {
			sent := peer.Chunk(*c)
			if sent.Clock == known {
				sent.Clock = nil
			}
			known = c.Clock
			if err := v.chunk(by, sent); err != nil {
				return err
			}
			scrap = c
			return nil
		}
	})
}

// writeAhead does a write, sends the result when it is applied, and answers when it is on disk. It leaves the gate when the write has
// ended, not when the other side has taken the answers.
func (v *visit) writeAhead(m peer.Write) ([]byte, error) {
	type outcome struct {
		result bigset.Result
		by     peer.Member
		err    error
	}
	var applied *bigset.Result
	var refused error // by the gate
	var o outcome
	begin, begun := v.run.NewSignal() // set when applied or what end says is
	end, ended := v.run.NewSignal()   // set when refused or o is
	m.Options.Applied = func(r bigset.Result, _ *bigset.Group) {
		applied = &r
		begin()
	}
	v.run.Go(func() {
		defer begin()
		defer end()
		at := keyscheme.SetSlot(m.Set)
		leave, err := v.enter(Mint, at, at)
		if err != nil {
			refused = err
			return
		}
		r, by, err := v.rep.Write(v.ctx, m.Set, m.Ops, m.Options)
		leave()
		o = outcome{r, by, err}
	})
	var sent error
	begun()
	switch {
	case applied != nil:
		sent = v.part(v.rep.Member(), peer.Written(*applied))
		ended() // even if the caller has stopped waiting
	case refused != nil:
		return nil, refused
	case o.err == nil:
		sent = v.part(o.by, peer.Written(o.result))
	}
	switch {
	case o.err != nil:
		return nil, v.failed(o.by, o.err)
	case sent != nil:
		return nil, sent
	}
	return v.answer(nil, o.by, peer.Done{})
}

// chunk sends a chunk, in parts if it is too large for a frame: each part says up to where it is complete.
func (v *visit) chunk(by peer.Member, c peer.Chunk) error {
	if n := len(c.Elements); n > 1 && chunkBytes(&c) > chunkBytesMax {
		half := n / 2
		if err := v.chunk(by, peer.Chunk{Clock: c.Clock, Elements: c.Elements[:half], Bound: c.Elements[half-1].Name}); err != nil {
			return err
		}
		c.Clock, c.Elements = nil, c.Elements[half:]
		return v.chunk(by, c)
	}
	return v.part(by, c)
}

// chunkBytesMax is the size above which a chunk is sent in parts: the clock and the names of actors also need room.
const chunkBytesMax = 16 << 20

// chunkBytes returns the approximate size of the elements of a chunk in a frame.
func chunkBytes(c *peer.Chunk) (n int) {
	if len(c.Elements) > peer.ElementsMax {
		return chunkBytesMax + 1
	}
	for i := range c.Elements {
		n += len(c.Elements[i].Name) + 4 + 11*len(c.Elements[i].Dots)
	}
	return n
}
