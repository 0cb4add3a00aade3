// Damage and single crashes need no race detector, and Pebble asserts other things under it.

//go:build !race

package engine_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// everyFlip makes TestFlips change every byte of its stores, not a sample of them.
var everyFlip = flag.Bool("engine.flips", false, "change every byte in TestFlips")

// flipStore is a small store whose bytes are changed one at a time.
type flipStore struct {
	name  string
	crash bool // it was not closed
	make  func(t *testing.T, p *pair)
}

var flipStores = []flipStore{
	{"fresh", false, func(*testing.T, *pair) {}},
	{"log", false, func(t *testing.T, p *pair) {
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 20), bigset.Sync)
		p.all(t, "s", keyscheme.OpRemove, elementNames(3, 8), bigset.NoSync)
	}},
	{"flushed", false, func(t *testing.T, p *pair) {
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 60), bigset.Sync)
		p.flush(t)
		p.all(t, "s", keyscheme.OpRemove, elementNames(10, 30), bigset.Sync)
		p.flush(t)
	}},
	{"settled", false, func(t *testing.T, p *pair) {
		p.opt.Strategy = compaction.Default()
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 80), bigset.Sync)
		must(t, p.store.CompactTables(bg), "settle")
		p.all(t, "s", keyscheme.OpRemove, elementNames(10, 50), bigset.Sync)
		_, err := p.store.Compact(bg, engine.CompactOptions{})
		must(t, err, "compact")
	}},
	{"sets", false, func(t *testing.T, p *pair) {
		for i, set := range []string{"s", "t", "s\x00:e", "u"} {
			p.all(t, set, keyscheme.OpAdd, elementNames(i*10, i*10+15), bigset.Sync)
			p.all(t, set, keyscheme.OpRemove, elementNames(i*10+3, i*10+5), bigset.Sync)
			if i == 2 {
				p.flush(t)
			}
		}
	}},
	{"dropped", true, func(t *testing.T, p *pair) {
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
		p.all(t, "t", keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
		p.flush(t)
		p.drop(t, "s", nil, bigset.Sync)
		p.all(t, "t", keyscheme.OpRemove, elementNames(0, 9), bigset.Sync)
		p.all(t, "s", keyscheme.OpAdd, elementNames(5, 9), bigset.Sync)
	}},
}

// TestFlips changes bytes of small stores, one at a time, in every file. The store then answers right, or with an error of
// damage that says where; it loses nothing without a word, does not panic and does not hang. What looks like a crash
// is allowed, and no more: of a store that has crashed, batches from the bad byte on, where nothing after it in the log
// proves that they were on disk. All bytes, not a sample: -engine.flips.
func TestFlips(t *testing.T) {
	t.Parallel()
	var total flips
	for _, s := range flipStores {
		t.Run(s.name, func(t *testing.T) {
			f := s.flips(t)
			total.add(f)
			t.Logf("%+v", f)
		})
	}
	tier.Count(t, "flips", total.Tried)
	t.Logf("in all %+v", total)
	if !testing.Short() && total.Tried < tier.Pick(0, 250, 3000) {
		t.Errorf("only %d flips", total.Tried)
	}
}

// flips counts what became of changed bytes.
type flips struct {
	Tried, Refused int // not opened
	Read, Verify   int // damage was met when reading, or only by Verify
	Harmless       int
	Lost           int // of a crashed store the log's end
}

func (f *flips) add(g flips) {
	f.Tried += g.Tried
	f.Refused += g.Refused
	f.Read += g.Read
	f.Verify += g.Verify
	f.Harmless += g.Harmless
	f.Lost += g.Lost
}

func (s flipStore) flips(t *testing.T) (f flips) {
	p := newPair(s.name)
	p.opt.MemTableBytes, p.opt.BlockCacheBytes = 64<<10, 1<<10
	if s.name == "sets" {
		p.opt.Record, p.opt.Strategy = compaction.Set, compaction.Rewriter()
	}
	p.open(t)
	s.make(t, p)
	if s.crash {
		disk := p.disk.CrashClone(0, 0)
		p.close(t)
		p.disk = disk
	} else {
		p.close(t)
	}
	share := tier.ShareOf(t, 16, 12)
	names, err := p.disk.List("store")
	must(t, err, "list")
	for _, name := range names {
		path := "store/" + name
		whole := testkit.ReadFile(t, p.disk, path)
		stride := max(1, len(whole)/100)
		if *everyFlip {
			stride, share = 1, tier.Share{Every: 1}
		}
		for i := share.First * stride; i < len(whole); i += share.Every * stride {
			s.flip(t, p, path, whole, i, &f)
		}
	}
	return f
}

