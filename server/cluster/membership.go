package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bigset/internal/ring"
	"bigset/server/coord"
	"bigset/server/wire"
)

// Disk stores a member's records, and knows whether acknowledged writes may be lost: an engine.Store, adapted by package server.
type Disk interface {
	// Identity identifies the disk. It changes if the folder is wiped, copied or restored from an older copy.
	Identity() []byte
	// Load returns the value of a key, or nil. Save stores a value; it is on disk when Save returns.
	Load(key string) ([]byte, error)
	Save(ctx context.Context, key string, value []byte) error
	// MayLack reports whether sets or filters may lack acknowledged writes because of a crash. Certified records that they no longer do.
	MayLack() (sets, filters bool)
	Certified(ctx context.Context, sets, filters bool) error
	// HasData reports whether the store contains any set or filter.
	HasData(ctx context.Context) (bool, error)
	// Failed returns why the store takes no writes until it is opened again, or nil.
	Failed() error
	// Seal returns this disk's key for tokens of contexts, and their domain.
	Seal() (key, domain []byte)
}

// Peer is a member in the configuration: its ID and the address to dial.
type Peer struct {
	ID      string
	Address string
}

// MembershipConfig configures a membership.
type MembershipConfig struct {
	Node     string        // the ID of this member, one of the peers
	Name     string        // of the cluster
	Peers    []Peer        // all members, in the same order everywhere
	Settings ring.Settings // zero fields mean the default
	// Callers are the ways to the other members, by ID.
	Callers map[string]wire.Caller
	Disk    Disk
	// Changed is called after each change of the view, by one goroutine at a time. The view is valid until the next call. Changed must
	// return only when nothing is done under the former view any more.
	Changed func(View)
	// Heard is called at each round with the reports of the other members that answered.
	Heard func(map[string]State)
	// Say adds to what this member reports about itself under a view.
	Say func(*State, *View)
	// Fill copies from the others what this member may lack, under the view. It is called again if it fails.
	Fill func(ctx context.Context, v View) error
	Log  *slog.Logger
	// Interval is how often the others are asked for their state; default 1 s, and every 100 ms until this member serves.
	Interval time.Duration
	Now      func() time.Time
	// Runner is the source of concurrency and time; default coord.Goroutines, which Run requires. With another Runner the caller calls
	// Round.
	Runner coord.Runner
}

func (c *MembershipConfig) index(id string) int {
	return slices.IndexFunc(c.Peers, func(p Peer) bool { return p.ID == id })
}

// ids returns the members' IDs in order.
func (c *MembershipConfig) ids() (ids []string) {
	for _, p := range c.Peers {
		ids = append(ids, p.ID)
	}
	return ids
}

// Check returns an error if a configuration is invalid.
func (c *MembershipConfig) Check() error {
	seen, at := map[string]bool{}, map[string]string{}
	for _, p := range c.Peers {
		if err := checkID(p.ID); err != nil {
			return err
		}
		if seen[p.ID] {
			return fmt.Errorf("%w: node %s is named twice", ErrConfig, p.ID)
		}
		seen[p.ID] = true
		if other := at[p.Address]; other != "" && p.Address != "" {
			return fmt.Errorf("%w: nodes %s and %s have one address, %s", ErrConfig, other, p.ID, p.Address)
		}
		at[p.Address] = p.ID
	}
	if len(c.Peers) > membersMax {
		return fmt.Errorf("%w: %d members, at most %d", ErrConfig, len(c.Peers), membersMax)
	}
	if names := strings.Join(c.ids(), `","`); len(names) > namesBytesMax {
		return fmt.Errorf("%w: the names of %d members take %d bytes, at most %d, which fit into what nodes say when they connect: give shorter ones", ErrConfig, len(c.Peers), len(names), namesBytesMax)
	}
	if !seen[c.Node] {
		return fmt.Errorf("%w: node %s is not among the peers, which are %s", ErrConfig, c.Node, strings.Join(c.ids(), ", "))
	}
	_, err := Settings(c.Settings, len(c.Peers))
	return err
}

// View is the role of a member at one moment.
type View struct {
	Record *Record // nil until the cluster is born
	Self   int     // this member's place in the record
	// Serves says whether this disk is the member that the record names. If it is not, the member serves and makes no requests.
	Serves bool
	// Sets and Filters say whether this member has everything it has acknowledged and so may answer reads.
	Sets, Filters bool
}

