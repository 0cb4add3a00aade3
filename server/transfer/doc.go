// Package transfer decides when a range moves: it copies sets of a range of slots from a replica elsewhere into the store here.
//
// The receiver pulls. A step is one chunk, or one round of questions; nothing is held open between steps, here or there.
//
//	list ─► Export ─► Ingest ─► … ─► last chunk ─► rounds: State, Locate, keys in, then Dead in ─► check ─► next set ─► … ─► owed sets again
//	           each chunk: keys with their dots; progress is noted in the receiver's store
//
// Writes go on at both. What handoff says holds: no clock is joined, deaths come no earlier than what has replaced them, and a set is not
// called complete before all that its sender had seen at the first chunk is here. A copy is resumed by starting it again.
//
// A Mover may be used by any number of goroutines, each with copies of its own; a Copy by one at a time.
package transfer
