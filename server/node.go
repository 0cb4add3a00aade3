package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/server/alone"
	"bigset/server/bloomd"
	"bigset/server/cluster"
	"bigset/server/door"
	"bigset/server/resp"
	"bigset/server/setname"
	"bigset/server/tokens"
)

// ErrListen is in the chain of every error about an address that can't be listened on.
var ErrListen = errors.New("server: can't listen")

// longBytesLeast is the lower bound of the memory that long requests of all clients may use together.
const longBytesLeast = 512 << 20

// Node is a running server. All its methods may be called by any number of goroutines.
type Node struct {
	config  Config
	log     *slog.Logger
	started time.Time

	doors                         doors        // the first is bloomd's protocol, or, in a cluster, the port for nodes and clients
	adminListener, healthListener net.Listener // nil if the configuration has no such port; so are admin and health
	admin, health                 *http.Server
	limits                        *door.Limits                 // of all doors
	store                         atomic.Pointer[engine.Store] // nil while the store is being opened
	member                        *cluster.Member              // nil without a cluster
	sets                          *alone.Backend               // nil in a cluster, and before a door needs it
	tokens                        *tokens.List
	certs                         certificates
	met                           chan struct{} // closed when joined has returned; inTime is set before
	inTime                        bool          // the node was not being stopped at that time

	ended      chan error // the error of a listener that should not have ended
	timers     sync.WaitGroup
	stopTimers context.CancelFunc
	stopOnce   sync.Once
	stopErr    error
	stopping   atomic.Bool
	backingUp  sync.Mutex
	sums       filterSums
	refusals   refusalLog

	flushes, flushErrors, coldCloses atomic.Uint64
	flushFailed                      atomic.Pointer[error] // why the timer's last flush failed; nil if it succeeded
}

// Start starts a node. When it returns, clients are answered and the service manager has been notified. Errors are ErrListen, ErrConfig,
// ErrMember and those of engine.Open; after an error nothing is left open.
func Start(c Config, log *slog.Logger) (*Node, error) { return start(c, log) }

