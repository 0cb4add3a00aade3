package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"bigset"
	"bigset/convergence"
	"bigset/fold"
	"bigset/internal/faultdisk"
	"bigset/internal/ring"
	"bigset/keyscheme"
	membership "bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/coord/turns"
	"bigset/server/peer"
)

// The sizes of a cluster's schedule.
const (
	coordinators   = 2
	clients        = 3
	rounds         = 10 // each client does an operation in each
	exchangesMost  = 8  // rounds until replicas must be equal
	operationLimit = 10 * time.Second
	hedgeTime      = 137 * time.Millisecond // of some coordinators
	copyLimit      = time.Minute
	copyPause      = 300 * time.Millisecond // between two steps of a copy, so that reads and crashes come in between
)

// cluster is a schedule of whole clusters: replicas, coordinators with hints, clients, and a network, disks and clocks that fail.
// Each answer is judged at once. At the end the schedule judges what hints alone have delivered, and then the state of the replicas
// after they have exchanged the rest.
type cluster struct {
	script           *script
	turns            *turns.Runner
	set              []byte
	filter           coord.Filter         // as all members know it at the end; generation 0 is no filter
	dropped          bigset.FilterOptions // of the last filter whose drop was acknowledged
	changing         bool                 // a change of filters is in progress
	filterDurability bigset.FilterDurability
	losses           int // members that have come back and may be missing something
	outages          int
	static           *ring.Map // where members are those of package server/cluster
	members          []*member
	procs            []*process // coordinators
	gone             []*host    // that have crashed; closed at the end, because reads of them may be in progress
	facts            *ledger
	names            *names // of actors
	stats            *Report
	dials            []*dial
	clones           uint64 // of disks, so far
	opened           uint64 // stores, so far

	addressed bool // a request reaches only the incarnation that it is addressed to
	exchanges time.Duration
	newsLost  int // of 100 calls by which members agree
	rand      *rand.Rand
	calm      bool // all faults have ended
	quiet     bool // members no longer ask the others

	apart int // steps that run while their lane goes on

	crashing bool           // a call is cut off by a power cut
	torn     []bigset.Delta // that it made, after the cut or before it

	views    map[int]*view         // by the step that made it
	requests map[string]*requested // by their ids
}

// process is a caller of replicas: a coordinator with its hints, or a replica that copies from others.
type process struct {
	*coord.Coordinator
	hints   *coord.Hints
	folder  hintFolder
	links   []*link
	clock   *dial
	dead    bool
	cut     bool // a partition has not stopped a call yet
	told    []told
	door    []coord.WriteCall   // writes that wait for others
	marked  []marked            // keys whose marks were acknowledged
	filters *membership.Filters // of its member
	node    string
}

// told is a durable delta that a replica has made for a coordinator. The coordinator has to bring it to the others, except those
// that have lost their disk since.
type told struct {
	bigset.Delta
	wiped map[*member]bool
}

// count counts a fault, or a state that was reached.
func (c *cluster) count(what string) { c.stats.count(what, 1) }

// refused counts a try of a request that a replica did not do because a later one had asked for it.
func (c *cluster) refused(err error) {
	if errors.Is(err, peer.ErrOvertaken) {
		c.count("try overtaken by a later one")
	}
}

// clusterSize is how many replicas the schedule of a seed has if the options do not say.
func clusterSize(seed uint64, replicas int) int {
	if replicas > 0 {
		return replicas
	}
	return 3 + int(seed%3)
}

// runScript runs a schedule, and adds what it did to a report and to the notes of its steps. It returns what was violated. Its
// engines are new, so that only the script determines the result.
func runScript(s *script, r *Report) (v *convergence.Violation, err error) {
	c := &cluster{script: s, turns: turns.New(s.rand(1)), set: []byte("set"), names: newNames(), stats: r, views: map[int]*view{}, requests: map[string]*requested{}}
	c.facts = newLedger(c.names)
	defer func() { err = errors.Join(err, c.close()) }()
	c.rand = s.rand(3)
	c.facts.kept, c.addressed = s.epochs(), c.rand.IntN(2) == 0
	c.exchanges = []time.Duration{-1, -1, 20 * time.Second}[c.rand.IntN(3)]
	c.newsLost = []int{0, 0, 15, 30}[c.rand.IntN(4)]
	for i := range s.replicas {
		if err := c.addMember(i); err != nil {
			return nil, err
		}
	}
	if s.epochs() {
		if err := c.addNodes(); err != nil {
			return nil, err
		}
		return c.run(), nil
	}
	for _, m := range c.members {
		m.process = &process{links: c.links(), clock: m.clock}
		for _, l := range m.process.links {
			l.from = m.process
		}
	}
	for i := range coordinators {
		folder, err := newHintFolder()
		if err != nil {
			return nil, err
		}
		p := &process{folder: folder, clock: c.dial()}
		if err := c.start(p, i); err != nil {
			return nil, err
		}
		c.procs = append(c.procs, p)
	}
	return c.run(), nil
}

