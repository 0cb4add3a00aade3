package coord

import (
	"context"
	"fmt"
	"slices"
)

// beginRead waits until fewer than Options.ReadsMax reads are in progress, in order of arrival, and takes room for another one until
// endRead. When its time is up, the error is ErrBusy: no replica was asked.
func (c *Coordinator) beginRead(ctx context.Context) error {
	c.mu.Lock()
	if c.reads < c.opt.ReadsMax {
		c.reads++
		c.mu.Unlock()
		return nil
	}
	room := c.run.NewSignal()
	c.readsWaiting = append(c.readsWaiting, room)
	c.mu.Unlock()
	ctx, cancel := Deadline(ctx, c.run, c.opt.Timeout)
	defer cancel()
	err := room.Wait(ctx)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.readsWaiting, room); i >= 0 {
		c.readsWaiting = slices.Delete(c.readsWaiting, i, i+1)
	} else { // the room came too late
		c.endReadLocked()
	}
	return fmt.Errorf("%w: %d reads are under way: %w", ErrBusy, c.opt.ReadsMax, err)
}

// endRead gives the room of a read to the reader that has waited longest.
func (c *Coordinator) endRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endReadLocked()
}

func (c *Coordinator) endReadLocked() {
	if len(c.readsWaiting) == 0 {
		c.reads--
		return
	}
	next := c.readsWaiting[0]
	c.readsWaiting = slices.Delete(c.readsWaiting, 0, 1)
	next.Set()
}
