// Package resp speaks the protocol of redis, RESP2 and RESP3, for the sets and the bloom filters of a node.
//
//	door ─► conn.Execute ─► parser ─► command table ─┬─► group: neighbours of one key, one call ─► door.Backend
//	                                                 └─► one command ─────────────────────────► door.Backend, door.Filters
//
// The laws:
//
//   - Every request has exactly one answer, in the order of the requests of its connection. What is wrong with one is said in the words of redis, and the
//     connection goes on or ends as there.
//   - Replies are those of redis for one client, but for the exceptions of docs/resp.md.
//   - What came together is executed together: neighbouring SADD and SREM of one key are one batch with one sync, neighbouring SISMEMBER and SMISMEMBER of
//     one key one look-up. Nobody can tell but by the clock.
//   - Nothing is promised before it is done: the answer to a change is sent when the backend has acknowledged it.
//   - An answer whose length comes first is gathered in memory of the budget of all doors, or refused before its first byte.
//   - A request is executed where the client may do what it asks, of each of its keys: what each command asks stands in the table.
//   - Sets and filters are one key space: while a filter has a name, commands of sets are refused there, and the other way round.
//
// A key is a set's name, but for the empty key and those that begin with a zero byte (nameOf). A filter's name is its key.
//
// Connections, their limits and their end are those of server/door, and so are its laws. A connection that asks for sets gets a goroutine for good, since every
// such request may wait; one that only asks for filters stays in its event loop, as bloomd's do.
//
// Files: parse.go (requests), write.go (replies), server.go, conn.go (a connection), commands.go (the table), auth.go (what clients may do), connection.go, introspect.go, config.go (what clients send at
// connecting), keys.go (names and types), group.go (adds, removes, membership), sets.go, merge.go, store.go (operations on sets), scan.go, cursors.go, list.go (lists of keys),
// bs.go (commands of our own), bf.go (filters), refused.go (what can't be had).
package resp
