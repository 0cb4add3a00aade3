// Package model is the reference replica of the convergence kit: an observed-remove set with Seen and Dead, small, in memory, and
// breakable.
//
// The correct replica shows that the kit accepts what it should. Each Bug breaks one rule, as real systems have broken it; the kit
// has to find every bug from outside, by what replicas show. That proves that the kit detects them.
//
// A replica's state is Seen, every event that it knows of; Dead, those that are removed or replaced; and the keys of the others. A
// dot enters Seen only together with its key or its death. Physical keys outlive their death until a compaction drops them.
//
//	replica.go   a client's operations
//	wire.go      bytes of contexts and messages
//	retry.go     operations that come again
//	receive.go   what a message does
//	disk.go      what survives a crash
//	compact.go   compaction and the rewriter
//	repair.go    anti-entropy
//	copy.go      copies, chunk by chunk
//	read.go      local reads, streams and their merge
//	bugs.go      the list
package model
