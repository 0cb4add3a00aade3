package resp

import (
	"container/heap"
	"container/list"
	"math/rand/v2"
	"sync"
)

// Limits of the positions that are kept for SSCAN and SCAN. Where they have no room, the connection whose positions take most loses its least
// recently used one: a connection that needs little keeps its positions, whatever others do.
const (
	cursorsMax      = 64 << 10
	cursorBytesMax  = 16 << 20
	cursorBytes     = 200     // memory of a position besides its bytes
	cursorNumberMax = 1 << 53 // clients may keep cursors in doubles
)

// position is where SSCAN or SCAN continues.
type position struct {
	key   []byte // for SSCAN; nil for SCAN
	stage int    // for SCAN: sets, then filters
	after []byte // the last element, or name, that was read
}

// cursor is a kept position.
type cursor struct {
	position
	number uint64
	before uint64   // the cursor that led here; no longer needed once this one is used
	of     *scanner // whose step led here
}

func (c *cursor) bytes() int { return cursorBytes + len(c.key) + len(c.after) }

// scanner has the cursors of a connection, or those of all connections that have ended. The lock of cursors guards it.
type scanner struct {
	order list.List // of *cursor, the most recently used first
	bytes int
	at    int // its index in scanners, if it has cursors
}

// scanners are a heap: the first takes most bytes.
type scanners []*scanner

func (h scanners) Len() int           { return len(h) }
func (h scanners) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h scanners) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *scanners) Push(x any) {
	s := x.(*scanner)
	s.at = len(*h)
	*h = append(*h, s)
}
func (h *scanners) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

// cursors are the positions of a server by number: redis's cursors have no room for an element. Only this process knows them. A cursor is
// valid on every connection, also after the end of the one that got it.
type cursors struct {
	mu    sync.Mutex
	known map[uint64]*list.Element
	all   scanners // that have cursors
	ended scanner  // of connections that have ended
	bytes int
}

// keep stores a position for a connection, which reached it by a cursor, 0 for none, and returns its new number.
func (t *cursors) keep(p position, before uint64, of *scanner) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[uint64]*list.Element{}
	}
	number := uint64(0)
	for number == 0 || t.known[number] != nil {
		number = rand.Uint64N(cursorNumberMax)
	}
	c := &cursor{p, number, before, of}
	t.addLocked(c)
	for len(t.known) > cursorsMax || t.bytes > cursorBytesMax {
		e := t.nextLocked(c)
		if e == nil {
			break
		}
		t.dropLocked(e)
	}
	return number
}

// nextLocked returns the cursor to drop after one was added, which is not dropped; nil if that is the only one.
func (t *cursors) nextLocked(added *cursor) *list.Element {
	if most := t.all[0].order.Back(); most.Value.(*cursor) != added {
		return most
	}
	var next *scanner
	for _, s := range t.all[1:min(3, len(t.all))] { // the second is one of the two below the first
		if next == nil || s.bytes > next.bytes {
			next = s
		}
	}
	if next == nil {
		return nil
	}
	return next.order.Back()
}

// use returns the position of a number. The position stays, because a client without an answer asks again; the cursor that led to it is
// dropped.
func (t *cursors) use(number uint64) (p position, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.known[number]
	if e == nil {
		return position{}, false
	}
	c := e.Value.(*cursor)
	c.of.order.MoveToFront(e)
	if before := t.known[c.before]; before != nil {
		t.dropLocked(before)
	}
	return c.position, true
}

// end gives the cursors of a connection that has ended to those of all such connections.
func (t *cursors) end(of *scanner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := of.order.Back(); e != nil; e = of.order.Back() {
		c := e.Value.(*cursor)
		t.dropLocked(e)
		c.of = &t.ended
		t.addLocked(c)
	}
}

// addLocked adds a cursor.
func (t *cursors) addLocked(c *cursor) {
	s := c.of
	t.known[c.number] = s.order.PushFront(c)
	t.bytes += c.bytes()
	s.bytes += c.bytes()
	if s.order.Len() == 1 {
		heap.Push(&t.all, s)
	} else {
		heap.Fix(&t.all, s.at)
	}
}

// dropLocked drops a cursor.
func (t *cursors) dropLocked(e *list.Element) {
	c := e.Value.(*cursor)
	s := c.of
	s.order.Remove(e)
	delete(t.known, c.number)
	t.bytes -= c.bytes()
	s.bytes -= c.bytes()
	if s.order.Len() == 0 {
		heap.Remove(&t.all, s.at)
	} else {
		heap.Fix(&t.all, s.at)
	}
}

func (t *cursors) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}
