package door

import (
	"context"
	"crypto/tls"
	"net"
)

// StartTLS makes the connection switch to TLS when the waiting answers have been written. If the client has sent bytes after the request
// that asks for TLS, they are not TLS and the connection is closed. The Handler stays the same and executes nothing more of this buffer.
func (c *Conn) StartTLS(config *tls.Config) { c.upgrade = config }

// upgradeTLS performs the handshake requested by StartTLS. It reports false if the connection ends.
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
