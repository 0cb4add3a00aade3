package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"path/filepath"
	"sync"
	"time"

	"bigset/bench/system"

	"bigset"
	"bigset/client"
	"bigset/keyscheme"
	"bigset/server/certs"
	"bigset/server/coord"
	"bigset/server/wire"
)

const (
	verbEcho   wire.Verb = 1
	verbStream wire.Verb = 2
	// callBytes is the length of a call without content, about that of an add. partBytes is the length of a part of a stream.
	callBytes = 100
	partBytes = 256 << 10
	// callersMany is how many goroutines call at one time in loads with many callers.
	callersMany = 64
)

// transport measures calls and streams between two ends in this process, over loopback, plain and encrypted, and those of bare sockets.
func (l *lab) transport() error {
	config, err := l.encryption()
	if err != nil {
		return err
	}
	parts := 4000
	if l.c.Short {
		parts = 20
	}
	return l.inTurns(
		func() error { return l.transportOver(systemWire, nil, parts) },
		func() error { return l.transportOver(systemWireTLS, config, parts) },
		func() error { return l.sockets(systemSocket, nil, parts) },
		func() error { return l.sockets(systemSocketTLS, config, parts) })
}

// encryption holds the TLS configurations of both ends of a connection.
type encryption struct{ server, client *tls.Config }

func (l *lab) encryption() (*encryption, error) {
	ca := filepath.Join(l.root, fmt.Sprintf("wire-ca-%d", l.round))
	node, bench := ca+"-node", ca+"-client"
	if err := certs.MakeCA(ca, certs.CAOptions{Cluster: clusterName}); err != nil {
		return nil, err
	}
	_, err := certs.Issue(node, certs.IssueOptions{CA: ca, Role: certs.RoleNode, Name: "a", Hosts: []string{"127.0.0.1"}})
	_, err1 := certs.Issue(bench, certs.IssueOptions{CA: ca, Role: certs.RoleClient, Name: "bench"})
	server, err2 := certs.ServerConfig(node)
	client, err3 := certs.ClientConfig(bench)
	return &encryption{server, client}, errors.Join(err, err1, err2, err3)
}

// listen opens a listener of this machine, encrypted as given, and returns the function that dials it. A nil encryption means plain.
func (e *encryption) listen() (ln net.Listener, dial func(context.Context) (net.Conn, error), err error) {
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, err
	}
	to := (&net.Dialer{}).DialContext
	if e != nil {
		ln, to = tls.NewListener(ln, e.server), (&tls.Dialer{Config: e.client}).DialContext
	}
	return ln, func(ctx context.Context) (net.Conn, error) { return to(ctx, "tcp", ln.Addr().String()) }, nil
}

// transportOver measures connections that are encrypted as given; nil means plain.
func (l *lab) transportOver(system string, with *encryption, parts int) error {
	return l.wired(parts, with, func(newLink func() *wire.Link) error {
		link := newLink()
		body := make([]byte, callBytes)
		over := func(link *wire.Link) (func() error, error) {
			return func() error {
				_, err := link.Do(l.ctx, wire.Call{Verb: verbEcho, Body: body})
				return err
			}, nil
		}
		call := func(int) (func() error, error) { return over(link) }
		return errors.Join(
			l.load("transport/1", system, nil, 1, call),
			l.load("transport/64", system, nil, callersMany, call),
			l.load("transport/64-connections", system, nil, callersMany, func(int) (func() error, error) { return over(newLink()) }),
			l.stream(system, parts, link.Stream(l.ctx, wire.Call{Verb: verbStream, Priority: wire.PriorityRead})))
	})
}

// wired calls f with a function that makes links to a server, which echoes calls and answers streams with that many parts.
func (l *lab) wired(parts int, with *encryption, f func(newLink func() *wire.Link) error) error {
	part := make([]byte, partBytes)
	s := wire.NewServer(wire.ServerOptions{Handler: func(_ context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb != verbStream {
			return r.Body, nil
		}
		for range parts - 1 {
			if err := send(part); err != nil {
				return nil, err
			}
		}
		return part, nil
	}})
	ln, dial, err := with.listen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ctx, ln) })
	var links []*wire.Link
	err = f(func() *wire.Link {
		links = append(links, wire.NewLink(wire.LinkOptions{Requests: 1,
			Dial:   dial,
			Client: func() wire.ClientOptions { return wire.ClientOptions{Unwatched: true} }, // as of package client
		}))
		return links[len(links)-1]
	})
	for _, link := range links {
		err = errors.Join(err, link.Close())
	}
	err = errors.Join(err, s.Shutdown(ctx))
	cancel()
	_ = ln.Close() // Serve may have closed it
	wg.Wait()
	return err
}

