package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bigset/compaction"
	"bigset/convergence"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/faultdisk"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/coord/turns"
	"bigset/server/peer"
)

// clusterName is the name of the system of whole clusters.
const clusterName = "cluster"

// The sizes of a cluster's schedule.
const (
	coordinators   = 2
	clients        = 3
	clientSteps    = 8
	nemesisSteps   = 8
	exchangesMost  = 8 // rounds until replicas must be equal
	operationLimit = 10 * time.Second
)

// cluster is a schedule of whole clusters: replicas, coordinators with hints, clients, and a network and disks that fail. What is
// answered is judged at once; at the end, what hints alone have brought, and then what replicas have that have exchanged the rest.
type cluster struct {
	rng     *rand.Rand
	turns   *turns.Runner
	set     []byte
	members []*member
	procs   []*process
	gone    []*host // that have crashed; closed at the end, for reads of them may be under way
	facts   *ledger
	stats   *Report
	swarm   []string // the faults of calls in this schedule; none once all is well
	rare    int      // one call in so many has a fault
	some    map[string]int

	crashing bool           // a call is cut off by a power cut
	torn     []engine.Delta // that it made: behind the cut, or before it

	requests int
	contexts []held
}

// held is a context that clients hold, of an element; "" is of any.
type held struct {
	element string
	engine.Context
}

// process is a coordinator with its hints.
type process struct {
	*coord.Coordinator
	hints  *coord.Hints
	folder hintFolder
	links  []*link
	dead   bool
	told   []engine.Delta // durable ones that replicas have made for it: it has to see to the others
}

// count counts a fault.
func (c *cluster) count(kind string) { c.stats.Faults[kind]++ }

// clusterSize is how many replicas the schedule of a seed has, where options do not say.
func clusterSize(seed uint64, replicas int) int {
	if replicas > 0 {
		return replicas
	}
	return 3 + int(seed%3)
}

// runCluster runs one schedule, adds what it did to a report, and counts in some the states that it met. It returns what was violated.
// Its engines are new, so that nothing but the seed decides.
func runCluster(seed uint64, replicas int, r *Report, some map[string]int) (v *convergence.Violation, err error) {
	rng := rand.New(rand.NewPCG(seed, 11))
	c := &cluster{rng: rng, turns: turns.New(rng), set: []byte("set"), facts: newLedger(), stats: r, some: some}
	defer func() { err = errors.Join(err, c.close()) }()
	for i := range replicas {
		if err := c.addMember(fmt.Sprintf("node%d", i)); err != nil {
			return nil, err
		}
	}
	for range coordinators {
		folder, err := newHintFolder()
		if err != nil {
			return nil, err
		}
		pr := &process{folder: folder}
		if err := c.start(pr); err != nil {
			return nil, err
		}
		c.procs = append(c.procs, pr)
	}
	c.play()
	r.Schedules++
	r.Checks += c.facts.checks
	return c.facts.violation, nil
}

func (c *cluster) addMember(node string) error {
	m := &member{node: node}
	if err := c.up(m, faultdisk.New(), "db", strategies[c.rng.IntN(len(strategies))]); err != nil {
		return err
	}
	c.members = append(c.members, m)
	return nil
}

// up opens a replica's store.
func (c *cluster) up(m *member, disk *faultdisk.Disk, dir string, strategy compaction.Strategy) error {
	h, err := open(disk, dir, strategy)
	if err != nil {
		return err
	}
	m.store = &engineStore{host: h, set: c.set, rand: c.rng, some: func(string) {}}
	m.Local, err = peer.NewLocal(m.node, h.Store, peer.Normal)
	return err
}

// close closes the engines. Nobody needs what they leave.
func (c *cluster) close() error {
	var err error
	for _, m := range c.members {
		err = errors.Join(err, m.store.host.Close())
	}
	for _, h := range c.gone {
		err = errors.Join(err, h.Close())
	}
	return err
}

// start starts a coordinator over the hints in its folder.
func (c *cluster) start(p *process) (err error) {
	p.links, p.told = nil, nil
	for _, m := range c.members {
		p.links = append(p.links, &link{member: m, c: c, from: p})
	}
	links := p.links // of this process, not of one that comes after it
	if p.hints, err = coord.OpenHints(p.folder, coord.HintOptions{Now: c.turns.Now, Events: c.event}); err != nil {
		return err
	}
	order := c.rng.Perm(len(links))
	place := func([]byte) (all []peer.Replica) {
		for _, i := range order {
			all = append(all, links[i])
		}
		return all
	}
	n := len(c.members)
	p.Coordinator, err = coord.New(coord.Options{Place: place, Quorum: coord.Quorum{N: n, R: n/2 + 1, W: n/2 + 1, DW: n/2 + 1}, Hints: p.hints,
		HintInterval: time.Minute, Timeout: operationLimit, Runner: c.turns, Events: c.event})
	return err
}

