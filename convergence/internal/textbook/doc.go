// Package textbook has replicated sets as books and public libraries describe them, and the same sets broken in the ways in which
// real ones were. The kit has to accept the correct ones for any schedule, given what they declare, and to find each of the broken
// ones.
//
//	wire.go     dots, and bytes of messages
//	orset.go    observed-remove sets that send operations: plain, in causal order, with deltas that may be dropped
//	orswot.go   observed-remove sets without tombstones, which send their state
//	log.go      an observed-remove set over a log in a file
//	acks.go     an observed-remove set whose log is cut off when all have acknowledged it
//	sends.go    sets that send their operations by themselves, or again; sets for two clients at once
//	lww.go      last-writer-wins sets, by four clocks and four rules for ties
//	others.go   2P-set, grow-only set, remove-wins sets
//	removewins.go  a remove-wins set of deltas
//	values.go   a PN-counter, a multi-value register and a last-writer-wins map
//	ormap.go    maps whose deletes remove what their authors had observed
//	sorted.go   a last-writer-wins set over a log in topological order
//	tree.go     an observed-remove set with anti-entropy by a hash tree
//	list.go     the lists of what is correct and what is broken
package textbook
