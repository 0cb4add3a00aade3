package netfault

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// Net has all links of a test.
type Net struct {
	seed   uint64
	mu     sync.Mutex
	links  map[ends]*Link
	closed bool
}

// ends are the names of the dialer and the dialed.
type ends struct{ from, to string }

// New returns a net without links. The seed decides jitter and the life of fragile connections; Close ends it.
func New(seed uint64) *Net { return &Net{seed: seed, links: map[ends]*Link{}} }

// Link makes the link by which from dials to, which listens at target. The link listens at a free port of 127.0.0.1, see
// [Link.Addr]. Each pair has one link.
func (n *Net) Link(from, to, target string) (*Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	if n.links[ends{from, to}] != nil {
		return nil, fmt.Errorf("netfault: %s has a link to %s", from, to)
	}
	l, err := newLink(n.seed, from, to, target)
	if err != nil {
		return nil, err
	}
	n.links[ends{from, to}] = l
	return l, nil
}

// Get returns the link by which from dials to, or nil if it was not made.
func (n *Net) Get(from, to string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.links[ends{from, to}]
}

// OneWay holds or passes everything that from sends to to, on connections that either of them has dialed. The other direction is
// not changed.
func (n *Net) OneWay(from, to string, hold bool) {
	if l := n.Get(from, to); l != nil {
		l.Hold(Forth, hold)
	}
	if l := n.Get(to, from); l != nil {
		l.Hold(Back, hold)
	}
}

// Part holds or passes everything between a and b, in both directions.
func (n *Net) Part(a, b string, hold bool) {
	n.OneWay(a, b, hold)
	n.OneWay(b, a, hold)
}

// Isolate separates one process from all others, or joins it with them.
func (n *Net) Isolate(name string, hold bool) {
	for _, l := range n.all() {
		if l.from == name || l.to == name {
			l.Hold(Forth, hold)
			l.Hold(Back, hold)
		}
	}
}

// Heal ends all faults of all links.
func (n *Net) Heal() error {
	var errs []error
	for _, l := range n.all() {
		errs = append(errs, l.Heal())
	}
	return errors.Join(errs...)
}

func (n *Net) all() (all []*Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		all = append(all, l)
	}
	return all
}

// Close closes all ports and connections, and waits for the goroutines of the net.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	for _, l := range n.all() {
		l.close()
	}
}
