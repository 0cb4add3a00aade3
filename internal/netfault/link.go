package netfault

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Direction is one of the two directions of a connection.
type Direction int

// The directions.
const (
	Forth Direction = iota // from the dialer to the dialed
	Back
)

func (d Direction) other() Direction { return 1 - d }

// rule holds the faults of one direction.
type rule struct {
	delay, jitter time.Duration
	rate          int64 // bytes a second, 0 is unlimited
	held          bool
	swallowed     bool
}

func (r rule) blocked() bool { return r.held || r.swallowed }

// Link is the path from a dialer to a dialed process.
type Link struct {
	from, to, addr string
	seed           uint64
	running        sync.WaitGroup
	done           chan struct{} // closed by close

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while dials are refused
	rules    [2]rule
	changed  chan struct{} // closed, and replaced, when rules change
	conns    map[*conn]bool
	made     uint64 // connections
	fragile  int64  // mean bytes of a connection's life, 0 is unlimited
	closed   bool
}

func newLink(seed uint64, from, to, target string) (*Link, error) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q%q", from, to)
	l := &Link{from: from, to: to, target: target, seed: seed ^ h.Sum64(), changed: make(chan struct{}), done: make(chan struct{}), conns: map[*conn]bool{}}
	address, err := FreeAddress() // Refuse(false) listens there again
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("netfault: %w", err)
	}
	l.addr = listener.Addr().String()
	l.listen(listener)
	return l, nil
}

// Addr returns the address to dial. It stays the same for the life of the link.
func (l *Link) Addr() string { return l.addr }

// Target changes where new connections lead.
func (l *Link) Target(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = addr
}

// Delay makes bytes arrive later, by d and up to jitter more. The order is kept.
func (l *Link) Delay(dir Direction, d, jitter time.Duration) {
	l.change(dir, func(r *rule) { r.delay, r.jitter = d, jitter })
}

// Limit bounds the rate of each connection, in bytes a second; 0 is no limit.
func (l *Link) Limit(dir Direction, bytesPerSecond int64) {
	l.change(dir, func(r *rule) { r.rate = bytesPerSecond })
}

// Hold stops a direction, or lets it continue. Nothing is lost. New connections wait while Forth is held.
func (l *Link) Hold(dir Direction, on bool) { l.change(dir, func(r *rule) { r.held = on }) }

// Pause holds both directions, or lets both continue: the other side accepts connections and does nothing, like a process after
// SIGSTOP.
func (l *Link) Pause(on bool) {
	l.Hold(Forth, on)
	l.Hold(Back, on)
}

// Swallow drops what is sent in a direction. When it ends, connections that lost something are reset. New connections wait while
// Forth is swallowed.
func (l *Link) Swallow(dir Direction, on bool) {
	l.change(dir, func(r *rule) { r.swallowed = on })
	if on {
		return
	}
	for _, c := range l.connections() {
		if c.lossy[dir].Load() {
			c.end(true)
		}
	}
}

// change changes the rule of a direction, and wakes the goroutines that wait for a change.
func (l *Link) change(dir Direction, f func(*rule)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.rules[dir])
	close(l.changed)
	l.changed = make(chan struct{})
}

// rule returns the rule of a direction, and a channel that is closed when the rule may have changed.
func (l *Link) rule(dir Direction) (rule, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules[dir], l.changed
}

// Fragile makes each new connection end with a reset after a number of bytes, both directions together, that is drawn with this
// mean. 0 makes new connections last.
func (l *Link) Fragile(meanBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fragile = meanBytes
}

// How is a way to cut a connection.
type How int

// The two ways.
const (
	FIN How = iota // both sides read an end, as after a clean close
	RST            // both sides get an error, as after a crash
)

// Cut closes the existing connections, at both sides. It returns their number.
func (l *Link) Cut(how How) int {
	all := l.connections()
	for _, c := range all {
		if how == RST {
			c.end(true)
		} else {
			c.finish()
		}
	}
	return len(all)
}

func (l *Link) connections() (all []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

// relisten is how long Refuse waits for a port that another listener may have taken.
const relisten = 10 * time.Second

// Refuse closes the port, so that dials are refused, or opens it again. Existing connections stay.
func (l *Link) Refuse(on bool) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := l.refuse(on); err == nil || errors.Is(err, net.ErrClosed) || time.Since(began) > relisten {
			return err
		}
	}
}

func (l *Link) refuse(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return net.ErrClosed
	case on && l.listener != nil:
		l.listener.Close()
		l.listener = nil
	case !on && l.listener == nil:
		listener, err := net.Listen("tcp", l.addr)
		if err != nil {
			return fmt.Errorf("netfault: %w", err)
		}
		l.listen(listener)
	}
	return nil
}

// Heal ends all faults.
func (l *Link) Heal() error {
	for _, dir := range []Direction{Forth, Back} {
		l.Delay(dir, 0, 0)
		l.Limit(dir, 0)
		l.Hold(dir, false)
		l.Swallow(dir, false)
	}
	l.Fragile(0)
	return l.Refuse(false)
}

// listen accepts connections until the listener is closed. The caller holds the mutex, or the link is new.
func (l *Link) listen(listener net.Listener) {
	l.listener = listener
	l.running.Go(func() {
		for {
			c, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // for example, out of descriptors
				time.Sleep(time.Millisecond)
				continue
			}
			l.running.Go(func() { l.serve(c.(*net.TCPConn)) })
		}
	})
}

// serve forwards bytes between the two sides of a connection, until both have ended.
func (l *Link) serve(dialer *net.TCPConn) {
	c := newConn(l, dialer)
	if !l.add(c) {
		c.end(true)
		return
	}
	defer l.remove(c)
	if !c.passable(Forth) {
		return
	}
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	dialed, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil || !c.attach(dialed.(*net.TCPConn)) {
		c.end(true)
		return
	}
	c.run()
}

func (l *Link) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c] = true
	for dir := range c.random {
		c.random[dir] = rand.New(rand.NewPCG(l.seed, 2*l.made+uint64(dir)))
	}
	if l.fragile > 0 {
		c.life.Store(1 + int64(c.random[Forth].ExpFloat64()*float64(l.fragile)))
		c.fragile = true
	}
	l.made++
	return true
}

func (l *Link) remove(c *conn) {
	c.end(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *Link) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
		if l.listener != nil {
			l.listener.Close()
		}
	}
	l.mu.Unlock()
	l.Cut(RST)
	l.running.Wait()
}
