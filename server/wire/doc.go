// Package wire carries requests and answers between processes over one kind of connection: framed, multiplexed, with deadlines, priorities
// and flow control. It knows nothing about sets and filters: bodies are bytes, and verbs give them a meaning.
//
//	                 Caller                                      Handler
//	a request ──► Link ──► Client ══ segments over TCP or TLS ══► Server ──► Handler
//	              │        │                                       │
//	              │        └ numbers requests, waits for answers   └ admits by budget, refuses before a body is decoded
//	              └ keeps connections open, and reports at once if it has none
//
// # A connection
//
// Both sides begin with eight bytes: "BIGSET", and the lowest and the highest version that they speak. Each side then sends a Hello, whose
// body belongs to the layer above: a member identifies itself there, and strangers are refused. After that everything is a segment of at
// most 64 KiB:
//
//	length of the payload (4) | kind (1) | flags (1) | zero (2) | number of the request (8) | payload | CRC-32C (4)
//
// All integers are little-endian. A message larger than a segment is split, and segments of several messages alternate, so that a large
// message does not delay a small one. docs/format.md draws every kind.
//
// The goroutine that has a message writes it itself if no other message waits, as far as the socket takes it without waiting. Messages that
// wait, and those likely to be followed by others, are written by a goroutine of the connection, many at a time.
//
// A request runs in a goroutine of its own, and its answer reaches the caller through the goroutine that reads the connection. If requests come
// one at a time, these wake-ups take longer than the rest. Then the goroutine that reads runs the request (here.go), and the caller reads its
// own answer (reading.go, ClientOptions.Unwatched).
//
// # What an error means
//
// ErrNotSent: nothing has happened, because the request never left, or was refused before it was read. ErrLost: the outcome is unknown,
// because the connection or the time ended first. Every other error is the handler's own, encoded by Options.Errors.
//
// # Laws
//
//   - A request is passed to the handler at most once. This package never sends anything again.
//   - Nothing is allocated for an announced length: memory follows the bytes that have arrived.
//   - Before its Hello is accepted, a connection may send a few kilobytes and has a few seconds.
//   - A stream sends no part that was not requested.
//   - Requests of clients have a budget of their own: they can't take the room of nodes.
//   - Verbs of peers are refused to every sender that is not a node, before any code sees the body.
package wire
