// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package lsm

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// TestLogFlipped changes bytes of the log of a store that was closed: nothing that was acknowledged may disappear silently. The
// first block holds all of a small log; a large one has several.
func TestLogFlipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ batches, elements, stride int }{{8, 5, 1}, {600, 3, 211}} {
		if testing.Short() {
			c.stride = c.stride*7 + 10
		}
		r := newRig("store")
		r.opt.MemTableBytes = 1 << 20
		r.open(t)
		for i := range c.batches {
			r.add(t, "s", i, i+c.elements, true)
		}
		r.close(t)
		path := fileOn(t, r.disk, "", logSuffix)
		whole := testkit.ReadFile(t, r.disk, path)
		refused := 0
		for i := 0; i < len(whole); i += c.stride {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1
			disk := r.disk.CrashClone(100, 0)
			testkit.WriteFile(t, disk, path, flipped)
			q := r.on(fmt.Sprintf("byte %d of %d", i, len(whole)), disk)
			if err := q.tryOpen("store"); err != nil {
				var damage *CorruptionError
				if !errors.As(err, &damage) || damage.Path != path {
					t.Fatalf("%s: %v", q.label, err)
				}
				refused++
				continue
			}
			q.check(t)
			if q.db.id.doubt {
				t.Errorf("%s: the store forgets that it was closed", q.label)
			}
			must(t, q.tryClose(), "close")
		}
		tier.Count(t, "flips", (len(whole)+c.stride-1)/c.stride)
		t.Logf("%d bytes, every %d.: %d refused", len(whole), c.stride, refused)
	}
}
