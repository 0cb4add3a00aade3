package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"runtime"
	"sync"
	"time"
)

// bufferBytes is about how much is written to a connection at once.
const bufferBytes = 64 << 10

// writer writes the messages of a queue to a connection.
type writer struct {
	nc   net.Conn
	now  *socket // writes without waiting; nil if the connection can't
	q    *queue
	time time.Duration // how long a write may take

	mu      sync.Mutex // held by the goroutine that writes
	buf     []byte     // segments that are not written yet
	extends time.Time  // when the deadline must be set again
}

func newWriter(nc net.Conn, q *queue, t time.Duration) *writer {
	return &writer{nc: nc, now: newSocket(nc), q: q, time: t}
}

// nowBytesMax is the largest body that send writes itself.
const nowBytesMax = 16 << 10

// fewMost is how many calls may be in progress on a connection so that each message is written at once.
const fewMost = 3

// send adds a message to the queue like push. If the message fits in a segment and nothing waits before it, send writes it in the caller's
// goroutine, as far as the connection takes it without waiting: waking another goroutine takes longer than writing. It is for callers that
// know that no other message is about to follow: several messages in one write take less time than several writes.
func (w *writer) send(m *message, must bool) (ok, closed bool) {
	if w.now != nil && len(m.body) <= nowBytesMax && w.mu.TryLock() {
		defer w.mu.Unlock()
		if len(w.buf) == 0 && w.q.takeAlone(m) {
			w.segment(m)
			w.flushNow()
			return true, false
		}
	}
	return w.q.push(m, must)
}

// flushNow writes what the connection takes without waiting, and leaves the rest, and errors, to run.
func (w *writer) flushNow() {
	n := 0
	if w.extend() == nil {
		n = w.now.write(w.buf)
	}
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	if len(w.buf) > 0 {
		w.q.signal()
	}
}

// run writes until the connection fails or stop is closed.
func (w *writer) run(stop <-chan struct{}) error {
	for {
		finished := w.q.finished() // before drain: then no message has been added since that drain misses
		if err := w.drain(); err != nil {
			return err
		}
		if finished {
			return ErrClosed
		}
		select {
		case <-stop:
			return nil
		case <-w.q.wake:
		}
	}
}

// drain writes everything that waits.
func (w *writer) drain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		m := w.q.next()
		if m == nil {
			runtime.Gosched() // lets goroutines that are about to add a message do so before the flush
			if m = w.q.next(); m == nil {
				return w.flush()
			}
		}
		more := w.segment(m)
		if len(w.buf) >= bufferBytes {
			if err := w.flush(); err != nil {
				if more && m.gone != nil {
					m.gone()
				}
				return err
			}
		}
		if more && !w.q.back(m) && m.gone != nil {
			m.gone()
		}
	}
}

// flush passes the collected segments to the connection.
func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.extend(); err != nil {
		return err
	}
	_, err := w.nc.Write(w.buf)
	if w.buf = w.buf[:0]; err != nil {
		return fmt.Errorf("wire: write: %w", err)
	}
	return nil
}

// extend moves the deadline of the connection, at most every quarter of its time.
func (w *writer) extend() error {
	now := time.Now()
	if now.Before(w.extends) {
		return nil
	}
	w.extends = now.Add(w.time / 4)
	return w.nc.SetWriteDeadline(now.Add(w.time))
}

// segment appends the next segment of a message to buf. It reports whether more segments follow; after the last one the message is done.
func (w *writer) segment(m *message) (more bool) {
	h := head{kind: m.kind, id: m.id}
	prefix := 0
	if m.at == 0 {
		h.flags |= flagFirst
		prefix = m.prefixed
	}
	n := min(len(m.body)-m.at, SegmentBytesMax-prefix)
	if m.at+n == len(m.body) {
		h.flags |= flagLast
	}
	h.length = prefix + n
	at := len(w.buf)
	b := appendHead(w.buf, h)
	b = append(b, m.prefix[:prefix]...)
	b = append(b, m.body[m.at:m.at+n]...)
	w.buf = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	m.at += n
	if h.flags&flagLast == 0 {
		return true
	}
	w.q.written(m)
	return false
}