// Epoch returns the epoch of the view, or 0 if the member does not serve.
func (v *View) Epoch() uint64 {
	if !v.Serves {
		return 0
	}
	return v.Record.Epoch
}

// Membership keeps one member in agreement with the others. Its methods may be called by any number of goroutines.
type Membership struct {
	conf MembershipConfig
	boot uint64

	// changing contains a value while one of the next fields changes: until the change is durable, and nothing is done under the former view.
	changing   chan struct{}
	ledger     ledger
	filled     filled
	mayLack    doubts
	superseded bool // the cluster was restored without this disk

	shown atomic.Pointer[standing] // as the last look has left it; reading it waits for no disk

	mu      sync.Mutex // guards the fields below; held for moments only
	waits   string     // what this member waits for
	others  map[string]other
	asking  bool // a proposal of this member is in progress
	yielded bool // the proposal was withdrawn for another one

	turn   sync.Mutex // held during a round
	wake   chan struct{}
	filler struct {
		mu      sync.Mutex
		ended   tasks
		running bool
		lost    string // why fills can't succeed without a person
		cause   string // of the last failure that was logged; one fill at a time uses it
	}
}

// doubts say whether a disk may have lost acknowledged writes, from its open until the member has joined under a new epoch.
type doubts struct{ sets, filters bool }

// standing is what a member has agreed to, and the view that follows.
type standing struct {
	ledger   ledger
	view     View
	mayLack  doubts
	unfilled bool // the disk was not filled since it joined as a new one
}

// other is what is known about another member.
type other struct {
	state State
	at    time.Time
	err   error // of the last try
}

// filled contains the epochs under which this member has been filled. It is kept on disk.
type filled struct {
	Identity Hex    `json:"identity"` // of the filled disk: in a copied folder the value has no effect
	Sets     uint64 `json:"sets"`
	Filters  uint64 `json:"filters"`
}

const (
	keyLedger = "cluster"
	keyFilled = "cluster/filled"
)

// NewMembership reads the records from disk. The member serves nothing until Run has found the others.
func NewMembership(c MembershipConfig) (*Membership, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Settings, _ = Settings(c.Settings, len(c.Peers))
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Runner == nil {
		c.Runner = coord.Goroutines{}
	}
	if c.Now == nil {
		c.Now = c.Runner.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	m := &Membership{conf: c, changing: make(chan struct{}, 1), others: map[string]other{}, wake: make(chan struct{}, 1), waits: "the other members"}
	m.shown.Store(&standing{})
	m.filler.ended.run = c.Runner
	var b [8]byte
	_, _ = rand.Read(b[:])
	for _, x := range b {
		m.boot = m.boot<<8 | uint64(x)
	}
	value, err := c.Disk.Load(keyLedger)
	if err != nil {
		return nil, err
	}
	if m.ledger, err = decodeLedger(value); err != nil {
		return nil, err
	}
	if value, err = c.Disk.Load(keyFilled); err != nil {
		return nil, err
	}
	if len(value) > 0 {
		if err := json.Unmarshal(value, &m.filled); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRecord, err)
		}
	}
	if string(m.filled.Identity) != string(c.Disk.Identity()) {
		m.filled = filled{}
	}
	m.mayLack.sets, m.mayLack.filters = c.Disk.MayLack()
	if r := m.ledger.Committed; r != nil {
		if why := m.differs(r); why != "" {
			return nil, fmt.Errorf("%w: this folder is of a cluster %s", ErrConfig, why)
		}
	}
	m.look()
	return m, nil
}

// differs returns how a record differs from the configuration, or "".
func (m *Membership) differs(r *Record) string {
	var ids []string
	for _, e := range r.Members {
		ids = append(ids, e.ID)
	}
	switch {
	case r.Name != m.conf.Name:
		return fmt.Sprintf("called %q, and this one is to be %q", r.Name, m.conf.Name)
	case !slices.Equal(ids, m.conf.ids()):
		return fmt.Sprintf("with the members %s, and the peers given are %s", strings.Join(ids, ","), strings.Join(m.conf.ids(), ","))
	case r.Settings != m.conf.Settings:
		return fmt.Sprintf("made with %s, and asked for are %s: these are chosen at birth", settingsText(r.Settings), settingsText(m.conf.Settings))
	}
	return ""
}

// View returns the current view. During a change it is the former one.
func (m *Membership) View() View { return m.shown.Load().view }

