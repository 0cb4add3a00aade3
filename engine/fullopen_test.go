package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bigset"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// openIn opens the store, and ends the test if that takes longer than a full disk may.
func (p *pair) openIn(t *testing.T) (err error) {
	t.Helper()
	const limit = 30 * time.Second
	p.opt.FS = p.disk
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.store, err = engine.Open("store", &p.opt)
	}()
	select {
	case <-done:
		return err
	case <-time.After(limit):
		p.disk.Heal()
		<-done
		t.Fatalf("%s: the open has not ended in %v", p.label, limit)
		return nil
	}
}

// withLog returns a pair whose log has more than a small memtable, and that has tables: crashed, or closed.
func withLog(t *testing.T, label string, crashed bool) *pair {
	t.Helper()
	p := newPair(label)
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	p.flush(t)
	for i := range 40 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(i*20, i*20+50), bigset.Sync)
	}
	p.all(t, "t", keyscheme.OpAdd, elementNames(0, 300), bigset.Sync)
	p.all(t, "t", keyscheme.OpRemove, elementNames(0, 100), bigset.Sync)
	if !crashed {
		p.close(t)
		return p
	}
	left := p.disk.CrashClone(0, 0)
	p.close(t)
	p.disk = left
	return p
}

// refusesWrites wants every kind of write to be refused soon, because the disk has no room.
func (p *pair) refusesWrites(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	set, element := []byte("s"), [][]byte{[]byte("refused")}
	for what, do := range map[string]func() error{
		"add":    func() error { _, err := p.store.Add(ctx, set, element, bigset.WriteOptions{}); return err },
		"remove": func() error { _, err := p.store.Remove(ctx, set, element, bigset.WriteOptions{}); return err },
		"drop": func() error {
			_, err := p.store.Drop(ctx, set, bigset.DropOptions{Durability: bigset.Sync})
			return err
		},
		"flush":      func() error { return p.store.Flush(ctx) },
		"compact":    func() error { _, err := p.store.Compact(ctx, engine.CompactOptions{}); return err },
		"checkpoint": func() error { return p.store.Checkpoint(ctx, "copy") },
		"drop range": func() error { return p.store.Replica().DropRange(ctx, 0, 1<<32-1) },
		"create":     func() error { _, err := p.store.Filters().Create(ctx, []byte("f"), bigset.FilterOptions{}); return err },
	} {
		if err := do(); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: %s: %v, want a full disk", p.label, what, err)
		}
	}
	must(t, p.store.Failed(), p.label)
}

// worksAgain wants all of the store to work, now and after a crash, and after another open.
func (p *pair) worksAgain(t *testing.T) {
	t.Helper()
	p.store.CheckSpace()
	p.check(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(900, 950), bigset.Sync)
	p.all(t, "t", keyscheme.OpRemove, elementNames(100, 120), bigset.Sync)
	p.check(t)
	if lost := p.survivor(t, p.label+", crashed", p.disk.CrashClone(0, 0)); lost != 0 {
		t.Errorf("%s: a crash has taken %d batches", p.label, lost)
	}
	p.flush(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(950, 960), bigset.Sync)
	p.verify(t)
	p.close(t)
	p.open(t)
	p.check(t)
	p.verify(t)
	p.close(t)
}

// listing returns names and sizes of the files of the store.
func listing(t *testing.T, disk *testkit.Disk) (files []string) {
	t.Helper()
	names, err := disk.List("store")
	must(t, err, "list")
	slices.Sort(names)
	for _, name := range names {
		info, err := disk.Stat("store/" + name)
		must(t, err, "stat")
		files = append(files, fmt.Sprintf("%s %d", name, info.Size()))
	}
	return files
}

// TestOpenOnFullDisk opens stores whose disk was full before. Reads are right, writes are refused, the folder stays as it was, however
// often that is done; when there is room, writes go on without another open.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		p := withLog(t, fmt.Sprintf("crashed %v", crashed), crashed)
		actor := ""
		for round := range 3 {
			before := listing(t, p.disk)
			began, failed := time.Now(), p.disk.Fill(0)
			must(t, p.openIn(t), "open")
			p.check(t)
			if got := string(p.store.Replica().Actor()); got == actor && crashed {
				t.Errorf("%s: actor %x again", p.label, got)
			} else {
				actor = got
			}
			p.verify(t)
			p.refusesWrites(t)
			if n, took := failed.Load(), time.Since(began); n > 60+20*int64(took/time.Second) {
				t.Errorf("%s: %d operations have failed in %v", p.label, n, took)
			}
			if after := listing(t, p.disk); !slices.Equal(before, after) {
				t.Errorf("%s: the folder had\n%v, now it has\n%v", p.label, before, after)
			}
			p.survivor(t, p.label+", crashed on the full disk", p.disk.CrashClone(0, 0))
			if round < 2 {
				closed := time.Now()
				must(t, p.store.Close(), "close on a full disk")
				if took := time.Since(closed); took > 15*time.Second {
					t.Errorf("%s: closing took %v", p.label, took)
				}
				if after := listing(t, p.disk); !slices.Equal(before, after) {
					t.Errorf("%s: the folder had\n%v, after the close it has\n%v", p.label, before, after)
				}
			}
			p.disk.Heal()
		}
		p.worksAgain(t)
	}
}