// flip changes one byte and judges what the store makes of it.
func (s flipStore) flip(t *testing.T, p *pair, path string, whole []byte, i int, f *flips) {
	mask := byte(1) << (i % 8)
	label := fmt.Sprintf("%s: %s, byte %d of %d, mask %x", s.name, path, i, len(whole), mask)
	q := &pair{label: label, disk: p.disk.CrashClone(100, 0), opt: p.opt, model: p.model.Clone()}
	flipped := slices.Clone(whole)
	flipped[i] ^= mask
	testkit.WriteFile(t, q.disk, path, flipped)
	f.Tried++
	q.opt.FS = q.disk
	var err error
	if q.store, err = engine.Open("store", &q.opt); err != nil {
		if !errors.Is(err, bigset.ErrCorrupt) && !errors.Is(err, engine.ErrFormat) {
			t.Errorf("%s: open: %v", label, err)
		}
		f.Refused++
		return
	}
	if s.crash && strings.HasSuffix(path, ".log") && i >= provenOnDisk(whole) {
		q.model.Acknowledged()
		q.model.AcknowledgedOnly(max(0, q.model.AcknowledgedCount()-recordsFrom(whole, i)))
		if lost := q.recovered(t); lost > 0 {
			f.Lost++
		}
	}
	met, found := q.readsRight(t), q.verifies(t)
	switch {
	case met:
		f.Read++
	case found:
		f.Verify++
	default:
		f.Harmless++
	}
	q.writesRight(t, met || found)
	closeWithin(t, q.store, label)
}

// damage reports whether an error is one of damage; any other is a failure of the test.
func (p *pair) damage(t *testing.T, what string, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, bigset.ErrCorrupt) && !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("%s: %s: %v", p.label, what, err)
	}
	return err != nil
}

// readsRight reads everything in every way, and reports whether damage was met. What is answered must be right.
func (p *pair) readsRight(t *testing.T) (met bool) {
	t.Helper()
	for name, model := range p.model.Sets {
		want := map[string]bool{}
		for dot, e := range model.Keys {
			if model.Seen.Has(dot) && !model.Dead.Has(dot) {
				want[e] = true
			}
		}
		all, err := readAll(p.store, name, bigset.ReadOptions{})
		if errors.Is(err, bigset.ErrNotFound) && !model.Seen.Clock().Empty() {
			t.Errorf("%s: set %q is gone", p.label, name)
		} else if !errors.Is(err, bigset.ErrNotFound) && p.damage(t, "read", err) {
			met = true
		}
		got := map[string]bool{}
		for _, e := range all {
			got[string(e.Name)] = true
			if !want[string(e.Name)] {
				t.Errorf("%s: set %q shows %q", p.label, name, e.Name)
			}
		}
		if err == nil && !maps.Equal(got, want) {
			t.Errorf("%s: set %q has %d elements, want %d", p.label, name, len(got), len(want))
		}
		for _, e := range elementNames(0, 60) {
			c, err := p.store.Look(bg, []byte(name), []byte(e))
			if errors.Is(err, bigset.ErrNotFound) {
				continue
			}
			if p.damage(t, "contains", err) {
				met = true
			} else if c.Present != want[e] {
				t.Errorf("%s: set %q, element %q: present %v", p.label, name, e, c.Present)
			}
		}
	}
	return met
}

// verifies reports whether Verify finds anything wrong.
func (p *pair) verifies(t *testing.T) (found bool) {
	t.Helper()
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	return p.damage(t, "verify", err) || !rep.OK()
}

// writesRight writes, flushes and compacts. On a store without damage all of it works.
func (p *pair) writesRight(t *testing.T, damaged bool) {
	t.Helper()
	e := []byte("written after all")
	_, err := p.store.Add(bg, []byte("s"), [][]byte{e}, bigset.WriteOptions{Durability: bigset.Sync})
	if p.damage(t, "write", err) && !damaged {
		t.Errorf("%s: write: %v", p.label, err)
	}
	if err == nil {
		if c, err := p.store.Look(bg, []byte("s"), e); !p.damage(t, "contains", err) && !c.Present {
			t.Errorf("%s: what was written is not there", p.label)
		}
	}
	done := make(chan error, 1)
	go func() {
		err := p.store.Flush(bg)
		if err == nil {
			_, err = p.store.Compact(bg, engine.CompactOptions{})
		}
		done <- err
	}()
	select {
	case err := <-done:
		if p.damage(t, "flush and compact", err) && !damaged {
			t.Errorf("%s: flush and compact: %v", p.label, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: flush and compact hang", p.label)
	}
}

// logRecords returns where the records of a log begin, and up to where they say that it was on disk.
func logRecords(log []byte) (starts []int, proven int) {
	const header = 19
	for i := 0; i+header <= len(log); {
		kind := log[i+6]
		if kind < 9 || kind > 12 {
			break
		}
		if kind <= 10 {
			starts = append(starts, i)
		}
		proven = max(proven, int(binary.LittleEndian.Uint64(log[i+11:])))
		i += header + int(binary.LittleEndian.Uint16(log[i+4:]))
	}
	return starts, proven
}

// provenOnDisk returns the place from which on nothing in a log of one block proves that it was on disk: the beginning of the
// first record that does not lie before what is proved.
func provenOnDisk(log []byte) int {
	starts, proven := logRecords(log)
	for _, at := range starts {
		if at >= proven {
			return at
		}
	}
	return len(log)
}

// recordsFrom returns how many records of a log end after a place.
func recordsFrom(log []byte, i int) int {
	starts, _ := logRecords(log)
	n := 0
	for k := range starts {
		if k+1 == len(starts) || starts[k+1] > i {
			n++
		}
	}
	return n
}