// change begins a change, and waits for another one as long as ctx allows: a disk may hang. The caller calls done when the change has ended.
func (m *Membership) change(ctx context.Context) (done func(), err error) {
	done = func() { <-m.changing }
	select {
	case m.changing <- struct{}{}:
		return done, nil
	default:
	}
	select {
	case m.changing <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("cluster: node %s is still saving another change: %w", m.conf.Node, context.Cause(ctx))
	}
}

// Waits returns what this member waits for, or "".
func (m *Membership) Waits() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits
}

// Boot returns the number drawn at this start of the process.
func (m *Membership) Boot() uint64 { return m.boot }

// look computes the view from the fields, and shows it. Before, it calls Changed if the view has changed. The caller has begun a change.
func (m *Membership) look() {
	v := View{Record: m.ledger.Committed, Self: m.conf.index(m.conf.Node)}
	unfilled := false
	if r := v.Record; r != nil {
		e := r.Members[v.Self]
		unfilled = min(m.filled.Sets, m.filled.Filters) < e.Disk
		// A disk that may lack something must first join under a new epoch: writes that it has acknowledged under this one may still be
		// counted somewhere.
		v.Serves = string(e.Incarnation) == string(m.conf.Disk.Identity()) && !m.mayLack.sets && !m.mayLack.filters && !m.ledger.Restore && !m.superseded
		v.Sets = v.Serves && m.filled.Sets >= e.Sets
		v.Filters = v.Serves && m.filled.Filters >= e.Filters
	}
	if v != m.View() && m.conf.Changed != nil {
		m.conf.Changed(v)
	}
	m.shown.Store(&standing{m.ledger, v, m.mayLack, unfilled})
}

// save makes a ledger durable and then current. The caller has begun a change.
func (m *Membership) save(ctx context.Context, l ledger) error {
	if err := m.conf.Disk.Save(context.WithoutCancel(ctx), keyLedger, l.encode()); err != nil {
		return err
	}
	m.ledger = l
	m.look()
	return nil
}

// restart is what a member waits for after its store has failed.
func restart(err error) string {
	return "a restart: its store takes no writes any more: " + err.Error()
}

// State returns what this member reports about itself.
func (m *Membership) State(ctx context.Context) (State, error) {
	now, has := m.shown.Load(), false
	if !now.view.Serves {
		var err error
		if has, err = m.conf.Disk.HasData(ctx); err != nil {
			return State{}, err
		}
	}
	s := State{ID: m.conf.Node, Identity: m.conf.Disk.Identity(), Boot: m.boot, Committed: now.ledger.Committed, Prepared: now.ledger.Prepared, Restoring: now.ledger.Restore, HasData: has,
		Born: uint64(m.conf.Now().UnixMicro()), Sets: now.view.Sets, Filters: now.view.Filters, Waits: m.Waits()}
	if err := m.conf.Disk.Failed(); err != nil {
		s.Failed, s.Waits = true, restart(err)
	}
	if s.Committed == nil {
		s.Seal, s.Domain = m.conf.Disk.Seal()
	}
	if m.conf.Say != nil {
		m.conf.Say(&s, &now.view)
	}
	return s, nil
}

// agree agrees durably to a proposal of another member.
func (m *Membership) agree(ctx context.Context, r *Record) error {
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if why := m.differs(r); why != "" {
		return fmt.Errorf("%w: the cluster is %s", ErrForeign, why)
	}
	if c := m.ledger.Committed; c != nil {
		e, was := r.Members[r.entry(r.Proposer)], c.Members[c.entry(r.Proposer)]
		m.mu.Lock()
		o, ok := m.others[r.Proposer]
		m.mu.Unlock()
		if string(e.Incarnation) != string(was.Incarnation) && ok && string(o.state.Identity) == string(was.Incarnation) && m.conf.Now().Sub(o.at) < cloneTime {
			return fmt.Errorf("%w: node %s answers with the disk that it had: two processes are started as %s", ErrForeign, r.Proposer, r.Proposer)
		}
	}
	l := m.ledger
	if c := l.Committed; c != nil && r.Generation > c.Generation && !l.Restore {
		if c.names(m.conf.Node, m.conf.Disk.Identity()) {
			return fmt.Errorf("%w: node %s holds generation %d of the cluster, and its folder was not restored: run `bigset cluster restore` there too, or start it with an empty folder",
				ErrForeign, m.conf.Node, c.Generation)
		}
	}
	if l, err = m.meets(ctx, l, r); err != nil {
		return err
	}
	if m.yields(r) {
		l = l.withdraw(m.conf.Node)
	}
	if l, err = l.propose(r); err != nil {
		return err
	}
	return m.save(ctx, l)
}

