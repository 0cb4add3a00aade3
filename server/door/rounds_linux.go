package door

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"syscall"
	"time"
)

// A round is the work that connections have deferred since the last one. Work of one set and kind is done by one call.
//
//	turn ─► Execute defers ─► round ─► little work: the loop's goroutine calls ────► done ─► Execute again, answers
//	                               └─► other: a goroutine beside it calls ─► inbox ─┘
//
// A connection has at most one piece of work in a round, and is not read from until that work is answered. So a client that floods gets its
// share of each round, and holds no more than its buffer.

// The next call waits for clients that were just answered: one gatherPart-th of the time of the last call, but at most gatherMost.
const (
	gatherPart = 2
	gatherMost = time.Millisecond
)

// callOf identifies the work that is done by one call.
type callOf struct {
	kind uint8
	set  string
}

// defers adds a connection to the round. The connection belongs to the loop until its work is done.
func (k *sock) defers() {
	l := k.loop
	l.mu.Lock()
	k.state = sockDeferred
	l.mu.Unlock()
	l.round = append(l.round, k)
	l.pieces += k.c.work.Pieces
	if k.c.work.Waits != WaitsForDisk {
		l.mixed.begin(l.now, quietTime)
	}
}

// together does the work of a round: what the loop's goroutine may do at once, all other outside the loop. It reports false if the goroutine
// no longer belongs to the loop.
func (l *loop) together() (kept bool) {
	round := l.round
	l.round, l.spare, l.pieces, l.asked = l.spare[:0], nil, 0, false
	slices.SortStableFunc(round, func(a, b *sock) int {
		return cmp.Or(cmp.Compare(a.c.work.Kind, b.c.work.Kind), bytes.Compare(a.c.work.Set, b.c.work.Set))
	})
	slow, most := l.slow.lasts(), lendTime
	now := round[:0]
	for rest := round; len(rest) > 0; {
		b := rest[:callLen(rest)]
		rest = rest[len(b):]
		switch w := b[0].c.work.Waits; {
		case w == WaitsForNodes:
			go l.beside(slices.Clone(b))
		case w == WaitsRarely && slow: // so that no connection waits for another one's read
			for _, k := range b {
				go l.beside([]*sock{k})
			}
		case w == WaitsRarely:
			now = append(now, b...)
		case (w == WaitsForTurn || len(b) == len(round)) && l.mayLend(b) && l.isFree(b):
			if now = append(now, b...); w == WaitsForDisk {
				most = lendDiskTime
			}
		default:
			l.queue(b)
		}
	}
	if len(now) > 0 && !l.lend(now, most) {
		return false
	}
	clear(round)
	l.spare = round
	return true
}

// callLen returns how many of the connections share one call with the first.
func callLen(list []*sock) (n int) {
	first := &list[0].c.work
	pieces, size := 0, 0
	for _, k := range list {
		w := &k.c.work
		if pieces, size = pieces+w.Pieces, size+w.Bytes; n > 0 && (pieces > callPiecesMax || size > callBytesMax || w.Kind != first.Kind || !bytes.Equal(w.Set, first.Set)) {
			break
		}
		n++
	}
	return n
}

// call does the work of connections that share a call by callLen.
func (l *loop) call(b []*sock) {
	list := make([]Handler, len(b))
	for i, k := range b {
		list[i] = k.c.handler
	}
	l.s.opt.Together(l.ctx, list)
}

// callAll does the work of connections by as few calls as their order allows.
func (l *loop) callAll(list []*sock) {
	for len(list) > 0 {
		n := callLen(list)
		l.call(list[:n])
		list = list[n:]
	}
}

// callQueue holds work for a call while another call of the same set and kind is in progress, or has just ended. The loop's lock guards it.
type callQueue struct {
	list []*sock
	want int // the next call begins at once with this many
	full chan struct{}
}

// isFree reports whether no queued call of the set and kind of work is in progress.
func (l *loop) isFree(b []*sock) bool {
	w := &b[0].c.work
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[callOf{w.Kind, string(w.Set)}] == nil
}

// queue does work outside the loop. Work that arrives during a call is done by the next one.
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

// callQueued does the work of a queue until it is empty, or the loop may do the rest itself.
//
// Clients that wait for each answer ask again right after a call has answered them.
// A call that began before that would contain only the work that arrived during the last call, half of all clients, and with half the work
// for each sync the rate would be half. So the next call that waits for the disk begins when as many ask as before, but after at most a part of
// the time of the last call.
func (l *loop) callQueued(of callOf, q *callQueue, list []*sock) {
	for len(list) > 0 {
		n, syncs := callLen(list), list[0].c.work.Waits == WaitsForDisk
		began := time.Now()
		l.beside(list[:n])
		took := time.Since(began)
		rest := list[n:]
		l.mu.Lock()
		q.list = append(slices.Clone(rest), q.list...)
		q.want = n + len(q.list)
		l.mu.Unlock()
		if syncs {
			q.gather(min(took/gatherPart, gatherMost))
		}
		l.mu.Lock()
		list, q.list, q.want = q.list, nil, math.MaxInt
		select {
		case <-q.full:
		default:
		}
		if len(list) > 0 && l.mayLend(list) {
			l.again = append(l.again, list...)
			list = nil
			l.wakeLocked()
		}
		if len(list) == 0 {
			delete(l.calls, of)
		}
		l.mu.Unlock()
	}
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

// beside does the work of connections by one call, in a goroutine other than the loop's.
func (l *loop) beside(b []*sock) {
	l.call(b)
	l.finish(b)
}

// finish makes the loop continue with connections whose work was done outside it.
func (l *loop) finish(list []*sock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox = append(l.inbox, list...)
	l.wakeLocked()
}

func (l *loop) wakeLocked() {
	if l.asleep {
		l.asleep = false
		l.ringLocked()
	}
}

func (l *loop) ringLocked() {
	syscall.Write(l.bell[1], []byte{0}) // a full pipe wakes the loop as well
}

// collect takes over the connections whose work was done outside the loop, and those whose work comes back, and reports whether there are any. If
// there are none and sleep is set, the next ones will wake the loop.
func (l *loop) collect(sleep bool) bool {
	if l.at == len(l.done) {
		l.done, l.at = l.done[:0], 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, l.inbox...)
	clear(l.inbox)
	l.inbox = l.inbox[:0]
	for _, k := range l.again {
		l.round = append(l.round, k)
		l.pieces += k.c.work.Pieces
	}
	clear(l.again)
	l.again = l.again[:0]
	some := l.at < len(l.done) || len(l.round) > 0
	l.asleep = sleep && !some
	return some
}
