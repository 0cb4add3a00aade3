package resp

import (
	"context"
	"math"
	"time"

	"bigset/server/door"
)

// acks is how many replicas have acknowledged a change: that of its parts which the fewest have.
type acks struct {
	least int         // of the parts whose number does not rise any more
	open  []door.Acks // the other parts
}

// partsKept bounds open, which is memory of a connection: the number of a part beyond that does not rise.
const partsKept = 128

// none says that nobody is known to have the change.
func (a *acks) none() { a.begin(0) }

func (a *acks) begin(least int) {
	clear(a.open)
	if a.open = a.open[:0]; cap(a.open) > 1 {
		a.open = nil
	}
	a.least = least
}

// changed is called after a change. One that was no event has no replicas, and leaves the change before as the last.
func (a *acks) changed(acked int, later door.Acks) {
	if acked == 0 {
		return
	}
	a.begin(acked)
	if later != nil {
		a.least, a.open = math.MaxInt, append(a.open, later)
	}
}

// join adds the parts of another change.
func (a *acks) join(other *acks) {
	a.least = min(a.least, other.least)
	for _, o := range other.open {
		if len(a.open) == partsKept {
			a.least = min(a.least, o.Wait(ended, 0))
			continue
		}
		a.open = append(a.open, o)
	}
}

// wait returns the number, as soon as it is n, or does not rise any more, or ctx has ended.
func (a *acks) wait(ctx context.Context, n int) int {
	least := a.least
	for _, o := range a.open {
		least = min(least, o.Wait(ctx, min(n, least)))
	}
	return least
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

const (
	// waitMost is the longest time that WAIT waits.
	waitMost = time.Minute
	// waitsMax is the default of Server.waitsMax.
	waitsMax = 10_000
)

// wait answers with how many other replicas have acknowledged the last change of the connection. It waits until they are as many as asked for, no
// other one can acknowledge it, or the time is up.
func (c *conn) wait(ctx context.Context, args [][]byte) {
	n, ok := number(args[1])
	ms, okTime := number(args[2])
	switch {
	case !ok:
		c.fail(errInteger)
	case !okTime:
		c.fail("ERR timeout is not an integer or out of range")
	case ms < 0:
		c.fail("ERR timeout is negative")
	default:
		c.int(int64(max(0, c.awaitAcks(ctx, n, ms)-1)))
	}
}

// awaitAcks returns how many replicas have the last change. One of them is the replica that made it, and n are to have it besides.
func (c *conn) awaitAcks(ctx context.Context, n, ms int64) int {
	want := int(min(max(n, 0), math.MaxInt32-1)) + 1
	has := c.acked.wait(ended, want)
	if has >= want || len(c.acked.open) == 0 {
		return has
	}
	defer c.s.counters.waits.Add(-1)
	if c.s.counters.waits.Add(1) > c.s.waitsMax {
		return has
	}
	c.MayWait()
	gone, stop := c.UntilGone()
	defer stop()
	most := waitMost
	if ms > 0 {
		most = time.Duration(min(ms, int64(waitMost/time.Millisecond))) * time.Millisecond
	}
	until, cancel := context.WithTimeout(gone, most)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return c.acked.wait(until, want)
}
