//go:build unix

package wire

import (
	"net"
	"syscall"
)

// socket writes to a connection without waiting. One goroutine at a time may use it.
type socket struct {
	raw   syscall.RawConn
	wrote func(n int) // counts bytes; may be nil
	b     []byte
	n     int
	try   func(fd uintptr) bool
}

// counts is a connection that counts the bytes written to its socket.
type counts interface{ Wrote(n int) }

// newSocket returns nil for a connection that is more than a socket, such as one with TLS.
func newSocket(nc net.Conn) *socket {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	if c, ok := nc.(counts); ok {
		s.wrote = c.Wrote
	}
	s.try = func(fd uintptr) bool {
		n, err := syscall.Write(int(fd), s.b)
		for err == syscall.EINTR {
			n, err = syscall.Write(int(fd), s.b)
		}
		if err == nil {
			s.n = n
		}
		return true // it does not wait
	}
	return s
}

// write returns how many bytes were written, possibly 0. It leaves an error to the next write that waits, which meets it again.
func (s *socket) write(b []byte) int {
	s.b, s.n = b, 0
	_ = s.raw.Write(s.try) // if it fails, nothing was written
	s.b = nil
	if s.wrote != nil {
		s.wrote(s.n)
	}
	return s.n
}

// peek looks whether anything has arrived. One goroutine at a time may use it.
type peek struct {
	raw syscall.RawConn
	b   [1]byte
	got bool
	try func(fd uintptr) bool
}

// newPeek returns nil for a connection that is more than a socket, such as one with TLS.
func newPeek(nc net.Conn) *peek {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	p := &peek{raw: raw}
	p.try = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), p.b[:], syscall.MSG_PEEK)
		for err == syscall.EINTR {
			_, _, err = syscall.Recvfrom(int(fd), p.b[:], syscall.MSG_PEEK)
		}
		p.got = err != syscall.EAGAIN
		return true // it does not wait
	}
	return p
}

// arrived reports whether a read would return at once, with bytes or an error.
func (p *peek) arrived() bool {
	p.got = true
	return p.raw.Read(p.try) != nil || p.got
}
