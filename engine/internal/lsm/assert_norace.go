//go:build !race

package lsm

import "github.com/cockroachdb/pebble/v2"

// asserted returns the comparer unchanged: see assert_race.go.
func asserted(c *pebble.Comparer) *pebble.Comparer { return c }
