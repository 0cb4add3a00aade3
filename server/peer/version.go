//go:build !nextversion

package peer

// versionNext is 0: this program writes and reads no later frames.
const versionNext = 0
