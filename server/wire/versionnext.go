//go:build nextversion

package wire

// versionNext is 1: this program stands for the next one in tests of rolling upgrades, and speaks one more version.
const versionNext = 1
