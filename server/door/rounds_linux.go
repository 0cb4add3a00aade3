package door

import (
	"bytes"
	"cmp"
	"slices"
	"syscall"
)

// A round is the work that connections have deferred since the last one. Work of one set and kind is done by one call.
//
//	turn ─► Execute defers ─► round ─► little work: the loop's goroutine calls ────► done ─► Execute again, answers
//	                               └─► other: a goroutine beside it calls ─► inbox ─┘
//
// A connection has at most one work in a round, and is not read from until that work is answered. So a client that floods holds no more than its
// buffer. The loop does much work in portions. Between two of them it does all little work that has come, and answers it, so a client with little
// work waits for one portion, however many others flood:
//
//	ask the system ─► read ─► little work, answers ─► a portion of much work, answers ─► ask the system …

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
	k.c.turnShare += k.c.work.Pieces
	l.join(k)
	if k.c.work.Waits != WaitsForDisk {
		l.mixed.begin(l.now, quietTime)
	}
}

// join adds a connection to the round.
func (l *loop) join(k *sock) {
	if l.round = append(l.round, k); !k.much() {
		l.pieces += k.c.work.Pieces
	}
}

// much reports whether a connection has much work for the loop itself.
func (k *sock) much() bool {
	return k.c.turnShare > littlePieces && k.c.work.Waits == WaitsRarely
}

// begin returns the connections of the round that begins, in the order in which they came: those without much work or, if there are none or
// they have just had theirs, a portion of the others. All that are left are in the next round.
func (l *loop) begin() (round []*sock) {
	round = l.round
	l.round, l.spare, l.pieces, l.asked = l.spare[:0], nil, 0, false
	little := !l.owed && slices.ContainsFunc(round, func(k *sock) bool { return !k.much() })
	n, portion := 0, 0
	for _, k := range round {
		if k.much() == little || portion >= portionPieces {
			l.join(k)
			continue
		}
		if !little {
			portion += k.c.work.Pieces
		}
		round[n] = k
		n++
	}
	clear(round[n:])
	l.owed = little && len(l.round) > 0
	return round[:n]
}

// together does the work of a round: what the loop's goroutine may do at once, all other outside the loop. It reports false if the goroutine
// no longer belongs to the loop.
func (l *loop) together() (kept bool) {
	round := l.begin()
	slices.SortStableFunc(round, func(a, b *sock) int {
		return cmp.Or(cmp.Compare(a.c.work.Kind, b.c.work.Kind), bytes.Compare(a.c.work.Set, b.c.work.Set))
	})
	slow, most := l.slow.lasts(), lendTime
	now := round[:0]
	for rest := round; len(rest) > 0; {
		b := rest[:callLen(rest)]
		rest = rest[len(b):]
		switch w := b[0].c.work.Waits; {
		case b[0].c.work.Kind == kindRest:
			l.done = append(l.done, b...)
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
		l.join(k)
	}
	clear(l.again)
	l.again = l.again[:0]
	some := l.at < len(l.done) || len(l.round) > 0
	l.asleep = sleep && !some
	return some
}
