//go:build !unix

package wire

import "net"

// socket would write to a connection without waiting.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) write([]byte) int { return 0 }

type peek struct{}

func newPeek(net.Conn) *peek { return nil }

func (*peek) arrived() bool { return false }
