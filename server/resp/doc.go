// Package resp speaks redis's protocol, RESP2 and RESP3, for the sets and the bloom filters of a node.
//
//	door ─► conn.Execute ─► parser ─► command table ─┬─► group: adjacent requests for one key, one call ─► door.Backend
//	                                                 └─► one command ─────────────────────────► door.Backend, door.Filters
//
// The laws:
//
//   - Every request has exactly one answer, in the order of the requests of its connection. Errors use redis's words, and the
//     connection continues or ends as with redis.
//   - Replies to one client are those of redis, except for the differences in docs/resp.md.
//   - Requests that arrive together are executed together: adjacent SADD and SREM for one key are one batch with one sync, adjacent SISMEMBER and SMISMEMBER for
//     one key one look-up. Only the timing differs.
//   - Nothing is promised before it is done: the answer to a change is sent when the backend has acknowledged it.
//   - An answer whose length comes first is collected in memory from the budget of all doors, or refused before its first byte.
//   - A request is executed only if the client may do what it asks with each of its keys. The table says what each command asks.
//   - Sets and filters share one key space: while a filter has a name, commands for sets are refused there, and vice versa.
//
// A key is the name of a set, except for the empty key and keys that begin with a zero byte (nameOf). The name of a filter is its key.
//
// Connections, their limits and their end are those of server/door, and its laws hold too. Connections stay in their event loops: groups are
// deferred to the loop, which does those of many connections in one call. A request that reads a set or waits for something else has a goroutine
// until it is answered.
//
// Files: parse.go (requests), write.go (replies), answer.go (long replies), server.go, conn.go (a connection), commands.go (the table), auth.go
// (permissions), connection.go, introspect.go (what clients send when they connect), keys.go (names and types), group.go (adds, removes,
// membership), sets.go, shared.go, sources.go, merge.go, store.go (operations on sets), scan.go, cursors.go, glob.go (lists of elements and keys), bs.go,
// changes.go (our own commands), bf.go (filters), refused.go (unsupported commands).
package resp
