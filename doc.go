// Package bigset defines what can be said of a set and of a bloom filter: by a client to a store, and by one replica to another.
//
// A set here is an observed-remove, add-wins set (ORSWOT), decomposed into one sorted key per insert. This package has the nouns,
// the checks that find malformed ones, and the packed form of a copy. It stores nothing and sends nothing: package engine stores,
// and package server/peer defines how the nouns travel. A program that only names sets needs no store, and links none.
//
// Imports go down five floors: door, wire, disk, rules and words. This package is one of the rules. docs/floors.txt lists every package
// with its imports.
//
// Files: op.go, request.go, context.go, token.go and delta.go (a write), read.go and count.go (a read), facts.go, state.go, digest.go and portion.go (replicas), slice.go and
// filter.go (bloom filters), lsm.go (how a store is tuned), limits.go and errors.go.
//
// docs/architecture.md draws the floors, has the glossary (dot, Seen, Dead, context, portion and the rest), and follows a write, a
// read and a dropped key through them.
package bigset
