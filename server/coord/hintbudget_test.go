package coord_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigset/internal/testkit"
	"bigset/server/coord"
)

// TestHintBudgets: the hints of a node that is away take no room from those of another, by bytes and by count, also after another open.
func TestHintBudgets(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]coord.HintOptions{
		"bytes": {BytesMax: 2000, NodeBytesMax: 1000, SegmentBytes: 300},
		"count": {NodeCountMax: 8},
	} {
		disk := testkit.NewDisk()
		h := openHints(t, newFolder(t, disk), o)
		fill := func(node string) (n int) {
			for ; n < 100; n++ {
				if err := h.Add(node, sender, hinted(n+1, "x")); errors.Is(err, coord.ErrHintsFull) && strings.Contains(err.Error(), "for "+node) {
					return n
				} else if err != nil {
					t.Fatal(name, err)
				}
			}
			return n
		}
		n := fill("a")
		if n < 5 || n > 20 {
			t.Fatalf("%s: %d hints of one node", name, n)
		}
		if m := fill("b"); m != n {
			t.Errorf("%s: room for %d hints beside those of another node, and for %d without", name, m, n)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		h = openHints(t, newFolder(t, disk.CrashClone(0, 1)), o)
		if m := fill("a"); m != 0 {
			t.Errorf("%s: room for %d more after another open", name, m)
		}
		if sent, err := h.Replay(ctx, "b", coord.Targets{Set: (&target{}).to}); sent != n || err != nil {
			t.Errorf("%s: %d sent, %v", name, sent, err)
		}
		if m := fill("b"); m != n {
			t.Errorf("%s: room for %d hints after a replay, not %d", name, m, n)
		}
	}
}

// TestHintBudgetFailed: a hint that could not be written takes no room.
func TestHintBudgetFailed(t *testing.T) {
	t.Parallel()
	f := &failing{vfsFolder: newFolder(t, testkit.NewDisk())}
	h := openHints(t, f, coord.HintOptions{NodeCountMax: 3})
	f.err = errors.New("no")
	for i := range 10 {
		if err := h.Add("a", sender, hinted(i+1, "x")); !errors.Is(err, f.err) {
			t.Fatal(err)
		}
	}
	f.err = nil
	for i := range 4 {
		if err := h.Add("a", sender, hinted(i+1, "x")); (err == nil) != (i < 3) {
			t.Fatal(i, err)
		}
	}
}

// failing is a folder in which no file can be made.
type failing struct {
	vfsFolder
	err error
}

func (f *failing) Create(name string) (coord.File, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.vfsFolder.Create(name)
}

// TestBacklog: a backlog says how much waits for a node, and since when.
func TestBacklog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: func() time.Time { return now }})
	if b := h.Backlog("a"); b != (coord.Backlog{}) {
		t.Errorf("%+v of nothing", b)
	}
	for i, node := range []string{"b", "a", "c", "a", "a"} {
		if err := h.Add(node, sender, hinted(i+1, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	b := h.Backlog("a")
	if b.Count != 3 || !b.Oldest.Equal(time.Unix(1e9+60, 0)) {
		t.Errorf("%+v", b)
	}
	r := &target{err: errors.New("away"), left: 1}
	if sent, err := h.Replay(ctx, "a", coord.Targets{Set: r.to}); sent != 1 || err == nil {
		t.Error(sent, err)
	}
	if after := h.Backlog("a"); after.Count != 2 || !after.Oldest.Equal(time.Unix(1e9+180, 0)) || after.Bytes >= b.Bytes || after.Bytes == 0 {
		t.Errorf("%+v after one was sent", after)
	}
	if b := h.Backlog("b"); b.Count != 1 || !b.Oldest.Equal(time.Unix(1e9, 0)) {
		t.Errorf("%+v", b)
	}
}

// fullFolder is a folder on a full disk.
type fullFolder struct{ vfsFolder }

func (f fullFolder) Create(name string) (coord.File, error) {
	file, err := f.vfsFolder.Create(name)
	return fullFile{file}, err
}

type fullFile struct{ coord.File }

func (fullFile) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestHintsLeaveNothing: hints that a full disk has no room for leave no files.
func TestHintsLeaveNothing(t *testing.T) {
	t.Parallel()
	f := newFolder(t, testkit.NewDisk())
	h := openHints(t, fullFolder{f}, coord.HintOptions{})
	for n := range 3 {
		if err := h.Add("a", sender, hinted(n+1, "x")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("hint %d: %v", n, err)
		}
	}
	if names, err := f.List(); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}
