//go:build unix

package main

import "syscall"

// apart has a child process be in a group of its own, which a terminal's Ctrl-C does not reach.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
