//go:build unix

package halt

import "syscall"

const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)
