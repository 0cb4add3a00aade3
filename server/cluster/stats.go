package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/remote"
	"bigset/server/wire"
)

// peerStats counts calls to each other member, and events of the background work.
type peerStats struct {
	mu     sync.Mutex
	peers  map[string]*PeerStats
	events map[coord.EventKind]uint64
	now    func() time.Time
}

// PeerStats counts calls to one member.
type PeerStats struct {
	Verbs [256]VerbStats

	average atomic.Int64 // recent average of the nanoseconds that a call takes
}

// VerbStats counts calls of one verb.
type VerbStats struct {
	Calls, Failed, Busy atomic.Uint64
	Nanoseconds         atomic.Uint64 // of calls that were answered
}

// VerbCount counts the calls of a verb to a member.
type VerbCount struct {
	Verb    string  `json:"verb"`
	Calls   uint64  `json:"calls"`
	Failed  uint64  `json:"failed"`
	Busy    uint64  `json:"busy"`
	Seconds float64 `json:"seconds"` // of the calls that were answered, all together
}

// counts returns the counts of the verbs that were called, in their order.
func (p *PeerStats) counts() (list []VerbCount) {
	for v := range p.Verbs {
		s := &p.Verbs[v]
		if s.Calls.Load() == 0 {
			continue
		}
		c := VerbCount{verbName(wire.Verb(v)), s.Calls.Load(), s.Failed.Load(), s.Busy.Load(), float64(s.Nanoseconds.Load()) / 1e9}
		if n := len(list) - 1; n >= 0 && list[n].Verb == c.Verb {
			last := &list[n]
			last.Calls, last.Failed, last.Busy, last.Seconds = last.Calls+c.Calls, last.Failed+c.Failed, last.Busy+c.Busy, last.Seconds+c.Seconds
			continue
		}
		list = append(list, c)
	}
	return list
}

// verbNames are the names of this package's verbs in figures.
var verbNames = map[wire.Verb]string{
	verbState: "member_state", verbPropose: "propose", verbWithdraw: "withdraw", verbCommit: "commit",
	verbEntries: "filter_entries", verbReady: "filter_ready", verbDecide: "filter_decide", verbChanged: "filter_changed", verbOrder: "filter_order", verbFigures: "filter_figures",
	verbTokens: "tokens", verbCountSets: "count_sets", verbPosition: "position",
}

// verbName returns the name of a verb between members in figures.
func verbName(v wire.Verb) string {
	return cmp.Or(verbNames[v], remote.Name(v), fmt.Sprintf("verb_%d", v))
}

func (s *peerStats) of(node string) *PeerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers == nil {
		s.peers = map[string]*PeerStats{}
	}
	p := s.peers[node]
	if p == nil {
		p = &PeerStats{}
		s.peers[node] = p
	}
	return p
}

func (s *peerStats) event(e coord.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == nil {
		s.events = map[coord.EventKind]uint64{}
	}
	s.events[e.Kind] += uint64(max(1, e.Count))
}

// counted returns how often each kind of event has occurred.
func (s *peerStats) counted() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]uint64{}
	for kind, n := range s.events {
		all[string(kind)] = n
	}
	return all
}

// latency returns the recent latency of calls to a member in doubling steps: members within one step count as equally near.
func (s *peerStats) latency(node string) (steps int) {
	for us := s.of(node).average.Load() / 1000; us > 500; us /= 2 {
		steps++
	}
	return steps
}

// caller returns a caller that counts the calls over a way to a member.
func (s *peerStats) caller(node string, to wire.Caller) wire.Caller {
	return &counted{to, s.of(node), s.now}
}

type counted struct {
	to  wire.Caller
	s   *PeerStats
	now func() time.Time
}

// observe counts a call that has ended, unless none was made because the member's version does not know it.
func (c *counted) observe(v wire.Verb, began time.Time, err error) {
	if errors.Is(err, peer.ErrOneByOne) {
		return
	}
	s := &c.s.Verbs[v]
	s.Calls.Add(1)
	took := int64(c.now().Sub(began))
	switch {
	case errors.Is(err, wire.ErrBusy):
		s.Busy.Add(1)
		return
	case errors.Is(err, context.Canceled): // other members have answered before
	case errors.Is(err, wire.ErrNotSent), errors.Is(err, wire.ErrLost):
		s.Failed.Add(1)
	default:
		s.Nanoseconds.Add(uint64(took))
	}
	old := c.s.average.Load() // a race loses one of two samples
	c.s.average.Store(old + (took-old)/8)
}

// Do implements wire.Caller.
func (c *counted) Do(ctx context.Context, call wire.Call) ([]byte, error) {
	began := c.now()
	b, err := c.to.Do(ctx, call)
	c.observe(call.Verb, began, err)
	return b, err
}

// Send implements wire.Sender.
func (c *counted) Send(ctx context.Context, call wire.Call, done func([]byte, error)) bool {
	to, ok := c.to.(wire.Sender)
	if !ok {
		return false
	}
	began := c.now()
	return to.Send(ctx, call, func(b []byte, err error) {
		c.observe(call.Verb, began, err)
		done(b, err)
	})
}

// Stream implements wire.Caller.
func (c *counted) Stream(ctx context.Context, call wire.Call) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		began, first := c.now(), true
		for part, err := range c.to.Stream(ctx, call) {
			if first || err != nil {
				c.observe(call.Verb, began, err)
				first = false
			}
			if !yield(part, err) {
				return
			}
		}
	}
}
