//go:build !race

package lsm

import "github.com/cockroachdb/pebble/v2"

// asserted changes nothing: see assert_race.go.
func asserted(c *pebble.Comparer) *pebble.Comparer { return c }
