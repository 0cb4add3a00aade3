package door

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// eventsMax is how many events a loop takes from one system call.
	eventsMax = 128
	// sweepPause is the longest time between two checks for connections whose deadline has passed.
	sweepPause = time.Second
	// watchPause is how often a socket that the system refuses to watch is tried.
	watchPause = 50 * time.Millisecond
)

// loop serves many connections in one goroutine: it waits until one of them has something to read, reads it, executes it and writes the
// answers. A goroutine for each connection would be put to sleep and woken at each request, which takes longer than the request.
//
//	parked     the loop waits for the next request
//	in turn    the loop's goroutine executes what arrived
//	deferred   what arrived is executed with that of other connections: rounds_linux.go
//	away       a goroutine of its own executes what may wait, and whatever arrived after it; then the connection is parked again
//
// A connection that leaves during its turn takes the goroutine with it, with all its work; the loop continues in a new one.
type loop struct {
	s     *Server
	ctx   context.Context
	p     *part
	epoll int
	bell  [2]int // a pipe: a byte in it wakes the loop

	mu     sync.Mutex
	socks  map[int32]*sock // waiting for an event, in turn, or with deferred work
	inbox  []*sock         // whose deferred work was done outside the loop
	again  []*sock         // whose deferred work was queued, and may be done in the loop now
	asleep bool            // the loop must be woken
	ended  bool
	calls  map[callOf]*callQueue // work outside the loop that no two calls do at the same time, and what waits for it

	lent     atomic.Uint64 // number of the current call of the loop's goroutine; 0 means none
	until    atomic.Int64  // when the call should have ended, in nanoseconds since 1970
	watching atomic.Bool
	slow     spell // look-ups and changes from memory are done outside the loop
	mixed    spell // changes that wait for the disk are done outside the loop: other clients, or the disk, would make somebody wait

	// Used only by the goroutine that runs the loop.
	events [eventsMax]syscall.EpollEvent
	ready  []syscall.EpollEvent // events not handled yet
	pause  time.Duration        // between two sweeps
	swept  time.Time
	now    time.Time // when the loop asked for events
	round  []*sock   // connections whose work is to be done
	pieces int       // of the little work of the round
	asked  bool      // the system has been asked for events since the last round
	owed   bool      // the last round was of little work, and the next one is of much
	done   []*sock   // connections whose work is done, from at on
	at     int
	spare  []*sock // memory for another round
	lends  uint64  // number of calls so far
}

func newLoop(ctx context.Context, s *Server, p *part) (*loop, error) {
	l := &loop{s: s, ctx: ctx, p: p, socks: map[int32]*sock{}, calls: map[callOf]*callQueue{}, pause: sweepPause, swept: time.Now()}
	if idle := s.opt.IdleTime; idle > 0 {
		l.pause = min(sweepPause, max(idle/8, time.Millisecond))
	}
	var err error
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = syscall.Pipe2(l.bell[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		syscall.Close(l.epoll)
		return nil, err
	}
	if err = l.control(syscall.EPOLL_CTL_ADD, l.bell[0], syscall.EPOLLIN); err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

func (l *loop) free() {
	syscall.Close(l.epoll)
	syscall.Close(l.bell[0])
	syscall.Close(l.bell[1])
}

func (l *loop) control(op, fd int, events uint32) error {
	return syscall.EpollCtl(l.epoll, op, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

// run runs the loop until it ends, or a connection leaves it and takes the goroutine with it.
func (l *loop) run() {
	for {
		k, resumes := l.next()
		if k == nil || !k.turn(resumes) {
			return
		}
	}
}

// next returns the next connection to serve, and whether its deferred work is done. It returns nil if the goroutine no longer belongs to
// the loop.
func (l *loop) next() (k *sock, resumes bool) {
	for {
		switch {
		case l.at < len(l.done):
			k, l.done[l.at] = l.done[l.at], nil
			l.at++
			l.mu.Lock()
			k.state = sockTurn
			l.mu.Unlock()
			return k, true
		case l.owed:
			if !l.together() {
				return nil, false
			}
		case len(l.ready) > 0 && l.pieces < turnWorkMax:
			fd := l.ready[0].Fd
			l.ready = l.ready[1:]
			if int(fd) == l.bell[0] {
				if l.heard() {
					return nil, false
				}
			} else if k := l.take(fd); k != nil {
				return k, false
			}
		case len(l.round) > 0 && (l.asked || len(l.ready) > 0):
			if !l.together() {
				return nil, false
			}
		default:
			l.await()
		}
	}
}

// heard empties the pipe that woke the loop, and reports whether the loop has ended.
func (l *loop) heard() bool {
	var rung [64]byte
	syscall.Read(l.bell[0], rung[:]) // if this fails, the pipe wakes the loop again
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.free()
	}
	return l.ended
}

// await waits for events. If a round is due, it only polls.
func (l *loop) await() {
	pause := int(l.pause / time.Millisecond)
	if l.collect(true) {
		pause = 0
	}
	n, err := syscall.EpollWait(l.epoll, l.events[:], pause)
	if err != nil && err != syscall.EINTR {
		panic("door: epoll: " + err.Error()) // a wrong descriptor or address
	}
	l.ready = l.events[:max(n, 0)]
	l.asked = true
	l.collect(false)
	if l.now = time.Now(); l.now.Sub(l.swept) >= l.pause {
		l.swept = l.now
		l.sweep(l.now)
	}
}

// take returns the connection whose turn it is. It returns nil if the connection has left, or if its own goroutine waits for the event. The
// descriptor may by now belong to a newer connection, which then finds nothing to read.
func (l *loop) take(fd int32) *sock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.socks[fd]
	switch {
	case k == nil:
		return nil
	case k.state == sockAway:
		k.wakeLocked()
		return nil
	case k.state == sockDeferred:
		l.control(syscall.EPOLL_CTL_DEL, k.fd, 0) // it is registered
		k.deaf = true
		return nil
	}
	k.state = sockTurn
	return k
}

// sweep moves parked connections whose deadline has passed to goroutines of their own, where they end.
func (l *loop) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.socks {
		if !k.readUntil.IsZero() && now.After(k.readUntil) {
			k.ejectLocked()
		}
	}
}

// loops are the loops of a listener.
type loops []*loop

// newLoops starts the loops of a listener. It returns none if the system refuses them, or if connections need more than a socket.
func newLoops(ctx context.Context, s *Server, p *part) (list loops) {
	if s.link != nil || s.opt.TLS != nil {
		return nil
	}
	for range s.opt.Loops {
		l, err := newLoop(ctx, s, p)
		if err != nil {
			s.failures.Add("epoll", nil, err)
			list.end()
			return nil
		}
		go l.run()
		list = append(list, l)
	}
	return list
}

// adopt makes one of the loops, if any, serve a connection.
func (list loops) adopt(c *Conn) {
	if len(list) > 0 {
		list[c.s.counters.accepted.Load()%uint64(len(list))].adopt(c)
	}
}

// end ends the loops. They must have no connections any more.
func (list loops) end() {
	for _, l := range list {
		l.mu.Lock()
		l.ended = true
		l.ringLocked()
		l.mu.Unlock()
	}
}
