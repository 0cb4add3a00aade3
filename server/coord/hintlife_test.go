package coord_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"bigset"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/peer"
)

// TestHintGoesWhenDurable: a hint whose dots the replica has seen, not on disk, is still sent, and goes when they are.
func TestHintGoesWhenDurable(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 2)
	d, to := hinted(1, "x"), c.links[1]
	if err := to.store.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := to.store.Replica().ApplyDelta(ctx, bigset.Delta(d), bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
		t.Fatal(err)
	}
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{})
	if err := h.Add("node1", sender, d); err != nil {
		t.Fatal(err)
	}
	if !to.has("x") || to.durable() {
		t.Fatal("there is nothing to see here")
	}
	s.run(t, minute, func() {
		sent, err := h.Replay(ctx, "node1", coord.Targets{Set: func([]byte) peer.Replica { return to }})
		if n, _ := h.Pending("node1"); sent != 1 || err != nil || n != 0 {
			t.Errorf("%d sent, %d pending, %v", sent, n, err)
		}
	})
	if !to.durable() {
		t.Error("the hint is gone, and a power cut would take back what it held")
	}
}

// TestHintOverflow: what finds no room is reported, by one event each, and the rest is kept.
func TestHintOverflow(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 3)
	h := openHints(t, newFolder(t, testkit.NewDisk()), coord.HintOptions{BytesMax: 300, Now: s.Now})
	co := c.coordinator(coord.Options{Hints: h, HintInterval: -1})
	c.links[2].down = true
	const writes = 12
	s.run(t, minute, func() {
		for range writes {
			if _, err := co.Write(ctx, coord.Write{Set: set, Ops: add("x")}); err != nil {
				t.Error(err)
			}
		}
	})
	kept, size := h.Pending("node2")
	over, failed := c.saw(coord.EventHintOverflow), c.saw(coord.EventHintFailed)
	if c.saw(coord.EventNotSent) != writes || kept == 0 || over == 0 || kept+over != writes || failed > 0 || size > 300 {
		t.Errorf("%d hints of %d bytes kept, %d told as overflow, %d as failed", kept, size, over, failed)
	}
	c.links[2].down = false
	s.run(t, minute, func() {
		if n, err := co.Replay(ctx, "node2"); n != kept || err != nil {
			t.Errorf("%d replayed of %d, %v", n, kept, err)
		}
	})
}

// TestHintsDamaged flips every bit of a file of hints: what is then sent is what was added, and for that node.
func TestHintsDamaged(t *testing.T) {
	dir := t.TempDir()
	open := func() *coord.Hints {
		t.Helper()
		f, err := coord.OSFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		return openHints(t, f, coord.HintOptions{})
	}
	h := open()
	for i, node := range []string{"a", "b"} {
		if err := h.Add(node, sender, hinted(i+1, "x"+node)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(files[0], damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		h := open()
		left := 2
		for _, node := range h.Nodes() {
			r := &target{}
			if _, err := h.Replay(ctx, node, coord.Targets{Set: r.to}); err != nil {
				t.Fatalf("bit %d: %v", bit, err)
			}
			for _, d := range r.got {
				left--
				if want := "x" + node; string(d.Items[0].Element) != want || int(d.First) != 1+int(node[0]-'a') {
					t.Fatalf("bit %d: %s is sent %+v", bit, node, d)
				}
			}
		}
		lost += left
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(h.Nodes(), files...) { // also what the second open has begun
			_ = os.Remove(name)
		}
	}
	if lost < len(whole) {
		t.Errorf("%d hints lost by %d flips", lost, 8*len(whole))
	}
}
