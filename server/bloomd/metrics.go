package bloomd

import (
	"sync/atomic"

	"bigset/server/door"
)

// Metrics are what a server has counted since it was made.
type Metrics struct {
	door.Counts
	Commands                     map[string]uint64 // requests by the long name of their command; "unknown" is any other line
	KeysChecked, KeysSet         uint64
	ClientErrors, InternalErrors uint64 // answers
}

// Metrics returns what the server has counted so far.
func (s *Server) Metrics() Metrics {
	m := s.counters.snapshot()
	m.Counts = s.Counts()
	return m
}

// counters are the counts of a server. Each connection counts by itself and adds its counts when it answers, so that connections do not
// contend for one cache line at each request.
type counters struct {
	commands [commandCount]atomic.Uint64
	others   [tallyCount]atomic.Uint64
}

// The counts of a connection other than commands.
const (
	tallyChecked = iota
	tallySet
	tallyClientErrors
	tallyInternalErrors
	tallyCount
)

// tally is what a connection has counted but not yet added.
type tally struct {
	commands [commandCount]uint64
	others   [tallyCount]uint64
}

func (c *counters) add(t *tally) {
	for i, n := range t.commands {
		if n != 0 {
			c.commands[i].Add(n)
		}
	}
	for i, n := range t.others {
		if n != 0 {
			c.others[i].Add(n)
		}
	}
	*t = tally{}
}

func (c *counters) snapshot() Metrics {
	m := Metrics{
		Commands:       make(map[string]uint64, commandCount),
		KeysChecked:    c.others[tallyChecked].Load(),
		KeysSet:        c.others[tallySet].Load(),
		ClientErrors:   c.others[tallyClientErrors].Load(),
		InternalErrors: c.others[tallyInternalErrors].Load(),
	}
	for i := range c.commands {
		m.Commands[command(i).String()] = c.commands[i].Load()
	}
	return m
}
