package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// halting is a replica that can't take the deltas of some sets.
type halting struct {
	*target
	broken []string
	calls  int
}

func (r *halting) Apply(ctx context.Context, d bigset.Delta, durability bigset.Durability) (peer.Member, error) {
	if r.calls++; slices.Contains(r.broken, string(d.Set)) {
		return peer.Member{}, fmt.Errorf("%w: damaged", peer.ErrUnavailable)
	}
	return r.target.Apply(ctx, d, durability)
}

// TestReplayGoesOn: a set that a replica can't take holds up the hints of no other; with several such sets it is left alone.
func TestReplayGoesOn(t *testing.T) {
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
	for i, name := range []string{"s1", "ok", "s1", "ok", "s2", "s3", "s2", "ok", "s4", "ok"} {
		d := hinted(i+1, "x")
		d.Set = []byte(name)
		if err := h.Add("a", sender, d); err != nil {
			t.Fatal(err)
		}
	}
	r := &halting{&target{}, []string{"s1", "s2", "s3", "s4"}, 0}
	to := func([]byte) peer.Replica { return r }
	sent, err := h.Replay(ctx, "a", coord.Targets{Set: to})
	if n, _ := h.Pending("a"); sent != 3 || n != 7 || r.calls != 7 || !errors.Is(err, peer.ErrUnavailable) || !slices.Equal(r.firsts(), []int{2, 4, 8}) {
		t.Errorf("%d sent by %d calls, %v, %d pending, %v", sent, r.calls, r.firsts(), n, err)
	}
	r.broken, r.got = []string{"s3"}, nil
	sent, err = h.Replay(ctx, "a", coord.Targets{Set: to})
	if n, _ := h.Pending("a"); sent != 6 || n != 1 || err == nil || !slices.Equal(r.firsts(), []int{1, 3, 5, 7, 9, 10}) {
		t.Errorf("%d sent, %v, %d pending, %v", sent, r.firsts(), n, err)
	}
}

// TestReplayClose: Close ends a replay that is under way, and waits until it has ended.
func TestReplayClose(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 2)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
	if err := h.Add("node1", sender, hinted(1, "x")); err != nil {
		t.Fatal(err)
	}
	co := c.coordinator(coord.Options{Hints: h, SendTimeout: time.Hour})
	c.links[1].fault = lost
	s.run(t, minute, func() {
		s.Yield(func() bool { return c.links[1].calls > 0 })
		if running, _ := s.Left(); running != 2 {
			t.Fatalf("%d tasks while a replay is under way", running)
		}
		if err := co.Close(ctx); err != nil {
			t.Error(err)
		}
		if running, _ := s.Left(); running != 1 {
			t.Errorf("%d tasks at the end of Close", running)
		}
	})
}

// TestCloseWaitsForWrites: what a replica does for a caller that has gone is not lost by Close: it becomes hints.
func TestCloseWaitsForWrites(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{Now: s.Now})
	co := c.coordinator(coord.Options{Hints: h, HintInterval: -1, Timeout: time.Second})
	c.links[0].after = func() { s.Sleep(5 * time.Second) }
	s.run(t, minute, func() {
		if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")}); !errors.Is(err, coord.ErrUnknown) {
			t.Error(err)
		}
		if err := co.Close(ctx); err != nil {
			t.Error(err)
		}
		for _, node := range []string{"node1", "node2"} {
			if n, _ := h.Pending(node); n != 1 {
				t.Errorf("%d hints for %s at the end of Close", n, node)
			}
		}
	})
}

// syncing is a folder whose files report before they sync.
type syncing struct {
	vfsFolder
	before func(name string)
}

type syncingFile struct {
	coord.File
	before func()
}

func (f syncing) Create(name string) (coord.File, error) {
	file, err := f.vfsFolder.Create(name)
	return syncingFile{file, func() { f.before(name) }}, err
}

func (f syncingFile) Sync() error {
	f.before()
	return f.File.Sync()
}

// TestCleanBesideAdd: files are cleaned up while the oldest of them has a hint that is only being added.
func TestCleanBesideAdd(t *testing.T) {
	disk := testkit.NewDisk()
	var h *coord.Hints
	done, full := make(chan error, 1), false
	f := syncing{newFolder(t, disk), func(name string) {
		info, err := disk.Stat("hints/" + name)
		if err != nil || info.Size() < 2000 || full {
			return
		}
		full = true
		go func() {
			_, err := h.Replay(ctx, "b", coord.Targets{Set: (&target{}).to})
			done <- err
		}()
		for held := false; !held; { // until that waits for this sync, to close the file
			free := make(chan struct{})
			go func() {
				h.Nodes()
				close(free)
			}()
			select {
			case <-free:
			case <-time.After(20 * time.Millisecond):
				held = true
			}
		}
	}}
	large := strings.Repeat("x", 150) // so that it is a hint that fills the file, and no note that one is done
	h = openHints(t, f, coord.HintOptions{BytesMax: 700, SegmentBytes: 2000})
	if err := h.Add("b", sender, hinted(1, large)); err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() {
		for i := 2; !full; i++ {
			if _, err := h.Replay(ctx, "a", coord.Targets{Set: (&target{}).to}); err != nil {
				added <- err
				return
			}
			if err := h.Add("a", sender, hinted(i, large)); err != nil {
				added <- err
				return
			}
		}
		added <- nil
	}()
	for _, c := range []chan error{added, done} {
		select {
		case err := <-c:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it never ends")
		}
	}
	if n, _ := h.Pending("a"); n != 1 {
		t.Errorf("%d hints left", n)
	}
}
