package door

import (
	"encoding/binary"
	"syscall"
)

// hungUp reports whether the client has closed the connection or its sending half. Bytes that have not been read yet do not hide that.
func (c *Conn) hungUp() bool {
	if k, ok := c.nc.(*sock); ok {
		return isHungUp(k.fd)
	}
	raw, ok := c.raw.(syscall.Conn)
	if !ok {
		return false
	}
	rc, err := raw.SyscallConn()
	gone := false
	if err == nil {
		err = rc.Control(func(fd uintptr) { gone = isHungUp(int(fd)) })
	}
	return gone || err != nil
}

// isHungUp asks the system for the state of a TCP connection, which is the first byte of its TCP_INFO.
func isHungUp(fd int) bool {
	const established = 1
	info, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(info))
	return err == nil && b[0] != established
}
