package system

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// setters set options of the LSM by their names in spec.Options.
var setters = map[string]func(o *pebble.Options, v int64){
	"l0-compaction-threshold":        func(o *pebble.Options, v int64) { o.L0CompactionThreshold = int(v) },
	"l0-compaction-file-threshold":   func(o *pebble.Options, v int64) { o.L0CompactionFileThreshold = int(v) },
	"l0-stop-writes-threshold":       func(o *pebble.Options, v int64) { o.L0StopWritesThreshold = int(v) },
	"lbase-max-bytes":                func(o *pebble.Options, v int64) { o.LBaseMaxBytes = v },
	"flush-split-bytes":              func(o *pebble.Options, v int64) { o.FlushSplitBytes = v },
	"memtable-stop-writes-threshold": func(o *pebble.Options, v int64) { o.MemTableStopWritesThreshold = int(v) },
	"max-open-files":                 func(o *pebble.Options, v int64) { o.MaxOpenFiles = int(v) },
	"bytes-per-sync":                 func(o *pebble.Options, v int64) { o.BytesPerSync = int(v) },
	"wal-bytes-per-sync":             func(o *pebble.Options, v int64) { o.WALBytesPerSync = int(v) },
	"compactions": func(o *pebble.Options, v int64) {
		o.CompactionConcurrencyRange = func() (lower, upper int) { return 1, int(v) }
	},
	"target-file-size": func(o *pebble.Options, v int64) {
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = v << i
		}
	},
	"block-size": func(o *pebble.Options, v int64) {
		for i := range o.Levels {
			o.Levels[i].BlockSize = int(v)
		}
	},
	"index-block-size": func(o *pebble.Options, v int64) {
		for i := range o.Levels {
			o.Levels[i].IndexBlockSize = int(v)
		}
	},
	"bloom-bits": func(o *pebble.Options, v int64) {
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = pebble.NoFilterPolicy
			if v > 0 {
				o.Levels[i].FilterPolicy = bloom.FilterPolicy(v)
			}
		}
	},
}

// tuned returns a function that changes the options of Pebble, or nil if nothing changes.
func tuned(options map[string]int64) (func(*pebble.Options), error) {
	for name := range options {
		if setters[name] == nil {
			return nil, fmt.Errorf("bench: no option %q of Pebble", name)
		}
	}
	if len(options) == 0 {
		return nil, nil
	}
	return func(o *pebble.Options) {
		for name, v := range options {
			setters[name](o, v)
		}
	}, nil
}

// PebbleOptions returns the names of the options of the LSM that Open takes, in order.
func PebbleOptions() []string {
	var names []string
	for name := range setters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
