// Package transfer decides when a range moves: it copies the sets of a range of slots from a replica elsewhere into the local store.
//
// The receiver pulls. A step is one chunk or one round of questions. Nothing is held open between steps, on either side.
//
//	list ─► Export ─► Ingest ─► … ─► last chunk ─► rounds: State, Locate, keys in, then Dead in ─► check ─► next set ─► … ─► owed sets again
//	           each chunk: keys with their dots; progress is noted in the receiver's store
//
// Writes continue on both sides. The rules of package handoff hold: no clock is joined, deaths arrive no earlier than what has replaced
// them, and a set is not complete until the receiver has all that its sender had seen at the first chunk. To resume a copy, start it again.
//
// A Mover may be used by any number of goroutines, each with copies of its own; a Copy by one goroutine at a time.
package transfer
