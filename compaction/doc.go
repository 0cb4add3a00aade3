// Package compaction decides which keys no reader needs, and which of them are worth going after.
//
// Its law: a key goes when a durable Dead covers its dot and it is resolved. Two forces apply it. The drop filter (Registry)
// answers Pebble's merger, for each record that a flush or a compaction rewrites, whether it may be left out. The rewriter
// copies the live keys of a span to new tables and swaps them in; a Strategy says which force works, and Index which span
// is worth it next.
//
//	Dead grows ──> durable ──> older than every reader ──> Registry ──> flush, compaction: record left out
//	     └──────> settled at the bottom as SET ──> Index (densest first) ──> span copied and swapped
//
// The package is pure: values in, values out. It starts no goroutine and touches no file; package engine runs it. A
// Registry is immutable and may be read by any number of goroutines; an Index belongs to one.
//
// Source: section 6.7 of the bigset design document, with the set-tombstone kept for ever (it never subtracts).
package compaction
