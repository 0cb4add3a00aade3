//go:build !linux

package door

func (c *Conn) boundUnsent(on bool) { c.bounded = on }
