package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"bigset"
	"bigset/bloomslice"
	"bigset/clock"
	"bigset/fold"
	"bigset/internal/ring"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/follow"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/tokens"
	"bigset/server/transfer"
	"bigset/server/wire"
)

// Local is the replica in this process: a *local.Replica.
type Local interface {
	remote.Local
	peer.SlicesNow
	peer.ManyWrites
	transfer.Receiver
	transfer.RequestReceiver
	// SetStates sets whether the replica answers reads of sets and of filters.
	SetStates(sets, filters peer.MemberState)
	// SetSeats sets the function that returns from which seat the replica fills the slices of filters in a slot, and whether it has a seat
	// there.
	SetSeats(f func(slot keyscheme.Slot) (seat bloomslice.Seat, ok bool))
	// CountSets counts the sets with slots from first to last that have a live dot. A replica that does not answer reads returns
	// peer.ErrJoining.
	CountSets(ctx context.Context, first, last keyscheme.Slot) (bigset.SetCount, error)
	// AwaitNext returns nil at the first change of what this replica knows of a set after it has called ready, or an error, perhaps without that call.
	AwaitNext(ctx context.Context, set []byte, ready func()) error
	// Removed returns elements that dead dots of a set had, as far as this process remembers them.
	Removed(ctx context.Context, set []byte, dots *clock.Clock) ([]fold.Element, error)
}

// Config configures a member.
type Config struct {
	Node     string // the ID of this member, one of the peers
	Name     string // of the cluster
	Peers    []Peer // all members, in the same order everywhere
	Settings ring.Settings
	// Dial opens a connection to a peer and verifies by the certificate that the other end is that peer.
	Dial func(ctx context.Context, p Peer) (net.Conn, error)
	// Way returns the way to a peer. Nil means connections that Dial opens.
	Way func(p Peer) Way
	// Hints is the folder of hints.
	Hints coord.Folder
	// Filters are those of the store in this process. FilterDefaults are the options that create does not name.
	Filters        LocalFilters
	FilterDefaults bigset.FilterOptions
	// CountApart says which sets CountSets counts apart, by their names: as engine.Options.CountApart of the replica. Nil means none.
	CountApart func(name []byte) bool
	// CopyBytesPerSecond bounds the rate of copies into this member; 0 means no bound.
	CopyBytesPerSecond int64
	// Unsynced makes changes of sets without a DW not wait for any disk.
	Unsynced bool
	// Limits count the memory for batches of clients' changes; nil means that it is not counted.
	Limits *door.Limits
	// Tokens are the clients' tokens that this member knows; nil means that it keeps and learns none.
	Tokens *tokens.List
	// CopyChunkBytes is about how much of a set a copy requests at a time; 0 means the default of package transfer.
	CopyChunkBytes int
	// Patience is how long a copy into this member waits for an answer of its source, or for the next part of one; the default is 2 minutes.
	// A list of sets waits as long for the next set; its default is 5 seconds.
	Patience time.Duration
	// ExchangeInterval is the time between two exchanges of what members should both have; 0 means the default of package coord, a negative
	// value means never.
	ExchangeInterval time.Duration
	Log              *slog.Logger
	// Wire contains the options of connections to peers.
	Wire wire.Options
	// Interval is how often the others are asked for their state; default 1 s.
	Interval time.Duration
	// Runner is the source of the member's concurrency and time; default coord.Goroutines. With another Runner, Start must not be called:
	// the caller calls Round, and asks for only one at a time of the changes of filters that need all members.
	Runner coord.Runner
	// Rand is coord.Options.Rand.
	Rand func() uint64
	// Events is called with events of the background work, in addition to the log; default nil. It must not block or call the member.
	Events func(coord.Event)
}

// Way is the way to another member: a *wire.Link. Its methods may be called by any number of goroutines.
type Way interface {
	wire.Caller
	// Start begins to connect; Wake tries again at once; Close ends the way.
	Start()
	Wake()
	Close() error
	// Up reports whether the member is connected. Remote returns what it said about itself, or why it is not connected.
	Up() bool
	Remote() (*wire.Remote, error)
}

