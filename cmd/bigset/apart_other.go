//go:build !unix

package main

import "syscall"

// apart changes nothing on systems without process groups.
func apart() *syscall.SysProcAttr { return nil }
