// Package clock decides which events a replica has seen.
//
// A Clock is a set of dots; a dot is the n-th event of an actor. The law: such sets only grow, by union, which is commutative,
// associative and idempotent. So replicas that have exchanged everything hold the same set, in whatever order it arrived. Per actor
// the set is a base, the counters 1..base, and a cloud of counters beyond a gap:
//
//	counter  1 2 3 4 5 6 7 8 9 10 …        65536 …   131072 …   196608 …   262144 …
//	         ■ ■ ■ ■ ■ · ■ ■ · ■           ■ · ■ ■   ■■■■■■■■   ■■■■■■■■   ■ ■ ·
//	         └ base 5 ┘│└──────────── cloud ────────────────────────────────────
//	                  gap   page 0         page 1    └ extent: pages 2-3 ┘ page 4
//
// The base is maximal: base+1 is never in the cloud. When the missing event arrives, the base advances through the cloud by whole
// runs. A page covers 2^16 counters as one roaring container. Neighbouring full pages form one extent, so that a run costs the same
// whatever its length, even if hostile bytes ask for it. No page is empty, none is full, no two extents touch. Equal sets therefore
// have equal structure and equal bytes.
//
// One type serves three purposes. Seen, a replica's clock, is mostly base. Dead, a set's tombstone, holds the dots of Seen that
// were removed or replaced: runs of dead dots with the live ones as holes, or the reverse, page by page whichever is smaller. A
// context, what an operation's author had seen, is mostly a single dot, which encodes in its actor's length and a few bytes.
//
// # Encoding
//
// Append writes one of two forms, AppendCompressed a third; numbers are varints (7 bits a byte, low ones first) of the
// least length:
//
//	3, counter, actor to the end                                    exactly one dot
//	1, number of actors, per actor in order of their bytes:
//	   length, actor, base, number of records, records              any other set
//	2, length of the form 1, a zstd frame of it                     the same, compressed
//
// A record opens with distance<<3 | kind. The distance is in pages from the end of the record before; for the first record, from
// the page of base+2, the least counter that a cloud can hold. Values below base+2 are not encoded: in what follows lo is its value
// in its page and 0 in all other pages.
//
//	0 full    count of pages
//	1 runs    count; per run: gap (from lo, then from the last run's end, less one), length less one
//	2 values  count; per value: distance from lo, then from the one before, less one
//	3 holes   highest value less lo; count; per hole below the highest value: distance, as for values
//	4 bitmap  highest value less lo; a bit for each value from lo on, low bits first
//
// A page is written in the kind that takes the fewest bytes; among equals, in the one listed first. Decode refuses everything else.
//
// # Concurrency and ownership
//
// A Clock has one owner, which alone mutates it. Any number of goroutines may read and Clone a clock that is not being mutated.
// Clone shares pages, and the clock that first writes to a shared page copies it; the two clocks may then be used by different
// goroutines. Only what Counters returns is shared with the caller, and nothing that a caller passes is kept but the
// strings of actors.
//
// # Sources
//
// The clock of Riak's bigset (bigset_clock: version vector and dot cloud). Almeida, Baquero, Gonçalves, Preguiça, Fonte:
// Scalable and Accurate Causality Tracking for Eventually Consistent Stores (2014); Gonçalves, Almeida, Baquero, Fonte:
// Concise Server-Wide Causality Management for Eventually Consistent Data Stores (2015); Almeida, Shoker, Baquero: Delta
// State Replicated Data Types (2018).
package clock
