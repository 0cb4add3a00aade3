// Package system decides what benchmarks run on: ways to store sets in a folder, behind one interface.
//
//   - Bigset is the engine, with a strategy.
//   - Raw is Pebble by hand, with the engine's options, writing the bytes that the engine writes in the same batches: the physical limit.
//   - Package blob stores a set serialised into one value, which every operation reads, changes and rewrites.
//
// Package all opens one by its name. Workloads that need more than System offers get the engine from Bigset.Store, and Pebble from Raw.DB.
// elements.go makes the elements of a run from their numbers.
//
// Only one goroutine at a time may use a System; each Set handle may have a goroutine of its own.
package system