// run plays the script and counts what it did. It returns what was violated.
func (c *cluster) run() *convergence.Violation {
	r := c.stats
	c.play()
	for _, clock := range c.dials {
		r.count("skew", int(clock.looks.Load()))
	}
	for i := range c.script.steps {
		t := &c.script.steps[i]
		t.note = c.names.text(t.note)
		r.Steps++
		if t.note == skipped {
			r.Skipped++
		}
	}
	r.trace = r.trace*31 + c.turns.Trace()
	r.Schedules++
	r.Shapes[c.script.shape()]++
	r.Checks += c.facts.checks
	if v := c.facts.violation; v != nil {
		v.Text = c.names.text(v.Text)
	}
	return c.facts.violation
}

// rand returns a source for choices that the script leaves open. Each value of of has its own source.
func (s *script) rand(of uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, of<<8+12)) }

// random returns what the next store draws its names from. Each store has a source of its own, so that no name is drawn twice.
func (c *cluster) random() io.Reader {
	c.opened++
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], c.script.seed)
	binary.BigEndian.PutUint64(seed[8:], c.opened)
	return rand.NewChaCha8(seed)
}

// clone returns a member's disk after a power cut.
func (c *cluster) clone(disk *faultdisk.Disk, percent int) *faultdisk.Disk {
	c.clones++
	return disk.CrashClone(percent, c.script.seed+c.clones)
}

func (c *cluster) addMember(i int) error {
	m := &member{node: fmt.Sprintf("node%d", i), clock: c.dial()}
	c.members = append(c.members, m)
	return c.up(m, faultdisk.New(), "db", strategies[c.script.rand(uint64(2+i)).IntN(len(strategies))])
}

// close closes the engines. What they leave is not needed.
func (c *cluster) close() error {
	var err error
	for _, m := range c.members {
		if m.store != nil {
			err = errors.Join(err, m.store.host.Close())
		}
	}
	for _, h := range c.gone {
		if e := h.Close(); h.Failed() == nil { // an engine that failed can't be closed cleanly
			err = errors.Join(err, e)
		}
	}
	return err
}

func (c *cluster) links() (links []*link) {
	for _, m := range c.members {
		l := &link{member: m, c: c}
		l.Link = turns.Link{To: func() peer.Replica { return l.Replica }, Over: l.over}
		links = append(links, l)
	}
	return links
}

// start starts the i-th coordinator over the hints in its folder.
func (c *cluster) start(p *process, i int) (err error) {
	p.links, p.told, p.cut = c.links(), nil, false
	links := p.links // of this process, not of a later one
	for _, l := range links {
		l.from = p
	}
	event := func(e coord.Event) { c.event(p, e) }
	if p.hints, err = coord.OpenHints(p.folder, coord.HintOptions{Now: p.clock.Now, Events: event}); err != nil {
		return err
	}
	order := c.script.rand(uint64(100 + i)).Perm(len(links))
	place := func([]byte) (all []peer.Replica) {
		for _, i := range order {
			all = append(all, links[i])
		}
		return all
	}
	n, drawn := len(c.members), c.script.rand(uint64(200+i))
	hedge := []time.Duration{0, hedgeTime}[drawn.IntN(2)]
	p.Coordinator, err = coord.New(coord.Options{Place: coord.List(place), Quorum: coord.Quorum{N: n, R: n/2 + 1, W: n/2 + 1, DW: n/2 + 1}, Hints: p.hints,
		HintInterval: time.Minute, Timeout: operationLimit, HedgeTime: hedge, Rand: c.script.rand(uint64(300 + i)).Uint64, Runner: skewed{c.turns, p.clock}, Events: event})
	return err
}

// event handles the events of a coordinator and its hints.
func (c *cluster) event(p *process, e coord.Event) {
	c.count(string(e.Kind))
	switch e.Kind {
	case coord.EventHintExpired:
		if p.clock.jumped {
			p.told = nil // they were too old, by that clock
			return
		}
		fallthrough
	case coord.EventRefused, coord.EventHintOverflow, coord.EventDamage:
		c.facts.violated(convergence.Failed, "%s at %s: %d, %v", e.Kind, e.Node, e.Count, e.Err)
	}
}

