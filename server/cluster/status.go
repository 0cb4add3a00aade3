package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"bigset/keyscheme"
	"bigset/server/peer"
	"bigset/server/wire"
)

// VerbStatus asks a member for its Status, as JSON. Clients may ask for it. It is on the wire.
const VerbStatus wire.Verb = 90

// Status is what a member knows about itself and the others.
type Status struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Epoch   uint64 `json:"epoch"` // 0 before the cluster is born
	// Generation is 1 at the cluster's birth and rises with each restore from backups.
	Generation uint64         `json:"generation"`
	Settings   StatusSettings `json:"settings"`
	Serves     bool           `json:"serves"`
	Sets       bool           `json:"sets"`    // whether this member answers reads of sets
	Filters    bool           `json:"filters"` // whether this member answers reads of filters
	Listed     bool           `json:"listed"`  // whether this member knows which filters exist
	Named      int            `json:"named"`   // number of filters
	Waits      string         `json:"waits,omitempty"`
	Copied     uint64         `json:"copied_bytes,omitempty"`          // while this member is filled: received so far
	Portion    float64        `json:"copied_portion,omitempty"`        // while this member is filled: as Copied.Portion
	CopyLimit  int64          `json:"copy_bytes_per_second,omitempty"` // bound on the rate of copies into this member; 0 means none
	Members    []MemberStatus `json:"members"`
	// Events counts events of the background work at this member by kind, such as hint-overflow: those of coord.EventKind.
	Events map[string]uint64 `json:"events,omitempty"`
}

// StatusSettings are ring.Settings as the other fields are named. The names in a record on disk are older.
type StatusSettings struct {
	N       int `json:"n"`
	R       int `json:"r"`
	W       int `json:"w"`
	DW      int `json:"dw"`
	Buckets int `json:"buckets"`
	Slices  int `json:"slices"`
}

// MemberStatus is what a member knows about one member.
type MemberStatus struct {
	ID          string `json:"id"`
	Address     string `json:"address"`
	Up          bool   `json:"up"`            // it answers
	Why         string `json:"why,omitempty"` // why it does not answer
	Epoch       uint64 `json:"epoch"`
	Sets        bool   `json:"sets"`
	Filters     bool   `json:"filters"`
	Waits       string `json:"waits,omitempty"`
	StoreFailed bool   `json:"store_failed,omitempty"` // its store takes no writes until the node restarts
	Hints       int    `json:"hints"`                  // hints that this member keeps for that one
	HintBytes   int64  `json:"hint_bytes"`
	HintSeconds int64  `json:"hint_seconds"` // age of the oldest hint
	// Compared is the time since which all data that this member and that one both hold has been compared. It is zero before the first
	// complete comparison. Of two members, only the one that comes first in the record compares, and the other reports the zero time.
	Compared time.Time `json:"compared,omitzero"`
	// Calls, Failed and Busy leave out the questions for the member's state, of which one fails each second that it is away.
	Calls        uint64      `json:"calls"`
	Failed       uint64      `json:"failed"`
	Busy         uint64      `json:"busy"`
	Milliseconds float64     `json:"milliseconds"`     // recent latency of a call
	Verbs        []VerbCount `json:"verbs,omitempty"`  // the calls by verb
	Copied       *Copied     `json:"copied,omitempty"` // how far that member is filled; nil if it is not being filled now
}

// Status returns what this member knows.
func (m *Member) Status() Status {
	v := m.View()
	s := Status{Cluster: m.conf.Name, Node: m.conf.Node, Settings: StatusSettings(m.membership.conf.Settings), Serves: v.Serves, Sets: v.Sets, Filters: v.Filters, Waits: m.membership.Waits(),
		CopyLimit: m.conf.CopyBytesPerSecond}
	if v.Record != nil {
		s.Epoch, s.Generation = v.Record.Epoch, v.Record.Generation
	}
	s.Listed, _ = m.filters.list.state()
	s.Named = len(m.filters.list.activeNames())
	if c := m.copied.Load(); c != nil {
		s.Copied, s.Portion = c.Bytes, c.Portion
	}
	s.Events = m.stats.counted()
	compared := m.co.Compared()
	for _, p := range m.conf.Peers {
		e := MemberStatus{ID: p.ID, Address: p.Address}
		if p.ID == m.conf.Node {
			e.Up, e.Epoch, e.Sets, e.Filters, e.Waits, e.Copied = true, s.Epoch, s.Sets, s.Filters, s.Waits, m.copied.Load()
			if err := m.disk.Failed(); err != nil {
				e.StoreFailed, e.Waits = true, restart(err)
			}
			s.Members = append(s.Members, e)
			continue
		}
		if l := m.links[p.ID]; l.Up() {
			e.Up = true
		} else if _, err := l.Remote(); err != nil {
			e.Why = err.Error()
		}
		switch o, err := m.membership.other(p.ID); {
		case err != nil && e.Up:
			e.Why = err.Error()
		case e.Up:
			if o.Committed != nil {
				e.Epoch = o.Committed.Epoch
			}
			e.Sets, e.Filters, e.Waits, e.StoreFailed, e.Copied = o.Sets, o.Filters, o.Waits, o.Failed, o.Copied
		}
		e.Compared = compared[p.ID]
		waits := m.hints.Backlog(p.ID)
		e.Hints, e.HintBytes = waits.Count, waits.Bytes
		if waits.Count > 0 {
			e.HintSeconds = max(0, int64(time.Since(waits.Oldest)/time.Second))
		}
		st := m.stats.of(p.ID)
		e.Verbs = st.counts()
		for _, v := range e.Verbs {
			if v.Verb == verbNames[verbState] {
				continue
			}
			e.Calls, e.Failed, e.Busy = e.Calls+v.Calls, e.Failed+v.Failed, e.Busy+v.Busy
		}
		e.Milliseconds = float64(st.average.Load()) / float64(time.Millisecond)
		s.Members = append(s.Members, e)
	}
	return s
}

