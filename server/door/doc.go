// Package door serves connections of any protocol: it listens, speaks TLS, keeps limits, closes what is idle or slow, drains at a stop, and
// counts. What the bytes mean is decided by a protocol, of which door knows one interface.
//
//	            Limits, one for all doors of a node
//	              │
//	listener ─► Server ─► Conn, in an event loop or a goroutine ─► Handler.Execute(ctx, c, buf) ─► c.Out ─► the client
//	              └─────► Conn, a goroutine ──────────────────────► Link.ServeConn(ctx, nc)
//
// A protocol of requests and answers is a Handler for each connection (New). The door reads; Execute takes whole requests from the
// beginning of what came and appends answers to c.Out; the door writes them. A protocol that speaks when it likes, as the one between nodes
// does, serves its connections itself (NewLink); the door still listens, limits, counts and cuts off.
//
// The laws of doors with Handlers:
//
//   - Requests may be pipelined without limit and split anywhere. What came together is executed together and answered by one write.
//   - A client that does not read its answers is not read from; it hinders only itself, and is closed after WriteTime.
//   - A connection holds one request, at most twice while its buffer grows, and a bounded part of the answers. Requests above 64 KiB share
//     one budget, and have to end within a time.
//   - What is executed is answered, as long as the client takes it: after a half close, and while the server shuts down. A request
//     without its end is not executed.
//
// A Handler may leave work to its loop, which does that of many connections in one call: Conn.Defer and Options.Together.
//
// On Linux connections without TLS wait in event loops, many in one goroutine: before a Handler does what may wait, it calls
// Conn.MayWait, or Conn.Settle where every request of the connection waits. Connections with TLS, and all on other systems, have a
// goroutine each, for which these calls do nothing.
//
// Files: server.go (listeners and their end), conn.go (a connection), loop_linux.go and sock_linux.go (event loops), together.go and rounds_linux.go (work of many connections), limits.go and
// descriptors.go (how many connections), link.go (protocols that serve themselves), counts.go, failures.go (the log).
package door