// play runs the schedule to its end.
func (c *cluster) play() {
	c.turns.Hurry = []int{0, 30, 100}[c.script.rand(2).IntN(3)]
	if c.script.epochs() {
		c.ended(c.turns.Run(time.Hour, c.playMembers))
		return
	}
	ended := c.turns.Run(time.Hour, c.playLanes)
	c.turns.Hurry = 0
	c.heal()
	if ended = ended && c.turns.Run(time.Hour, func() {}); ended { // hints are tried every minute
		c.handedOff()
	}
	ended = ended && c.turns.Run(time.Hour, c.exchange)
	ended = ended && c.turns.Run(time.Hour, func() {
		for _, p := range c.procs {
			_ = p.Close(context.Background())
		}
	})
	c.ended(ended)
}

// playLanes runs all steps.
func (c *cluster) playLanes() {
	busy := len(lanes)
	for lane := range lanes {
		c.turns.Go(func() {
			for i := range c.script.steps {
				if t := &c.script.steps[i]; t.lane == lane {
					c.inLane(t)
				}
			}
			busy--
		})
	}
	c.turns.Yield(func() bool { return busy+c.apart == 0 })
}

// ended judges what is left when all tasks should have ended.
func (c *cluster) ended(ended bool) {
	if running, _ := c.turns.Left(); !ended || running > 0 {
		c.facts.violated(convergence.Failed, "%d tasks wait forever", running)
	}
	c.compare()
}

// heal ends all faults.
func (c *cluster) heal() {
	for _, m := range c.members {
		m.deaf, m.deafness = time.Time{}, 0
		c.healDisk(m)
		for _, l := range m.process.links {
			l.cut, l.faults = false, nil
		}
	}
	for _, p := range c.procs {
		for _, l := range p.links {
			l.cut, l.faults = false, nil
		}
	}
}

// handedOff checks, before anything is exchanged, that hints have delivered to every replica what coordinators had to bring to it,
// and that every replica is whole.
func (c *cluster) handedOff() {
	for _, m := range c.members {
		if m.joining {
			c.facts.violated(convergence.Failed, "%s was never made whole", m.node)
		}
	}
	for i, p := range c.procs {
		if nodes := p.hints.Nodes(); len(nodes) > 0 {
			c.facts.violated(convergence.Failed, "coordinator %d still has hints for %v", i, nodes)
		}
		c.allBrought(p)
	}
	for _, m := range c.members {
		if m.self == nil {
			continue
		}
		c.allBrought(m.process)
		for _, k := range m.process.marked {
			if k.generation == c.filter.Generation {
				c.markedAt(k.key, "after the hints")
			}
		}
	}
}

// allBrought checks that replicas have the deltas that a process had to bring to them.
func (c *cluster) allBrought(p *process) {
	for _, d := range p.told {
		for _, m := range c.members {
			if !d.wiped[m] && m.holds() {
				c.brought(d.Delta, m)
			}
		}
	}
}

// brought checks that a replica has a delta.
func (c *cluster) brought(d bigset.Delta, m *member) {
	st, err := stateOf(m.store)
	if err != nil {
		c.facts.violated(convergence.Failed, "%s: %v", m.node, err)
		return
	}
	for i := range d.Items {
		if !st.Seen.Contains(dotOf(d, i)) {
			c.facts.violated(convergence.Lost, "%s was not brought to %s", c.names.dot(dotOf(d, i)), m.node)
		}
	}
	c.facts.checks++
}

// exchange lets all replicas exchange data until nothing is new.
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
			c.count("all exchanged")
		}
		if sum.Differ == 0 {
			return
		}
	}
	c.facts.violated(convergence.Diverged, "replicas differ after %d rounds of exchange", exchangesMost)
}

// compare judges all replicas at the end.
func (c *cluster) compare() {
	var first bigset.State
	var name string
	for _, m := range c.members {
		if !m.holds() {
			continue
		}
		st, err := stateOf(m.store)
		if err == nil {
			err = m.store.Verify()
		}
		if err != nil {
			c.facts.violated(convergence.Unverifiable, "%s: %v", m.node, err)
			return
		}
		if name == "" {
			first, name = st, m.node
		}
		if !st.Seen.Equal(first.Seen) || !st.Dead.Equal(first.Dead) {
			c.facts.violated(convergence.Diverged, "%s has Seen %s, Dead %s; %s Seen %s, Dead %s", m.node, c.names.clock(st.Seen), c.names.clock(st.Dead), name,
				c.names.clock(first.Seen), c.names.clock(first.Dead))
		}
		var shown []fold.Element
		for chunk, err := range m.store.Read(bigset.ReadOptions{}) {
			if errors.Is(err, bigset.ErrNotFound) {
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
