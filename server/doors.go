package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"bigset/engine"
	"bigset/server/door"
)

// protocol serves a door. A *door.Server is one, and so is every type that embeds it. It may also have NotReady() []string, which returns
// why clients should not be sent to the door.
type protocol interface {
	// Serve serves a listener until Shutdown, or until the listener fails.
	Serve(ctx context.Context, ln net.Listener) error
	// Shutdown accepts no more connections, answers the requests in progress as long as ctx allows, and closes all connections.
	Shutdown(ctx context.Context) error
	Counts() door.Counts
}

// nodeDoor is one protocol of a node and where it is served.
type nodeDoor struct {
	name    string // in figures
	what    string // in sentences
	address string // where it listens
	flag    string // where the address comes from
	// open makes the protocol after the store has been opened. figures returns the protocol's figures other than its counts; nil means
	// none.
	open func(s *engine.Store, l *door.Limits) (p protocol, figures func() []engine.Metric, err error)
	// after returns when the door may be served. Clients that connect before wait. Nil means at once.
	after func()

	listener net.Listener
	protocol protocol
	figures  func() []engine.Metric
	ended    atomic.Pointer[error] // why the door is no longer served although the node has not been stopped
}

// doors are the doors of a node. They listen before the store is opened, are served afterwards, and end together.
type doors []*nodeDoor

// listen opens all listeners. After an error, close closes those that are open.
func (ds doors) listen() (err error) {
	for _, d := range ds {
		if d.listener, err = listen(d.address, d.what, d.flag); err != nil {
			return err
		}
	}
	return nil
}

// close closes the listeners of doors that are not served.
func (ds doors) close() error {
	var errs []error
	for _, d := range ds {
		if d.listener != nil {
			errs = append(errs, d.listener.Close())
		}
	}
	return errors.Join(errs...)
}

// open makes the protocols.
func (ds doors) open(s *engine.Store, l *door.Limits) (err error) {
	for _, d := range ds {
		if d.protocol, d.figures, err = d.open(s, l); err != nil {
			return err
		}
	}
	return nil
}

// shutdown ends all doors at once, so that no door has to wait for the clients of another before it reports that it stops.
func (ds doors) shutdown(ctx context.Context) error {
	errs := make([]error, len(ds))
	var wg sync.WaitGroup
	for i, d := range ds {
		wg.Go(func() {
			if err := d.protocol.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", d.what, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// notReady returns why clients should not be sent to some door.
func (ds doors) notReady() (reasons []string) {
	for _, d := range ds {
		if err := d.ended.Load(); err != nil {
			reasons = append(reasons, fmt.Sprintf("%s is served no more: %v", d.what, *err))
			continue
		}
		if p, ok := d.protocol.(interface{ NotReady() []string }); ok {
			for _, reason := range p.NotReady() {
				reasons = append(reasons, d.what+": "+reason)
			}
		}
	}
	return reasons
}

// metrics are the counts of all doors and the protocols' own figures.
func (ds doors) metrics() (list []engine.Metric) {
	counts := make([]door.Counts, len(ds))
	for i, d := range ds {
		counts[i] = d.protocol.Counts()
	}
	for _, f := range []struct {
		name, help string
		kind       func(name, help string, v uint64) engine.Metric
		timed      bool // only protocols whose connections the door ends have it
		value      func(*door.Counts) uint64
	}{
		{"door_connections", "connections that are open, by door", gauge[uint64], false, func(c *door.Counts) uint64 { return uint64(c.Connections) }},
		{"door_connections_accepted", "connections that were served, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.Accepted }},
		{"door_connections_refused", "connections that were too many, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.Refused }},
		{"door_connections_idle", "connections that were closed because they asked nothing, by door", counter[uint64], true, func(c *door.Counts) uint64 { return c.Idle }},
		{"door_connections_slow", "connections that were closed because a long request did not end or answers were not read, by door", counter[uint64], true, func(c *door.Counts) uint64 { return c.Slow }},
		{"door_connections_settled", "connections that got a goroutine for good because their requests wait, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.Settled }},
		{"door_handshakes_failed", "TLS handshakes that failed, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.Handshakes }},
		{"door_bytes_received", "bytes that came, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.BytesRead }},
		{"door_bytes_sent", "bytes that were sent, by door", counter[uint64], false, func(c *door.Counts) uint64 { return c.BytesWritten }},
	} {
		for i, d := range ds {
			if f.timed && !counts[i].Timed {
				continue
			}
			m := f.kind(f.name, f.help, f.value(&counts[i]))
			m.Label, m.Of = "door", d.name
			list = append(list, m)
		}
	}
	for _, d := range ds {
		if d.figures != nil {
			list = append(list, d.figures()...)
		}
	}
	return list
}
