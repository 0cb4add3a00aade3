// Package testkit holds what the tests of several packages share: a model of a set that is too simple to be wrong; a replica's
// record of what it did, and how much of that a crash may take back; a log of concurrent operations that knows what must and what
// may be seen of them; file systems that crash and fail on demand; and seeded generators.
//
// The model's law is the specification: Seen is the union of all dots and contexts of the deltas applied; Dead is the union of
// their contexts, clears and removes' own dots; and an element is present when an add of it was applied whose dot is not in Dead.
// The order does not matter.
//
//	Set       one replica's state of one set, as plain Go maps
//	Replica   all sets of a replica, the deltas it applied in order, and how many of them must survive a crash
//	History   what concurrent writers began and what they were answered
//	Disk      an in-memory file system with faults, hooks and crash clones
//	Crashing  crashes before every operation of a disk, or a share of them
//	Failing   an operation that fails; FaultKinds, FatalElsewhere, LateInOpen and NotCompacting say how and which
//	ReadFile, WriteFile, Flipped, SmallFilter, TaggedKeys, SmallTables   small things that many tests need
//
// Only test files import it.
package testkit
