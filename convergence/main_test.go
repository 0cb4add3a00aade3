package convergence_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow: schedules make much that is soon forgotten, and the collector would take a quarter of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
