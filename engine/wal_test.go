// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestLogFlipped changes bytes of the log of a store that was closed: nothing that was acknowledged may be gone without a
// word. Its first block holds all of a small log; a large one has several.
func TestLogFlipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ batches, stride int }{{8, 1}, {600, 211}} {
		if testing.Short() {
			c.stride = c.stride*7 + 10
		}
		p := newPair("store")
		p.opt.MemTableBytes = 1 << 20
		p.open(t)
		for i := range c.batches {
			p.all(t, "s", keyscheme.OpAdd, elementNames(i, i+3), bigset.Sync)
		}
		p.close(t)
		path := lastLog(t, p.disk)
		whole := testkit.ReadFile(t, p.disk, path)
		refused := 0
		for i := 0; i < len(whole); i += c.stride {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1
			disk := p.disk.CrashClone(100, 0)
			testkit.WriteFile(t, disk, path, flipped)
			q := &pair{label: fmt.Sprintf("byte %d of %d", i, len(whole)), disk: disk, opt: p.opt, model: p.model.Clone()}
			q.opt.FS = disk
			s, err := engine.Open("store", &q.opt)
			if err != nil {
				var damage *engine.CorruptionError
				if !errors.As(err, &damage) || damage.Path != path {
					t.Fatalf("byte %d of %d: %v", i, len(whole), err)
				}
				refused++
				continue
			}
			q.store = s
			q.check(t)
			if s.InDoubt() {
				t.Errorf("byte %d of %d: the store forgets that it was closed", i, len(whole))
			}
			must(t, s.Close(), "close")
		}
		tier.Count(t, "flips", (len(whole)+c.stride-1)/c.stride)
		t.Logf("%d bytes, every %d.: %d refused", len(whole), c.stride, refused)
	}
}

// lastLog returns the log that was written last.
func lastLog(t *testing.T, disk vfs.FS) string {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	last := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			last = name
		}
	}
	return "store/" + last
}
