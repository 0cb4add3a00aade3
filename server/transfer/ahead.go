package transfer

import (
	"bytes"
	"context"
	"errors"

	"bigset"
	"bigset/server/peer"
)

// export is a chunk that another goroutine reads ahead.
type export struct {
	set, after []byte
	cancel     context.CancelFunc
	done       chan struct{}
	portion    *bigset.Portion
	member     peer.Member
	err        error
}

// readAhead begins to read a chunk.
func (c *Copy) readAhead(ctx context.Context, set, after []byte) {
	c.dropAhead()
	ctx, cancel := context.WithCancel(ctx)
	e := &export{set: set, after: after, cancel: cancel, done: make(chan struct{})}
	c.ahead = e
	from, chunk := c.from, c.m.opt.ChunkBytes
	go func() {
		defer close(e.done)
		e.portion, e.member, e.err = from.Export(ctx, set, after, chunk)
	}()
}

// readNext begins to read the first chunk of the next set if the receiver has never heard of that set: otherwise the receiver may have most
// of it.
func (c *Copy) readNext(ctx context.Context, set []byte) error {
	_, _, err := c.m.to.State(ctx, set)
	if errors.Is(err, bigset.ErrNotFound) {
		c.readAhead(ctx, set, nil)
		return nil
	}
	return err
}

// isAhead reports whether a chunk of a set is being read ahead.
func (c *Copy) isAhead(set []byte) bool { return c.ahead != nil && bytes.Equal(c.ahead.set, set) }

// export returns a chunk: the one read ahead if it is that chunk.
func (c *Copy) export(ctx context.Context, set, after []byte) (*bigset.Portion, peer.Member, error) {
	if e := c.ahead; e != nil && bytes.Equal(e.set, set) && bytes.Equal(e.after, after) {
		<-e.done
		c.dropAhead()
		if e.err == nil {
			return e.portion, e.member, nil
		}
	}
	return c.from.Export(ctx, set, after, c.m.opt.ChunkBytes)
}

// dropAhead discards the chunk read ahead.
func (c *Copy) dropAhead() {
	if e := c.ahead; e != nil {
		e.cancel()
		<-e.done
		c.ahead = nil
	}
}
