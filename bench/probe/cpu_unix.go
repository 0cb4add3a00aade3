//go:build unix

package probe

import (
	"io/fs"
	"syscall"
	"time"
)

// CPUTime returns the CPU time of this process, user and system, and whether it is known.
func CPUTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}

// fileNumber returns a number that is equal for two names of one file.
func fileNumber(info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Ino), true
}