// Member is this process as a member of its cluster. Its methods may be called by any number of goroutines.
type Member struct {
	conf       Config
	local      Local
	disk       Disk
	membership *Membership
	gate       *gate
	links      map[string]Way
	frames     remote.Frames
	hints      *coord.Hints
	co         *coord.Coordinator
	filters    *Filters
	live       atomic.Pointer[live]      // nil while requests can't be routed
	ownership  *ownership                // of the cluster
	second     map[string]*atomic.Uint64 // of each other member: the boot of the second process that was noticed last, or 0
	stats      peerStats
	events     eventLog
	tokensMet  atomic.Bool // tokens have been compared with those of the others once
	followers  follow.Kept // the positions of followers of sets

	life   context.Context
	cancel context.CancelFunc
	ended  tasks
	run    coord.Runner
	copied atomic.Pointer[Copied] // nil while nothing is copied into this member
}

// NewMember returns a member, which serves nothing before Start.
func NewMember(c Config, local Local, disk Disk) (*Member, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	own := MembershipConfig{Node: c.Node, Peers: c.Peers, Settings: c.Settings}
	if err := own.Check(); err != nil {
		return nil, err
	}
	settings, _ := Settings(c.Settings, len(c.Peers))
	plan, err := newOwnership(own.ids(), settings)
	if err != nil {
		return nil, err
	}
	m := &Member{conf: c, local: local, disk: disk, gate: newGate(), links: map[string]Way{}, run: c.Runner, ownership: plan, second: map[string]*atomic.Uint64{}}
	if m.run == nil {
		m.run = coord.Goroutines{}
	}
	m.ended.run, m.stats.now = m.run, m.run.Now
	m.events.log, m.events.now = c.Log, m.run.Now
	if c.Way == nil {
		m.conf.Way = func(p Peer) Way { return m.link(p) }
	}
	if c.CountApart == nil {
		m.conf.CountApart = func([]byte) bool { return false }
	}
	m.life, m.cancel = context.WithCancel(context.Background())
	callers := map[string]wire.Caller{}
	for _, p := range c.Peers {
		if p.ID == c.Node {
			continue
		}
		m.links[p.ID], m.second[p.ID] = m.conf.Way(p), &atomic.Uint64{}
		callers[p.ID] = m.stats.caller(p.ID, m.links[p.ID])
	}
	m.local.SetStates(peer.Joining, peer.Joining)
	m.local.SetSeats(m.seat)
	if m.hints, err = coord.OpenHints(c.Hints, coord.HintOptions{BytesMax: hintBytesMax, NodeBytesMax: hintBytesMax / int64(max(1, len(m.links))), Now: m.run.Now, Events: m.event}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	if m.membership, err = NewMembership(MembershipConfig{Node: c.Node, Name: c.Name, Peers: c.Peers, Settings: c.Settings, Callers: callers, Disk: disk,
		Changed: m.changed, Heard: m.heard, Say: m.say, Fill: m.fill, Log: c.Log, Interval: c.Interval, Runner: m.run}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	s := m.membership.conf.Settings
	q := coord.Quorum{N: s.N, R: s.R, W: s.W, DW: s.DW}
	if s.DW == 0 {
		q.DW = coord.None
	}
	m.co, err = coord.New(coord.Options{
		Place: m.placeSet, PlaceSlice: m.placeSlice, PlaceSlices: m.placeSlices,
		Quorum: q, Hints: m.hints, HintInterval: time.Second, GatherTime: gatherTime, HedgeTime: 100 * time.Millisecond, Shares: m.shares, ExchangeInterval: c.ExchangeInterval, Exchanges: 2, Rand: c.Rand, Runner: c.Runner, Events: m.event})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	if m.filters, err = newFilters(m); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.followers.Elsewhere, m.followers.WaitersMax = m.positionElsewhere, waitersMax
	m.tokensLearned()
	return m, nil
}

// gatherTime is how much later a delta may leave to a replica that its quorum does not need. Several adds of one client fit in.
const gatherTime = 5 * time.Millisecond

// hintBytesMax is how many bytes of hints a member keeps, divided equally among the others: a member that is away takes no room from
// another.
const hintBytesMax = 256 << 20

// seat returns the seat of this member among the owners of a slot.
func (m *Member) seat(s keyscheme.Slot) (bloomslice.Seat, bool) {
	if l := m.live.Load(); l != nil {
		return l.seat(s)
	}
	return 0, false
}

// placeSet returns the placement of a set under the current epoch. Without an epoch it has no replicas, and so no quorum.
func (m *Member) placeSet(set []byte) coord.Placement[peer.Replica] {
	if l := m.live.Load(); l != nil {
		return place(l, keyscheme.SetSlot(set), l.moment().sets)
	}
	return coord.Placement[peer.Replica]{}
}

// placeSlice is placeSet for a slice of a filter.
func (m *Member) placeSlice(filter []byte, slice uint32) coord.Placement[peer.SliceReplica] {
	if l := m.live.Load(); l != nil {
		return place(l, keyscheme.SlotOf(keyscheme.PartitionFilter, filter, slice), l.moment().slices)
	}
	return coord.Placement[peer.SliceReplica]{}
}

// placeSlices is placeSlice for many slices of a filter, at one moment.
func (m *Member) placeSlices(filter []byte) func(slice uint32) coord.Placement[peer.SliceReplica] {
	l := m.live.Load()
	if l == nil {
		return func(uint32) (none coord.Placement[peer.SliceReplica]) { return none }
	}
	kept, first := l.moment().slices, keyscheme.SlotOf(keyscheme.PartitionFilter, filter, 0)
	return func(slice uint32) coord.Placement[peer.SliceReplica] { return place(l, first.OfSlice(slice), kept) }
}

func (m *Member) shares() []coord.Share {
	if l := m.live.Load(); l != nil {
		return l.pairs
	}
	return nil
}

// link returns the way to a peer.
func (m *Member) link(p Peer) *wire.Link {
	return wire.NewLink(wire.LinkOptions{
		Dial: func(ctx context.Context) (net.Conn, error) { return m.conf.Dial(ctx, p) },
		Client: func() wire.ClientOptions {
			o := m.conf.Wire
			o.Errors = Errors
			return wire.ClientOptions{Options: o, Role: wire.RoleNode, Name: m.conf.Node, Hello: m.greeting().encode(), Check: func(r *wire.Remote) error { return m.found(p, r) }}
		},
		Events: m.linkEvents(p.ID)})
}

// notConnectedTime is how often the log says why a member is not connected.
const notConnectedTime = time.Minute

// linkEvents returns a function that logs the changes of the connections to a member.
func (m *Member) linkEvents(id string) func(wire.LinkEvent) {
	var mu sync.Mutex
	var logged time.Time
	return func(e wire.LinkEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch now := m.run.Now(); {
		case e.Up:
			logged = time.Time{}
			m.conf.Log.Info("cluster: connected", "node", id)
			m.membership.Wake()
		case e.Err != nil && !m.links[id].Up() && now.Sub(logged) >= notConnectedTime:
			logged = now
			m.conf.Log.Info("cluster: not connected", "node", id, "cause", e.Err)
		}
	}
}

// found checks what answers at the address of a peer.
func (m *Member) found(p Peer, r *wire.Remote) error {
	their, err := decodeGreeting(r.Hello)
	if err == nil && their.Node != p.ID {
		err = fmt.Errorf("%w: node %s answers at the address of %s: check --peers", ErrForeign, their.Node, p.ID)
	}
	r.Value = their.Boot
	if err == nil {
		err = m.twin(p.ID, their.Boot)
	}
	return err
}

// bootOf returns the boot of the process at the other end of a connection, or 0 if it is unknown.
func bootOf(r *wire.Remote) uint64 {
	boot, _ := r.Value.(uint64)
	return boot
}

// twin returns an error if another process than the one with this boot runs as a member.
func (m *Member) twin(id string, boot uint64) error {
	l := m.links[id]
	if l == nil || !l.Up() {
		return nil
	}
	r, err := l.Remote()
	if err != nil || r == nil {
		return nil // the connection has just ended
	}
	return m.membership.twin(id, boot, bootOf(r))
}

// Start begins to contact the other members.
func (m *Member) Start() {
	for _, l := range m.links {
		l.Start()
	}
	m.ended.Go(func() { m.membership.Run(m.life) })
}

// Round asks the others for their state and acts on it, as Start does repeatedly.
func (m *Member) Round(ctx context.Context) { m.membership.Round(ctx) }

// Close ends the background work. Writes that have not reached a replica become hints. All requests must have ended before.
func (m *Member) Close(ctx context.Context) error {
	m.cancel()
	m.ended.Wait()
	m.membership.filler.ended.Wait() // it ends with m.life
	err := m.co.Close(ctx)
	return errors.Join(err, m.close())
}

func (m *Member) close() error {
	m.cancel()
	var errs []error
	for _, l := range m.links {
		errs = append(errs, l.Close())
	}
	if m.hints != nil {
		errs = append(errs, m.hints.Close())
	}
	return errors.Join(errs...)
}

// changed makes a view take effect. It returns when nothing is done under the former view any more.
func (m *Member) changed(v View) {
	state := func(whole bool) peer.MemberState {
		if whole {
			return peer.Normal
		}
		return peer.Joining
	}
	m.local.SetStates(state(v.Sets), state(v.Filters))
	if !v.Serves {
		m.live.Store(nil)
		m.gate.turn(0)
		return
	}
	if l := m.live.Load(); l != nil && l.epoch == v.Epoch() {
		return // only its own state has changed, which the replica reports in its answers
	}
	m.gate.turn(v.Epoch())
	m.live.Store(newLive(v, m.ownership, m.replicas(v), m.near, m.run.Now))
}

// say adds to what this member reports about itself under a view.
func (m *Member) say(s *State, v *View) {
	s.Listed, s.Filtered = m.filters.list.state()
	s.Tokens, s.Copied = m.tokensText(), m.copied.Load()
	s.Listed = s.Listed && v.Serves
}

// heard handles the reports of the other members.
func (m *Member) heard(states map[string]State) {
	for _, s := range states {
		m.stands(s)
	}
	m.filters.heard(states)
}

// stands sets the state of another member's replica to what the member reports.
func (m *Member) stands(s State) {
	l := m.live.Load()
	if l == nil || s.Committed == nil || s.Committed.Epoch != l.epoch {
		return
	}
	for i, e := range l.view.Record.Members {
		rep, ok := l.replicas[i].(*remote.Replica)
		if !ok || e.ID != s.ID {
			continue
		}
		if s.Sets {
			rep.Is(peer.Normal)
		} else {
			rep.Is(peer.Joining)
		}
	}
}

// replicas returns all members' replicas under a view.
func (m *Member) replicas(v View) (all []replica) {
	epoch := v.Epoch()
	for _, e := range v.Record.Members {
		if e.ID == m.conf.Node {
			all = append(all, &gated{m.local, m.gate, epoch})
			continue
		}
		state := peer.Normal
		if max(e.Sets, e.Filters) == epoch { // until it reports otherwise
			state = peer.Joining
		}
		rep, err := remote.New(remote.Options{Member: peer.Member{Node: e.ID, Incarnation: clock.Actor(e.Incarnation), State: state},
			Caller: m.stats.caller(e.ID, m.links[e.ID]), Self: m.local.Member, Epoch: func() uint64 { return epoch }, Frames: &m.frames})
		if err != nil { // the record was checked
			m.conf.Log.Error("cluster: no replica", "node", e.ID, "cause", err)
		}
		all = append(all, rep)
	}
	return all
}

// near returns how far a member is: here, reachable, not reachable, or joining.
func (m *Member) near(member int) int {
	l := m.live.Load()
	p := m.conf.Peers[member]
	switch {
	case l != nil && l.replicas[member].Member().State != peer.Normal:
		return 1 << 30
	case p.ID == m.conf.Node:
		return 0
	case !m.links[p.ID].Up():
		return 1 << 29
	}
	return 1 + m.stats.latency(p.ID)
}

// event logs an event of the background work.
func (m *Member) event(e coord.Event) {
	m.stats.event(e)
	if m.conf.Events != nil {
		m.conf.Events(e)
	}
	switch e.Kind {
	case coord.EventDamage, coord.EventHealLeft, coord.EventHintOverflow, coord.EventHintFailed, coord.EventRefused:
		m.events.add(&e)
	}
}

// greeting is what members report about themselves when they connect.
type greeting struct {
	Name     string        `json:"name"`
	Node     string        `json:"node"`
	Peers    []string      `json:"peers"`
	Settings ring.Settings `json:"settings"`
	Cluster  Hex           `json:"cluster,omitempty"`
	// Generation is that of the cluster that the folder holds; 0 before birth, and in versions that do not report it.
	Generation uint64 `json:"generation,omitempty"`
	Identity   Hex    `json:"identity"`
	Boot       uint64 `json:"boot"`
}

func (g greeting) encode() []byte {
	b, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("cluster: a greeting that can't be encoded: %v", err))
	}
	return b
}

