package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/convergence"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/ring"
	"bigset/keyscheme"
	membership "bigset/server/cluster"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// The times and sizes of clusters whose members are those of package server/cluster.
const (
	roundPause = 300 * time.Millisecond // between two rounds in which a member that is not whole asks the others
	wholePause = 2 * time.Second        // the same for one that is
	calmPause  = 5 * time.Second        // the same when all faults have ended
	sendsLimit = 40 * time.Second       // until what coordinators send has arrived, or is a hint
	wholeLimit = 10 * time.Minute       // until all members are whole after all faults have ended
	buckets    = 8
)

// node is a member of package server/cluster over a replica.
type node struct {
	*membership.Member
	own      *own // its replica
	hints    hintFolder
	owner    bool // it holds the set
	unsynced bool // this life has acknowledged what a crash may take back
	warned   string
}

// epochs reports whether the members of a script's cluster are those of package server/cluster, which agree on epochs.
func (s *script) epochs() bool { return s.n > 0 }

// settings returns the settings of a script's cluster. A script that was shrunk may have fewer members than copies.
func (s *script) settings() ring.Settings {
	n := min(s.n, s.replicas)
	w := max(n/2+1, min(s.w, n))
	return ring.Settings{N: n, W: w, R: n - w + 1, DW: w, Buckets: buckets, Slices: buckets}
}

// peers returns all members, as each of them is configured.
func (c *cluster) peers() (all []membership.Peer) {
	for _, m := range c.members {
		all = append(all, membership.Peer{ID: m.node})
	}
	return all
}

// memberOf returns the number of a member.
func (c *cluster) memberOf(name string) int {
	return slices.IndexFunc(c.members, func(m *member) bool { return m.node == name })
}

// addNodes makes members of the replicas, and starts them.
func (c *cluster) addNodes() error {
	var nodes []ring.Node
	for _, m := range c.members {
		nodes = append(nodes, ring.Node{Member: ring.Member{Node: m.node}})
	}
	var err error
	if c.static, err = ring.Static(ring.ID{}, c.script.settings(), nodes, nil); err != nil {
		return err
	}
	c.filterDurability = []bigset.FilterDurability{bigset.FilterSync, bigset.FilterSync, bigset.FilterInterval}[c.rand.IntN(3)]
	for _, m := range c.members {
		folder, err := newHintFolder()
		if err != nil {
			return err
		}
		m.self = &node{hints: folder, owner: c.owns(m, keyscheme.SetSlot(c.set))}
		c.boot(m)
	}
	return nil
}

// boot starts the process of a member.
func (c *cluster) boot(m *member) {
	p := &process{folder: m.self.hints, clock: m.clock, links: c.links()}
	for _, l := range p.links {
		l.from = p
	}
	m.process = p
	o := &own{Replica: m.Replica, c: c, member: m, life: m.lives, shares: c.script.shares(), groups: map[string]*writers{}}
	var err error
	m.self.own, m.self.unsynced = o, false
	m.self.Member, err = membership.NewMember(membership.Config{Node: m.node, Name: "sim", Peers: c.peers(), Settings: c.script.settings(),
		Way: func(to membership.Peer) membership.Way {
			return &way{link: p.links[c.memberOf(to.ID)], from: m.node}
		},
		Hints: p.folder, Filters: local.NewFilters(m.store.host.Store), FilterDefaults: c.filterDefaults(), CopyChunkBytes: 1, ExchangeInterval: c.exchanges, Log: slog.New(listener{c, m}), Runner: c.turns, Rand: c.script.rand(uint64(300 + c.memberOf(m.node))).Uint64, Events: c.background},
		o, memberDisk{m.store.host.Store})
	if err != nil {
		c.facts.violated(convergence.Failed, "%s does not start: %v", m.node, err)
		m.down = true
		return
	}
	p.Coordinator, p.filters, p.node = m.self.Coordinator(), m.self.Filters(), m.node
	life := m.lives
	c.turns.Go(func() {
		for !c.quiet && m.lives == life {
			o.alone(func() {
				if m.lives == life { // it may have crashed, and started again, while the writers left
					m.self.Round(context.Background())
				}
			})
			if m.lives == life && m.joining && m.whole() {
				m.joining = false
				c.count("made whole")
			}
			c.turns.Sleep(c.roundPause(m))
		}
	})
}