// start starts a node with further doors.
func start(c Config, log *slog.Logger, more ...*nodeDoor) (*Node, error) {
	err := c.Validate()
	if err != nil {
		return nil, err
	}
	if most := door.ConnectionsMost(c.MaxConnections, door.Descriptors()); most < c.MaxConnections {
		log.Warn("bigset: fewer connections than configured: the process may open no more files (ulimit -n, LimitNOFILE)",
			"max_connections", c.MaxConnections, "connections", most, "files", door.Descriptors())
		c.MaxConnections = most
	}
	n := &Node{config: c, log: log, started: time.Now(), met: make(chan struct{}), refusals: refusalLog{log: log}}
	forBloomd := &nodeDoor{name: "bloomd", what: "bloomd's protocol", address: c.Address(), flag: "--bloomd", open: n.newBloomd}
	forPeers := &nodeDoor{name: "peers", what: "the port for nodes and clients", address: c.Peers.Listen, flag: "--listen", open: n.newPeers}
	if c.Peers.Peers != "" {
		forBloomd.after = n.joined
	}
	switch { // the member must be made before its filters are served
	case c.Peers.Peers != "" && c.Peers.Bloomd:
		n.doors = doors{forPeers, forBloomd}
	case c.Peers.Peers != "":
		n.doors = doors{forPeers}
	case c.Peers.has():
		n.doors = doors{forBloomd, forPeers}
	default:
		n.doors = doors{forBloomd}
	}
	if c.Resp != "" {
		n.doors = append(n.doors, &nodeDoor{name: "resp", what: "the protocol of redis", address: c.Resp, flag: "--resp", open: n.newResp, after: forBloomd.after})
	}
	if c.HTTP != "" {
		n.doors = append(n.doors, &nodeDoor{name: "http", what: "HTTP", address: c.HTTP, flag: "--http", open: n.newHTTP})
	}
	if c.Riak != "" {
		n.doors = append(n.doors, &nodeDoor{name: "riak", what: "Riak's protocol", address: c.Riak, flag: "--riak", open: n.newRiak, after: forBloomd.after})
	}
	n.doors = append(n.doors, more...)
	n.ended = make(chan error, len(n.doors)+2)
	if err := n.loadCertificates(); err != nil {
		return nil, err
	}
	if err := n.doors.listen(); err != nil {
		return nil, n.giveUp(err, nil)
	}
	if c.Admin != "" {
		if n.adminListener, err = listen(c.Admin, "the admin port", "--admin"); err != nil {
			return nil, n.giveUp(err, nil)
		}
		n.admin = n.adminServer()
		go n.serve("admin port", func() error { return n.admin.Serve(n.adminListener) })
	}
	if c.Health != "" {
		if n.healthListener, err = listen(c.Health, "the health port", "--health"); err != nil {
			return nil, n.giveUp(err, nil)
		}
		n.health = n.healthServer()
		go n.serve("health port", func() error { return n.health.Serve(n.healthListener) })
	}
	s, err := n.openStore()
	if err != nil {
		return nil, n.giveUp(err, nil)
	}
	if c.Peers.Peers == "" {
		if err := CheckAlone(s); err != nil {
			return nil, n.giveUp(err, s)
		}
	}
	if n.tokens, err = tokens.Open(TokenDisk(s), c.Peers.Peers == ""); err != nil {
		return nil, n.giveUp(fmt.Errorf("server: %w", err), s)
	}
	n.warnInsecure()
	n.limits = door.NewLimits(door.LimitsOptions{Connections: c.MaxConnections, LongBytes: max(longBytesLeast, int64(c.MaxLine))})
	if err := n.doors.open(s, n.limits); err != nil {
		return nil, n.giveUp(err, s)
	}
	n.store.Store(s)
	if n.member != nil {
		n.timers.Go(func() {
			n.joined()
			n.inTime = !n.stopping.Load()
			close(n.met)
		})
	}
	for _, d := range n.doors {
		go n.serveDoor(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stopTimers = cancel
	n.every(ctx, c.FlushInterval, n.flushFilters)
	n.every(ctx, c.ColdInterval, n.closeColdFilters)
	if c.SetDurability == SetsEverySecond {
		n.every(ctx, time.Second, n.syncSets)
	}
	var served []any
	for _, d := range n.doors {
		served = append(served, d.name, d.listener.Addr().String())
	}
	log.With(served...).Info("bigset: serving", "dir", c.DataDir, "admin", c.Admin, "health", c.Health,
		"durability", durabilityNames[c.durability()], "set_durability", setDurabilityNames[c.SetDurability])
	if err := notify("READY=1"); err != nil {
		log.Warn("bigset: the service manager could not be notified", "cause", err)
	}
	return n, nil
}

// giveUp closes what a failed Start has opened. s may be nil.
func (n *Node) giveUp(err error, s *engine.Store) error {
	n.stopping.Store(true)
	errs := []error{err, n.doors.close(), n.closeMember(context.Background())}
	if s != nil {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, n.closeAdmin())...)
}

// closeAdmin closes the admin port and the health port, if they are open, in this order.
func (n *Node) closeAdmin() error {
	var errs []error
	for _, srv := range []*http.Server{n.admin, n.health} {
		if srv != nil {
			errs = append(errs, srv.Close())
		}
	}
	return errors.Join(errs...)
}

// noKey reports whether a name of a set is no key of redis.
func noKey(name []byte) bool {
	_, ok := setname.Key(name)
	return !ok
}

func (n *Node) openStore() (*engine.Store, error) {
	var o engine.Options
	if n.config.Store != nil {
		o = *n.config.Store
	}
	o.FilterDurability, o.FilterCacheBytes, o.Logger = n.config.durability(), int64(n.config.FilterCache), n.log
	o.FilterLimits = n.config.filterLimits()
	o.CountApart = noKey
	s, err := engine.Open(n.config.DataDir, &o)
	if errors.Is(err, engine.ErrFormat) {
		if own, _ := filepath.Glob(filepath.Join(n.config.DataDir, "bloomd.*")); len(own) > 0 {
			err = fmt.Errorf("%w; a bloomd has its filters there, start with another folder, into which `bigset filter import-bloomd %s` takes them over",
				err, n.config.DataDir)
		}
	}
	return s, err
}

// newBloomd makes the door for bloomd's protocol.
func (n *Node) newBloomd(s *engine.Store, limits *door.Limits) (protocol, func() []engine.Metric, error) {
	c := &n.config
	srv, err := bloomd.New(n.servedFilters(s),
		door.Options{Limits: limits, RequestBytesMax: c.MaxLine, IdleTime: c.Idle, Loops: c.loops(), Log: n.log})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return srv, func() []engine.Metric { return bloomdMetrics(srv.Metrics()) }, nil
}

// newResp makes the door for the protocol of redis.
func (n *Node) newResp(s *engine.Store, limits *door.Limits) (protocol, func() []engine.Metric, error) {
	c := &n.config
	o := resp.Options{Version: c.Version, Node: c.Peers.Node, Durability: setDurabilityNames[c.SetDurability], Tokens: n.guard(c.Resp), Expansion: int(c.Filters.Scale),
		Options: door.Options{Limits: limits, RequestBytesMax: max(c.MaxLine, resp.RequestBytesLeast), IdleTime: c.Idle, Loops: c.loops(), Log: n.log}}
	n.clientTLS(&o.Options)
	srv, err := resp.New(n.servedSets(s), n.servedFilters(s), o)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return srv, func() []engine.Metric { return respMetrics(srv.Metrics()) }, nil
}

// servedSets returns the sets that doors serve: those of the cluster, or of the store.
func (n *Node) servedSets(s *engine.Store) door.Backend {
	if n.member != nil {
		return n.member.Backend()
	}
	return n.aloneSets(s)
}

// aloneSets returns the sets of a node alone. All doors share them, and so the positions of followers. It is called while doors are opened, one after the other.
func (n *Node) aloneSets(s *engine.Store) *alone.Backend {
	switch {
	case n.sets != nil:
	case n.config.SetDurability == SetsAlways:
		n.sets = alone.New(s)
	default:
		n.sets = alone.NewUnsynced(s)
	}
	if n.config.SkipPresent {
		n.sets.SkipPresent()
	}
	n.sets.Bound(n.limits)
	return n.sets
}

// stopFollowing ends the requests that wait for changes of sets: doors wait for requests in progress.
func (n *Node) stopFollowing() {
	if n.sets != nil {
		n.sets.StopFollowing()
	}
	if n.member != nil {
		n.member.StopFollowing()
	}
}

// servedFilters returns the filters that doors serve: those of the cluster, or of the store.
func (n *Node) servedFilters(s *engine.Store) door.Filters {
	if n.member != nil {
		return n.member.Filters()
	}
	return &bloomFilters{store: s, defaults: bigset.FilterOptions{Options: n.config.Filters, InMemory: n.config.InMemory}, node: n}
}

// joinTime bounds how long connected clients of bloomd wait for a node that has just started to find the other members of its cluster.
// Later they get an error.
const joinTime = 5 * time.Second

// joined returns when the member can serve clients, or when joinTime has passed.
func (n *Node) joined() {
	for end := time.Now().Add(joinTime); !n.stopping.Load() && !n.member.Met() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// entered waits until joined has returned. The door for HTTP calls it for each request but those for health. It reports false if the node
// is stopped before it could serve, or if ctx ends.
func (n *Node) entered(ctx context.Context) bool {
	select {
	case <-n.met:
		return n.inTime
	case <-ctx.Done():
		return false
	}
}

// listen listens at an address. Its errors name flag, the setting that gave the address.
func listen(address, what, flag string) (net.Listener, error) {
	return listenBy(net.Listen, address, what, flag)
}

// listenBy listens by net.Listen, or by what a test gives instead.
func listenBy(open func(network, address string) (net.Listener, error), address, what, flag string) (net.Listener, error) {
	network := "tcp"
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr().Is4() {
		network = "tcp4" // otherwise 0.0.0.0 would include all of IPv6
	}
	l, err := open(network, address)
	switch {
	case err == nil:
		if elsewhere(address, l.Addr()) {
			return nil, errors.Join(fmt.Errorf("%w on %s for %s: it is %v on this machine, which can be reached from elsewhere: give 127.0.0.1", ErrListen, address, what, l.Addr()), l.Close())
		}
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w on %s for %s: another program listens there; stop it, or choose another address by %s", ErrListen, address, what, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w on %s for %s: this machine does not have that address", ErrListen, address, what)
	}
	return nil, fmt.Errorf("%w on %s for %s: %w", ErrListen, address, what, err)
}

// serve runs a listener. A listener that ends by itself ends the node.
func (n *Node) serve(what string, run func() error) {
	if err := run(); !n.stopping.Load() {
		n.ended <- fmt.Errorf("server: %s ended: %w", what, err)
	}
}

// serveDoor serves a door. If a door ends while the node runs, the node is no longer ready.
func (n *Node) serveDoor(d *nodeDoor) {
	n.serve(d.what, func() error {
		if d.after != nil {
			d.after()
		}
		err := d.protocol.Serve(context.Background(), d.listener)
		if !n.stopping.Load() {
			d.ended.Store(&err)
		}
		return err
	})
}

// Addr returns the address of the first door: bloomd's protocol or, in a cluster, the port for nodes and clients.
func (n *Node) Addr() net.Addr { return n.doors[0].listener.Addr() }

// AdminAddr returns the address of the admin port, or nil.
func (n *Node) AdminAddr() net.Addr { return addrOf(n.adminListener) }

// HealthAddr returns the address of the health port, or nil.
func (n *Node) HealthAddr() net.Addr { return addrOf(n.healthListener) }

func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// Wait returns nil when ctx ends, or an error when a listener fails. Then stop the node.
func (n *Node) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.ended:
		return err
	}
}

