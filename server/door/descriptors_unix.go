//go:build unix

package door

import "syscall"

// Descriptors returns how many file descriptors the process may have, or 0 if that is unknown.
func Descriptors() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur)
}
