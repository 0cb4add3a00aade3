package all

import (
	"context"
	"errors"
	"testing"

	"bigset/bench/system"
)

// TestWarmUpCancelled: a store whose warm-up is cancelled is closed, and not returned, as its caller would close it again.
func TestWarmUpCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{system.NameBigset, system.NamePebble} {
		sys, err := Open(ctx, name, "default", t.TempDir(), system.Options{Warm: true, MemTableBytes: 1 << 20})
		if sys != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, %v", name, sys, err)
		}
	}
}
