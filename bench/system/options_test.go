package system

import (
	"testing"

	"bigset/engine"
)

// TestTuned: names are fields of the engine's, 0 bits of bloom filters is no filter, and what the engine refuses is refused before it is opened.
func TestTuned(t *testing.T) {
	l, err := tuned(map[string]int64{"bloom-bits": 0, "compactions": 3, "l0-stop-writes-threshold": 5})
	if want := (engine.LSM{BloomBits: -1, Compactions: 3, L0StopWritesThreshold: 5}); err != nil || l != want {
		t.Errorf("got %+v, %v, want %+v", l, err, want)
	}
	for _, name := range []string{"l0-stop-writes-threshold", "no-such"} {
		if _, err := tuned(map[string]int64{name: 3}); err == nil {
			t.Errorf("%s of 3 was taken", name)
		}
	}
	if l, err := tuned(nil); err != nil || l != (engine.LSM{}) {
		t.Errorf("nothing is %+v, %v", l, err)
	}
}
