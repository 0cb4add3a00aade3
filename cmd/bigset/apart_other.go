//go:build !unix

package main

import "syscall"

// apart changes nothing where there are no groups of processes.
func apart() *syscall.SysProcAttr { return nil }
