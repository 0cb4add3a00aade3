package bench

import (
	"errors"
	"io"
	"net"
	"sync"
)

// sockets measures what the transport cannot exceed on this machine: the same bytes over bare connections, encrypted as given. Each caller
// has a connection of its own, and no frame, queue or other goroutine is between it and the socket.
func (l *lab) sockets(of string, with *encryption, parts int) (err error) {
	ln, dial, err := with.listen()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { answer(c, parts) })
		}
	})
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // the other end may have closed it
		}
		err = errors.Join(err, ln.Close())
		wg.Wait()
	}()
	connect := func(wants byte) (net.Conn, error) {
		c, err := dial(l.ctx)
		if err != nil {
			return nil, err
		}
		open = append(open, c)
		_, err = c.Write([]byte{wants})
		return c, err
	}
	call := func(int) (func() error, error) {
		c, err := connect(wantsEcho)
		body := make([]byte, callBytes)
		return func() error {
			if _, err := c.Write(body); err != nil {
				return err
			}
			_, err := io.ReadFull(c, body)
			return err
		}, err
	}
	if err := errors.Join(l.load("transport/1", of, nil, 1, call), l.load("transport/64-connections", of, nil, callersMany, call)); err != nil {
		return err
	}
	c, err := connect(wantsStream)
	if err != nil {
		return err
	}
	return l.stream(of, parts, func(yield func([]byte, error) bool) {
		part := make([]byte, partBytes)
		for range parts {
			if _, err := io.ReadFull(c, part); !yield(part, err) || err != nil {
				return
			}
		}
	})
}

// The first byte of a bare connection says what it is for.
const (
	wantsEcho   = 'e' // what is received, in pieces of callBytes
	wantsStream = 's' // some parts
)

// answer serves a bare connection until it ends.
func answer(c net.Conn, parts int) {
	defer c.Close()
	body := make([]byte, callBytes)
	if _, err := io.ReadFull(c, body[:1]); err != nil {
		return
	}
	if body[0] == wantsStream {
		part := make([]byte, partBytes)
		for range parts {
			if _, err := c.Write(part); err != nil {
				return
			}
		}
		return
	}
	for {
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		if _, err := c.Write(body); err != nil {
			return
		}
	}
}