// yields reports whether a proposal of this member is in progress that is withdrawn for another member's.
func (m *Membership) yields(r *Record) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	yields := m.asking && m.conf.index(r.Proposer) < m.conf.index(m.conf.Node)
	m.yielded = m.yielded || yields
	return yields
}

// meets returns the ledger with which this disk takes a record. A disk that no record names, and that holds neither sets nor filters, may join
// whatever its folder belonged to before. If it holds some they are not the cluster's: they were written outside, or were given up by a restore,
// and the other members would take them over for good.
func (m *Membership) meets(ctx context.Context, l ledger, r *Record) (ledger, error) {
	c, own := l.Committed, m.conf.Disk.Identity()
	switch {
	case l.Restore, c != nil && (r.Generation <= c.Generation || c.names(m.conf.Node, own)):
		return l, nil
	case c == nil && (r.names(m.conf.Node, own) || l.Prepared != nil && string(l.Prepared.Cluster) == string(r.Cluster)): // it has taken part in the birth
		return l, nil
	}
	switch has, err := m.conf.Disk.HasData(ctx); {
	case err != nil:
		return l, err
	case has && c == nil:
		return l, fmt.Errorf("%w: this folder holds sets or filters that were written outside the cluster, or before it was born: start this node with an empty folder, and import them", ErrForeign)
	case has:
		return l, newerGeneration(c, r)
	}
	l.Committed = nil // nothing here contradicts the record
	return l, nil
}

// cloneTime is how long a disk counts as alive after it was last heard.
const cloneTime = 2 * time.Second

// twin returns an error if another process than the one with this boot runs as a member: the one that this member is connected to, by its
// boot, has answered in one of the last rounds. A member that was restarted is refused no longer than a few seconds after the last answer of its
// former process, and not at all once the connections to that process have ended. A boot of 0 is unknown.
func (m *Membership) twin(id string, boot, connected uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.others[id]
	if boot == 0 || connected == 0 || boot == connected || o.err != nil || o.state.Boot != connected || m.conf.Now().Sub(o.at) >= m.aliveTime() {
		return nil
	}
	return twinError(id)
}

// aliveTime is how long a process counts as alive after it was last heard: until the end of the next round, which may wait for a third member
// that hangs.
func (m *Membership) aliveTime() time.Duration { return m.conf.Interval + roundTime + time.Second }

// twinError is the error of a second process of a member.
func twinError(id string) error {
	return fmt.Errorf("%w: node %s answers already, as another process: two processes are started as %s; stop one, and give it an empty folder if it is to be another node", ErrForeign, id, id)
}

// commit takes a record that was committed elsewhere.
func (m *Membership) commit(ctx context.Context, r *Record) error {
	if now := m.shown.Load().ledger; r.Epoch == now.epoch() && r.same(now.Committed) {
		return nil // a change in progress can lead only to a newer one
	}
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if r.Epoch == m.ledger.epoch() && r.same(m.ledger.Committed) {
		return nil
	}
	if why := m.differs(r); why != "" {
		return fmt.Errorf("%w: the cluster is %s", ErrForeign, why)
	}
	own := m.ledger
	if c := own.Committed; c != nil && r.Generation > c.Generation {
		switch {
		case own.Restore && !r.names(m.conf.Node, m.conf.Disk.Identity()):
			return fmt.Errorf("%w: this folder is to be restored with generation %d of the cluster, and the others are at generation %d already: restore all folders again, or start this node with an empty one",
				ErrForeign, c.Generation, r.Generation)
		case !own.Restore && c.names(m.conf.Node, m.conf.Disk.Identity()) && string(r.Cluster) == string(c.Cluster) && r.near(c, restoreMost) == nil:
			m.superseded = true
			m.look()
		}
	}
	if own, err = m.meets(ctx, own, r); err != nil {
		return err
	}
	l, err := own.commit(r)
	if err != nil {
		return err
	}
	if l.epoch() == m.ledger.epoch() {
		return nil // an older record
	}
	m.conf.Log.Info("cluster: epoch", "epoch", r.Epoch, "by", r.Proposer)
	return m.save(ctx, l)
}

// forget withdraws the proposal of a member.
func (m *Membership) forget(ctx context.Context, proposer string) error {
	done, err := m.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if p := m.ledger.Prepared; p == nil || p.Proposer != proposer {
		return nil
	}
	return m.save(ctx, m.ledger.withdraw(proposer))
}
