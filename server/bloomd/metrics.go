package bloomd

import "sync/atomic"

// Metrics are what a server has counted since it was made.
type Metrics struct {
	Connections                  int64             // open now
	Accepted, Refused            uint64            // connections; refused are those beyond the limit
	Commands                     map[string]uint64 // requests by the long name of their command; "unknown" is any other line
	KeysChecked, KeysSet         uint64
	BytesRead, BytesWritten      uint64 // of the protocol
	ClientErrors, InternalErrors uint64 // answers
}

// counters are what a server counts. A connection counts for itself and adds that when it answers, so that connections do not fight for
// one cache line at each request.
type counters struct {
	open              atomic.Int64
	accepted, refused atomic.Uint64
	commands          [commandCount]atomic.Uint64
	others            [tallyCount]atomic.Uint64
}

// What a connection counts beside commands.
const (
	tallyChecked = iota
	tallySet
	tallyRead
	tallyWritten
	tallyClientErrors
	tallyInternalErrors
	tallyCount
)

// tally is what a connection has counted and not yet added.
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
		Connections:    c.open.Load(),
		Accepted:       c.accepted.Load(),
		Refused:        c.refused.Load(),
		Commands:       make(map[string]uint64, commandCount),
		KeysChecked:    c.others[tallyChecked].Load(),
		KeysSet:        c.others[tallySet].Load(),
		BytesRead:      c.others[tallyRead].Load(),
		BytesWritten:   c.others[tallyWritten].Load(),
		ClientErrors:   c.others[tallyClientErrors].Load(),
		InternalErrors: c.others[tallyInternalErrors].Load(),
	}
	for i := range c.commands {
		m.Commands[command(i).String()] = c.commands[i].Load()
	}
	return m
}
