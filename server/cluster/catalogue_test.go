package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/server/wire"
)

// TestCatalogueConverges: members that send each other their entries in any order, and are started again, come to have the same, in memory and on disk; and what was dropped stays so.
func TestCatalogueConverges(t *testing.T) {
	t.Parallel()
	o := bigset.FilterOptions{Options: bloomslice.DefaultOptions()}
	names := []string{"f", "g"}
	for i := 0; len(names) < 4; i++ { // two more that share a page with the first
		if name := fmt.Sprint("f", i); pageOf([]byte(name)) == pageOf([]byte("f")) {
			names = append(names, name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		disks := []*memDisk{newDisk("a"), newDisk("b"), newDisk("c")}
		var all []*catalogue
		for _, d := range disks {
			c, err := openCatalogue(d)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		final := map[string]uint64{} // generations that were dropped
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at := rapid.IntRange(0, 2).Draw(t, "member")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				c, err := openCatalogue(disks[at])
				if err != nil || c.sum != all[at].sum {
					t.Fatalf("opened again: %x, was %x, %v", c.sum, all[at].sum, err)
				}
				all[at] = c
			case 1:
				from := rapid.IntRange(0, 2).Draw(t, "from")
				for after := []byte(nil); ; {
					entries := all[from].after(after, 300)
					if len(entries) == 0 {
						break
					}
					if _, err := all[at].merge(context.Background(), entries); err != nil {
						t.Fatal(err)
					}
					after = entries[len(entries)-1].Name
				}
			default:
				e := newEntry([]byte(rapid.SampledFrom(names).Draw(t, "name")), rapid.Uint64Range(1, 3).Draw(t, "generation"), o)
				e.Change, e.State = rapid.Uint64Range(0, 3).Draw(t, "change"), FilterState(rapid.IntRange(1, 3).Draw(t, "state"))
				if e.State == FilterDropped {
					final[string(e.Name)] = max(final[string(e.Name)], e.Generation)
				}
				if _, err := all[at].merge(context.Background(), []FilterEntry{e}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 2 {
			for i := range all {
				if _, err := all[i].merge(context.Background(), all[(i+1)%3].after(nil, 1<<20)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, c := range all {
			again, err := openCatalogue(disks[i])
			if err != nil || c.sum != all[0].sum || again.sum != c.sum {
				t.Fatalf("member %d: %x, on disk %x, the first %x, %v", i, c.sum, again.sum, all[0].sum, err)
			}
			for name, generation := range final {
				if e := c.get([]byte(name)); e.Generation <= generation && e.State != FilterDropped {
					t.Fatalf("%s is back: %+v", name, e)
				}
			}
			if names := c.activeNames(); len(names) != c.active {
				t.Fatalf("%d active, names %v", c.active, names)
			}
		}
	})
}

// TestCatalogueHeard: what all members have is known until the entry changes, and a sum that was read before a change says nothing of it.
func TestCatalogueHeard(t *testing.T) {
	t.Parallel()
	c, err := openCatalogue(newDisk("a"))
	must(t, err)
	merge := func(name string, change uint64) FilterEntry {
		e := newEntry([]byte(name), 1, bigset.FilterOptions{Options: bloomslice.DefaultOptions()})
		e.Change = change
		_, err := c.merge(t.Context(), []FilterEntry{e})
		must(t, err)
		return e
	}
	wants := func(what string, f, g bool) {
		t.Helper()
		_, hasF := c.everywhere([]byte("f"))
		_, hasG := c.everywhere([]byte("g"))
		if hasF != f || hasG != g {
			t.Errorf("%s: f %v, g %v", what, hasF, hasG)
		}
	}
	first := merge("f", 0)
	_, sum := c.state()
	g := merge("g", 0)
	wants("two that no member has heard of", false, false)
	heardAll := func(epoch uint64) { must(t, c.heardAll(t.Context(), alike{epoch, sum})) }
	heardAll(3)
	wants("the sum before the second", false, false)
	c.heard(&g)
	wants("g", false, true)
	_, sum = c.state()
	heardAll(3)
	wants("all", true, true)
	merge("f", 1)
	wants("f has changed", false, true)
	c.heard(&first)
	wants("f as it was", false, true)
	disk := newDisk("a")
	opened := func(epoch uint64) {
		c, err = openCatalogue(disk)
		must(t, err)
		c.resume(epoch)
	}
	disk.kept = c.disk.(*memDisk).kept
	opened(3)
	wants("opened again", false, false)
	_, sum = c.state()
	heardAll(3)
	opened(3)
	wants("opened again, and not whole before", false, false)
	must(t, c.whole(t.Context()))
	heardAll(3)
	opened(3)
	wants("opened again after all have heard", true, true)
	opened(0)
	wants("while it does not serve", false, false)
	opened(4)
	wants("under another epoch", false, false)
	opened(3)
	merge("f", 2)
	wants("f has changed since", false, true)
	opened(3)
	wants("f had changed before", false, false)
	_, sum = c.state()
	heardAll(3)
	disk.identity = []byte("copy")
	opened(3)
	wants("in a copy of the folder", false, false)
}

// TestCataloguePages: over a slow link, a member gets each part of a long list before it gives up.
func TestCataloguePages(t *testing.T) {
	t.Parallel()
	const many, bitsPerSecond = 2000, 500_000
	w := newTrio(t, 1)
	f := w.start(0).member.filters
	var entries []FilterEntry
	for i := range many {
		entries = append(entries, newEntry(fmt.Appendf(nil, "f%d", i), 1, bigset.FilterOptions{Options: bloomslice.DefaultOptions()}))
	}
	_, err := f.list.merge(t.Context(), entries)
	must(t, err)
	var all, part []FilterEntry
	for parts := 0; ; parts++ {
		after := Hex{}
		if parts > 0 {
			after = part[len(part)-1].Name
		}
		question, err := json.Marshal(after)
		must(t, err)
		b, err := f.control(t.Context(), &wire.Request{Verb: verbEntries, Body: question, From: &wire.Remote{Role: wire.RoleNode, Name: "a"}})
		must(t, err)
		if took := time.Duration(len(b)) * 8 * time.Second / bitsPerSecond; took > roundTime*3/4 {
			t.Errorf("part %d has %d bytes, which take %v", parts, len(b), took)
		}
		part = nil
		must(t, json.Unmarshal(b, &part))
		if len(part) == 0 {
			break
		}
		all = append(all, part...)
	}
	slices.SortFunc(entries, func(a, b FilterEntry) int { return bytes.Compare(a.Name, b.Name) })
	if !slices.EqualFunc(all, entries, func(a, b FilterEntry) bool { return a.compare(&b) == 0 && bytes.Equal(a.Name, b.Name) }) {
		t.Errorf("%d filters came, want %d in order", len(all), many)
	}
	late := newEntry([]byte("f0a"), 1, bigset.FilterOptions{Options: bloomslice.DefaultOptions()})
	_, err = f.list.merge(t.Context(), []FilterEntry{late})
	must(t, err)
	if got := f.list.after([]byte("f0"), 1); len(got) != 1 || string(got[0].Name) != "f0a" {
		t.Errorf("after one that was made since the list was read: %v", got)
	}
}

// TestBadEntries: what another member can't have meant changes nothing.
func TestBadEntries(t *testing.T) {
	t.Parallel()
	good := newEntry([]byte("f"), 1, bigset.FilterOptions{Options: bloomslice.DefaultOptions()})
	must(t, good.check())
	for i, spoil := range []func(e *FilterEntry){
		func(e *FilterEntry) { e.Name = nil },
		func(e *FilterEntry) { e.Name = make([]byte, 1<<12) },
		func(e *FilterEntry) { e.Generation = 0 },
		func(e *FilterEntry) { e.Generation = 1 << 63 },
		func(e *FilterEntry) { e.State = 0 },
		func(e *FilterEntry) { e.State = 4 },
		func(e *FilterEntry) { e.Slices = 3 },
		func(e *FilterEntry) { e.Slices = 0 },
		func(e *FilterEntry) { e.Owners = 0 },
		func(e *FilterEntry) { e.Capacity = 1 },
		func(e *FilterEntry) { e.Probability = 1 },
		func(e *FilterEntry) { e.Durability = 9 },
	} {
		e := good
		spoil(&e)
		if err := e.check(); !errors.Is(err, ErrRecord) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
