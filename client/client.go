package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"bigset/server/api"
	"bigset/server/wire"
)

// Options say how nodes are reached.
type Options struct {
	// Addrs are the addresses of nodes of one cluster, or of a node alone: HOST:PORT, at least one. Names are resolved at each dial.
	Addrs []string
	// TLS is the configuration of a client, for instance of server/certs.ClientConfig. Nil is no TLS, which only loopback addresses allow.
	TLS *tls.Config
	// Name is the name of this client in the nodes' logs, at most 255 bytes. With TLS the certificate gives the name, and this one is not sent.
	Name string
	// Timeout is how long a call may take, with everything that is sent again, if its context has no deadline; default 10 s. It does not bound
	// Count, Read, Elements and Names, whose answers may take as long as they need while the node is alive.
	Timeout time.Duration
}

// timeoutDefault is Options.Timeout where it is zero.
const timeoutDefault = 10 * time.Second

// How soon a node that says nothing is given up: it is asked after half a second whether it lives, and has two seconds to answer.
const (
	pingInterval = 500 * time.Millisecond
	silenceMax   = 2 * time.Second
)

// Client asks nodes. Open makes one. Its methods may be called by any number of goroutines.
type Client struct {
	nodes   []node
	links   []*wire.Link
	timeout time.Duration
	first   atomic.Int32 // the node that answered last
	reached atomic.Bool  // a node has answered
	sleep   func(ctx context.Context, end time.Time, pause time.Duration) (more bool)
}

// node is a node that may be asked.
type node struct {
	name string // in errors
	to   wire.Caller
}

// Open returns a client. It connects at the first call. Its errors wrap ErrOptions.
func Open(o Options) (*Client, error) {
	if len(o.Addrs) == 0 {
		return nil, fmt.Errorf("%w: no address", ErrOptions)
	}
	if o.Timeout < 0 || len(o.Name) > 255 {
		return nil, fmt.Errorf("%w: timeout %v, a name of %d bytes (0 to 255)", ErrOptions, o.Timeout, len(o.Name))
	}
	for _, addr := range o.Addrs {
		if err := checkAddress(addr, o.TLS != nil); err != nil {
			return nil, err
		}
	}
	if o.TLS != nil {
		o.Name = "" // the nodes refuse another name than the certificate's
	}
	c := &Client{timeout: o.Timeout, sleep: sleep}
	if c.timeout == 0 {
		c.timeout = timeoutDefault
	}
	for _, addr := range o.Addrs {
		l := wire.NewLink(wire.LinkOptions{
			Requests: 1,
			Dial:     func(ctx context.Context) (net.Conn, error) { return dial(ctx, addr, o.TLS) },
			Client: func() wire.ClientOptions {
				return wire.ClientOptions{
					Options: wire.Options{Errors: api.Errors{}, PingInterval: pingInterval, SilenceMax: silenceMax},
					Name:    o.Name,
				}
			},
		})
		c.links, c.nodes = append(c.links, l), append(c.nodes, node{addr, l})
	}
	return c, nil
}

// Over returns a client whose calls go over callers, one for each node: for tests, and for programs with connections of their own. The
// callers decode errors by server/api.Errors. Close does not close them.
func Over(callers ...wire.Caller) *Client {
	c := &Client{timeout: timeoutDefault, sleep: sleep}
	for i, to := range callers {
		c.nodes = append(c.nodes, node{"node " + strconv.Itoa(i+1), to})
	}
	return c
}

// Close ends the connections. Calls under way fail.
func (c *Client) Close() error {
	for _, l := range c.links {
		_ = l.Close() // it has no error
	}
	return nil
}

func checkAddress(addr string, encrypted bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%w: address %q is not HOST:PORT", ErrOptions, addr)
	}
	ip, err := netip.ParseAddr(host)
	if !encrypted && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%w: %s is not on this machine, and without TLS everyone on the way could read and change what is sent", ErrOptions, addr)
	}
	return nil
}

// dial connects to a node.
func dial(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	if config != nil {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if to, ok := nc.RemoteAddr().(*net.TCPAddr); !ok || !to.IP.IsLoopback() { // localhost may be any address, for those who write its hosts file
		_ = nc.Close()
		return nil, fmt.Errorf("%w: %s leads to %v, which is not on this machine, and there is no TLS", ErrOptions, addr, nc.RemoteAddr())
	}
	return nc, nil
}
