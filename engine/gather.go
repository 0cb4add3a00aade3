package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"bigset"
)

// Requests that come over a network arrive one by one. A leader that closed its group right after the last sync would
// find few of them: each group costs a batch, a clock key and a sync, and that work delays the next requests. So a
// leader that knows of more requests waits a little for as many as were under way when the last sync of the set
// ended. Those have since been answered or wait in the queue. It waits for part of the time that a sync takes, so a
// request takes at most that much longer. A single writer never waits.

const (
	// gatherPart divides a sync's time: a leader waits for at most 1/gatherPart of it.
	gatherPart = 2
	// gatherLeast and gatherMost bound the wait. Below gatherLeast a timer takes longer than the wait: the leader
	// only lets ready goroutines run.
	gatherLeast = 40 * time.Microsecond
	gatherMost  = time.Millisecond
	// gatherCrowd is how many requests make a timer worthwhile: fewer may arrive later than the leader would wait.
	gatherCrowd = 5
)

// gathering is what the leaders of a set know of the requests under way. queueMu guards it.
type gathering struct {
	syncing int           // requests of groups that wait for their sync
	expect  int           // requests that were under way when the last sync ended
	ended   time.Time     // when the last sync ended
	enough  int           // how many requests in the queue end the leader's wait; 0 while it does not wait
	full    chan struct{} // receives when enough is reached; has room for one
}

// crowd reports whether a leader should wait for more requests than it has, and for how many.
func (g *gathering) crowd(have int, most time.Duration) (expect int, more bool) {
	expect = min(g.expect, groupOpsMax)
	return expect, have < expect && time.Since(g.ended) < 2*gatherMost+most
}

// joined wakes the leader if enough requests are in the queue.
func (g *gathering) joined(queue int) {
	if g.enough > 0 && queue >= g.enough {
		g.enough = 0
		select {
		case g.full <- struct{}{}:
		default:
		}
	}
}

// await begins the leader's wait.
func (g *gathering) await(n int) <-chan struct{} {
	if g.full == nil {
		g.full = make(chan struct{}, 1)
	}
	select {
	case <-g.full: // left by a wait that timed out
	default:
	}
	g.enough = n
	return g.full
}

// gather waits until as many requests are in the queue as are known to be under way, or until its time is up. The
// leader calls it; its own request is the first in the queue.
func (s *Store) gather(st *set) {
	most := s.syncTime.part()
	st.queueMu.Lock()
	n, more := st.gathering.crowd(len(st.queue), most)
	first := st.queue[0]
	if !more || first.alone != nil || first.opt.Durability != bigset.Sync {
		st.queueMu.Unlock()
		return
	}
	if most == 0 || n < gatherCrowd {
		st.queueMu.Unlock()
		runtime.Gosched()
		return
	}
	full := st.gathering.await(n)
	st.queueMu.Unlock()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-full:
	case <-t.C:
	}
	st.queueMu.Lock()
	st.gathering.enough = 0
	st.queueMu.Unlock()
}

// beginSync records that a group of n waits for its sync. It reports whether to pass the lead on before the sync has
// ended. That is so if nobody else writes the set, or if the group before passed it on early: the next group would be
// as small.
func (st *set) beginSync(n int) (early bool) {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	st.gathering.syncing += n
	return st.gathering.syncing == 1 && st.gathering.expect <= 1 // the request is alone
}

// endSync records that a group of n has been synced.
func (st *set) endSync(n int) {
	st.queueMu.Lock()
	defer st.queueMu.Unlock()
	st.gathering.syncing -= n
	st.gathering.expect = n + st.gathering.syncing + len(st.queue)
	st.gathering.ended = time.Now()
}

// syncTime is about how long a sync takes: an average that favours the most recent ones. The zero value has seen
// none.
type syncTime struct{ nanos atomic.Int64 }

// observe counts a sync. Two that are observed at the same moment may count as one.
func (t *syncTime) observe(d time.Duration) {
	was := t.nanos.Load()
	t.nanos.Store(was + (int64(d)-was)/8)
}

// part returns how long a leader may wait for others; 0 if that is not worth a timer.
func (t *syncTime) part() time.Duration {
	d := min(time.Duration(t.nanos.Load())/gatherPart, gatherMost)
	if d < gatherLeast {
		return 0
	}
	return d
}
