//go:build race

package lsm

import (
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// asserted makes a comparer pass an assertion of Pebble's that it otherwise can't. When built for the race detector, Pebble wraps
// the comparer of one open in twenty, at random, and panics unless prefixes are in bytewise order. Ours are not (an element's
// length precedes its bytes), and nothing else in Pebble needs that order with row blocks. For that one caller the whole key is a
// suffix.
func asserted(c *pebble.Comparer) *pebble.Comparer {
	split, suffixes := c.Split, c.ComparePointSuffixes
	c.Split = func(key []byte) int {
		if calledByAssertion() {
			return 0
		}
		return split(key)
	}
	c.ComparePointSuffixes = func(a, b []byte) int {
		if calledByAssertion() {
			return c.Compare(a, b)
		}
		return suffixes(a, b)
	}
	return c
}

// calledByAssertion reports whether the caller's caller is the assertion.
func calledByAssertion() bool {
	var pcs [4]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "/base.defaultCompare") {
			return true
		}
		if strings.Contains(f.Function, "/pebble/") || !more {
			return false
		}
	}
}
