// Package coord decides how many replicas must answer: about sets, and about bloom filters.
//
// A Coordinator takes a client's operation on a set, has one replica of the set's preflist do it, and sends what that replica did, a delta,
// to the others. It answers when W of them have it, DW of them durably. What is not answered by then goes on in the background;
// whom a delta did not reach gets it later, from the hints. The replica hands the delta out as soon as it is applied, so that its disk and those of the
// others work at the same time.
//
//	         ┌─ Write ──► replica 1 ─ its dots, its batch ─ delta ─ sync
//	client ──┤                                               │              in parallel
//	         │            replica 2 ◄── Apply, sync ─────────┤
//	         │            replica 3 ◄── Apply, sync ─────────┘
//	         └─ answer when W and DW are reached              a replica that fails: a hint
//
// What it answers:
//   - nil: W replicas have it, DW of them on disk.
//   - *UnknownError: fewer do, and it may have happened all the same: now, or later, by a hint. It is never a "no".
//   - everything else: nothing has happened, and nothing will. *QuorumError where too few could be asked, else a refusal.
//
// An operation that got no answer may be sent again. With a request id it has its dots for ever once W replicas have it: whoever does it again, within the
// time for which replicas keep ids, does the same events, or fails while too many of them are away to know it (*QuorumError). One that fewer had is done a
// second time where none of those answers. Without an id it is another event: an add that is sent again after
// somebody has removed the element brings it back.
//
// A bloom filter is split into slices, each with a preflist of its own. Slices that the same replicas hold are marked and checked in one call to a
// node, others side by side. One replica decides in
// which layer a key goes, the others do the same; a mark is no event, so that who marks again, or has another replica decide, does no harm.
// How durable an acknowledged mark is says the filter, not DW. The answers are those above, of each slice by itself: *FilterError names
// the keys without one. A drop is of the whole filter, for good. Marks that a replica has missed are hints, as deltas are; a drop that it
// has missed, and pages that differ, go over by anti-entropy (ExchangeSlices).
//
// All that a coordinator does beside its caller, and all that it waits for, goes through its Runner. A simulation gives one that
// runs everything in one goroutine, in an order of its choice. So no lock is held while a replica is called or a Signal waited
// for.
package coord
