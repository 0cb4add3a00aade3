// Package marklog is the log of marks of bloom filters: which keys were marked since the pages that hold their bits were stored. It
// makes a mark of a filter with bigset.FilterLog or bigset.FilterSync survive a crash.
//
//	Append ── pending ──write──> segment ──sync──> on disk          Rotate ends a segment, Remove deletes those that ended
//	  │                            │                  │
//	  position            Wait (FilterLog)    Wait (FilterSync)      Replay reads them after a crash, Keep leaves them to the next open
//
// Laws:
//
//   - If Wait has returned for a record without an error, the record is replayed after the process was killed, until Remove has
//     deleted it. Under bigset.FilterSync it is replayed after a power cut, too.
//   - A record is replayed whole or not at all. Replaying it twice changes nothing: the log lists bits that are set.
//   - A write or sync that fails fails the store, for good.
//   - Bytes that were on disk and are damaged are an error of Replay; those that a power cut took back are not.
//
// Files, in the order to read them:
//
//	log.go       appending, group writes and group syncs, rotation
//	segment.go   the format of a segment, and which damage a crash explains; docs/format.md has the bytes
//	replay.go    what a crash has left
package marklog
