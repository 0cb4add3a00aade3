//go:build !unix

package probe

import (
	"io/fs"
	"time"
)

// CPUTime returns the CPU time of this process, and whether it is known: here it is not.
func CPUTime() (time.Duration, bool) { return 0, false }

// fileNumber returns a number that is equal for two names of one file; here it is unknown.
func fileNumber(fs.FileInfo) (uint64, bool) { return 0, false }