// background counts what members do in addition to what clients ask for. What they log is counted by its message.
func (c *cluster) background(e coord.Event) {
	switch e.Kind {
	case coord.EventNotSent, coord.EventHintReplayed, coord.EventHintExpired, coord.EventRepaired, coord.EventRepairLeft, coord.EventHedged:
		c.count(string(e.Kind))
	}
}

func (c *cluster) roundPause(m *member) time.Duration {
	switch {
	case !m.whole():
		return roundPause
	case c.calm:
		return calmPause
	}
	return wholePause
}

// whole reports whether a member serves, and answers reads.
func (m *member) whole() bool {
	if m.down {
		return false
	}
	v := m.self.View()
	return v.Serves && v.Sets && v.Filters
}

// halt ends the process of a member, as far as any other process can see. What it still does has no effect.
func (c *cluster) halt(m *member, percent int) {
	old := m.self.Member
	m.process.dead = true
	m.self.hints.disk = c.clone(m.self.hints.disk, percent)
	c.turns.Go(func() { _ = old.Close(context.Background()) })
}

// mayJoin reports whether a member may lose what it has acknowledged: the others that are whole must have all of it.
func (c *cluster) mayJoin(m *member) bool {
	joining := 1
	for _, o := range c.members {
		if o != m && o.joining {
			joining++
		}
	}
	return joining < c.script.settings().W
}

// mayCrash reports whether a member may lose power. If it then has to join, it must be allowed to. In the middle of a call it
// always has to join, because the call may be the one in which a store records its identity, so that it comes back as another disk.
func (c *cluster) mayCrash(m *member, midway bool) bool {
	return m.self == nil || !midway && !m.joining && !m.self.unsynced || c.mayJoin(m)
}

// joins reports whether a member that has come back has to join.
func (c *cluster) joins(m *member, old *host) bool {
	sets, filters := m.store.host.Replica().MayLack()
	return sets || filters || !bytes.Equal(m.store.host.Replica().Identity(), old.Replica().Identity())
}

// settled reports whether all members are whole under the same epoch, know which filters exist, and have no hints for each other.
func (c *cluster) settled() bool {
	for _, m := range c.members {
		if !m.whole() || m.joining || m.self.View().Record.Epoch != c.members[0].self.View().Record.Epoch {
			return false
		}
		status := m.self.Status()
		if !status.Listed {
			return false
		}
		for _, s := range status.Members {
			if s.Hints > 0 {
				return false
			}
		}
	}
	return true
}

// await waits for a condition, up to a limit. It reports whether the condition became true.
func (c *cluster) await(limit time.Duration, ready func() bool) bool {
	for end := c.turns.Now().Add(limit); !ready(); c.turns.Sleep(roundPause) {
		if c.turns.Now().After(end) {
			return false
		}
	}
	return true
}

// allWhole waits until the cluster is whole, or reports why it is not.
func (c *cluster) allWhole() bool {
	if c.facts.violation != nil || c.await(wholeLimit, c.settled) {
		return c.facts.violation == nil
	}
	var waits []string
	for _, m := range c.members {
		if m.down {
			waits = append(waits, m.node+" is down")
			continue
		}
		s := m.self.Status()
		waits = append(waits, fmt.Sprintf("%s at epoch %d, sets %v, filters %v, waits for %q, and warned last: %s", m.node, s.Epoch, s.Sets, s.Filters, s.Waits, m.self.warned))
	}
	c.facts.violated(convergence.Failed, "the cluster does not become whole: %s", strings.Join(waits, "; "))
	return false
}

// playMembers runs all steps with members that are whole at first, and become whole again at the end.
func (c *cluster) playMembers() {
	defer c.endNodes()
	if !c.allWhole() {
		return
	}
	first := step{kind: "create-filter", args: map[string]int{"via": coordinators}}
	if c.change(&first); !c.facts.marks.served {
		c.facts.violated(convergence.Failed, "the filter can't be created: %s", first.note)
	}
	c.playLanes()
	c.turns.Hurry, c.calm = 0, true
	c.heal()
	c.turns.Sleep(sendsLimit)
	if c.allWhole() {
		c.agreed()
		c.handedOff()
	}
}

