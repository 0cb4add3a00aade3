package engine

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRest: a store that is opened again rests, until Compact.
func TestRest(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	for _, rests := range []bool{false, true} { // a new store does not
		s, err := Open("store", &Options{FS: fs, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.db.Resting(); got != rests {
			t.Errorf("after the open it rests: %v, want %v", got, rests)
		}
		if _, err := s.Compact(ctx, CompactOptions{}); err != nil {
			t.Fatal(err)
		}
		if s.db.Resting() {
			t.Error("after Compact it still rests")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
