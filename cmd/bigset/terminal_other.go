//go:build !linux

package main

import "io"

// terminalSize returns what the environment says of the terminal's columns and rows.
func terminalSize(_ io.Writer, getenv func(string) string) (columns, rows int) {
	return usualSize(getenv)
}
