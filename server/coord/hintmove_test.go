package coord_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestMovedHintsShareSync: hints that are moved out of an old file wait for the disk together, and the file goes after that: no power cut
// takes one.
func TestMovedHintsShareSync(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	h := openHints(t, f, coord.HintOptions{BytesMax: 8000, SegmentBytes: 3000})
	type cut struct {
		disk *testkit.Disk
		kept int // hints for the node that is away
	}
	var cuts []cut
	syncs, most, removed := 0, 0, ""
	var away []int
	disk.SetHook("syncs", func(op errorfs.Op) error {
		if removed != "" { // the removal has reached the disk, and nothing that was not synced
			left := disk.CrashClone(0, 1)
			if err := left.Remove(removed); err != nil {
				t.Error(err)
			}
			cuts = append(cuts, cut{left, len(away)})
		}
		removed = ""
		switch op.Kind {
		case errorfs.OpRemove:
			removed = op.Path
		case errorfs.OpFileSync:
			syncs++
		}
		return nil
	})
	for i := range 600 {
		node := "b"
		if i < 40 && i%2 == 0 || i%20 == 0 {
			node = "away"
		}
		if err := h.Add(node, sender, hinted(i+1, "x")); err != nil {
			t.Fatal(err)
		}
		if node == "away" {
			away = append(away, i+1)
		}
		syncs = 0
		if _, err := h.Replay(ctx, "b", coord.Targets{Set: (&target{}).to}); err != nil {
			t.Fatal(err)
		}
		most = max(most, syncs)
	}
	if names, err := f.List(); err != nil || slices.Contains(names, "0000000000000001.hints") {
		t.Errorf("nothing was moved: %v, %v", names, err)
	}
	if most > 10 {
		t.Errorf("%d syncs to move a few files of hints", most)
	}
	disk.SetHook("syncs", nil)
	for i, c := range append(cuts, cut{disk.CrashClone(0, 1), len(away)}) {
		r := &target{}
		h = openHints(t, newFolder(t, c.disk), coord.HintOptions{})
		_, err := h.Replay(ctx, "away", coord.Targets{Set: r.to})
		if got := r.firsts(); err != nil || len(got) < c.kept || !slices.Equal(got[:c.kept], away[:c.kept]) {
			t.Fatalf("cut %d of %d: %d hints of %d, %v", i, len(cuts), len(got), c.kept, err)
		}
	}
}

// TestMoveFails: copies of hints that were made in vain keep no file.
func TestMoveFails(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	f := newFolder(t, disk)
	h := openHints(t, f, coord.HintOptions{BytesMax: 8000, SegmentBytes: 3000})
	opens, failed := 0, 0
	disk.SetHook("fail", func(op errorfs.Op) error {
		if op.Kind != errorfs.OpOpen {
			return nil
		}
		if opens++; opens%17 > 0 {
			return nil
		}
		failed++
		return syscall.EIO
	})
	for i := range 600 {
		node := "b"
		if i < 40 && i%2 == 0 || i%20 == 0 {
			node = "away"
		}
		if err := h.Add(node, sender, hinted(i+1, "x")); err != nil {
			t.Fatal(err)
		}
		_, _ = h.Replay(ctx, "b", coord.Targets{Set: (&target{}).to})
	}
	if disk.SetHook("fail", nil); failed < 10 {
		t.Errorf("%d failures", failed)
	}
	for _, node := range []string{"b", "away"} {
		if _, err := h.Replay(ctx, node, coord.Targets{Set: (&target{}).to}); err != nil {
			t.Error(err)
		}
	}
	if names, err := f.List(); err != nil || len(names) > 1 || len(h.Nodes()) > 0 {
		t.Errorf("files left: %v, %v, hints for %v", names, err, h.Nodes())
	}
}

// TestOldHintsEachMinute: hints that are too old go within a minute, also after the clock was put back.
func TestOldHintsEachMinute(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{AgeMax: time.Hour, Now: func() time.Time { return now }})
	left := func(after time.Duration) int {
		t.Helper()
		now = now.Add(after)
		r := &target{err: peer.ErrUnavailable}
		if _, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); err != nil && !errors.Is(err, peer.ErrUnavailable) {
			t.Fatal(err)
		}
		n, _ := h.Pending("a")
		return n
	}
	if err := h.Add("a", sender, hinted(1, "x")); err != nil {
		t.Fatal(err)
	}
	if n := left(time.Hour - time.Second); n != 1 {
		t.Fatalf("%d hints", n)
	}
	if n := left(30 * time.Second); n != 1 {
		t.Errorf("%d hints: a million of them are looked through more often than once a minute", n)
	}
	if err := h.Add("a", sender, hinted(2, "x")); err != nil {
		t.Fatal(err)
	}
	if n := left(30 * time.Second); n != 1 {
		t.Errorf("%d hints, one of which was too old", n)
	}
	left(-24 * time.Hour)
	if err := h.Add("a", sender, hinted(3, "x")); err != nil {
		t.Fatal(err)
	}
	if n := left(2 * time.Hour); n != 1 {
		t.Errorf("%d hints, one of which was too old after the clock was put back", n)
	}
}
