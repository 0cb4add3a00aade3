//go:build !nextversion

package wire

// versionNext is 0: this program speaks at most its own version.
const versionNext = 0