// every calls f at an interval; 0 means never.
func (n *Node) every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	if interval <= 0 {
		return
	}
	n.timers.Go(func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				f(ctx)
			}
		}
	})
}

func (n *Node) flushFilters(ctx context.Context) {
	err := n.store.Load().Filters().Flush(ctx)
	if ctx.Err() != nil {
		return // Stop flushes
	}
	n.flushes.Add(1)
	if err == nil {
		n.flushFailed.Store(nil)
		return
	}
	n.flushErrors.Add(1)
	n.flushFailed.Store(&err)
	n.log.Error("bigset: filters could not be flushed, it is tried again", "in", n.config.FlushInterval, "cause", err)
}

// syncSets makes changes of sets durable that were acknowledged before. A store that fails reports it itself, once in the log and on
// /readyz.
func (n *Node) syncSets(ctx context.Context) { _ = n.store.Load().SyncSets(ctx) }

func (n *Node) closeColdFilters(ctx context.Context) {
	closed, err := n.store.Load().Filters().CloseCold(ctx)
	n.coldCloses.Add(uint64(closed))
	if closed > 0 {
		n.log.Info("bigset: cold filters closed", "filters", closed)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Error("bigset: cold filters could not be closed", "cause", err)
	}
}

// Stop stops a node: it accepts no new clients, answers the requests in progress, flushes filters and closes the store. ctx bounds the wait
// for clients, not the work of the disk. If Stop returns nil, everything acknowledged is on disk.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.stopping.Store(true)
		n.log.Info("bigset: stopping")
		if err := notify("STOPPING=1"); err != nil {
			n.log.Warn("bigset: the service manager could not be notified", "cause", err)
		}
		n.stopFollowing()
		if err := n.doors.shutdown(ctx); err != nil {
			n.log.Warn("bigset: clients were cut off", "cause", err)
		}
		if err := n.closeMember(ctx); err != nil {
			n.log.Warn("bigset: the member of the cluster ended badly", "cause", err)
		}
		n.stopTimers()
		// Flush before any wait: a backup may take as long as the service manager waits before it kills the process.
		if err := n.store.Load().Filters().Flush(context.Background()); err != nil {
			n.log.Error("bigset: filters could not be flushed, it is tried again", "cause", err)
		}
		n.timers.Wait()
		n.stopErr = errors.Join(n.store.Load().Close(), n.closeAdmin())
		if n.stopErr == nil {
			n.log.Info("bigset: stopped")
		}
	})
	return n.stopErr
}