func decodeGreeting(b []byte) (g greeting, err error) {
	if err := json.Unmarshal(b, &g); err != nil {
		return g, fmt.Errorf("%w: its greeting: %w", ErrForeign, err)
	}
	return g, nil
}

func (m *Member) greeting() greeting {
	g := greeting{Name: m.conf.Name, Node: m.conf.Node, Identity: m.disk.Identity()}
	if m.membership != nil {
		g.Peers, g.Settings, g.Boot = m.membership.conf.ids(), m.membership.conf.Settings, m.membership.boot
		if r := m.membership.View().Record; r != nil {
			g.Cluster, g.Generation = r.Cluster, r.Generation
		}
	}
	return g
}

// Hello checks another member or a client, and returns the greeting of this one. The address identifies this disk in this cluster.
func (m *Member) Hello(from *wire.Remote) (answer []byte, address uint64, err error) {
	own := m.greeting()
	if from.Role == wire.RoleNode {
		their, err := decodeGreeting(from.Hello)
		if err == nil {
			err = own.refuses(&their, from.Name)
		}
		from.Value = their.Boot
		if err == nil {
			err = m.twin(from.Name, their.Boot)
		}
		if err != nil {
			return nil, 0, err
		}
		if l := m.links[from.Name]; l != nil {
			l.Wake() // a member that reaches this one can be reached
		}
	}
	return own.encode(), own.address(), nil
}