// event takes what coordinators and hints tell.
func (c *cluster) event(e coord.Event) {
	c.some[string(e.Kind)]++
	switch e.Kind {
	case coord.EventRefused, coord.EventHintOverflow, coord.EventHintExpired, coord.EventDamage:
		c.facts.violated(convergence.Failed, "%s at %s: %d, %v", e.Kind, e.Node, e.Count, e.Err)
	}
}

// fault draws the fault of a call; "" is none.
func (c *cluster) fault() string {
	if len(c.swarm) == 0 || c.rng.IntN(c.rare) > 0 {
		return ""
	}
	f := c.swarm[c.rng.IntN(len(c.swarm))]
	switch f {
	case "mute":
		c.count("loss")
	case "late":
		c.count("delay")
	case "crash":
		c.count("crash-unsynced")
	default:
		c.count(f)
	}
	return f
}

// crashIn loses power at a replica in the middle of a call, or right behind it.
func (c *cluster) crashIn(m *member, do func() error) {
	percent := 25 * c.rng.IntN(5)
	left := m.store.host.disk.CrashAt(int64(c.rng.IntN(8)), percent, c.rng.Uint64())
	c.crashing, c.torn = true, nil
	_ = do()
	c.crashing = false
	disk := left()
	if disk == nil {
		disk = m.store.host.disk.CrashClone(percent, c.rng.Uint64())
	}
	c.crash(m, disk)
	c.facts.lossy()
	for _, d := range c.torn {
		st, err := stateOf(m.store)
		if err != nil {
			c.facts.violated(convergence.Failed, "%s: %v", m.node, err)
		} else if st.Seen.Contains(dotOf(d, 0)) { // else the power was gone before that
			c.facts.minted(d)
		}
	}
}

// made takes the delta that a replica has made.
func (c *cluster) made(d engine.Delta) {
	switch {
	case d.Empty():
	case c.crashing:
		c.torn = append(c.torn, d)
	default:
		c.facts.minted(d)
	}
}

// crash ends a replica's process. After a while it is back, from what its disk has left, in a new incarnation.
func (c *cluster) crash(m *member, disk *faultdisk.Disk) {
	old := m.store.host
	c.gone = append(c.gone, old)
	if err := c.up(m, disk, old.dir, old.strategy); err != nil {
		c.facts.violated(convergence.Failed, "%s does not come back: %v", m.node, err)
		return
	}
	m.lives++
	m.down = true
	c.turns.After(c.moment(), func() { m.down = false })
}

// kill ends a coordinator's process, and starts it again.
func (c *cluster) kill(p *process) {
	old := p.Coordinator
	p.folder.disk = p.folder.disk.CrashClone(25*c.rng.IntN(5), c.rng.Uint64())
	for _, l := range p.links { // what the old process still does reaches nobody
		l.from = &process{dead: true}
	}
	if err := c.start(p); err != nil {
		c.facts.violated(convergence.Failed, "a coordinator does not come back: %v", err)
	}
	c.turns.Go(func() { _ = old.Close(context.Background()) })
}

// nemesis does what goes wrong beside calls, and the work of the background.
func (c *cluster) nemesis() {
	for range nemesisSteps {
		c.turns.Sleep(time.Duration(c.rng.IntN(5000)) * time.Millisecond)
		m, p := c.members[c.rng.IntN(len(c.members))], c.procs[c.rng.IntN(len(c.procs))]
		switch c.rng.IntN(6) {
		case 0:
			percent, kind := 0, "crash-unsynced"
			if c.rng.IntN(2) == 0 {
				percent, kind = 100, "crash"
			}
			if !m.down {
				c.count(kind)
				c.crash(m, m.store.host.disk.CrashClone(percent, c.rng.Uint64()))
				if percent < 100 {
					c.facts.lossy()
				}
			}
		case 1:
			c.count("crash")
			c.kill(p)
		case 2, 3:
			c.count("partition")
			for _, l := range p.links {
				l.cut = c.rng.IntN(2) == 0
			}
		default:
			what, err := m.store.Maintain(c.rng.IntN(6))
			if err != nil {
				c.facts.violated(convergence.Failed, "maintenance at %s: %v", m.node, err)
			}
			if _, kind := c.stats.Faults[what]; kind {
				c.count(what)
			}
		}
	}
}

