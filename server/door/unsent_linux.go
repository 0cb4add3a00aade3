package door

import "syscall"

// unsentMax is how many bytes of long answers the system takes for a client before it sends them. It would take megabytes: a node would make many answers
// at once for a client that asks for much and reads slowly, and the system would keep them, for any number of such clients. How much is on its way
// to a client that is far away stays the system's choice.
//
// Short answers have no such limit. A client that sends a long pipeline reads nothing until all of it is sent, so the node must get rid of its answers.
const unsentMax = 512 << 10

// boundUnsent sets unsentMax, or takes it back.
func (c *Conn) boundUnsent(on bool) {
	if c.bounded == on {
		return
	}
	c.bounded = on
	most := 0 // the system's default
	if on {
		most = unsentMax
	}
	if k, ok := c.nc.(*sock); ok {
		setUnsent(k.fd, most)
		return
	}
	if raw, ok := c.raw.(syscall.Conn); ok {
		if rc, err := raw.SyscallConn(); err == nil {
			rc.Control(func(fd uintptr) { setUnsent(int(fd), most) })
		}
	}
}

const tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT

// setUnsent sets how many bytes the system takes for a TCP connection before it sends them. If it fails, the system takes more.
func setUnsent(fd, most int) {
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, tcpNotSentLowat, most)
}