// address returns the number that requests to this disk must carry, in this cluster and its generation. Only the member that computes it
// interprets it, so it may change with the version.
func (g *greeting) address() uint64 {
	b := append(append([]byte(g.Name+"/"+g.Node+"/"), g.Identity...), g.Cluster...)
	return xxhash.Sum64(binary.BigEndian.AppendUint64(b, g.Generation))
}

// refuses returns why another node is not a member of this cluster, with the difference.
func (g *greeting) refuses(o *greeting, name string) error {
	switch {
	case o.Node != name:
		return fmt.Errorf("%w: node %q calls itself %q", ErrForeign, name, o.Node)
	case o.Node == g.Node:
		return fmt.Errorf("%w: both are node %s: two processes are started as %s, or --peers names this one's address for another", ErrForeign, g.Node, g.Node)
	case o.Name != g.Name:
		return fmt.Errorf("%w: node %s is of cluster %q, and node %s of cluster %q", ErrForeign, o.Node, o.Name, g.Node, g.Name)
	case !slices.Equal(o.Peers, g.Peers):
		return fmt.Errorf("%w: the peers of node %s are %v, and those of node %s are %v: --peers has to name the same nodes in the same order everywhere", ErrForeign, o.Node, o.Peers, g.Node, g.Peers)
	case o.Settings != g.Settings:
		return fmt.Errorf("%w: the settings of node %s are %s, and those of node %s are %s: they have to be the same everywhere", ErrForeign, o.Node, settingsText(o.Settings), g.Node, settingsText(g.Settings))
	case len(o.Cluster) > 0 && len(g.Cluster) > 0 && string(o.Cluster) != string(g.Cluster):
		return fmt.Errorf("%w: the folder of node %s is of cluster %x, and that of node %s of cluster %x: they were born apart", ErrForeign, o.Node, []byte(o.Cluster), g.Node, []byte(g.Cluster))
	}
	return nil
}

