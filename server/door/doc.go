// Package door serves connections of any protocol: it listens, speaks TLS, enforces limits, closes idle and slow connections, drains at a
// stop, and counts. A protocol decides what the bytes mean; door knows only its interface.
//
//	            Limits, one for all doors of a node
//	              │
//	listener ─► Server ─► Conn, in an event loop or a goroutine ─► Handler.Execute(ctx, c, buf) ─► c.Out ─► the client
//	              └─────► Conn, a goroutine ──────────────────────► Link.ServeConn(ctx, nc)
//
// A protocol of requests and answers is a Handler for each connection (New). The door reads; Execute takes complete requests from the start
// of the buffer and appends answers to c.Out; the door writes them. A protocol whose sides may speak at any time, like the one between
// nodes, serves its connections itself (NewLink); the door still listens, limits, counts and cuts off.
//
// Laws of doors with Handlers:
//
//   - Requests may be pipelined without limit and split anywhere. Requests that arrive together are executed together and answered by one write.
//   - The door does not read from a client that does not read its answers. Such a client hinders only itself, and is closed after WriteTime.
//   - A connection holds one request, at most twice while its buffer grows, and a bounded part of the answers. Requests above 64 KiB share
//     one budget and must be complete within a time.
//   - Executed requests are answered as long as the client takes the answers: after a half close, and during a shutdown. An incomplete
//     request is not executed.
//
// A Handler may defer work to its loop, which does the work of many connections in one call: Conn.Defer and Options.Together.
//
// On Linux, connections without TLS wait in event loops, many in one goroutine. Before a Handler does work that may wait, it calls
// Conn.MayWait, or Conn.Settle if every request of the connection waits. Connections with TLS, and all on other systems, have a goroutine
// each, for which these calls do nothing.
//
// Files: server.go (listeners and their end), conn.go (a connection), loop_linux.go and sock_linux.go (event loops), together.go, rounds_linux.go, queues_linux.go and lend_linux.go (work of many connections), places.go (long work), unsent_linux.go (what the system takes of answers), gone.go and gone_linux.go (clients that have gone), limits.go and
// descriptors.go (how many connections), link.go (protocols that serve themselves), counts.go, timing.go, failures.go (the log); backend.go, page.go, moment.go, changes.go, followed.go and filters.go
// (what every protocol asks of sets and filters: Backend, Filters, and the types of requests and answers); texts.go (what clients read of errors).
package door
