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

// Options say how to reach the nodes.
type Options struct {
	// Addrs are the addresses of nodes of one cluster, or of one node without a cluster: HOST:PORT, at least one. Names are resolved at
	// each dial.
	Addrs []string
	// TLS is the configuration of a TLS client, for instance of server/certs.ClientConfig. Nil means no TLS, which is allowed for loopback
	// addresses only.
	TLS *tls.Config
	// Name is the name of this client in the nodes' logs, at most 255 bytes. With TLS the certificate gives the name and this one is not
	// sent.
	Name string
	// Timeout bounds a call whose context has no deadline, including everything that is sent again; the default is 10 s. It does not bound
	// Count, Read, Elements and Sets, whose answers may take as long as the node is alive.
	Timeout time.Duration
	// Again is called each time that all nodes have been asked and are asked again, with the time at which the call began and what is wrong so
	// far. It must not wait, and may be called by any goroutine that uses the client. Nil calls nothing.
	Again func(began time.Time, err error)
}

// timeoutDefault is the default of Options.Timeout.
const timeoutDefault = 10 * time.Second

// A silent node gets a ping after half a second, and is given up after two seconds of silence.
const (
	pingInterval = 500 * time.Millisecond
	silenceMax   = 2 * time.Second
)

// Client sends requests to nodes. Open makes one. Its methods may be called by any number of goroutines.
type Client struct {
	nodes   []node
	links   []*wire.Link
	timeout time.Duration
	first   atomic.Int32 // the node that last answered
	reached atomic.Bool  // a node has answered
	closed  atomic.Bool
	again   func(began time.Time, err error)
	// sleep is the function sleep, or a test's.
	sleep func(ctx context.Context, end time.Time, pause time.Duration) (more bool)
}

// node is one node that can be asked.
type node struct {
	name string // for errors
	to   wire.Caller
}

// Open returns a client. The client connects at the first call. Errors wrap ErrOptions.
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
		o.Name = "" // the nodes refuse a name that differs from the certificate's
	}
	c := &Client{timeout: o.Timeout, sleep: sleep, again: o.Again}
	if c.timeout == 0 {
		c.timeout = timeoutDefault
	}
	for _, addr := range o.Addrs {
		l := wire.NewLink(wire.LinkOptions{
			Requests: 1,
			Dial:     func(ctx context.Context) (net.Conn, error) { return dial(ctx, addr, o.TLS) },
			Client: func() wire.ClientOptions {
				return wire.ClientOptions{
					Options:   wire.Options{Errors: api.Errors{}, PingInterval: pingInterval, SilenceMax: silenceMax},
					Unwatched: true,
					Name:      o.Name,
				}
			},
		})
		c.links, c.nodes = append(c.links, l), append(c.nodes, node{addr, l})
	}
	return c, nil
}

// Over returns a client that sends its calls over callers, one for each node. It is for tests, and for programs that make their own
// connections. The callers must decode errors with server/api.Errors. Close does not close them.
func Over(callers ...wire.Caller) *Client {
	c := &Client{timeout: timeoutDefault, sleep: sleep}
	for i, to := range callers {
		c.nodes = append(c.nodes, node{"node " + strconv.Itoa(i+1), to})
	}
	return c
}

// Close closes the connections. Calls in progress fail, and so do later ones.
func (c *Client) Close() error {
	c.closed.Store(true)
	for _, l := range c.links {
		_ = l.Close() // it never fails
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
	if to, ok := nc.RemoteAddr().(*net.TCPAddr); !ok || !to.IP.IsLoopback() { // localhost may be any address: the hosts file decides
		_ = nc.Close()
		return nil, fmt.Errorf("%w: %s leads to %v, which is not on this machine, and there is no TLS", ErrOptions, addr, nc.RemoteAddr())
	}
	return nc, nil
}
