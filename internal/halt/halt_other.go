//go:build !unix

package halt

import "syscall"

// No signal has these numbers, so os.Process.Signal returns the system's error.
const (
	Stop     = syscall.Signal(-1)
	Continue = syscall.Signal(-2)
)
