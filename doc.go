// Package bigset decides what can be said of a set and of a bloom filter: by a client to a store, and by one replica to another.
//
// A set here is an observed-remove, add-wins set (ORSWOT), decomposed into one sorted key an insert. This package has the nouns, with
// what makes them malformed, and the packed form of a copy. It stores nothing and sends nothing: package engine does the first, package
// server/peer says how they travel. Whoever speaks of a set needs no store, and links none.
//
//	server/coord, server/transfer ──► server/peer ──► bigset ◄── engine ──► Pebble
//	             who asks                what is said     │      what is on disk
//	                                    clock, fold, keyscheme, bloomslice
//
// Its law: a value claims what it names and nothing else. What Facts, a Span or a Delta leave out may exist or not. So each value
// stands for itself, and may come late, twice, or in any order. Only the Seen of a State or a Span speaks of all that a replica has
// seen: it is a question or a check, and is never joined to another's clock.
//
// A Check says what is wrong with a value whoever gets it; what only a store can know, for instance that a dot was never issued,
// engine refuses when the value is applied, with the same errors. A value that is refused has changed nothing. Clocks inside a value
// are shared: read only. Everything here is pure, starts no goroutine, and may be used by any number of them as long as nobody changes
// the value.
//
// Begin reading at op.go and context.go (what a client asks), then delta.go (what became of it), facts.go, state.go, digest.go and
// span.go (what replicas say of sets), filter.go and slice.go (of bloom filters), read.go, limits.go and errors.go.
//
// Start at package engine to open a store, or at cmd/bigset to do so from a shell. docs/architecture.md walks a write, a read and a
// dropped key through the floors.
package bigset
