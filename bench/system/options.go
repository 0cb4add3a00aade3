package system

import (
	"cmp"
	"fmt"
	"slices"

	"bigset/engine"
)

// setters set options of the LSM by their names in spec.Options.
var setters = map[string]func(l *engine.LSM, v int64){
	"compactions":                    func(l *engine.LSM, v int64) { l.Compactions = int(v) },
	"l0-compaction-threshold":        func(l *engine.LSM, v int64) { l.L0CompactionThreshold = int(v) },
	"l0-compaction-file-threshold":   func(l *engine.LSM, v int64) { l.L0CompactionFileThreshold = int(v) },
	"l0-stop-writes-threshold":       func(l *engine.LSM, v int64) { l.L0StopWritesThreshold = int(v) },
	"lbase-max-bytes":                func(l *engine.LSM, v int64) { l.LBaseMaxBytes = v },
	"target-file-size":               func(l *engine.LSM, v int64) { l.TargetFileBytes = v },
	"memtable-stop-writes-threshold": func(l *engine.LSM, v int64) { l.MemTablesStop = int(v) },
	"flush-split-bytes":              func(l *engine.LSM, v int64) { l.FlushSplitBytes = v },
	"block-size":                     func(l *engine.LSM, v int64) { l.BlockBytes = int(v) },
	"index-block-size":               func(l *engine.LSM, v int64) { l.IndexBlockBytes = int(v) },
	"bloom-bits":                     func(l *engine.LSM, v int64) { l.BloomBits = int(cmp.Or(v, -1)) }, // 0 is no filter in a file, and the default of the field
	"max-open-files":                 func(l *engine.LSM, v int64) { l.MaxOpenFiles = int(v) },
	"bytes-per-sync":                 func(l *engine.LSM, v int64) { l.BytesPerSync = int(v) },
	"wal-bytes-per-sync":             func(l *engine.LSM, v int64) { l.WALBytesPerSync = int(v) },
}

// tuned returns the engine's tuning of the LSM for options by their names.
func tuned(options map[string]int64) (l engine.LSM, err error) {
	for name, v := range options {
		set := setters[name]
		if set == nil {
			return l, fmt.Errorf("bench: no option %q of Pebble", name)
		}
		set(&l, v)
	}
	return l, l.Check()
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
