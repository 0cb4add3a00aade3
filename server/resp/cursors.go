package resp

import (
	"container/list"
	"math/rand/v2"
	"sync"
)

// Limits of the positions that are kept for SSCAN and SCAN. The least recently used ones are dropped first.
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
	before uint64 // the cursor that led here; no longer needed once this one is used
}

func (c *cursor) bytes() int { return cursorBytes + len(c.key) + len(c.after) }

// cursors are the positions of a server by number: redis's cursors have no room for an element. Only this process knows them.
type cursors struct {
	mu    sync.Mutex
	known map[uint64]*list.Element
	order list.List // of *cursor, the most recently used first
	bytes int
}

// keep stores a position that was reached by a cursor, 0 for none, and returns its new number.
func (t *cursors) keep(p position, before uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[uint64]*list.Element{}
	}
	number := uint64(0)
	for number == 0 || t.known[number] != nil {
		number = rand.Uint64N(cursorNumberMax)
	}
	c := &cursor{p, number, before}
	t.known[number] = t.order.PushFront(c)
	t.bytes += c.bytes()
	for len(t.known) > cursorsMax || t.bytes > cursorBytesMax && len(t.known) > 1 {
		t.dropLocked(t.order.Back())
	}
	return number
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
	t.order.MoveToFront(e)
	c := e.Value.(*cursor)
	if before := t.known[c.before]; before != nil {
		t.dropLocked(before)
	}
	return c.position, true
}

// dropLocked drops a cursor.
func (t *cursors) dropLocked(e *list.Element) {
	c := t.order.Remove(e).(*cursor)
	delete(t.known, c.number)
	t.bytes -= c.bytes()
}

func (t *cursors) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}
