package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"bigset/engine/internal/lsm"
)

// What tools and baselines need that open a store's files with Pebble alone, or compare with them.

// Comparer returns the order of keys in the shape that Pebble wants.
func Comparer() *pebble.Comparer { return lsm.Comparer() }

// Merger returns a merger that drops nothing.
func Merger() *pebble.Merger { return lsm.Merger() }

// BaselineOptions returns the Pebble options that a store has, but for cache, file system, events and filter: raw Pebble
// with the same order, table format, bloom filters and sizes, as a baseline to measure against.
func BaselineOptions(memTableBytes int) *pebble.Options { return lsm.BaselineOptions(memTableBytes) }

// BaselineCache returns a cache that holds that many bytes of blocks beside a store's memtables, which Pebble counts against it.
func BaselineCache(memTableBytes int, blockCacheBytes int64) *pebble.Cache {
	return lsm.BaselineCache(memTableBytes, blockCacheBytes)
}

// ToolOptions is an OpenOption for Pebble's tools: they open a store's files and log nothing.
type ToolOptions struct {
	Damage func(*CorruptionError) // is told of damaged bytes, each time they are met. Pebble's default prints a stack and ends the process
}

// Apply implements tool.OpenOption.
func (t ToolOptions) Apply(_ string, o *pebble.Options) {
	o.Logger = toolLogger{}
	o.EventListener = &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) { t.Damage(lsm.CorruptionOf(i)) }}
}

// toolLogger panics with what Pebble calls fatal, where Pebble's own logger ends the process.
type toolLogger struct{}

// Infof implements pebble.Logger.
func (toolLogger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (toolLogger) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (toolLogger) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }
