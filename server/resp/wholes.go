package resp

import (
	"context"
	"sync"

	"bigset/server/door"
)

// wholes are the readings of whole sets by SMEMBERS. While as many clients read a set as may, the others that ask for it wait for its next
// reading, and share it: what they get was read after they asked, and costs as much as for one of them.
type wholes struct {
	most int // readings of one set at a time

	mu   sync.Mutex
	keys map[string]*readings
}

// readings are those of one set.
type readings struct {
	running int
	next    *whole // begins when a running one has ended; nil if no client waits
}

// whole is a reading of a whole set for some clients.
type whole struct {
	begins, ends chan struct{}

	// What was read, once ends is closed.
	err    error
	n      int // elements
	text   *gathered
	memory *door.Shared

	clients int // that have not got all of it; the lock of wholes guards it
}

// join returns the reading that a client gets. If leads is set the client does it, by calling do.
func (w *wholes) join(key []byte) (r *whole, leads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.keys[string(key)]
	if of == nil {
		of = &readings{}
		w.keys[string(key)] = of
	}
	if r, leads = of.next, of.next == nil; leads {
		r = &whole{begins: make(chan struct{}), ends: make(chan struct{})}
		if of.next = r; of.running < w.most {
			of.running++
			of.beginNext()
		}
	}
	r.clients++
	return r, leads
}

// beginNext begins the reading for which clients wait. Whoever asks from now on gets another one.
func (of *readings) beginNext() {
	close(of.next.begins)
	of.next = nil
}

// do reads, when the reading may begin.
func (w *wholes) do(r *whole, key []byte, read func()) {
	<-r.begins
	defer close(r.ends)
	read()
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.keys[string(key)]
	if of.next != nil {
		of.beginNext()
	} else if of.running--; of.running == 0 {
		delete(w.keys, string(key))
	}
}

// leave ends the use of a reading by a client. The last client gives its memory back.
func (w *wholes) leave(r *whole) {
	w.mu.Lock()
	r.clients--
	last := r.clients == 0
	w.mu.Unlock()
	if last {
		r.text.free()
		r.memory.Give()
	}
}

func (c *conn) smembers(ctx context.Context, args [][]byte) {
	c.MayWait()
	key := args[1]
	r, leads := c.s.wholes.join(key)
	if leads {
		c.s.wholes.do(r, key, func() { c.readWhole(ctx, r, key) })
	}
	<-r.ends
	defer c.s.wholes.leave(r)
	if r.err != nil {
		c.failed("smembers", key, r.err)
		return
	}
	defer c.Give()
	c.Sends(r.memory)
	c.header(typeSet, r.n)
	r.text.send(c)
}

// readWhole reads a set as it is at one moment, on a node without a cluster.
func (c *conn) readWhole(ctx context.Context, r *whole, key []byte) {
	r.text = c.gather("smembers")
	defer func() { r.memory = c.Share() }()
	if r.err = c.s.forSet(ctx, key); r.err != nil {
		return
	}
	sets, done, err := c.atOnce(ctx, [][]byte{key})
	if r.err = err; err != nil {
		return
	}
	defer done()
	for e, err := range sets[0].elements(ctx, nil, 0) {
		if err == nil {
			err = r.text.bulk(e)
		}
		if r.err = err; err != nil {
			return
		}
		r.n++
	}
}