// endNodes closes all members, and lets those that hold the set exchange what they have, directly.
func (c *cluster) endNodes() {
	c.quiet = true
	for _, m := range c.members {
		if !m.down {
			_ = m.self.Close(context.Background())
		}
		m.SetState(peer.Normal)
	}
	slot := keyscheme.SetSlot(c.set)
	for i, a := range c.members {
		for _, b := range c.members[:i] {
			if !a.self.owner || !b.self.owner {
				continue
			}
			if e, err := coord.Exchange(context.Background(), a.Replica, b.Replica, slot, slot); err != nil || e.Lost > 0 {
				c.facts.violated(convergence.Failed, "exchange of %s and %s: %+v, %v", a.node, b.node, e, err)
			}
		}
	}
	c.exchangeSlices()
}

// own is the replica of a process, which ends with it.
type own struct {
	*local.Replica
	c      *cluster
	member *member
	life   int

	shares   bool                // writers share syncs
	groups   map[string]*writers // by set: those that others can join
	waiting  int                 // writers that wait for each other
	changing int                 // calls in progress that may change the epoch
}

var _ membership.Local = (*own)(nil)

// begin returns an error if the process has ended. It records that a crash may take back what is acknowledged without a sync.
func (o *own) begin(d bigset.Durability) error {
	if o.member.lives != o.life {
		return fmt.Errorf("%w: %s has ended", peer.ErrUnavailable, o.member.node)
	}
	if d != bigset.Sync {
		o.member.self.unsynced = true
	}
	return nil
}

func (o *own) Write(ctx context.Context, set []byte, ops []bigset.Op, w bigset.WriteOptions) (bigset.Result, peer.Member, error) {
	if err := o.begin(w.Durability); err != nil {
		return bigset.Result{}, o.Member(), err
	}
	// Deltas in Applied are sent to other replicas before Write returns, and the others may run then, so the schedule records
	// everything that it knows of a delta before.
	ahead := w.Applied
	if ahead == nil {
		r, m, err := o.Replica.Write(ctx, set, ops, w)
		o.c.made(r.Delta)
		o.c.refused(err)
		return r, m, err
	}
	told, group := false, o.join(set)
	if err := o.begin(w.Durability); err != nil { // the process has ended while the writer waited
		o.leave(set, group)
		return bigset.Result{}, o.Member(), err
	}
	w.Applied = func(r bigset.Result, g *bigset.Group) {
		told = true
		o.c.made(r.Delta)
		if group != nil {
			g = &group.Group
		}
		ahead(r, g)
	}
	r, m, err := o.Replica.Write(ctx, set, ops, w)
	if !told {
		o.c.made(r.Delta)
	}
	o.leave(set, group)
	o.c.refused(err)
	return r, m, err
}

func (o *own) WriteMany(ctx context.Context, set []byte, all []bigset.WriteRequest) ([]bigset.WriteOutcome, peer.Member, error) {
	told := make([]bool, len(all))
	for i := range all {
		if err := o.begin(all[i].Durability); err != nil {
			return nil, o.Member(), err
		}
		if ahead := all[i].Applied; ahead != nil {
			all[i].Applied = func(r bigset.Result, g *bigset.Group) {
				told[i] = true
				o.c.made(r.Delta)
				ahead(r, g)
			}
		}
	}
	if len(all) > 1 {
		o.c.count("writes together")
	}
	out, m, err := o.Replica.WriteMany(ctx, set, all)
	for i := range out {
		o.c.refused(out[i].Err)
		if !told[i] {
			o.c.made(out[i].Delta)
		}
	}
	return out, m, err
}

func (o *own) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	if err := o.begin(durability); err != nil {
		return o.Member(), err
	}
	o.c.facts.minted(d) // whole-set deletes, which no replica makes
	return o.Replica.Apply(ctx, d, durability)
}

func (o *own) ApplyMany(ctx context.Context, all []bigset.Delta, durability bigset.Durability) ([]error, peer.Member, error) {
	if err := o.begin(durability); err != nil {
		return nil, o.Member(), err
	}
	for _, d := range all {
		o.c.facts.minted(d) // whole-set deletes, which no replica makes
	}
	return o.Replica.ApplyMany(ctx, all, durability)
}