// stream measures a stream of parts.
func (l *lab) stream(of string, parts int, all iter.Seq2[[]byte, error]) error {
	p := &phase{ctx: l.ctx, hist: newHistogram()}
	began, cpu, got := time.Now(), cpuNow(), 0
	for part, err := range all {
		if err != nil {
			return err
		}
		got += len(part)
		p.ops++
	}
	took := time.Since(began)
	var f Figures
	p.figures(&f, took, cpuNow()-cpu)
	f.MBPerSecond = new(float64(got) / 1e6 / took.Seconds())
	l.took("transport/stream", of, partBytes, f, nil)
	return system.Expect("bytes streamed", got, parts*partBytes)
}

// element returns an element that has not been added yet.
func (l *lab) element() []byte { return l.names().Append(nil, int(l.next.Add(1))) }

// sharing defines how the callers of a load share clients, and thereby connections.
type sharing struct {
	name    string // suffix of the load's name
	callers int
	whole   bool                                                                      // all callers share one client
	client  func(ps *processes, g int) (key int, open func() (*client.Client, error)) // the client of caller g; callers with the same key share it
}

// sharings are the loads of adds. A client.Client may be shared by goroutines; separate programs have one each.
var sharings = []sharing{
	{"1", 1, false, clientEach},
	{"64", callersMany, false, clientEach},
	{"64-shared", callersMany, false, clientOfNode},
	{"64-program", callersMany, true, clientOfProgram},
}

// clientEach gives each caller a client of its own to one of the nodes, as 64 programs would have.
func clientEach(ps *processes, g int) (int, func() (*client.Client, error)) {
	return g, ps.all[g%len(ps.all)].client
}

// clientOfNode gives the callers of each node one client, as three programs would have that are configured with one node each.
func clientOfNode(ps *processes, g int) (int, func() (*client.Client, error)) {
	at := g % len(ps.all)
	return at, ps.all[at].client
}

// clientOfProgram gives all callers the single client of a program that knows all nodes: it uses the node that has answered last.
func clientOfProgram(ps *processes, _ int) (int, func() (*client.Client, error)) {
	return 0, func() (*client.Client, error) {
		o := client.Options{TLS: ps.all[0].tls}
		for _, p := range ps.all {
			o.Addrs = append(o.Addrs, p.listen)
		}
		return client.Open(o)
	}
}

// addingAt returns what adds an element to a set, for load, and what closes the clients.
func (l *lab) addingAt(ps *processes, s *sharing) (begin func(g int) (func() error, error), closeAll func()) {
	opened := map[int]*client.Client{}
	return func(g int) (func() error, error) {
			key, open := s.client(ps, g)
			c := opened[key]
			if c == nil {
				var err error
				if c, err = open(); err != nil {
					return nil, err
				}
				opened[key] = c
			}
			return func() error {
				_, err := c.Write(l.ctx, client.Write{Set: []byte(system.SetName), Ops: []client.Op{{Kind: client.OpAdd, Element: l.element()}}})
				return err
			}, nil
		}, func() {
			for _, c := range opened {
				_ = c.Close() // it has no error
			}
		}
}

// adding measures adds of one client and of many callers, which have a client each or share them.
func (l *lab) adding() error {
	for i := range sharings {
		s := &sharings[i]
		workload := "add/" + s.name
		var list []func() error
		for _, system := range []string{systemAlone, systemCluster, systemTLS} {
			if system == systemAlone && s.whole { // it has one node: the same as with a client for each
				continue
			}
			list = append(list, func() error { return l.addTo(workload, system, s) })
		}
		if local := fmt.Sprintf("add/%d", s.callers); workload == local {
			list = append(list,
				func() error { return l.addLocally(workload, systemLocal, 1, s.callers) },
				func() error { return l.addCoordinated(workload, s.callers) },
				func() error { return l.addLocally(workload, "applies", 3, s.callers) })
		}
		if err := l.inTurns(list...); err != nil {
			return err
		}
		l.floor(s)
	}
	return nil
}

