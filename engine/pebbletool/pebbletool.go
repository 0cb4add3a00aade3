// Package pebbletool has what tools and benchmarks need that open the files of a store with Pebble alone, or compare a store with plain Pebble:
// the order of keys, a merger that drops nothing, and the options. It is apart from package engine because programs that keep sets need none of it.
//
// What it opens must not be open as a store (engine.CheckUnused). A program that writes there breaks the store's guarantees: only tests do.
package pebbletool

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine"
	"bigset/engine/internal/lsm"
)

// Comparer returns the order of keys in the shape that Pebble wants.
func Comparer() *pebble.Comparer { return lsm.Comparer() }

// Merger returns a merger that drops nothing.
func Merger() *pebble.Merger { return lsm.Merger() }

// BaselineOptions returns the Pebble options that a store has with that tuning, but for cache, file system, events and drop filter: plain Pebble with
// the same order, table format, bloom filters and sizes, as a baseline to measure against. The tuning must pass its Check.
func BaselineOptions(memTableBytes int, l engine.LSM) *pebble.Options {
	return lsm.BaselineOptions(memTableBytes, l)
}

// BaselineCache returns a cache that holds that many bytes of blocks beside a store's memtables, which Pebble counts against it.
func BaselineCache(memTableBytes int, blockCacheBytes int64) *pebble.Cache {
	return lsm.BaselineCache(memTableBytes, blockCacheBytes)
}

// Options is an OpenOption for Pebble's tools: they open a store's files and log nothing.
type Options struct {
	Damage func(*engine.CorruptionError) // receives each report of damaged bytes. Pebble's default prints a stack and ends the process
}

// Apply implements tool.OpenOption.
func (t Options) Apply(_ string, o *pebble.Options) {
	o.Logger = logger{}
	o.EventListener = &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) { t.Damage(lsm.CorruptionOf(i)) }}
}

// logger panics with what Pebble calls fatal, where Pebble's own logger ends the process.
type logger struct{}

// Infof implements pebble.Logger.
func (logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (logger) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (logger) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }
