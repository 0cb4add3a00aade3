package door

import (
	"context"
	"crypto/tls"
	"net"
)

// StartTLS has the connection go on with TLS when the answers that are there have been written. What the client has sent behind the request that asks
// for it is no TLS of ours: then the connection is closed. The Handler stays the same, and executes nothing more of this buffer.
func (c *Conn) StartTLS(config *tls.Config) { c.upgrade = config }

// upgradeTLS makes the handshake that StartTLS has asked for. It reports false where the connection ends.
func (c *Conn) upgradeTLS(ctx context.Context) bool {
	config := c.upgrade
	if c.upgrade = nil; c.ended || c.end > c.begin {
		return false
	}
	c.Settle()
	nc, ok := c.nc.(net.Conn)
	if !ok {
		return false
	}
	c.mu.Lock()
	c.tls = tls.Server(nc, config)
	c.nc, c.raw = c.tls, nc
	c.mu.Unlock()
	return c.handshake(ctx)
}
