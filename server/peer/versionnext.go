//go:build nextversion

package peer

// versionNext is 1: this program stands for the next one in tests of rolling upgrades, and writes and reads one more version of frames.
const versionNext = 1
