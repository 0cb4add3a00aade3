package rest

import (
	"context"
	"crypto/cipher"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"bigset/server/door"
	"bigset/server/origin"
	"bigset/server/tokens"
)

// Limits of a connection.
const (
	headerTime     = 10 * time.Second // for the header of a request, and for the TLS handshake
	idleTime       = 2 * time.Minute  // for the next request, if Options.IdleTime is 0
	headerBytesMax = 60 << 10         // of the header of a request; net/http adds 4 KiB
	bodyBytesKept  = 64 << 10         // of a body that is not counted among long requests
)

// RequestBytesLeast is the lower bound of RequestBytesMax: a body with the longest element, escaped or in base64.
const RequestBytesLeast = 512 << 10

// Options are the options of a server and of its door. The server uses those fields of door.Options that door.NewLink uses,
// RequestBytesMax, IdleTime, RequestTime and WriteTime.
type Options struct {
	door.Options
	// Version is the program's version. Node is the node's name; empty for a node without a cluster.
	Version, Node string
	// AnswerBytesMax is the longest answer of one JSON value; the default is 64 MiB. A longer one is refused.
	AnswerBytesMax int
	// RequestsMax is how many requests are executed at one time, and StreamsMax how many streams; the defaults are 1,024 and 256. One more
	// is refused (503).
	RequestsMax, StreamsMax int
	// ExecuteTime bounds a request that is not a stream and has no timeout of its own; the default is 1 minute.
	ExecuteTime time.Duration
	// Hosts are the names by which clients may ask for the node; nil means any, for tests.
	Hosts *origin.Hosts
	// Tokens checks what clients may do; nil permits everything.
	Tokens *tokens.Guard
	// Learned returns true once clients can be checked by the Tokens, or false if that will not happen; nil means at once. Health and the
	// console do not call it.
	Learned func(ctx context.Context) bool
	// Replicas returns the numbers of replicas, for quorums that a client gives as a word; zeros while they are unknown. Nil means 1.
	Replicas func() door.Replicas
	// About is the information about the node for people and monitoring.
	About About
}

// About is information about a node other than its sets. Each function may be nil.
type About struct {
	// NotReady returns why clients should not be sent to the node. Without names it names no set and no filter.
	NotReady func(names bool) []string
	// Warnings returns what an operator should act on. Without names it names no set and no filter.
	Warnings func(names bool) []string
	// Figures calls f for each figure of the node. The label and its value are empty for a figure without a label; two labels, and their
	// values, are separated by a comma.
	Figures func(f func(name, label, of string, value float64)) error
	// Members returns what the node knows about its cluster, for JSON; nil without a cluster.
	Members func() any
	// Here returns what this node's disk contains of a set, for JSON.
	Here func(ctx context.Context, set []byte) (any, error)
}

// Server answers HTTP on any number of listeners, with the sets and the filters of one node. Its methods may be called by any number of goroutines.
type Server struct {
	*door.Server
	sets     door.Backend
	filters  door.Filters
	opt      Options
	requests chan struct{}
	streams  chan struct{}
	timings  map[string]*door.Timing // by the name of their route
	errors   atomic.Uint64
	failures *door.Failures
	failed   atomic.Uint64
	hidden   cipher.AEAD // for names in cursors
	started  time.Time
	spy      func(r *route, parameter string) // for tests: which parameter a handler reads
}

// New returns a server, which does nothing before Serve is called. The door's Name defaults to "http".
func New(sets door.Backend, filters door.Filters, o Options) (*Server, error) {
	if o.Options.Name == "" {
		o.Options.Name = "http"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	for _, d := range []struct {
		v *int
		n int
	}{{&o.AnswerBytesMax, 64 << 20}, {&o.RequestBytesMax, 64 << 20}, {&o.RequestsMax, 1024}, {&o.StreamsMax, 256}} {
		if *d.v == 0 {
			*d.v = d.n
		}
	}
	for _, d := range []struct {
		v *time.Duration
		n time.Duration
	}{{&o.ExecuteTime, time.Minute}, {&o.IdleTime, idleTime}, {&o.RequestTime, time.Minute}, {&o.WriteTime, time.Minute}} {
		if *d.v == 0 {
			*d.v = d.n
		}
	}
	if o.Replicas == nil {
		o.Replicas = func() door.Replicas { return door.Replicas{N: 1, R: 1, W: 1} }
	}
	if o.RequestBytesMax < RequestBytesLeast {
		return nil, fmt.Errorf("%s: longest request of %d bytes, at least %d are needed", o.Options.Name, o.RequestBytesMax, RequestBytesLeast)
	}
	if o.Limits == nil {
		o.Limits = door.NewLimits(door.LimitsOptions{LongBytes: max(512<<20, int64(o.RequestBytesMax))})
	}
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"http/1.1"}
	}
	s := &Server{sets: sets, filters: filters, opt: o, requests: make(chan struct{}, o.RequestsMax), streams: make(chan struct{}, o.StreamsMax), started: time.Now(),
		timings: map[string]*door.Timing{}, failures: door.NewFailures(o.Log, o.Options.Name+": request failed", "request", "name")}
	for i := range table {
		s.timings[table[i].name] = &door.Timing{}
	}
	o.Full = full()
	var err error
	if s.hidden, err = newHidden(); err != nil {
		return nil, err
	}
	l := newLink(s.httpServer())
	l.failed = func(from net.Addr, err error) {
		s.HandshakeFailed()
		if !errors.Is(err, io.EOF) { // EOF: a client that only checked whether the port is open
			s.failures.Add("TLS handshake", []byte(from.String()), err)
		}
	}
	s.Server, err = door.NewLink(l, o.Options)
	return s, err
}

// full returns the answer to a connection above the limits. No request of it is read: if that is a change that was sent before, its outcome is not known.
func full() string {
	b, err := json.Marshal(failure{Error: "unavailable", Message: door.Crowded})
	if err != nil {
		panic(err) // it is a constant
	}
	return fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s\n",
		typeJSON, len(b)+1, b)
}

func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       s.opt.IdleTime,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP 1.1 only
	}
}

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q := &request{s: s, w: w, r: r, ctx: r.Context()}
	defer q.end()
	defer func() {
		if p := recover(); p != nil { // net/http would log it like errors of clients
			s.opt.Log.Error(s.opt.Options.Name+": a bug", "request", r.Method+" "+r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler)
		}
	}()
	err := q.admit()
	if err == nil {
		err = q.execute()
	}
	if err != nil {
		q.fail(err)
	}
	if q.route != nil {
		s.timings[q.route.name].Add(began, 1)
	}
}

// Metrics are what a server has counted since it was made.
type Metrics struct {
	door.Counts
	Requests map[string]door.Latency // by kind
	// Errors counts answers that are errors. Failures counts those of them that are faults of the node or have an unknown outcome.
	Errors, Failures uint64
}

// Metrics returns what the server has counted so far.
func (s *Server) Metrics() Metrics {
	m := Metrics{Counts: s.Counts(), Requests: make(map[string]door.Latency, len(s.timings)), Errors: s.errors.Load(), Failures: s.failed.Load()}
	for name, t := range s.timings {
		m.Requests[name] = t.Latency()
	}
	return m
}