func (l *lab) addTo(workload, system string, s *sharing) error {
	ps, err := l.started(system)
	if err != nil {
		return err
	}
	if err := l.warm(ps); err != nil {
		return err
	}
	begin, closeAll := l.addingAt(ps, s)
	defer closeAll()
	return l.load(workload, system, ps, s.callers, begin)
}

// warmBytes is how much data each node of a load gets before: enough that it reuses old write logs, as a store does that has run for long.
// A sync of a new log takes half as long again. The stores in this process are warmed in the same way.
const warmBytes = 160 << 20

// warm brings nodes to the state of a long run, once.
func (l *lab) warm(ps *processes) error {
	if ps.warm || l.c.Short {
		return nil
	}
	ps.warm = true
	c, err := ps.all[0].client()
	if err != nil {
		return err
	}
	defer c.Close()
	elements := system.WarmElements(8 << 20)
	for n := 0; n < warmBytes; {
		var ops []client.Op
		for _, e := range elements {
			n += len(e)
			ops = append(ops, client.Op{Kind: client.OpAdd, Element: append(l.names().Append(nil, n), e...)[:len(e)]})
		}
		if _, err := c.Write(l.ctx, client.Write{Set: []byte(system.WarmName()), Ops: ops, Policy: bigset.PolicyEmpty}); err != nil {
			return err
		}
	}
	return ps.ready(readyTime)
}

// addLocally measures synced adds to one store in this process, or adds that three stores apply: the first and one of the others before the
// add ends.
func (l *lab) addLocally(workload, name string, stores, n int) error {
	return l.replicated(stores, system.Options{Sync: true, Warm: !l.c.Short}, func(list []*replica) error {
		var late sync.WaitGroup
		defer late.Wait()
		return l.load(workload, name, nil, n, func(int) (func() error, error) {
			return func() error {
				ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: l.element()}}
				if len(list) == 1 {
					_, err := list[0].Store().Write(l.ctx, []byte(system.SetName), ops, bigset.WriteOptions{})
					return err
				}
				synced := make(chan error, len(list))
				spread := func(r bigset.Result, _ *bigset.Group) {
					for _, to := range list[1:] {
						late.Go(func() {
							synced <- to.Store().Replica().ApplyDelta(l.ctx, r.Delta, bigset.ApplyOptions{Durability: bigset.Sync})
						})
					}
				}
				o := bigset.WriteOptions{Applied: spread}
				if n > 1 { // applying one after the other makes larger groups, which is faster if many wait
					o.Applied = nil
				}
				r, err := list[0].Store().Write(l.ctx, []byte(system.SetName), ops, o)
				if err == nil && n > 1 {
					spread(r, nil)
				}
				if err != nil {
					return err
				}
				return <-synced
			}, nil
		})
	})
}

// addCoordinated measures adds through a coordinator to three stores in this process, two of which have synced an add before it ends.
func (l *lab) addCoordinated(workload string, n int) error {
	return l.replicated(quorumReplicas, system.Options{Sync: true, Warm: !l.c.Short}, func(list []*replica) error {
		return l.coordinated(list, func(co *coord.Coordinator) error {
			return l.load(workload, systemReplica, nil, n, func(int) (func() error, error) {
				return func() error {
					ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: l.element()}}
					_, err := co.Write(l.ctx, coord.Write{Set: []byte(system.SetName), Ops: ops, Quorum: coord.Quorum{W: 2, DW: 2}})
					return err
				}, nil
			})
		})
	})
}

// floor derives the least cost of an add: three applies and three calls, one of the client, on a connection of its own or a shared one, and
// two to other replicas. The client's call and one of the others run one after the other. It needs the part transport.
func (l *lab) floor(s *sharing) {
	client, between := "transport/1", "transport/1"
	if s.callers > 1 {
		client, between = "transport/64", "transport/64"
		if s.name == "64" {
			client = "transport/64-connections"
		}
	}
	applies, ok := l.last[fmt.Sprintf("add/%d applies", s.callers)]
	first, ok1 := l.last[client+" "+systemWire]
	second, ok2 := l.last[between+" "+systemWire]
	if !ok || !ok1 || !ok2 || applies.CPUMicros == nil {
		return
	}
	f := Figures{CPUMicros: new(*applies.CPUMicros + *first.CPUMicros + 2**second.CPUMicros), Ops: applies.Ops,
		OpsPerSecond: 1 / (1/applies.OpsPerSecond + 1/first.OpsPerSecond + 2/second.OpsPerSecond)}
	if s.callers == 1 {
		f.P50 = new(*applies.P50 + *first.P50 + *second.P50)
		f.OpsPerSecond = 1 / (1/applies.OpsPerSecond + 1/first.OpsPerSecond + 1/second.OpsPerSecond)
	}
	l.took("add/"+s.name, systemFloor, s.callers, f, nil)
}

