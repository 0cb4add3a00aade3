// Locks are larger under the race detector.

//go:build !race

package filters_test

import (
	"testing"

	"bigset/engine/filters"
)

// TestSliceBytes: a store may have very many slices in memory, so each is small.
func TestSliceBytes(t *testing.T) {
	if filters.SliceBytes > 96 {
		t.Errorf("a slice takes %d bytes", filters.SliceBytes)
	}
}
