package door

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// eventsMax is how many connections a loop is told of by one call of the system.
	eventsMax = 128
	// sweepPause is the most time between two looks for connections whose deadline has passed.
	sweepPause = time.Second
	// watchPause is how often a socket is tried that the system refuses to watch.
	watchPause = 50 * time.Millisecond
)

// loop serves many connections by one goroutine: it waits until one of them has something to read, reads it, executes it and writes the
// answers. Goroutines of their own are put to sleep and woken at each request, which takes more time than the request.
//
//	parked     the loop awaits the next request
//	in turn    the loop's goroutine executes what came
//	deferred   what came is executed with that of others: rounds_linux.go
//	away       a goroutine of its own executes what may wait, with whatever came behind it; then the connection is parked again
//
// A connection that leaves in its turn takes the goroutine along, and with it all that it was at; the loop goes on in a new one.
type loop struct {
	s     *Server
	ctx   context.Context
	p     *part
	epoll int
	bell  [2]int // a pipe: a byte in it wakes the loop

	mu     sync.Mutex
	socks  map[int32]*sock // of which something is awaited, the one in turn, and those whose work is deferred
	inbox  []*sock         // whose deferred work was done beside the loop
	asleep bool            // the loop has to be woken
	ended  bool
	calls  map[callOf]*callQueue // what waits for a call of WaitsForDisk, of which one is under way

	lent     atomic.Uint64 // the number of the call that the loop's goroutine is in; 0 is none
	usual    atomic.Int64  // nanoseconds that the call takes at most, as a rule
	slow     atomic.Int64  // until when work of WaitsRarely is done beside the loop, in nanoseconds since 1970; 0: it is not
	watching atomic.Bool

	// Of the goroutine that runs the loop.
	events [eventsMax]syscall.EpollEvent
	ready  []syscall.EpollEvent // not yet looked at
	pause  time.Duration        // between two sweeps
	swept  time.Time
	round  []*sock // whose work is to be done
	pieces int     // of it
	asked  bool    // the system was asked what came since the last round
	done   []*sock // whose work is done, from at on
	at     int
	spare  []*sock // room for another round
	lends  uint64  // calls so far
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

// run runs the loop until it ends, or a connection leaves it and takes the goroutine along.
func (l *loop) run() {
	for {
		k, resumes := l.next()
		if k == nil || !k.turn(resumes) {
			return
		}
	}
}

// next returns the next connection that has its turn, and whether its deferred work is done; nil where the goroutine is not the loop's any more.
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

// heard takes what woke the loop off its bell, and reports whether the loop has ended.
func (l *loop) heard() bool {
	var rung [64]byte
	syscall.Read(l.bell[0], rung[:]) // where that fails it rings again
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.free()
	}
	return l.ended
}

// await waits for what comes. Before a round it only looks.
func (l *loop) await() {
	pause := int(l.pause / time.Millisecond)
	if l.collect(len(l.round) == 0) || len(l.round) > 0 {
		pause = 0
	}
	n, err := syscall.EpollWait(l.epoll, l.events[:], pause)
	if err != nil && err != syscall.EINTR {
		panic("door: epoll: " + err.Error()) // its descriptor or its memory is wrong
	}
	l.ready = l.events[:max(n, 0)]
	l.asked = true
	l.collect(false)
	if now := time.Now(); now.Sub(l.swept) >= l.pause {
		l.swept = now
		l.sweep(now)
	}
}

// take returns the connection that has its turn, or nil where there is none: its goroutine awaits what has come, or it has left
// meanwhile. A number may be that of a younger connection by now, which then finds nothing to read.
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
		l.control(syscall.EPOLL_CTL_DEL, k.fd, 0) // it is there
		k.deaf = true
		return nil
	}
	k.state = sockTurn
	return k
}

// sweep sends parked connections whose deadline has passed to goroutines of their own, where they end.
func (l *loop) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.socks {
		if !k.readUntil.IsZero() && now.After(k.readUntil) {
			k.ejectLocked()
		}
	}
}

// loops are those of a listener.
type loops []*loop

// newLoops starts the loops of a listener. Where the system refuses them there are none, nor where connections need more than a socket.
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

// adopt has one of the loops serve a connection, where there are any.
func (list loops) adopt(c *Conn) {
	if len(list) > 0 {
		list[c.s.counters.accepted.Load()%uint64(len(list))].adopt(c)
	}
}

// end ends the loops, which have no connections any more.
func (list loops) end() {
	for _, l := range list {
		l.mu.Lock()
		l.ended = true
		l.ringLocked()
		l.mu.Unlock()
	}
}
