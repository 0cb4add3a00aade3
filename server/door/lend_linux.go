package door

import (
	"syscall"
	"time"
)

// The loop's goroutine does little work itself: handing it to another goroutine takes as long as the work. It lends itself to the call, and a
// watcher makes the loop continue in another goroutine if the call takes long.

const (
	// The loop's goroutine may stay in a call from memory for lendTime, and in one that syncs for lendDiskTime, or a little longer.
	lendTime     = time.Millisecond
	lendDiskTime = 10 * time.Millisecond
	// piecesFew is how many pieces of work a connection may have that the loop does itself, if it is not WaitsRarely.
	piecesFew = 4
	// slowTime is how long the loop does no such work itself after a slow call: one that took longer than lendTime, and pieceTime for each of
	// its pieces.
	slowTime  = 100 * time.Millisecond
	pieceTime = 10 * time.Microsecond
	// quietTime is how long the loop does not wait for a sync itself after a client has asked for anything but changes of WaitsForDisk, and after a
	// sync that took longer than lendDiskTime.
	quietTime = 20 * time.Millisecond
	// watchRest is after how many checks of an idle loop its watcher ends.
	watchRest = 100
)

// lend does work in the loop's goroutine, within a given time. If it takes longer, the loop continues in another goroutine, and lend reports
// false.
func (l *loop) lend(list []*sock, most time.Duration) (kept bool) {
	l.lends++
	number, began, pieces := l.lends, time.Now(), 0
	for _, k := range list {
		pieces += k.c.work.Pieces
	}
	l.until.Store(began.Add(most).UnixNano())
	l.lent.Store(number)
	if !l.watching.Load() && l.watching.CompareAndSwap(false, true) {
		go l.watch()
	}
	before := threadNow()
	l.callAll(list)
	if l.lent.CompareAndSwap(number, 0) {
		l.done = append(l.done, list...)
		return true
	}
	switch took := time.Since(began); {
	case most == lendDiskTime:
		l.mixed.begin(time.Now(), quietTime)
	case isSlow(took, pieces, before, threadNow()):
		l.slow.begin(time.Now(), slowTime)
	}
	l.finish(list)
	return false
}

// isSlow reports whether a call of some pieces took long because it waited, and not because it worked or waited for a processor.
func isSlow(took time.Duration, pieces int, before, after thread) bool {
	return took > lendTime+time.Duration(pieces)*pieceTime && after != before
}

// thread is a thread of the system, and how often it has waited. A goroutine that has only waited for a processor finds the same.
type thread struct {
	id    int
	waits int64
}

func threadNow() thread {
	const rusageThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	syscall.Getrusage(rusageThread, &u)
	return thread{syscall.Gettid(), int64(u.Nvcsw)}
}

// mayLend reports whether the loop may make a call that others of its set and kind must not overtake: if connections have a few pieces of work
// each, and calls take no long time. It waits for a sync only if no client would wait with it that has asked for something else.
func (l *loop) mayLend(b []*sock) bool {
	for _, k := range b {
		if k.c.work.Pieces > piecesFew {
			return false
		}
	}
	if b[0].c.work.Waits == WaitsForDisk {
		return !l.mixed.lasts()
	}
	return !l.slow.lasts()
}

// watch takes the loop away from its goroutine if that stays in a call too long. It ends when no calls are made.
func (l *loop) watch() {
	for rests := 0; ; {
		time.Sleep(lendTime)
		n := l.lent.Load()
		if n != 0 && time.Now().UnixNano() > l.until.Load() && l.lent.CompareAndSwap(n, 0) {
			go l.run()
		}
		if rests++; n != 0 {
			rests = 0
		}
		if rests < watchRest {
			continue
		}
		l.watching.Store(false)
		if l.lent.Load() == 0 || !l.watching.CompareAndSwap(false, true) {
			return
		}
		rests = 0
	}
}
