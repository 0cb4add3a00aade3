package wire

import (
	"encoding/binary"
	"sync"
)

// message is something on its way to the other side. The queue's lock guards its mutable fields until the message is removed from its lane.
type message struct {
	kind     kind
	priority Priority
	id       uint64
	prefix   [envelopeBytes]byte
	prefixed int // bytes of prefix
	body     []byte
	at       int    // bytes of body written so far
	begun    bool   // some of it was written
	gone     func() // called once, when all of it was passed to the connection or never will be; may be nil
}

// withLength adds the length of the body before it.
func (m *message) withLength() *message {
	binary.LittleEndian.PutUint32(m.prefix[:], uint32(len(m.body)))
	m.prefixed = lengthBytes
	return m
}

// lane is a queue of messages of one priority.
type lane struct {
	items []*message
	first int
}

func (l *lane) len() int { return len(l.items) - l.first }

func (l *lane) push(m *message) {
	if l.first > 32 && 2*l.first > len(l.items) {
		n := copy(l.items, l.items[l.first:])
		clear(l.items[n:])
		l.items, l.first = l.items[:n], 0
	}
	l.items = append(l.items, m)
}

func (l *lane) pop() *message {
	m := l.items[l.first]
	l.items[l.first] = nil
	l.first++
	if l.first == len(l.items) {
		l.items, l.first = l.items[:0], 0
	}
	return m
}

// remove removes a message, if it is in the lane.
func (l *lane) remove(m *message) bool {
	for i := l.first; i < len(l.items); i++ {
		if l.items[i] == m {
			l.items = append(l.items[:i], l.items[i+1:]...)
			return true
		}
	}
	return false
}

// queue contains what waits to be written to one connection. Segments of messages with one priority alternate.
type queue struct {
	mu     sync.Mutex
	wake   chan struct{} // has room for one
	lanes  [priorities]lane
	turns  int
	bytes  int // of bodies
	most   int // bound of waiting bodies, except for a single one
	closed bool

	finishing bool
}

func newQueue(most int) *queue { return &queue{wake: make(chan struct{}, 1), most: most} }

// push adds a message. It reports false, and calls nothing, if the connection is closed or, unless must is set, has no room.
func (q *queue) push(m *message, must bool) (ok, closed bool) {
	q.mu.Lock()
	if q.closed || !must && q.bytes > 0 && q.bytes+len(m.body) > q.most {
		defer q.mu.Unlock()
		return false, q.closed
	}
	q.bytes += len(m.body)
	q.lanes[m.priority].push(m)
	q.mu.Unlock()
	q.signal()
	return true, false
}

// signal wakes the goroutine that writes.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// takeAlone takes a message as if it had been added and were next, if nothing else waits.
func (q *queue) takeAlone(m *message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	for i := range q.lanes {
		if q.lanes[i].len() > 0 {
			return false
		}
	}
	q.bytes += len(m.body)
	m.begun = true
	return true
}

// drop takes a message back, wherever it is. It reports whether any of it was written.
func (q *queue) drop(m *message) (begun bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lanes[m.priority].remove(m) {
		q.bytes -= len(m.body)
	}
	return m.begun
}

// starvedTurns is how many segments of high priority are written before one of the lowest.
const starvedTurns = 32

// next removes the message whose segment is next from its lane and returns it, or nil.
func (q *queue) next() *message {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns++
	fair := q.turns%starvedTurns == 0
	for i := range q.lanes {
		l := &q.lanes[i]
		if fair {
			l = &q.lanes[len(q.lanes)-1-i]
		}
		if l.len() > 0 {
			m := l.pop()
			m.begun = true
			return m
		}
	}
	return nil
}

// back puts a message with remaining segments at the end of its lane. It reports false if the queue is closed.
func (q *queue) back(m *message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.lanes[m.priority].push(m)
	}
	return !q.closed
}

// written records that all of a message was written.
func (q *queue) written(m *message) {
	q.mu.Lock()
	q.bytes -= len(m.body)
	q.mu.Unlock()
	if m.gone != nil {
		m.gone()
	}
}

// close refuses more messages and releases those that wait.
func (q *queue) close() {
	q.mu.Lock()
	var left []*message
	if !q.closed {
		for i := range q.lanes {
			left = append(left, q.lanes[i].items[q.lanes[i].first:]...)
			q.lanes[i] = lane{}
		}
	}
	q.closed = true
	q.mu.Unlock()
	for _, m := range left {
		if m.gone != nil {
			m.gone()
		}
	}
}

// finish closes the connection when everything that waits has been written.
func (q *queue) finish() {
	q.mu.Lock()
	q.finishing = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) finished() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.finishing
}
