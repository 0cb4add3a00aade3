package main

import "strconv"

// usualSize returns the columns and rows that a shell has exported, or those that every terminal has.
func usualSize(getenv func(string) string) (columns, rows int) {
	number := func(name string, usual int) int {
		if n, err := strconv.Atoi(getenv(name)); err == nil && n > 0 {
			return n
		}
		return usual
	}
	return number("COLUMNS", 80), number("LINES", 24)
}
