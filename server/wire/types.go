package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Verb is the kind of a request. Verbs below FirstPeerVerb are for clients and nodes, the others for nodes only. They are on the wire.
type Verb byte

// FirstPeerVerb is the first verb that only nodes may use.
const FirstPeerVerb Verb = 100

// Peers reports whether only nodes may use the verb.
func (v Verb) Peers() bool { return v >= FirstPeerVerb }

// Priority orders the messages that wait to be written to one connection: lower values go first. It is on the wire.
type Priority byte

// Priorities. Messages with PriorityCopy use a connection of their own.
const (
	PriorityQuorum Priority = iota // a client waits for it: writes, marks, checks, and their answers
	PriorityRead                   // streams that clients read
	PriorityRepair                 // hints, read repair, anti-entropy
	PriorityCopy                   // copies of ranges
	priorities
)

// Call is a request from its caller's point of view. Its deadline is that of the context.
type Call struct {
	Verb     Verb
	Epoch    uint64 // of the map by which the request was routed; 0 for verbs that no map routes, and for all requests of clients
	Priority Priority
	Body     []byte // must not be changed during the call, nor after it ended with an error
	// Encode returns the body in the version of the protocol that the connection speaks, for a body that depends on it; Body is not used
	// then. The version is known only when the connection has been picked: the other side may have been replaced since the last call. An
	// error is returned by the call, and nothing has happened. Nil means that the body is Body.
	Encode func(version byte) ([]byte, error)
}

// Encoded returns the call with the body for a connection of a version.
func (c Call) Encoded(version byte) (Call, error) {
	if c.Encode == nil {
		return c, nil
	}
	b, err := c.Encode(version)
	c.Body, c.Encode = b, nil
	return c, err
}

// Caller sends requests to one other process. Its methods may be called by any number of goroutines.
type Caller interface {
	// Do sends a request and returns its answer, which the caller owns. Errors are those of the package comment.
	Do(ctx context.Context, c Call) ([]byte, error)
	// Stream sends a request and returns the parts of its answer in order, including the last. A part is valid until the next. A caller
	// that stops early cancels the request at the other side. A stream that ends without an error is complete.
	Stream(ctx context.Context, c Call) iter.Seq2[[]byte, error]
}

// Sender is a Caller that can send a request without a goroutine waiting for the answer.
type Sender interface {
	// Send sends a request like Do, and returns. It reports false, and has done nothing, if it would have to wait: then use Do. Otherwise
	// done is called once with the results of Do, by a goroutine that must not wait; this may be the caller's own, before Send returns.
	Send(ctx context.Context, c Call, done func(answer []byte, err error)) bool
}

// Role says what the process at the other end may do. It is on the wire.
type Role byte

// Roles.
const (
	RoleClient Role = 1 // may use the verbs of clients
	RoleNode   Role = 2 // may use all verbs
)

// String names the role.
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleNode:
		return "node"
	}
	return fmt.Sprintf("role %d", byte(r))
}

// Remote is the process at the other end of a connection.
type Remote struct {
	Role    Role
	Name    string // a node's ID or a client's name: by its certificate, or by its own report without TLS
	Proven  bool   // a certificate proves it
	Address string // of the network, for messages
	Purpose Purpose
	Version byte   // of the protocol: the highest that both sides speak
	Hello   []byte // what it reported about itself
	Value   any    // of the layer above, which sets it in ServerOptions.Hello or ClientOptions.Check
}

// Purpose is the purpose of a connection. It is on the wire.
type Purpose byte

// Purposes.
const (
	ForRequests Purpose = 1
	ForCopies   Purpose = 2 // bulk: it shares no queue with requests
)

// Request is a request from its handler's point of view.
type Request struct {
	Verb     Verb
	Epoch    uint64
	Priority Priority
	Body     []byte // belongs to the handler
	From     *Remote
	j        *job
}

// Rest lets other requests of clients run while this one waits for something that happens rarely. Before the handler continues, it
// calls resume, which waits until the request may run again, or has ended. It need not call resume if only the answer is left to do. Sending a
// part of a stream rests by itself. Rest is not for the requests of a Task.
func (r *Request) Rest() (resume func()) {
	if r.j == nil {
		return func() {}
	}
	again := r.j.rest()
	return func() { again() }
}

