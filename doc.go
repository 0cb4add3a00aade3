// Package bigset is a storage engine for very big CRDT sets: observed-remove, add-wins sets (ORSWOT), decomposed into one
// sorted key an insert, on Pebble.
//
// The root holds no code. Start at package engine, which opens a store, or at cmd/bigset, which does so from a shell.
//
// Imports go down five floors: doors (cmd/bigset, server, bench), wire (server/coord, server/transfer, server/peer, server/bloomd), disk
// (engine), rules (comparator, fold, readcore, handoff, compaction, keyscheme), words (clock, bloomslice).
//
// docs/architecture.md draws them and walks a write, a read and a dropped key through the floors.
package bigset
