package coord

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bigset/server/peer"
)

// Coordinator runs clients' operations on sets at a quorum of their replicas. New makes one. It may be used by any number of goroutines.
type Coordinator struct {
	opt  Options
	run  Runner
	life context.Context // ends with Close
	end  context.CancelFunc

	rounds   *rounds
	stamps   stamps
	gathered gathered

	mu           sync.Mutex
	closed       bool
	running      int                               // tasks in progress in the background
	left         map[*operation]context.CancelFunc // that were answered while their replica is still at work
	sends        map[string]*load                  // the part of running that goes to each node; idle nodes are left out
	drained      Signal
	reads        int                  // in progress
	readsWaiting []Signal             // reads that wait for room, the oldest first
	heals        map[string]time.Time // sets of replicas that are being healed, or were healed in vain, and since when
}

// load is what is in progress to a node.
type load struct {
	sends int
	bytes int64
}

// New returns a coordinator.
func New(o Options) (*Coordinator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{opt: o, run: o.Runner, sends: map[string]*load{}, left: map[*operation]context.CancelFunc{}, rounds: newRounds(), drained: o.Runner.NewSignal()}
	c.life, c.end = context.WithCancel(context.Background())
	if o.Hints != nil && o.HintInterval > 0 {
		c.replaying()
	}
	if o.Shares != nil && o.ExchangeInterval > 0 {
		for range o.Exchanges {
			c.exchanging(o.ExchangeInterval)
		}
	}
	return c, nil
}

// Close ends the background work, and waits for it until ctx ends. What has not reached its replica becomes a hint.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	if c.running == 0 {
		c.drained.Set()
	}
	for _, end := range c.left {
		end()
	}
	c.mu.Unlock()
	c.end()
	c.sendGathered()
	return c.drained.Wait(ctx)
}

// plan returns the quorum of a request, and the replicas that take part in it.
func (c *Coordinator) plan(set []byte, q Quorum) (Quorum, placed[peer.Replica], error) {
	q, err := c.quorum(q)
	if err != nil {
		return q, placed[peer.Replica]{}, err
	}
	q, l := place(c.opt.Place(set), q)
	return q, l, nil
}

// quorum returns the quorum of a request, or ErrClosed if the coordinator is closed.
func (c *Coordinator) quorum(q Quorum) (Quorum, error) {
	q, err := q.withDefaults(c.opt.Quorum)
	if err != nil {
		return q, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return q, ErrClosed
	}
	return q, nil
}

// first returns the first n replicas of a preflist, or all if there are fewer.
func first[R any](preflist []R, n int) []R { return preflist[:min(n, len(preflist))] }

// enter begins a background task, for which Close waits until leave. It reports false when the coordinator is closed.
func (c *Coordinator) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running++
	}
	return !c.closed
}

func (c *Coordinator) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked()
}

// leaveOperation is leave for the task of an operation.
func (c *Coordinator) leaveOperation(o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.left = true
	delete(c.left, o)
	c.leaveLocked()
}

// goesOn records that the task of an operation continues in the background, until Close ends it.
func (c *Coordinator) goesOn(o *operation, end context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.left:
	case c.closed:
		end()
	default:
		c.left[o] = end
	}
}

func (c *Coordinator) leaveLocked() {
	if c.running--; c.closed && c.running == 0 {
		c.drained.Set()
	}
}

// take begins to send bytes to a node, or returns an error if there is no room. Each node has its own room: a node that hangs takes none of
// the others'.
func (c *Coordinator) take(node string, bytes int64) error { return c.takeMany(node, 1, bytes) }

// takeMany is take for several sends.
func (c *Coordinator) takeMany(node string, n int, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	l := c.sends[node]
	if l == nil {
		l = &load{}
	}
	if l.sends+n > 1 && (l.sends+n > c.opt.SendsMax || l.bytes+bytes > c.opt.SendBytesMax) {
		return fmt.Errorf("%w: %d sends of %d bytes to %s", ErrBusy, l.sends, l.bytes, node)
	}
	c.sends[node] = l
	l.sends += n
	l.bytes += bytes
	c.running += n
	return nil
}

func (c *Coordinator) give(node string, bytes int64) { c.giveMany(node, 1, bytes) }

func (c *Coordinator) giveMany(node string, n int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.sends[node]
	l.bytes -= bytes
	if l.sends -= n; l.sends == 0 {
		delete(c.sends, node)
	}
	c.running -= n - 1
	c.leaveLocked()
}
