package door

import (
	"net"
	"syscall"
)

// unsentMax is how many bytes of answers the system takes for a client before it sends them. Without a limit it takes megabytes. A node would then
// make many answers at once for a client that asks for much and reads slowly, and the system would keep them, for any number of such clients. Answers
// up to this size are written without waiting for the client.
const unsentMax = 512 << 10

// limitUnsent sets unsentMax. How much of an answer is on its way to a client that is far away stays the system's choice.
func limitUnsent(nc *net.TCPConn) {
	const tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT
	rc, err := nc.SyscallConn()
	if err != nil {
		return // a broken connection fails at its first read
	}
	rc.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentMax) })
}