// Handler serves other members: verbs of replicas, and the verbs by which members agree.
func (m *Member) Handler() wire.Handler {
	replicas := remote.HandlerIn(besideRequests(m.run), m.local, (*peersGate)(m.gate))
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if err := m.twinOf(r); err != nil {
			return nil, err
		}
		switch {
		case Control(r.Verb):
			return m.membership.Control(ctx, r)
		case aboutFilters(r.Verb):
			return m.filters.control(ctx, r)
		case r.Verb == verbTokens:
			return m.answerTokens(ctx, r)
		case r.Verb == verbCountSets:
			return m.answerCountSets(ctx, r)
		case r.Verb == verbPosition:
			return m.answerPosition(r)
		}
		return replicas(ctx, r, send)
	}
}

// twinOf returns an error if a request is of a second process of a member, which connected before this member could notice. It is noticed by
// the requests of its rounds; others are refused from then on, which costs them only a look.
func (m *Member) twinOf(r *wire.Request) error {
	boot, second := bootOf(r.From), m.second[r.From.Name]
	switch {
	case boot == 0 || second == nil:
		return nil
	case !Control(r.Verb) && second.Load() == boot:
		return twinError(r.From.Name)
	case !Control(r.Verb):
		return nil
	}
	err := m.twin(r.From.Name, boot)
	if err != nil {
		second.Store(boot)
	} else {
		second.CompareAndSwap(boot, 0)
	}
	return err
}

