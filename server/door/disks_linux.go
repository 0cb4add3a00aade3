package door

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Clients that wait for each answer ask again right after they are answered. How to spend few syncs on many of them depends on what takes
// longer: a sync, or the time until all of them have been answered and have asked again, clientTime for each.
//
//	fast disk   the loop makes a call of what has arrived, and the next one while the disk syncs the first: the disk never waits for the
//	            loop, nor the loop for the disk. What is applied during a sync shares the next one.
//	slow disk   what arrives during a sync waits for its end, and then a little for the clients that were answered by it, so that all
//	            clients share each sync. Otherwise they would be two halves, each with a sync of its own.
//
// Work that does not wait for a sync is done as on a fast disk.

const (
	// clientTime is about how long the answer to a client and its next request keep the loop and the client's machine busy.
	clientTime = 30 * time.Microsecond
	// On a slow disk the next call waits for clients that were just answered: one gatherPart-th of the time of the last call, but at most
	// gatherMost.
	gatherPart = 2
	gatherMost = time.Millisecond
	// syncLeast is the shortest time of a sync that counts: what ends sooner has shared the sync before.
	syncLeast = 20 * time.Microsecond
)

// diskTime is about how long a sync takes, in nanoseconds: an average that favours the most recent ones.
type diskTime struct{ nanos atomic.Int64 }

// observe counts a sync. Two that are observed at the same moment may count as one.
func (t *diskTime) observe(d time.Duration) {
	if d >= syncLeast {
		was := t.nanos.Load()
		t.nanos.Store(was + (int64(d)-was)/8)
	}
}

// fastFor reports whether the disk is fast for a number of clients.
func (t *diskTime) fastFor(clients int) bool {
	return t.nanos.Load() < int64(clients)*int64(clientTime)
}

// syncing is a call that waits for the disk.
type syncing struct {
	list  []*sock
	wait  func()
	since time.Time
}

// mayBegin reports whether the loop's goroutine may make a call of WaitsForDisk itself, in a round that has such work of a number of clients.
func (l *loop) mayBegin(b []*sock, clients int) bool {
	pieces := 0
	for _, k := range b {
		pieces += k.c.work.Pieces
	}
	if pieces > lendPieces {
		return false
	}
	w := &b[0].c.work
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[callOf{w.Kind, string(w.Set)}] == nil && l.disk.fastFor(clients+l.syncingLocked())
}

// syncingLocked returns how many connections wait for the disk.
func (l *loop) syncingLocked() (n int) {
	for i := range l.syncs {
		n += len(l.syncs[i].list)
	}
	return n
}

// awaitDisk makes connections continue when the disk has what they wait for.
func (l *loop) awaitDisk(list []*sock, wait func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncs = append(l.syncs, syncing{list, wait, time.Now()})
	if !l.synced {
		l.synced = true
		go l.awaitSyncs()
	}
}

// awaitSyncs waits for the calls that wait for the disk, one after the other, until there are none.
func (l *loop) awaitSyncs() {
	ended := time.Now()
	for {
		l.mu.Lock()
		if len(l.syncs) == 0 {
			l.synced = false
			l.mu.Unlock()
			return
		}
		first := l.syncs[0]
		l.mu.Unlock()
		first.wait()
		began := first.since
		if began.Before(ended) {
			began = ended
		}
		ended = time.Now()
		l.disk.observe(ended.Sub(began))
		l.mu.Lock()
		l.syncs = slices.Delete(l.syncs, 0, 1)
		l.mu.Unlock()
		l.finish(first.list)
	}
}

// callQueue holds work for a call of WaitsForDisk while another call of the same work is in progress outside the loop, or has just ended. The
// loop's lock guards it.
type callQueue struct {
	list []*sock
	want int // the next call begins at once with this many
	full chan struct{}
}

// queue does work of WaitsForDisk outside the loop. Work that arrives during a call is done by the next one.
func (l *loop) queue(b []*sock) {
	of := callOf{b[0].c.work.Kind, string(b[0].c.work.Set)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.calls[of]; q != nil {
		if q.list = append(q.list, b...); len(q.list) >= q.want {
			select {
			case q.full <- struct{}{}:
			default:
			}
		}
		return
	}
	q := &callQueue{want: math.MaxInt, full: make(chan struct{}, 1)}
	l.calls[of] = q
	go l.callQueued(of, q, slices.Clone(b))
}

// callQueued does the work of a queue until it is empty.
func (l *loop) callQueued(of callOf, q *callQueue, list []*sock) {
	for len(list) > 0 {
		b := list[:callLen(list)]
		pause := l.callOnce(b)
		l.mu.Lock()
		q.list = append(slices.Clone(list[len(b):]), q.list...)
		q.want = len(b) + len(q.list)
		l.mu.Unlock()
		if pause > 0 {
			q.gather(pause)
		}
		l.mu.Lock()
		list, q.list, q.want = q.list, nil, math.MaxInt
		select {
		case <-q.full:
		default:
		}
		if len(list) == 0 {
			delete(l.calls, of)
		}
		l.mu.Unlock()
	}
}

// callOnce makes one call of a queue, and returns how long the next one should wait for more work.
func (l *loop) callOnce(b []*sock) (pause time.Duration) {
	began := time.Now()
	wait := l.call(b)
	if wait == nil {
		l.finish(b)
		return 0
	}
	l.mu.Lock()
	clients := len(b) + l.syncingLocked()
	l.mu.Unlock()
	if l.disk.fastFor(clients) {
		l.awaitDisk(b, wait)
		return 0
	}
	applied := time.Now()
	wait()
	l.disk.observe(time.Since(applied))
	l.finish(b)
	return min(time.Since(began)/gatherPart, gatherMost)
}

// gather waits until the wanted number is waiting, but at most for the given time.
func (q *callQueue) gather(most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-q.full:
	case <-t.C:
	}
}
