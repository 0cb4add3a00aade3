// Package compaction decides which keys no reader needs, and which of them are worth removing next.
//
// Its law: a key may be dropped when a durable Dead covers its dot and the key is not unresolved. Two mechanisms apply the law. The
// drop filter (Registry) answers Pebble's merger, for each record that a flush or a compaction rewrites, whether it may be left
// out. The rewriter copies the live keys of a span to new tables and swaps them in. A Strategy says which mechanism works, and
// Index says which span is most worth rewriting next.
//
//	Dead grows ──> durable ──> older than every reader ──> Registry ──> flush, compaction: record left out
//	     └──────> settled at the bottom as SET ──> Index (densest first) ──> span copied and swapped
//
// The package is pure: values in, values out. It starts no goroutine and touches no file; package engine runs it. A
// Registry is immutable and may be read by any number of goroutines; an Index belongs to one.
//
// Source: section 6.7 of the bigset design document, except that the set-tombstone is kept forever (it never subtracts).
package compaction
