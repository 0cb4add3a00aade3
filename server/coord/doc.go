// Package coord runs operations on sets and bloom filters at a quorum of their replicas: it decides how many must answer.
//
// A Coordinator takes a client's operation on a set, lets one replica of the set's preflist do it, and sends the resulting delta to the
// other replicas. It answers when W of them have the delta, DW of them durably. The rest continues in the background; a replica that the
// delta did not reach gets it later, from the hints. The first replica hands out the delta as soon as it is applied, so that its disk and
// the others' work at the same time.
//
//	         ┌─ Write ──► replica 1 ─ its dots, its batch ─ delta ─ sync
//	client ──┤                                               │              in parallel
//	         │            replica 2 ◄── Apply, sync ─────────┤
//	         │            replica 3 ◄── Apply, sync ─────────┘
//	         └─ answer when W and DW are reached              a replica that fails: a hint
//
// The answers mean:
//   - nil: W replicas have it, DW of them on disk.
//   - *UnknownError: fewer do, and the operation may still happen: now, or later, by a hint. This is never a "no".
//   - everything else: nothing has happened, and nothing will. *QuorumError if too few could be asked, else a refusal.
//
// An operation that got no answer may be sent again. With a request id, its dots are fixed once W replicas have it: a repetition, within
// the time for which replicas keep ids, does the same events, or fails while too many of these replicas are away (*QuorumError). If fewer
// replicas had it and none of these answers, the operation is done a second time. Without an id it is another event: an add that is sent
// again after another client has removed the element brings it back.
//
// A bloom filter is split into slices, each with a preflist of its own. Slices that the same replicas hold are marked and checked in one
// call to a node, other slices in parallel. One replica decides which layer a key goes into, and the others do the same. A mark is not an
// event: a client may repeat it, and another replica may decide, without harm. The filter defines how durable an acknowledged mark is, not
// DW. The answers above hold for each slice by itself; *FilterError names the keys without an answer. A drop deletes the whole filter, for
// good. Marks that a replica has missed become hints, as deltas do. A drop that it has missed, and pages that differ, are sent by
// anti-entropy (ExchangeSlices).
//
// A coordinator's background work and all its waits go through its Runner. A simulation supplies a Runner that runs everything in one
// goroutine, in an order that it chooses. So no lock is held during a call to a replica or a wait for a Signal.
package coord
