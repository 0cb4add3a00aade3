package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
)

// TestRest opens a store again: it rests until a second flush, or Compact; a new one does not, nor one with a full level 0.
func TestRest(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	open := func() *Store {
		t.Helper()
		s, err := Open("store", &Options{FS: fs, tune: func(po *pebble.Options) { po.DisableAutomaticCompactions = true }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	resting := func(s *Store) bool {
		return s.db.Resting()
	}
	flush := func(s *Store, n int) {
		t.Helper()
		for i := range n {
			if _, err := s.Add(ctx, []byte("s"), [][]byte{fmt.Appendf(nil, "%d", i)}, bigset.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name  string
		act   func(s *Store)
		rests bool // after it was opened
	}{
		{"a new store", func(*Store) {}, false},
		{"flushes", func(s *Store) { flush(s, 2) }, true},
		{"Compact", func(s *Store) {
			if _, err := s.Compact(ctx, CompactOptions{}); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a level 0 that is filling up", func(s *Store) { flush(s, 4); s.db.EndRest() }, true},
		{"a full level 0", func(*Store) {}, false},
	} {
		s := open()
		if got := resting(s); got != c.rests {
			t.Errorf("%s: rests %v after the open, want %v", c.name, got, c.rests)
		}
		c.act(s)
		if resting(s) {
			t.Errorf("%s: still rests", c.name)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
