// Package system decides what benchmarks are run on: ways to keep sets in a folder, behind one interface.
//
//   - Bigset is the engine, with a strategy.
//   - Raw is Pebble by hand, with the engine's options, writing the bytes that the engine writes in the same batches: the physical limit.
//   - Package blob has a set serialised into one value, which every operation reads, changes and rewrites.
//
// Package all opens one by its name. Workloads that need more than System offers get the engine by Bigset.Store, and Pebble by Raw.DB.
// elements.go makes the elements of a run from their numbers.
//
// A System is used by one goroutine at a time; each Set handle may have a goroutine of its own.
package system