// Handler answers a request. It is called in a goroutine of its own, or in the one that reads the connection: after some milliseconds
// another one reads on. The context ends with the request's deadline, when the caller gives
// up, and with the connection. For a stream the handler calls send for each part but the last. Send blocks until the other side wants the
// part and the part before has been written. So a handler makes a part while the one before is written: the bytes of a part must not be
// changed before the next call of send has returned, and those of the last part not at all: it may be written after the handler has returned. Send fails if the caller has given up. An error of the handler is encoded by Errors.
type Handler func(ctx context.Context, r *Request, send func(part []byte) error) (last []byte, err error)

// Task is a request that may be answered after its handler has returned.
type Task struct {
	Context context.Context // that of a Handler
	Request *Request
	j       *job
}

// Done answers the request as a Handler that returns these results. It is called once for each task, by any goroutine, and does not wait.
func (t *Task) Done(answer []byte, err error) {
	t.j.answer(answer, err)
	t.j.cancel()
	t.j.c.s.running.Add(-1)
}

// Errors encodes errors of handlers for the wire. Decode must accept any bytes.
type Errors interface {
	Append(dst []byte, err error) []byte
	Decode(b []byte) error
}

// Errors of calls. See the package comment.
var (
	// ErrNotSent: nothing has happened. The request was not sent, or was refused before it was read.
	ErrNotSent = errors.New("wire: request not sent")
	// ErrBusy: the other side, or the connection, has no room for the request now. It wraps ErrNotSent.
	ErrBusy = fmt.Errorf("%w: the other side is busy", ErrNotSent)
	// ErrLost: it is unknown whether the request was done. The connection or the time ended before the answer arrived.
	ErrLost = errors.New("wire: answer lost")
	// ErrRefused: the other side does not accept the connection or the request, and will not accept it later either. It wraps ErrNotSent.
	ErrRefused = fmt.Errorf("%w: refused", ErrNotSent)
	// ErrForeign: the process that listens at the address does not speak this protocol. It wraps ErrNotSent.
	ErrForeign = fmt.Errorf("%w: not a bigset node", ErrNotSent)
	// ErrIdle ends a stream whose caller has not asked for its next part for too long.
	ErrIdle = errors.New("wire: nothing more of the answer was asked for in time")
	// ErrFrame is returned for bytes that violate the protocol. It ends the connection.
	ErrFrame = errors.New("wire: bad frame")
	// ErrClosed: this side has been closed. It wraps ErrNotSent.
	ErrClosed = fmt.Errorf("%w: closed", ErrNotSent)
)

// Limits. They are part of the protocol.
const (
	SegmentBytesMax = 64 << 10
	// BodyBytesMax is the largest body of a request, an answer or a part: a frame of 64 MiB and its envelope.
	BodyBytesMax  = 64<<20 + 64<<10
	helloBytesMax = 16 << 10
)

// Options are common to both sides of a connection. Zero fields mean the default.
type Options struct {
	// Errors encodes the errors of handlers; by default as text.
	Errors Errors
	// HelloTime bounds the introduction of the other side, from the first byte on; default 5 s.
	HelloTime time.Duration
	// PingInterval is how often a ping is sent while answers are awaited; default 1 s. An idle connection gets a ping every 15 intervals.
	PingInterval time.Duration
	// SilenceMax is how long the other side may be silent after a ping before the connection is closed; default 5 s.
	SilenceMax time.Duration
	// WriteTime is how long the other side may take to accept what is written at once, 64 KiB and a segment, or a quarter less, before the connection
	// is closed; default 10 s.
	WriteTime time.Duration
	// VersionLeast and VersionMost bound the versions spoken; the default is those of this program. Tests set them.
	VersionLeast, VersionMost byte
}

// Versions of the protocol that this program speaks.
const (
	versionLeast = 1
	versionMost  = 3 + versionNext
)

func (o Options) withDefaults() Options {
	if o.Errors == nil {
		o.Errors = textErrors{}
	}
	if o.HelloTime == 0 {
		o.HelloTime = 5 * time.Second
	}
	if o.PingInterval == 0 {
		o.PingInterval = time.Second
	}
	if o.SilenceMax == 0 {
		o.SilenceMax = 5 * time.Second
	}
	if o.WriteTime == 0 {
		o.WriteTime = 10 * time.Second
	}
	if o.VersionLeast == 0 {
		o.VersionLeast = versionLeast
	}
	if o.VersionMost == 0 {
		o.VersionMost = versionMost
	}
	return o
}

// textErrors encodes errors as their text.
type textErrors struct{}

func (textErrors) Append(dst []byte, err error) []byte { return append(dst, err.Error()...) }
func (textErrors) Decode(b []byte) error               { return errors.New(string(b)) }
