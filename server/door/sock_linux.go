package door

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// sock is the socket of a connection that a loop serves. The loop's lock guards its deadlines, its state and closed.
type sock struct {
	fd     int
	loop   *loop
	c      *Conn
	state  sockState
	closed bool
	fresh  bool          // it was parked: read what may have arrived, whatever the deadline
	deaf   bool          // an event came while its work was deferred; it is not watched until the work is done
	awake  chan struct{} // the awaited event has come, or a deadline has changed

	readUntil, writeUntil time.Time
}

type sockState uint8

const (
	sockAway sockState = iota // served by a goroutine of its own
	sockParked
	sockTurn     // served by the goroutine that runs the loop
	sockDeferred // its work is done, now or soon, together with that of others
)

// adopt takes over a connection and keeps only its socket. It reports false if the socket can't be had.
func (l *loop) adopt(c *Conn) bool {
	raw, ok := c.nc.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	var fd uintptr
	refused := syscall.EBADF // if it is closed
	if rc.Control(func(from uintptr) { fd, refused = duplicate(from) }); refused != 0 {
		return false
	}
	k := &sock{fd: int(fd), loop: l, c: c, awake: make(chan struct{}, 1)}
	c.nc.Close() // the duplicate is open
	c.nc, c.raw, c.station = k, nil, k
	return true
}

// duplicate returns another descriptor of a socket, which Go's own poller does not know.
func duplicate(fd uintptr) (uintptr, syscall.Errno) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	return n, errno
}

// turn executes what a parked connection has sent, or resumes it. It reports false if the connection has left the loop with the goroutine.
func (k *sock) turn(resumes bool) bool {
	step := k.c.turn
	if resumes {
		step = k.c.resume
	}
	more := step(k.loop.ctx)
	if k.state == sockTurn && !resumes { // only this goroutine changes it
		k.loop.s.places.asked.begin(k.loop.now, askedTime)
	}
	if k.c.deferred {
		k.defers()
		return true
	}
	if more {
		k.c.awaitMore()
	}
	if k.state == sockTurn { // only this goroutine changes it
		if !resumes {
			k.loop.mixed.begin(k.loop.now, quietTime)
		}
		if !more {
			k.loop.s.stopped(k.loop.p, k.c)
			return true
		}
		if k.back() {
			return true
		}
		k.leave()
	}
	switch {
	case !more:
		k.loop.s.stopped(k.loop.p, k.c)
	case !k.c.park():
		k.loop.s.serve(k.loop.ctx, k.loop.p, k.c)
	}
	return false
}

// back ends the connection's turn, unless the connection is being drained.
func (k *sock) back() bool {
	k.loop.mu.Lock()
	defer k.loop.mu.Unlock()
	if k.c.draining.Load() {
		return false
	}
	if k.deaf {
		if k.loop.control(syscall.EPOLL_CTL_ADD, k.fd, syscall.EPOLLIN) != nil {
			return false
		}
		k.deaf = false
	}
	k.state = sockParked
	return true
}

// park implements station.
func (k *sock) park() bool {
	l := k.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.c.draining.Load() || k.passedLocked(&k.readUntil) || l.control(syscall.EPOLL_CTL_ADD, k.fd, syscall.EPOLLIN) != nil {
		return false
	}
	k.state = sockParked
	l.socks[int32(k.fd)] = k
	return true
}

// holds implements station.
func (k *sock) holds() bool { return k.state == sockTurn } // only this goroutine changes it

// leave implements station.
func (k *sock) leave() {
	if k.state != sockTurn {
		return
	}
	l := k.loop
	l.mixed.begin(l.now, quietTime)
	l.mu.Lock()
	k.removeLocked()
	l.mu.Unlock()
	go l.run()
}

// settle implements station.
func (k *sock) settle() net.Conn {
	k.leave()
	fd, refused := duplicate(uintptr(k.fd))
	if refused != 0 {
		return nil
	}
	file := os.NewFile(fd, "")
	defer file.Close() // nc has a duplicate
	nc, err := net.FileConn(file)
	if err != nil {
		return nil
	}
	k.Close()
	return nc
}

// removeLocked removes a connection from the loop.
func (k *sock) removeLocked() {
	delete(k.loop.socks, int32(k.fd))
	if !k.deaf {
		k.loop.control(syscall.EPOLL_CTL_DEL, k.fd, 0) // it is registered
	}
	k.state, k.deaf = sockAway, false
}

