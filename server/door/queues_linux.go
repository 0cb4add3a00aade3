package door

import (
	"math"
	"slices"
	"time"
)

// The next call waits for clients that were just answered: one gatherPart-th of the time of the last call, but at most gatherMost.
const (
	gatherPart = 2
	gatherMost = time.Millisecond
)

// callQueue holds work for a call while another call of the same set and kind is in progress, or has just ended. The loop's lock guards it.
type callQueue struct {
	list []*sock
	want int // the next call begins at once with this many
	full chan struct{}

	// Used only by the goroutine that makes the calls.
	owed  bool      // the last call was of little work, and the next one is of much
	found time.Time // when there was little work
}

// begin puts the connections of the next call first, each kind in the order in which they came, and returns how many they are: those with little
// work or, if there are none or they have just had theirs, those with much. If little work has come lately, a call of much is a portion, and
// crowded is set.
func (q *callQueue) begin(list []*sock, now time.Time) (n int, crowded bool) {
	littles := 0
	for _, k := range list {
		if k.little() {
			littles++
		}
	}
	if littles > 0 {
		q.found = now
	}
	q.owed = littles > 0 && littles < len(list) && !q.owed
	if littles == len(list) || q.owed {
		slices.SortStableFunc(list, littleFirst)
		return callLen(list[:littles]), false
	}
	slices.SortStableFunc(list, func(a, b *sock) int { return littleFirst(b, a) })
	n = callLen(list[:len(list)-littles])
	if crowded = now.Sub(q.found) <= quietTime; crowded {
		n = portionLen(list[:n])
	}
	return n, crowded
}

// little reports whether a connection has little work for a queue.
func (k *sock) little() bool { return k.c.work.Pieces <= littlePieces }

func littleFirst(a, b *sock) int {
	switch {
	case a.little() == b.little():
		return 0
	case a.little():
		return -1
	}
	return 1
}

// portionLen returns how many connections are a portion.
func portionLen(list []*sock) (n int) {
	for pieces := 0; n < len(list) && pieces < portionPieces; n++ {
		pieces += list[n].c.work.Pieces
	}
	return n
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
// the time of the last call. Little work does not wait for more than one portion of much: see begin.
func (l *loop) callQueued(of callOf, q *callQueue, list []*sock) {
	for len(list) > 0 {
		began := time.Now()
		n, crowded := q.begin(list, began)
		if crowded {
			l.s.crowded.begin(began, quietTime)
		}
		syncs := list[0].c.work.Waits == WaitsForDisk
		l.beside(list[:n])
		took := time.Since(began)
		rest := list[n:]
		l.mu.Lock()
		q.list = append(slices.Clone(rest), q.list...)
		q.want = n + len(q.list)
		l.mu.Unlock()
		if syncs && len(rest) == 0 { // others wait already
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
