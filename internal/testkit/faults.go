package testkit

import (
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Failing returns a hook that fails operations that fit, from the n-th on, and a flag that says whether it has. With once it fails
// only that one.
func Failing(n int64, once bool, cause error, fits func(op errorfs.Op) bool) (Hook, *atomic.Bool) {
	var count atomic.Int64
	var fired atomic.Bool
	return func(op errorfs.Op) error {
		if !fits(op) {
			return nil
		}
		if k := count.Add(1) - 1; k < n || once && k > n {
			return nil
		}
		if op.Kind == errorfs.OpFileReadAt && WithinCut() { // failing it would end the process
			count.Add(-1) // the next operation fails instead
			return nil
		}
		fired.Store(true)
		return &os.PathError{Op: "inject", Path: op.Path, Err: cause}
	}, &fired
}

// WithinCut reports whether Pebble is looking for the place at which a table that it cuts goes on.
func WithinCut() bool { return strings.Contains(string(debug.Stack()), "TableBounds(") }

// FaultKinds are the ways in which an operation fails: with an error, or by writing half of what it was given.
var FaultKinds = []struct {
	Name  string
	Cause error
	Short bool // half of what was given is written
}{{"EIO", syscall.EIO, false}, {"ENOSPC", syscall.ENOSPC, false}, {"short write", syscall.ENOSPC, true}}

// FatalElsewhere reports operations whose failure Pebble treats as fatal in goroutines of its own, or answers with a panic that
// can't be caught: the process ends. Failures of the log's writes can be caught, but not those of its creation.
func FatalElsewhere(op errorfs.Op) bool {
	for _, part := range []string{"MANIFEST", "marker.", "CURRENT", ".log"} {
		if strings.Contains(op.Path, part) {
			return true
		}
	}
	return op.Kind == errorfs.OpFileSync && !strings.Contains(op.Path, ".") // a folder's: it is part of making a log
}

// LateInOpen reports operations that come last when a store is opened. If one of them fails, Pebble tears down what its statistics
// and compactions are using, and they may panic: then the process ends, too.
func LateInOpen(op errorfs.Op) bool {
	return strings.Contains(op.Path, "OPTIONS") || strings.HasSuffix(op.Path, ".dbtmp") || op.Kind == errorfs.OpList
}

// NotCompacting is NeedsRoom except for compactions, which may begin at any time: if they can't write the MANIFEST the process
// ends.
func NotCompacting(op errorfs.Op) bool { return NeedsRoom(op) && !WithinCompaction() }

// WithinCompaction reports whether the caller is a compaction of Pebble's.
func WithinCompaction() bool { return strings.Contains(string(debug.Stack()), ").compact1(") }
