// Package bigset is a storage engine for very big CRDT sets: observed-remove, add-wins sets (ORSWOT), decomposed into one
// sorted key an insert, on Pebble.
//
// The root holds no code. Start at package engine, which opens a store, or at cmd/bigset, which does so from a shell.
//
//	door    cmd/bigset   bench
//	              |        |
//	disk        engine  ------->  Pebble     one lock, one batch, one sync
//	              |
//	rules   comparator   fold   compaction   pure: value in, value out
//	              \--- keyscheme ---/
//	words            clock
//
// docs/architecture.md walks a write, a read and a dropped key through the floors.
package bigset