func (o *own) ApplyFacts(ctx context.Context, f bigset.Facts, durability bigset.Durability) (bigset.FactsResult, peer.Member, error) {
	if err := o.begin(durability); err != nil {
		return bigset.FactsResult{}, o.Member(), err
	}
	return o.Replica.ApplyFacts(ctx, f, durability)
}

func (o *own) Heal(ctx context.Context, f bigset.Facts, wrong []fold.Element) (bigset.HealResult, peer.Member, error) {
	if err := o.begin(bigset.Sync); err != nil {
		return bigset.HealResult{}, o.Member(), err
	}
	return o.Replica.Heal(ctx, f, wrong)
}

func (o *own) Ingest(ctx context.Context, portion *bigset.Portion, pace func(context.Context, float64) error) (bigset.FactsResult, peer.Member, error) {
	if err := o.begin(bigset.Sync); err != nil {
		return bigset.FactsResult{}, o.Member(), err
	}
	return o.Replica.Ingest(ctx, portion, pace)
}

func (o *own) Lookup(ctx context.Context, set []byte, elements [][]byte) ([]bigset.Context, peer.Member, error) {
	if err := o.begin(bigset.Sync); err != nil {
		return nil, o.Member(), err
	}
	return o.Replica.Lookup(ctx, set, elements)
}

func (o *own) DotStatus(ctx context.Context, set, element []byte, dots []clock.Dot) (bigset.DotStatuses, peer.Member, error) {
	if err := o.begin(bigset.Sync); err != nil {
		return bigset.DotStatuses{}, o.Member(), err
	}
	return o.Replica.DotStatus(ctx, set, element, dots)
}

// memberDisk is a store in the role in which a member keeps its records in it.
type memberDisk struct{ *engine.Store }

var _ membership.Disk = memberDisk{}

// metaOf returns where a value is kept.
func metaOf(key string) engine.Meta {
	switch key {
	case "cluster":
		return engine.MetaCluster
	case "cluster/filled":
		return engine.MetaFilled
	case "cluster/filters":
		return engine.MetaFilters
	}
	page, err := strconv.ParseUint(strings.TrimPrefix(key, "cluster/filters/"), 16, 8)
	if err != nil {
		panic("sim: no place for " + key)
	}
	return engine.MetaFiltersPage(byte(page))
}

func (d memberDisk) Identity() []byte { return d.Replica().Identity() }

func (d memberDisk) MayLack() (sets, filters bool) { return d.Replica().MayLack() }

func (d memberDisk) Load(key string) ([]byte, error) { return d.Replica().Meta(metaOf(key)) }

func (d memberDisk) Save(ctx context.Context, key string, value []byte) error {
	return d.Replica().SetMeta(ctx, metaOf(key), value)
}

func (d memberDisk) Certified(_ context.Context, sets, filters bool) error {
	return d.Replica().MadeGood(sets, filters)
}

func (d memberDisk) HasData(ctx context.Context) (bool, error) {
	for _, err := range d.Sets(ctx, bigset.SetsOptions{Empty: true}) {
		return err == nil, err
	}
	list, err := d.Filters().List(nil)
	return err == nil && len(list) > 0, err
}

func (d memberDisk) Seal() (key, domain []byte) {
	k := d.Replica().Keyring()
	return k.Current[:], k.Domain[:]
}

// listener handles what a member logs.
type listener struct {
	c *cluster
	m *member
}

func (listener) Enabled(context.Context, slog.Level) bool { return true }
func (h listener) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h listener) WithGroup(string) slog.Handler          { return h }

func (h listener) Handle(_ context.Context, r slog.Record) error {
	h.c.count(r.Message)
	text, noFilter := r.Message, false
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		cause, _ := a.Value.Any().(error)
		noFilter = noFilter || errors.Is(cause, bigset.ErrNoFilter) && h.c.facts.marks.dropping()
		return true
	})
	if r.Level >= slog.LevelWarn {
		h.m.self.warned = text
	}
	switch kind := coord.EventKind(strings.TrimPrefix(r.Message, "cluster: ")); kind {
	case coord.EventRefused, coord.EventHintOverflow, coord.EventDamage:
		if kind == coord.EventRefused && noFilter { // of marks in a filter that was dropped
			h.c.count("marks of a dropped filter refused")
			break
		}
		h.c.facts.violated(convergence.Failed, "%s: %s", h.m.node, text)
	}
	return nil
}
