// Package wire carries requests and answers between processes over one kind of connection: framed, multiplexed, with deadlines, priorities and
// flow control. It knows nothing of sets and filters: bodies are bytes, and what they mean is a verb's business.
//
//	                 Caller                                      Handler
//	a request ──► Link ──► Client ══ segments over TCP or TLS ══► Server ──► a goroutine a request
//	              │        │                                       │
//	              │        └ numbers requests, waits for answers   └ admits by budget, refuses before a body is decoded
//	              └ keeps connections open, and says at once when there is none
//
// # A connection
//
// Both sides begin with eight bytes: "BIGSET", and the least and the highest version that they speak. Each side then sends a Hello, whose body
// belongs to the layer above: there a member says who it is, and refuses strangers. After that everything is a segment of at most 64 KiB:
//
//	length of the payload (4) | kind (1) | flags (1) | zero (2) | number of the request (8) | payload | CRC-32C (4)
//
// All integers are little-endian. A message that is larger than a segment is split, and segments of several messages alternate, so that a
// large one does not delay a small one. docs/format.md draws every kind.
//
// A message that is alone on its connection is written by the goroutine that has it, as far as the socket takes it without waiting. What waits, and
// messages that are likely to have company, are written by a goroutine of the connection, many at a time.
//
// # What an error says
//
// ErrNotSent: nothing has happened, because the request never left, or was refused before it was looked at. ErrLost: nobody knows, because the
// connection or the time ended first. Every other error is the handler's own, by the codec in Options.Errors.
//
// # Laws
//
//   - A request is given to the handler once or never. Nothing is sent again by this package.
//   - Nothing is allocated for a length that was only announced: memory follows the bytes that have come.
//   - Before the Hello is accepted a connection may send some kilobytes and has some seconds.
//   - A stream sends no part that was not asked for.
//   - Requests of clients have a budget of their own: they cannot take the room of nodes.
//   - Verbs of peers are refused to everyone who is not a node, before the body is given to anyone.
package wire
