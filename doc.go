// Package bigset decides what can be said of a set and of a bloom filter: by a client to a store, and by one replica to another.
//
// A set here is an observed-remove, add-wins set (ORSWOT), decomposed into one sorted key an insert. This package has the nouns, with
// what makes them malformed, and the packed form of a copy. It stores nothing and sends nothing: package engine does the first, package
// server/peer says how they travel. Whoever speaks of a set needs no store, and links none.
//
// Imports go down five floors: doors (cmd/bigset, server, bench), wire (server/coord, server/transfer, server/peer, server/bloomd, server/door), disk
// (engine), rules (this package, comparator, fold, readcore, handoff, compaction, keyscheme), words (clock, bloomslice).
//
// Files: op.go, context.go and delta.go (a write), read.go (a read), facts.go, state.go, digest.go and portion.go (replicas), slice.go and
// filter.go (bloom filters), limits.go and errors.go.
//
// docs/architecture.md draws them, has the glossary (dot, Seen, Dead, context, portion and the rest), and walks a write, a read and a dropped key
// through the floors.
package bigset
