// Package wire carries requests between processes: what a caller asks, what a handler answers, and what is known when no answer comes.
package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Verb says what a request asks. Verbs below FirstPeerVerb are for clients and nodes, the others for nodes alone. They are on the wire.
type Verb byte

// FirstPeerVerb is the first verb that only nodes may use.
const FirstPeerVerb Verb = 100

// Peers reports whether only nodes may use the verb.
func (v Verb) Peers() bool { return v >= FirstPeerVerb }

// Priority orders what waits to be written to one connection: lower values go first. It is on the wire.
type Priority byte

// Priorities. What has PriorityCopy goes over a connection of its own.
const (
	PriorityQuorum Priority = iota // a client waits for it: writes, marks, checks, and their answers
	PriorityRead                   // streams that clients read
	PriorityRepair                 // hints, read repair, anti-entropy
	PriorityCopy                   // copies of ranges
	priorities
)

// Call is a request as its caller sees it. The deadline is that of the context.
type Call struct {
	Verb     Verb
	Epoch    uint64 // of the map by which the request was routed; 0 for verbs that no map routes, and for all of a client's
	Priority Priority
	Body     []byte // must not be changed while the call is under way, nor after it ended with an error
}

// Caller sends requests to one other process. Its methods may be called by any number of goroutines.
type Caller interface {
	// Do sends a request and returns its answer, which belongs to the caller. Errors are those of the package comment.
	Do(ctx context.Context, c Call) ([]byte, error)
	// Stream sends a request and returns the parts of its answer, in order, the last one too. A part is good until the next. A caller that
	// stops early cancels the request at the other side. A stream that ends without an error is whole.
	Stream(ctx context.Context, c Call) iter.Seq2[[]byte, error]
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
	Name    string // a node's ID or a client's name, by its certificate; by its own word where there is no TLS
	Proven  bool   // a certificate says so
	Address string // of the network, for messages
	Purpose Purpose
	Hello   []byte // what it said of itself
}

// Purpose says what a connection is for. It is on the wire.
type Purpose byte

// Purposes.
const (
	ForRequests Purpose = 1
	ForCopies   Purpose = 2 // bulk: it shares no queue with requests
)

// Request is a request as its handler sees it.
type Request struct {
	Verb     Verb
	Epoch    uint64
	Priority Priority
	Body     []byte // belongs to the handler
	From     *Remote
}

// Handler answers a request. It is called in a goroutine of its own. The context ends with the request's deadline, when the caller gives up, and
// with the connection. For a stream it calls send for each part but the last: send blocks until the other side wants the part, takes it when it
// returns, so that the bytes must not be changed before the next call or the end of the handler, and fails when nobody waits for it any more. An error of the handler crosses
// by Errors.
type Handler func(ctx context.Context, r *Request, send func(part []byte) error) (last []byte, err error)

// Errors is how errors of handlers cross the wire. Decode must take any bytes.
type Errors interface {
	Append(dst []byte, err error) []byte
	Decode(b []byte) error
}

// Errors of calls. See the package comment.
var (
	// ErrNotSent says that nothing has happened: the request was not sent, or it was refused before it was looked at.
	ErrNotSent = errors.New("wire: request not sent")
	// ErrBusy says that the other side, or the connection, has no room for the request now. It wraps ErrNotSent.
	ErrBusy = fmt.Errorf("%w: the other side is busy", ErrNotSent)
	// ErrLost says that nobody knows whether the request was done: the connection or the time ended before the answer came.
	ErrLost = errors.New("wire: answer lost")
	// ErrRefused says that the other side does not take the connection or the request, and will not take it later either. It wraps ErrNotSent.
	ErrRefused = fmt.Errorf("%w: refused", ErrNotSent)
	// ErrForeign says that what listens at the address does not speak this protocol. It wraps ErrNotSent.
	ErrForeign = fmt.Errorf("%w: not a bigset node", ErrNotSent)
	// ErrFrame is returned for bytes that are not what the protocol wants; the connection ends with it.
	ErrFrame = errors.New("wire: bad frame")
	// ErrClosed says that this side has been closed. It wraps ErrNotSent.
	ErrClosed = fmt.Errorf("%w: closed", ErrNotSent)
)
