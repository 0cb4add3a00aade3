package door

import "sync/atomic"

// Counts are what a server has counted since it was made.
type Counts struct {
	Connections             int64  // open now
	Accepted, Refused       uint64 // connections; refused are those above the limits, and those that arrived during the shutdown
	Timed                   bool   // Idle and Slow are counted; a Link ends its connections itself
	Idle, Slow              uint64 // connections closed: after the idle time; because a long request was not complete in time, or answers were not taken
	Settled                 uint64 // connections that left their event loop for good (Conn.Settle)
	Handshakes              uint64 // connections closed because their TLS handshake failed or took too long
	BytesRead, BytesWritten uint64 // of the protocol; of a Link with TLS, those of TLS
}

// counters are the counts of a server. Each connection counts by itself and adds its counts when it answers, so that connections do not
// contend for one cache line at each request.
type counters struct {
	accepted, refused, idle, slow, settled, handshakes atomic.Uint64
	read, written                                      atomic.Uint64
}

// Counts returns what the server has counted so far.
func (s *Server) Counts() Counts {
	c := &s.counters
	return Counts{
		Connections:  int64(s.opt.Limits.open(&s.share)),
		Accepted:     c.accepted.Load(),
		Refused:      c.refused.Load(),
		Timed:        s.link == nil,
		Idle:         c.idle.Load(),
		Slow:         c.slow.Load(),
		Settled:      c.settled.Load(),
		Handshakes:   c.handshakes.Load(),
		BytesRead:    c.read.Load(),
		BytesWritten: c.written.Load(),
	}
}