// play runs the schedule to its end.
func (c *cluster) play() {
	for _, f := range []string{"loss", "mute", "late", "delay", "duplicate", "crash"} {
		if c.rng.IntN(2) == 0 {
			c.swarm = append(c.swarm, f)
		}
	}
	c.rare = 4 + c.rng.IntN(20)
	c.turns.Hurry = []int{0, 30, 100}[c.rng.IntN(3)]
	ended := c.turns.Run(time.Hour, func() {
		busy := clients + 1
		for range clients {
			c.turns.Go(func() {
				for range clientSteps {
					c.step()
				}
				busy--
			})
		}
		c.turns.Go(func() {
			if c.rng.IntN(3) > 0 {
				c.nemesis()
			}
			busy--
		})
		c.turns.Yield(func() bool { return busy == 0 })
	})
	c.turns.Hurry, c.swarm = 0, nil
	for _, p := range c.procs {
		for _, l := range p.links {
			l.cut = false
		}
	}
	if ended = ended && c.turns.Run(time.Hour, func() {}); ended { // hints are tried every minute
		c.handedOff()
	}
	ended = ended && c.turns.Run(time.Hour, c.exchange)
	ended = ended && c.turns.Run(time.Hour, func() {
		for _, p := range c.procs {
			_ = p.Close(context.Background())
		}
	})
	if running, _ := c.turns.Left(); !ended || running > 0 {
		c.facts.violated(convergence.Failed, "it waits for what never comes: %d tasks", running)
	}
	c.compare()
}

// handedOff checks, before anything is exchanged, that hints have brought what coordinators were told of to every replica.
func (c *cluster) handedOff() {
	for i, p := range c.procs {
		if nodes := p.hints.Nodes(); len(nodes) > 0 {
			c.facts.violated(convergence.Failed, "coordinator %d still has hints for %v", i, nodes)
		}
		for _, d := range p.told {
			for _, m := range c.members {
				st, err := stateOf(m.store)
				if err != nil {
					c.facts.violated(convergence.Failed, "%s: %v", m.node, err)
					return
				}
				for i := range d.Items {
					if !st.Seen.Contains(dotOf(d, i)) {
						c.facts.violated(convergence.Lost, "%v was not brought to %s", dotOf(d, i), m.node)
					}
				}
				c.facts.checks++
			}
		}
	}
}

// exchange has all replicas exchange until nothing is new.
func (c *cluster) exchange() {
	slot := keyscheme.SetSlot(c.set)
	for range exchangesMost {
		var sum coord.Exchanged
		for i, a := range c.procs[0].links {
			for _, b := range c.procs[0].links[:i] {
				e, err := coord.Exchange(context.Background(), a, b, slot, slot)
				if err != nil || e.Lost > 0 {
					c.facts.violated(convergence.Failed, "exchange of %s and %s: %+v, %v", a.node, b.node, e, err)
				}
				sum.Keys += e.Keys
				sum.Dead += e.Dead
				sum.Differ += e.Differ
			}
		}
		if sum.Keys+sum.Dead > 0 {
			c.some["exchanged"]++
		}
		if sum.Differ == 0 {
			return
		}
	}
	c.facts.violated(convergence.Diverged, "replicas differ after %d rounds of exchange", exchangesMost)
}

// compare judges all replicas at the end.
func (c *cluster) compare() {
	var first engine.State
	for i, m := range c.members {
		st, err := stateOf(m.store)
		if err == nil {
			err = m.store.Verify()
		}
		if err != nil {
			c.facts.violated(convergence.Unverifiable, "%s: %v", m.node, err)
			return
		}
		if i == 0 {
			first = st
		}
		if !st.Seen.Equal(first.Seen) || !st.Dead.Equal(first.Dead) {
			c.facts.violated(convergence.Diverged, "%s has Seen %v, Dead %v; %s Seen %v, Dead %v", m.node, st.Seen, st.Dead, c.members[0].node, first.Seen, first.Dead)
		}
		var shown []fold.Element
		for chunk, err := range m.store.Read(engine.ReadOptions{}) {
			if errors.Is(err, engine.ErrNotFound) {
				break
			}
			if err != nil {
				c.facts.violated(convergence.Failed, "%s: %v", m.node, err)
				return
			}
			shown = append(shown, chunk.Elements...)
		}
		c.facts.final(m.node, st, shown)
	}
}
