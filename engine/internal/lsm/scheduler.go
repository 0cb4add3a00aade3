package lsm

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine/internal/lockorder"
)

// scheduler lets Pebble run as many compactions as its options allow, but none in the first second after an existing store was
// opened. Closing waits for a running compaction, so a process that adds one element to a large store would otherwise pay for what
// an earlier process left to compact. A second flush, a call to Compact, or a filling level 0 ends the pause at once.
//
// Pebble's own locks are taken before mu, so mu is not held while Pebble is called, except for GetAllowedWithoutPermission, which
// takes no lock. Only loop grants, so that Unregister has one goroutine to wait for.
type scheduler struct {
	db   pebble.DBForCompaction
	rest time.Duration
	poke chan struct{} // something has changed
	stop chan struct{}
	done chan struct{}
	// paused reports whether no compaction may begin for now; nil is never. It is called again every schedulerPeriod.
	paused func() bool

	mu      lockorder.Mutex[lockorder.SchedulerMu]
	running int
	resting bool
	ended   bool // nothing begins any more
}

// openRest is how long an existing store rests after it is opened.
const openRest = time.Second

// schedulerPeriod is how often the number of compactions that Pebble allows is checked: it grows with the work to be done.
const schedulerPeriod = 100 * time.Millisecond

var (
	_ pebble.CompactionScheduler   = (*scheduler)(nil)
	_ pebble.CompactionGrantHandle = (*scheduler)(nil)
)

// newScheduler returns the scheduler of a Pebble that is about to be opened.
func newScheduler(rest time.Duration) *scheduler {
	return &scheduler{rest: rest, resting: rest > 0,
		poke: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Register implements pebble.CompactionScheduler.
func (c *scheduler) Register(_ int, db pebble.DBForCompaction) {
	c.db = db
	go c.loop()
}

// Unregister implements pebble.CompactionScheduler.
func (c *scheduler) Unregister() { c.end() }

// end prevents further compactions, and returns when none is being granted. It may be called again.
func (c *scheduler) end() {
	c.abandon()
	<-c.done
}

// abandon ends the scheduler of a Pebble that could not be opened, because Pebble itself does not: compactions that were granted
// later would work in a folder that may belong to another process by then. It does not wait, because Pebble may have kept its
// locks.
func (c *scheduler) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.stop)
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) { return c.take(), c }

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (c *scheduler) UpdateGetAllowedWithoutPermission() { c.wake() }

// Done implements pebble.CompactionGrantHandle: a compaction has ended.
func (c *scheduler) Done() {
	c.give()
	c.wake()
}

// Started, MeasureCPU and CumulativeStats implement pebble.CompactionGrantHandle.
func (c *scheduler) Started()                                            {}
func (c *scheduler) MeasureCPU(pebble.CompactionGoroutineKind)           {}
func (c *scheduler) CumulativeStats(_ pebble.CompactionGrantHandleStats) {}

// endRest lets compactions begin, if they rest.
func (c *scheduler) endRest() {
	c.mu.Lock()
	rested := c.resting
	c.resting = false
	c.mu.Unlock()
	if rested {
		c.wake()
	}
}

// take takes one of the compactions that may run now.
func (c *scheduler) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting || c.ended || c.paused != nil && c.paused() || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.running++
	return true
}

func (c *scheduler) give() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}

func (c *scheduler) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

func (c *scheduler) loop() {
	defer close(c.done)
	rest := time.NewTimer(c.rest)
	defer rest.Stop()
	look := time.NewTicker(schedulerPeriod)
	defer look.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-rest.C:
			c.endRest()
		case <-c.poke:
		case <-look.C:
		}
		c.grant()
	}
}

// grant starts the compactions that Pebble is waiting for, as far as they are allowed.
func (c *scheduler) grant() {
	for c.take() {
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.db.Schedule(c) {
			c.give()
			return
		}
	}
}
