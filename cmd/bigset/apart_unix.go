//go:build unix

package main

import "syscall"

// apart puts a child process into a process group of its own, which Ctrl-C at a terminal does not reach.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
