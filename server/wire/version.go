//go:build !nextversion

package wire

// versionNext is 0: this program speaks its own version at most.
const versionNext = 0