// readSet is the set that is read.
const readSet = "read"

// addBatch is how many elements a client adds at a time when it loads a set.
const addBatch = 1000

// reading measures reads of a whole set.
func (l *lab) reading() error {
	ps, err := l.started(systemCluster)
	if err != nil {
		return err
	}
	c, err := ps.all[0].client()
	if err != nil {
		return err
	}
	defer c.Close()
	if l.round == 0 { // the nodes' memtables must be as large as those of the stores in this process, or their tables would be in more levels
		if err := errors.Join(l.warm(ps), l.loadSet(c, readSet, l.elements, l.names().Append), ps.restart()); err != nil {
			return err
		}
	}
	return l.replicated(quorumReplicas, system.Options{Warm: !l.c.Short}, func(list []*replica) error {
		if err := errors.Join(l.replicatedLoad(readSet, list, l.elements), ps.rest()); err != nil {
			return err
		}
		return l.coordinated(list, func(co *coord.Coordinator) error {
			return l.inTurns(
				func() error {
					return l.read("read", systemLocal, nil, func(got func(int)) error { return list[0].Set(readSet).Read(0, got) })
				},
				func() error {
					return l.read("read", systemReplica, nil, func(got func(int)) error {
						for p, err := range co.Read(l.ctx, coord.Read{Set: []byte(readSet), Quorum: coord.Quorum{R: 2}}) {
							if err != nil {
								return err
							}
							got(len(p.Elements))
						}
						return nil
					})
				},
				func() error { return l.read("read", systemCluster, ps, l.streamed(c, false)) },
				func() error { return l.read("read/contexts", systemCluster, ps, l.streamed(c, true)) })
		})
	})
}

// streamed returns a function that reads the set on two replicas through a client, with a token for each element or without.
func (l *lab) streamed(c *client.Client, contexts bool) func(got func(int)) error {
	return func(got func(int)) error {
		for p, err := range c.Read(l.ctx, client.Read{Set: []byte(readSet), R: 2, Contexts: contexts}) {
			if err != nil {
				return err
			}
			got(len(p.Elements))
		}
		return nil
	}
}

// loadSet adds n elements to a set through a client, in batches.
func (l *lab) loadSet(c *client.Client, set string, n int, element func(dst []byte, i int) []byte) error {
	for first := 0; first < n; first += addBatch {
		var ops []client.Op
		for i := first; i < min(n, first+addBatch); i++ {
			ops = append(ops, client.Op{Kind: client.OpAdd, Element: element(nil, i)})
		}
		if _, err := c.Write(l.ctx, client.Write{Set: []byte(set), Ops: ops, Policy: bigset.PolicyEmpty}); err != nil {
			return err
		}
	}
	return nil
}

// read measures one way to read the set: repeatedly until the span has passed, at least once. An operation is one element.
func (l *lab) read(workload, name string, ps *processes, read func(got func(int)) error) error {
	p := &phase{ctx: l.ctx, hist: newHistogram()}
	c := stopwatch{p: p}
	cpu, err := ps.cpu()
	if err != nil {
		return err
	}
	began, own := time.Now(), cpuNow()
	profile := l.profile(workload, name, ps)
	reads := 0
	for ; reads == 0 || time.Since(began) < l.c.Span; reads++ {
		c.start()
		if err := read(func(n int) { p.ops += uint64(n); c.lap() }); err != nil {
			return err
		}
	}
	took := time.Since(began)
	own = cpuNow() - own
	after, err := ps.cpu()
	if err := errors.Join(err, profile(), system.Expect("elements read", p.ops, uint64(reads*l.elements))); err != nil {
		return err
	}
	var f Figures
	p.figures(&f, took, own+after-cpu)
	l.took(workload, name, l.elements, f, p.hist)
	return nil
}
