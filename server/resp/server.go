package resp

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"bigset/bloomslice"
	"bigset/server/door"
	"bigset/server/tokens"
)

// RequestBytesLeast is the lower bound of RequestBytesMax: a command with the longest name of a set and the longest element.
const RequestBytesLeast = 256 << 10

// Options are the options of a server, including those of its door.
type Options struct {
	door.Options
	// Version is the program's version, for INFO and HELLO. Node is the name of the node, for INFO; empty for a node without a cluster.
	Version, Node string
	// Tokens checks clients; nil permits everything.
	Tokens *tokens.Guard
	// Durability is the answer to CONFIG GET appendfsync: always, everysec or no; default "always".
	Durability string
	// Expansion is by how much each layer of a filter is larger than the one before, for BF.INFO; the default is 4.
	Expansion int
	// AnswerBytesMax is the longest answer whose length comes first; the default is 64 MiB. A longer one is refused.
	AnswerBytesMax int
	// ListTime is how long KEYS and DBSIZE may list keys; the default is a minute. A step of SCAN ends after half of it.
	ListTime time.Duration
}

// Server answers the protocol on any number of listeners, with the sets and the filters of one node. Its methods may be called by any number of goroutines.
type Server struct {
	*door.Server
	sets     door.Backend
	filters  door.Filters
	opt      Options
	commands map[string]*command
	names    []string          // of commands, in order
	modules  map[string]string // refusedModules
	cursors  cursors
	reads    sharedReads
	counters counters
	failures *door.Failures
	started  time.Time
	ids      atomic.Int64 // of connections
	spy      func()       // for tests: called before each part of long work
	waitsMax int64        // requests of WAIT that may wait at one time

	lookPause time.Duration // of commands that look whether their clients are still there
}

// New returns a server, which does nothing before Serve is called. The Name of the options defaults to "resp".
func New(sets door.Backend, filters door.Filters, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "resp"
	}
	o.Durability = cmp.Or(o.Durability, "always")
	o.ListTime = cmp.Or(o.ListTime, time.Minute)
	o.Expansion = cmp.Or(o.Expansion, int(bloomslice.DefaultOptions().Scale))
	if o.AnswerBytesMax == 0 {
		o.AnswerBytesMax = 64 << 20
	}
	if o.RequestBytesMax == 0 {
		o.RequestBytesMax = 64 << 20
	}
	if o.RequestBytesMax < RequestBytesLeast {
		return nil, fmt.Errorf("%s: longest request of %d bytes, at least %d are needed", o.Name, o.RequestBytesMax, RequestBytesLeast)
	}
	s := &Server{sets: sets, filters: filters, opt: o, failures: door.NewFailures(o.Log, o.Name+": request failed", "command", "key"), started: time.Now(), waitsMax: waitsMax, lookPause: lookPause}
	s.reads = newSharedReads()
	s.commands, s.names = table()
	s.modules = refusedModules()
	s.counters.commands = make(map[string]*atomic.Uint64, len(s.commands))
	for name := range s.commands {
		s.counters.commands[name] = new(atomic.Uint64)
	}
	o.Together = s.together
	o.Full = "-ERR max number of clients reached\r\n" // redis's words
	var err error
	s.Server, err = door.New(func(c *door.Conn) door.Handler {
		h := &conn{Conn: c, s: s, proto: 2, id: s.ids.Add(1), since: time.Now(), grant: o.Tokens.Anonymous(), parser: parser{bulkMax: o.RequestBytesMax}}
		h.parser.stranger = func() bool { return h.grant.Valid() != nil }
		return h
	}, o.Options)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Metrics are what a server has counted since it was made.
type Metrics struct {
	door.Counts
	Commands map[string]uint64 // requests by the name of their command, in lower case; "unknown" is any other
	// Errors counts answers that are errors, without those whose client has gone; Failures counts those of them that are faults of the node.
	Errors, Failures uint64
	Elements         uint64 // elements in requests to add, remove or look up
	Cursors          int    // kept positions of SSCAN and SCAN
	// Questions are SISMEMBER and SMISMEMBER, Changes SADD and SREM, and Others all other requests about sets and keys but BS.CHANGES and
	// WAIT, which may wait. Those that were done together took the same time.
	Questions, Changes, Others door.Latency
}

// counters are the counts of a server.
type counters struct {
	commands                            map[string]*atomic.Uint64
	unknown, errors, failures, elements atomic.Uint64
	questions, changes, others          door.Timing
	waiting                             atomic.Int64 // BS.CHANGES that are executed, nearly all of which wait
	waits                               atomic.Int64 // WAIT that wait
}

// Metrics returns what the server has counted so far.
func (s *Server) Metrics() Metrics {
	m := Metrics{Counts: s.Counts(), Commands: make(map[string]uint64, len(s.commands)+1), Errors: s.counters.errors.Load(),
		Questions: s.counters.questions.Latency(), Changes: s.counters.changes.Latency(), Others: s.counters.others.Latency(),
		Failures: s.counters.failures.Load(), Elements: s.counters.elements.Load(), Cursors: s.cursors.len()}
	for name, n := range s.counters.commands {
		m.Commands[name] = n.Load()
	}
	m.Commands["unknown"] = s.counters.unknown.Load()
	return m
}