// peersGate is the gate in the form that package remote needs.
type peersGate gate

func (d *peersGate) Enter(_ context.Context, c remote.Class, _, _ keyscheme.Slot, epoch uint64) (leave func(), err error) {
	g := (*gate)(d)
	if c == remote.Mint || c == remote.Take {
		return g.enter(epoch)
	}
	return func() {}, g.check(epoch)
}

func (d *peersGate) EnterMany(ctx context.Context, c remote.Class, at []keyscheme.Slot, epoch uint64) (leave func(), errs []error) {
	leave, err := d.Enter(ctx, c, 0, 0, epoch)
	if err != nil {
		return func() {}, slices.Repeat([]error{err}, len(at))
	}
	return leave, nil
}

// Errors encodes errors between members.
var Errors = peer.Errors{More: []peer.CodedError{{Code: 1000, Err: ErrConfig}, {Code: 1001, Err: ErrRecord}, {Code: 1002, Err: ErrForeign},
	{Code: 1003, Err: door.ErrUnavailable}, {Code: 1004, Err: door.ErrUnknown}, {Code: 1005, Err: door.ErrMembersAway}}}

// Filters returns the filters of the cluster.
func (m *Member) Filters() *Filters { return m.filters }

// Coordinator returns the coordinator of clients' operations.
func (m *Member) Coordinator() *coord.Coordinator { return m.co }

// View returns the current view.
func (m *Member) View() View { return m.membership.View() }
