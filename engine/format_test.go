package engine_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// formatTwo is what the file BIGSET of a store of format 2 says. Programs that know format 2 alone compare all of it.
const formatTwo = "bigset store\nformat 2\nrecord merge\n"

// storeOfTwo opens, on a disk of its own, a copy of a store that a program made that knew format 2 alone. It had added paul and anna to
// friends and removed anna, and added otto to others.
func storeOfTwo(t *testing.T, label string) *pair {
	t.Helper()
	p := newPair(label)
	must(t, p.disk.MkdirAll("store", 0o755), "folder")
	names, err := os.ReadDir("testdata/format2")
	must(t, err, "testdata")
	for _, name := range names {
		b, err := os.ReadFile("testdata/format2/" + name.Name())
		must(t, err, "testdata")
		testkit.WriteFile(t, p.disk, "store/"+name.Name(), b)
	}
	for _, dir := range []string{"", "store"} {
		d, err := p.disk.OpenDir(dir)
		must(t, err, "folder")
		must(t, errors.Join(d.Sync(), d.Close()), "folder")
	}
	openPlain(t, p)
	return p
}

func openPlain(t *testing.T, p *pair) {
	t.Helper()
	opt := p.opt
	opt.FS = p.disk
	var err error
	p.store, err = engine.Open("store", &opt)
	must(t, err, p.label+": open")
}

func formatText(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	return string(testkit.ReadFile(t, fs, fs.PathJoin(dir, "BIGSET")))
}

// has makes sure that the store's sets have exactly these elements, and that nothing is damaged.
func has(t *testing.T, p *pair, want map[string][]string) {
	t.Helper()
	for set, elements := range want {
		var got []string
		for chunk, err := range p.store.Read(bg, []byte(set), bigset.ReadOptions{}) {
			must(t, err, p.label+": read")
			for _, e := range chunk.Elements {
				got = append(got, string(e.Name))
			}
		}
		if !slices.Equal(got, elements) {
			t.Errorf("%s: %q has %q, want %q", p.label, set, got, elements)
		}
	}
	if rep, err := p.store.Verify(bg, engine.VerifyOptions{}); err != nil || !rep.OK() {
		t.Errorf("%s: %+v, %v", p.label, rep, err)
	}
}

// TestFormatTwo: a store of format 2 opens, is read and written and drops ranges, and its program can go on with it: nothing but Upgrade
// changes its format. Copies have the format of the store.
func TestFormatTwo(t *testing.T) {
	t.Parallel()
	p := storeOfTwo(t, "two")
	want := map[string][]string{"friends": {"paul"}, "others": {"otto"}}
	has(t, p, want)
	add := func(name string) {
		t.Helper()
		_, err := p.store.Add(bg, []byte("friends"), [][]byte{[]byte(name)}, bigset.WriteOptions{})
		must(t, err, "add")
		want["friends"] = append(want["friends"], name)
	}
	add("ringo")
	slot, actor := keyscheme.SetSlot([]byte("others")), p.store.Replica().Actor()
	must(t, p.store.Replica().DropRange(bg, slot, slot), "drop range")
	delete(want, "others")
	renewed := p.store.Replica().ActorOf([]byte("friends")) // the older program knows one actor of all sets
	if renewed == actor || len(renewed) != len(actor) || p.store.Replica().ActorOf([]byte("others")) != renewed || p.store.Replica().Actor() != renewed || p.store.Format() != 2 {
		t.Errorf("format %d, dropped a range under %x, goes on under %x", p.store.Format(), string(actor), string(renewed))
	}
	must(t, p.store.Checkpoint(bg, "copy"), "checkpoint")
	must(t, p.store.Close(), "close")
	for _, dir := range []string{"store", "copy"} {
		if text := formatText(t, p.disk, dir); text != formatTwo {
			t.Errorf("%s: %q before the upgrade", dir, text)
		}
	}
	openPlain(t, p)
	has(t, p, want)
	for range 2 {
		must(t, p.store.Upgrade(bg), "upgrade")
	}
	add("sam")
	must(t, p.store.Replica().DropRange(bg, slot, slot), "drop range")
	if p.store.Replica().ActorOf([]byte("friends")) != renewed || p.store.Replica().ActorOf([]byte("others")) == renewed {
		t.Errorf("after the upgrade friends goes on under %x, others under %x, both had %x", string(p.store.Replica().ActorOf([]byte("friends"))),
			string(p.store.Replica().ActorOf([]byte("others"))), string(renewed))
	}
	must(t, p.store.Checkpoint(bg, "copy of three"), "checkpoint")
	must(t, p.store.Close(), "close")
	if err := p.store.Upgrade(bg); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	_, err := engine.Restore(bg, "copy of three", "restored", &engine.RestoreOptions{FS: p.disk})
	must(t, err, "restore")
	for _, dir := range []string{"store", "copy of three", "restored"} {
		if text := formatText(t, p.disk, dir); text != "bigset store\nformat 3\nrecord merge\n" {
			t.Errorf("%s: %q after the upgrade", dir, text)
		}
	}
	openPlain(t, p)
	if p.store.Format() != engine.FormatNewest {
		t.Errorf("format %d", p.store.Format())
	}
	has(t, p, want)
	must(t, p.store.Close(), "close")
}

// TestUpgradeCrashes cuts the power at every operation on the disk of an upgrade: the store is one of the old format or of the new one,
// nothing of it is lost, and a second upgrade ends what was begun.
func TestUpgradeCrashes(t *testing.T) {
	t.Parallel()
	formats := map[int]int{}
	for _, percent := range []int{0, 50, 100} {
		for at := int64(0); ; at++ {
			p := storeOfTwo(t, fmt.Sprintf("crash at %d, %d %% survive", at, percent))
			crash := p.disk.CrashAt(at, percent, uint64(at))
			must(t, p.store.Upgrade(bg), "upgrade")
			upgraded := p.disk.CrashClone(0, 1)
			left := crash()
			must(t, p.store.Close(), "close")
			if text := formatText(t, upgraded, "store"); text == formatTwo {
				t.Errorf("%s: the upgrade has returned before it was on disk", p.label)
			}
			if left == nil {
				if at < 4 {
					t.Errorf("only %d operations on the disk", at)
				}
				break
			}
			p.disk = left
			openPlain(t, p)
			formats[p.store.Format()]++
			has(t, p, map[string][]string{"friends": {"paul"}, "others": {"otto"}})
			must(t, p.store.Upgrade(bg), "upgrade")
			must(t, p.store.Close(), "close")
			if text := formatText(t, p.disk, "store"); text == formatTwo {
				t.Errorf("%s: a second upgrade did not end it", p.label)
			}
		}
	}
	if formats[2] == 0 || formats[3] == 0 {
		t.Errorf("formats after crashes: %v", formats)
	}
}