// ejectLocked moves a parked connection to a goroutine of its own.
func (k *sock) ejectLocked() {
	if k.state == sockParked {
		k.removeLocked()
		k.fresh = true
		go k.loop.s.serve(k.loop.ctx, k.loop.p, k.c)
	}
}

func (k *sock) wakeLocked() {
	select {
	case k.awake <- struct{}{}:
	default:
	}
}

// wait leaves the loop. It returns when the socket may be ready or the deadline may have changed, or with an error when the deadline has
// passed.
func (k *sock) wait(events uint32, until *time.Time) error {
	k.leave()
	l := k.loop
	l.mu.Lock()
	refused := l.control(syscall.EPOLL_CTL_ADD, k.fd, events|syscall.EPOLLONESHOT)
	if refused == nil {
		l.socks[int32(k.fd)] = k
	}
	d := time.Until(*until)
	limited := !until.IsZero()
	l.mu.Unlock()
	var passed, again <-chan time.Time
	if limited {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	if refused != nil { // the system's limit of watches is reached, which binds Go's poller as well
		l.s.failures.Add("epoll", nil, refused)
		t := time.NewTimer(watchPause)
		defer t.Stop()
		again = t.C
	}
	var err error
	select {
	case <-k.awake:
	case <-again:
	case <-passed:
		err = os.ErrDeadlineExceeded
	}
	if refused == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		k.removeLocked()
	}
	return err
}

// Read implements net.Conn.
func (k *sock) Read(p []byte) (int, error) {
	for {
		if k.state != sockTurn && !k.fresh && k.passed(&k.readUntil) { // in its turn it has something to read
			return 0, os.ErrDeadlineExceeded
		}
		k.fresh = false
		n, err := syscall.Read(k.fd, p)
		switch err {
		case nil:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			if err := k.wait(syscall.EPOLLIN, &k.readUntil); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// Write implements net.Conn. Outside the loop, each part of a long answer takes a place, which is free while the client takes nothing.
func (k *sock) Write(p []byte) (done int, err error) {
	long := len(p) >= longWrite && k.state != sockTurn
	if long {
		defer k.c.EndParts()
	}
	for done < len(p) {
		if long {
			k.c.NextPart()
		}
		n, err := syscall.Write(k.fd, p[done:])
		switch err {
		case nil:
			done += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			k.c.EndParts()
			if err := k.wait(syscall.EPOLLOUT, &k.writeUntil); err != nil {
				return done, err
			}
		default:
			return done, err
		}
	}
	return done, nil
}

// passed reports whether a deadline has passed.
func (k *sock) passed(until *time.Time) bool {
	k.loop.mu.Lock()
	defer k.loop.mu.Unlock()
	return k.passedLocked(until)
}

func (k *sock) passedLocked(until *time.Time) bool {
	return !until.IsZero() && time.Now().After(*until)
}

// SetReadDeadline implements net.Conn. A parked connection leaves the loop.
func (k *sock) SetReadDeadline(t time.Time) error { return k.setDeadline(&k.readUntil, t) }

// SetWriteDeadline implements net.Conn.
func (k *sock) SetWriteDeadline(t time.Time) error { return k.setDeadline(&k.writeUntil, t) }

func (k *sock) setDeadline(at *time.Time, t time.Time) error {
	k.loop.mu.Lock()
	defer k.loop.mu.Unlock()
	*at = t
	k.wakeLocked()
	k.ejectLocked()
	return nil
}

// CloseWrite ends the sending half.
func (k *sock) CloseWrite() error { return syscall.Shutdown(k.fd, syscall.SHUT_WR) }

// cut implements station.
func (k *sock) cut() {
	k.loop.mu.Lock()
	defer k.loop.mu.Unlock()
	if !k.closed {
		syscall.Shutdown(k.fd, syscall.SHUT_RDWR) // wakes any goroutine that waits
	}
}

// Close implements net.Conn. Only the goroutine that serves the connection calls it.
func (k *sock) Close() error {
	k.loop.mu.Lock()
	defer k.loop.mu.Unlock()
	if k.closed {
		return net.ErrClosed
	}
	k.closed = true
	delete(k.loop.socks, int32(k.fd))
	return syscall.Close(k.fd)
}
