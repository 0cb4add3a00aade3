//go:build !linux

package main

import "io"

// terminalSize returns the terminal's columns and rows according to the environment.
func terminalSize(_ io.Writer, getenv func(string) string) (columns, rows int) {
	return usualSize(getenv)
}