// other returns the last report of another member, which is empty before the first, or why the last question for one failed.
func (m *Membership) other(id string) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.others[id]
	return o.state, o.err
}

// NotReady returns why clients should not be sent to this member.
func (m *Member) NotReady() (reasons []string) {
	v := m.View()
	switch {
	case !v.Serves:
		return []string{"cluster: this member does not serve yet: it waits for " + m.membership.Waits()}
	case !v.Sets || !v.Filters:
		reasons = append(reasons, "cluster: this member is joining: it answers no reads by itself before it is filled")
	}
	if listed, _ := m.filters.list.state(); !listed {
		reasons = append(reasons, "cluster: this member does not know yet which filters exist")
	}
	return append(reasons, m.short()...)
}

// Met reports whether this member is ready, reaches all others, and has learned the tokens that they know.
func (m *Member) Met() bool {
	for _, l := range m.links {
		if !l.Up() {
			return false
		}
	}
	return (m.tokensMet.Load() || m.conf.Tokens == nil) && len(m.NotReady()) == 0
}

// short reports the ranges for which too few members are whole and answer, with the members that are missing.
func (m *Member) short() (reasons []string) {
	l := m.live.Load()
	if l == nil {
		return nil
	}
	need := l.view.Record.Settings
	failed := make([]bool, len(m.conf.Peers))
	for i := range failed {
		failed[i] = m.storeFailed(i)
	}
	unread, unwritten := make([]string, len(l.classes)), make([]string, len(l.classes)) // who is missing, if too many are
	for class, owners := range l.classes {
		var unreadBy, unwrittenBy []string
		for _, i := range owners {
			id := m.conf.Peers[i].ID
			away := i != l.self && !m.links[id].Up()
			switch {
			case away:
				unreadBy = append(unreadBy, id+" does not answer")
			case l.replicas[i].Member().State != peer.Normal:
				unreadBy = append(unreadBy, id+" is joining")
			}
			switch {
			case away:
				unwrittenBy = append(unwrittenBy, id+" does not answer")
			case failed[i]:
				unwrittenBy = append(unwrittenBy, id+" needs a restart")
			}
		}
		if len(owners)-len(unreadBy) < min(need.R, len(owners)) && l.origin < 0 {
			unread[class] = sorted(unreadBy)
		}
		if len(owners)-len(unwrittenBy) < min(need.W, len(owners)) {
			unwritten[class] = sorted(unwrittenBy)
		}
	}
	if strings.Join(unread, "")+strings.Join(unwritten, "") == "" {
		return nil
	}
	var reads, writes gaps
	ranges := l.ranges()
	for _, r := range ranges {
		if text := unread[r.class]; text != "" {
			reads.add(r, text)
		}
		if text := unwritten[r.class]; text != "" {
			writes.add(r, text)
		}
	}
	if reads.count > 0 {
		reasons = append(reasons, fmt.Sprintf("cluster: %d of %d ranges have too few members that are up and whole to be read (R is %d): %s", reads.count, len(ranges), need.R, &reads))
	}
	if writes.count > 0 {
		reasons = append(reasons, fmt.Sprintf("cluster: %d of %d ranges have too few members that are up and take writes to be written (W is %d): %s", writes.count, len(ranges), need.W, &writes))
	}
	return reasons
}

// sorted joins a list in order.
func sorted(list []string) string {
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// gaps collects ranges that too few members serve.
type gaps struct {
	count int
	parts []gap // adjacent ranges for which the same members are missing
}

type gap struct {
	first, last keyscheme.Slot
	missing     string
}

// add adds a range that comes after all others.
func (g *gaps) add(r run, text string) {
	g.count++
	if n := len(g.parts); n > 0 && g.parts[n-1].missing == text && g.parts[n-1].last+1 == r.first {
		g.parts[n-1].last = r.last
		return
	}
	g.parts = append(g.parts, gap{r.first, r.last, text})
}

// gapsMost is how many gaps a reason names.
const gapsMost = 3

// String names the first gaps.
func (g *gaps) String() string {
	var list []string
	for _, p := range g.parts[:min(gapsMost, len(g.parts))] {
		list = append(list, fmt.Sprintf("slots %08x to %08x: %s", uint32(p.first), uint32(p.last), p.missing))
	}
	if more := len(g.parts) - gapsMost; more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, "; ")
}

// storeFailed reports whether the store of a member takes no writes until the node restarts.
func (m *Member) storeFailed(i int) bool {
	if m.conf.Peers[i].ID == m.conf.Node {
		return m.disk.Failed() != nil
	}
	o, err := m.membership.other(m.conf.Peers[i].ID)
	return err == nil && o.Failed
}

// status answers VerbStatus.
func (m *Member) status(context.Context) ([]byte, error) { return json.Marshal(m.Status()) }

// Clients adds the verbs of this package for clients to a handler.
func (m *Member) Clients(next wire.Handler) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == VerbStatus {
			return m.status(ctx)
		}
		return next(ctx, r, send)
	}
}
