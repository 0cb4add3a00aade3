package riakpb

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"bigset/server/door"
	"bigset/server/tokens"
)

// RequestBytesLeast is the lower bound of RequestBytesMax: an update of a set with the longest name by the longest element.
const RequestBytesLeast = 512 << 10

// Options are the options of a server, including those of its door.
type Options struct {
	door.Options
	// Node and Version are the answer to RpbGetServerInfoReq.
	Node, Version string
	// Replicas returns the numbers of replicas, for quorums that a client gives as a word; zeros while they are unknown. Nil means 1.
	Replicas func() door.Replicas
	// Tokens checks clients; nil permits everything.
	Tokens *tokens.Guard
	// Upgrade is the configuration for RpbStartTls; nil refuses it. It is not used if the door uses TLS from the first byte.
	Upgrade *tls.Config
	// SecureOnly refuses every request before RpbStartTls on a connection without TLS. It needs Upgrade.
	SecureOnly bool
	// AnswerBytesMax is the longest answer; the default is 64 MiB. A larger set is refused.
	AnswerBytesMax int
}

// Server answers the protocol on any number of listeners, with the sets of one node. It serves no filters, and refuses sets whose names
// they have. Its methods may be called by any number of goroutines.
type Server struct {
	*door.Server
	sets     door.Backend
	filters  door.Filters // nil means none
	opt      Options
	counters counters
	failures *door.Failures
}

// New returns a server, which does nothing before Serve is called. Nil filters mean that none exist. The Name of the options defaults to "riak".
func New(sets door.Backend, filters door.Filters, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "riak"
	}
	if o.Replicas == nil {
		o.Replicas = func() door.Replicas { return door.Replicas{N: 1, R: 1, W: 1} }
	}
	if o.AnswerBytesMax == 0 {
		o.AnswerBytesMax = 64 << 20
	}
	if o.RequestBytesMax == 0 {
		o.RequestBytesMax = 64 << 20
	}
	if o.RequestBytesMax < RequestBytesLeast {
		return nil, fmt.Errorf("%s: longest request of %d bytes, at least %d are needed", o.Name, o.RequestBytesMax, RequestBytesLeast)
	}
	s := &Server{sets: sets, filters: filters, opt: o, failures: door.NewFailures(o.Log, o.Name+": request failed", "message", "set")}
	o.Full = string(appendFailure(nil, "nothing has happened, ask again or ask another node: "+door.Crowded))
	var err error
	s.Server, err = door.New(func(c *door.Conn) door.Handler {
		return &conn{Conn: c, s: s, grant: o.Tokens.Anonymous()}
	}, o.Options)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Metrics are what a server has counted since it was made.
type Metrics struct {
	door.Counts
	Fetches, Updates, Deletes, Pings, Others uint64 // requests by kind
	// Errors counts answers that are errors; Failures counts those of them that are faults of the node.
	Errors, Failures uint64
	Elements         uint64 // elements in requests to add or remove
	// FetchTime is about fetches, ChangeTime about updates and deletes.
	FetchTime, ChangeTime door.Latency
}

// counters are the counts of a server.
type counters struct {
	fetches, updates, deletes, pings, others, errors, failures, elements atomic.Uint64
	fetching, changing                                                   door.Timing
}

// Metrics returns what the server has counted so far.
func (s *Server) Metrics() Metrics {
	n := &s.counters
	return Metrics{Counts: s.Counts(), Fetches: n.fetches.Load(), Updates: n.updates.Load(), Deletes: n.deletes.Load(), Pings: n.pings.Load(), Others: n.others.Load(),
		Errors: n.errors.Load(), Failures: n.failures.Load(), Elements: n.elements.Load(),
		FetchTime: n.fetching.Latency(), ChangeTime: n.changing.Latency()}
}
