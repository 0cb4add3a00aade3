package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// everyNth is how many operations a test that fails each of them goes on by.
func everyNth() int64 {
	if testing.Short() {
		return 5
	}
	return 1
}

// notCompacting is testkit.NeedsRoom but for compactions, which may begin at any time: where they can't write the MANIFEST the process
// ends.
func notCompacting(op errorfs.Op) bool {
	return testkit.NeedsRoom(op) && !strings.Contains(string(debug.Stack()), ").compact1(")
}

// openIn opens the store, and ends the test if that takes longer than a full disk may.
func (p *pair) openIn(t *testing.T) (err error) {
	t.Helper()
	const limit = 5 * time.Second
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

// refusesWrites wants every kind of write to be refused for lack of room, soon.
func (p *pair) refusesWrites(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	set, element := []byte("s"), [][]byte{[]byte("refused")}
	for what, do := range map[string]func() error{
		"add":        func() error { _, err := p.store.Add(ctx, set, element, bigset.WriteOptions{}); return err },
		"remove":     func() error { _, err := p.store.Remove(ctx, set, element, bigset.WriteOptions{}); return err },
		"drop":       func() error { _, err := p.store.Drop(ctx, set, nil, bigset.Sync); return err },
		"flush":      func() error { return p.store.Flush(ctx) },
		"compact":    func() error { _, err := p.store.Compact(ctx, engine.CompactOptions{}); return err },
		"checkpoint": func() error { return p.store.Checkpoint(ctx, "copy") },
		"drop range": func() error { return p.store.DropRange(ctx, 0, 1<<32-1) },
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
			failed := p.disk.Fill(0)
			must(t, p.openIn(t), "open")
			p.check(t)
			if got := string(p.store.Actor()); got == actor && crashed {
				t.Errorf("%s: actor %x again", p.label, got)
			} else {
				actor = got
			}
			p.verify(t)
			p.refusesWrites(t)
			if n := failed.Load(); n > 60 {
				t.Errorf("%s: %d operations have failed", p.label, n)
			}
			if after := listing(t, p.disk); !slices.Equal(before, after) {
				t.Errorf("%s: the folder had\n%v, now it has\n%v", p.label, before, after)
			}
			p.survivor(t, p.label+", crashed on the full disk", p.disk.CrashClone(0, 0))
			if round < 2 {
				closed := time.Now()
				must(t, p.store.Close(), "close on a full disk")
				if took := time.Since(closed); took > 4*time.Second {
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

// TestOpenFillsDisk has the disk become full in the middle of an open, at each operation that needs room.
func TestOpenFillsDisk(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	n, held := int64(0), 0
	for ; ; n += everyNth() {
		p := &pair{label: fmt.Sprintf("full from operation %d on", n), disk: base.disk.CrashClone(100, uint64(n)), opt: base.opt, model: base.model.Clone()}
		failed := p.disk.FillFor(n, notCompacting)
		must(t, p.openIn(t), p.label)
		if !p.store.Held() { // what it does now is not of the open
			p.disk.Heal()
		}
		p.check(t)
		for _, percent := range []int{0, 50, 100} {
			q := p.disk.CrashClone(percent, uint64(n))
			if lost := p.survivor(t, p.label+", crashed", q); lost != 0 {
				t.Errorf("%s: a crash on the full disk has taken %d batches", p.label, lost)
			}
		}
		if failed.Load() == 0 {
			p.disk.Heal()
			p.close(t)
			break
		}
		if p.store.Held() {
			held++
			p.refusesWrites(t)
		}
		p.disk.Heal()
		p.worksAgain(t)
	}
	t.Logf("%d operations, %d of them left the store open for reading", n, held)
	if held == 0 {
		t.Error("no open found the disk full")
	}
}

// TestRoomAgain fails each operation by which a store that was opened on a full disk goes on when there is room, and crashes before
// each of them. Nothing is lost, and the next try works, unless the store had to fail.
func TestRoomAgain(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	held := func(label string) *pair {
		p := &pair{label: label, disk: base.disk.CrashClone(100, 0), opt: base.opt, model: base.model.Clone()}
		p.disk.Fill(0)
		must(t, p.openIn(t), label)
		p.disk.Heal()
		return p
	}
	p := held("crashes")
	crashes := p.disk.CrashEverywhere(0, 50, 100)
	p.store.CheckSpace()
	left := crashes()
	if p.store.Held() || len(left) < 30 {
		t.Errorf("held %v, %d crashes", p.store.Held(), len(left))
	}
	for i, disk := range left {
		if i%int(everyNth()) != 0 {
			continue
		}
		if lost := p.survivor(t, fmt.Sprintf("crash %d", i), disk); lost != 0 {
			t.Errorf("crash %d has taken %d batches", i, lost)
		}
	}
	p.worksAgain(t)
	again, over := 0, 0
	for n := int64(0); ; n += everyNth() {
		p := held(fmt.Sprintf("full again from operation %d on", n))
		failed := p.disk.FillFor(n, notCompacting)
		p.store.CheckSpace()
		if failed.Load() == 0 {
			p.disk.Heal()
			p.close(t)
			break
		}
		p.check(t)
		if lost := p.survivor(t, p.label, p.disk.CrashClone(50, uint64(n))); lost != 0 {
			t.Errorf("%s: a crash has taken %d batches", p.label, lost)
		}
		if p.store.Failed() != nil {
			over++
			closeWithin(t, p.store, p.label)
			p.disk.Heal()
			p.open(t)
		} else {
			again++
			p.refusesWrites(t)
			p.disk.Heal()
		}
		p.worksAgain(t)
	}
	t.Logf("%d crashes; %d failures after which it was tried again, %d that the store failed by", len(left), again, over)
	if again == 0 {
		t.Error("nothing was tried again")
	}
}

// TestRoomTooLate: where the disk is full again in the midst of what ends a hold, the store fails, and what is on the disk by then stays:
// tables that the open had put there before it began the hold, and the MANIFEST, however often the disk is looked at.
func TestRoomTooLate(t *testing.T) {
	t.Parallel()
	base := withLog(t, "base", true)
	over := 0
	for n := int64(0); ; n += 2 * everyNth() { // when the open finds the disk full
		found := int64(0)
		for m := int64(0); ; m += everyNth() { // and when the end of the hold does
			p := &pair{label: fmt.Sprintf("full from operation %d on, full again from %d on", n, m), disk: base.disk.CrashClone(100, 0), opt: base.opt, model: base.model.Clone()}
			first := p.disk.FillFor(n, notCompacting)
			must(t, p.openIn(t), p.label)
			p.disk.Heal()
			again := new(atomic.Int64)
			if found = first.Load(); p.store.Held() {
				again = p.disk.FillFor(m, notCompacting)
				p.store.CheckSpace()
			}
			if p.store.Failed() == nil {
				p.disk.Heal()
				p.close(t)
				if again.Load() == 0 {
					break
				}
				continue
			}
			over++
			p.store.CheckSpace()
			p.check(t)
			closeWithin(t, p.store, p.label)
			p.disk.Heal()
			p.open(t)
			p.check(t)
			p.verify(t)
			p.close(t)
		}
		if found == 0 {
			break
		}
	}
	t.Logf("%d stores failed", over)
	if over == 0 {
		t.Error("no store failed")
	}
}

// TestLogTooLarge: a log that fits neither on the disk a second time nor in memory is an error that says how much room it takes.
func TestLogTooLarge(t *testing.T) {
	t.Parallel()
	p := withLog(t, "store", false)
	f, err := p.disk.Create("store/000001.log", vfs.WriteCategoryUnspecified) // of before what the MANIFEST names: it is not replayed
	must(t, err, "create")
	must(t, f.Preallocate(0, 1<<20), "preallocate")
	_, err = f.Write(make([]byte, 2<<20))
	must(t, errors.Join(err, f.Close()), "write")
	p.disk.SetUsage(vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: 100 << 20})
	p.disk.Fill(0)
	var space *engine.DiskSpaceError
	err = p.openIn(t)
	if !errors.Is(err, bigset.ErrDiskFull) || !errors.As(err, &space) || space.Need < 2<<20 || !strings.Contains(err.Error(), fmt.Sprint(space.Need)) {
		t.Errorf("got %v", err)
	}
	p.disk.Heal()
	p.disk.SetUsage(vfs.DiskUsage{AvailBytes: 90 << 20, TotalBytes: 100 << 20})
	p.open(t)
	p.check(t)
	p.close(t)
}

// TestNewOnFullDisk makes stores while the disk becomes full: that is an error, soon, and can be done again when there is room. Where
// Pebble can't write its MANIFEST or end its first log the process ends, see fatalElsewhere.
func TestNewOnFullDisk(t *testing.T) {
	t.Parallel()
	for n := int64(0); ; n++ {
		p := newPair(fmt.Sprintf("full from operation %d on", n))
		failed := p.disk.FillFor(n, func(op errorfs.Op) bool { return notCompacting(op) && !fatalElsewhere(op) })
		err := p.openIn(t)
		if failed.Load() == 0 {
			p.disk.Heal()
			must(t, err, p.label)
			p.close(t)
			break
		}
		if err != nil && !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: %v", p.label, err)
		}
		if err == nil {
			closeWithin(t, p.store, p.label)
		}
		p.disk.Heal()
		p.disk = p.disk.CrashClone(100, 0)
		p.open(t)
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
		p.check(t)
		p.close(t)
	}
}

// TestFlushFindsNoRoom: a store that runs and whose flushes find no room tries them again with pauses, refuses writes before they would
// have to wait, and can be closed; when there is room it goes on.
func TestFlushFindsNoRoom(t *testing.T) {
	t.Parallel()
	for _, lifts := range []bool{true, false} {
		p := newPair(fmt.Sprintf("lifts %v", lifts))
		p.open(t)
		p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
		var tables, full atomic.Int64
		full.Store(1)
		p.disk.SetHook("full", func(op errorfs.Op) error {
			if full.Load() == 0 || !strings.HasSuffix(op.Path, ".sst") || !testkit.NeedsRoom(op) {
				return nil
			}
			if op.Kind == errorfs.OpCreate {
				tables.Add(1)
			}
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		})
		began := time.Now()
		if err := p.store.Flush(bg); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("flush: %v", err)
		}
		refused := false
		for i := 0; i < 2000 && !refused; i++ {
			elements := elementNames(i*50, i*50+50)
			ops := make([][]byte, len(elements))
			for k, e := range elements {
				ops[k] = []byte(e)
			}
			if _, err := p.store.Add(bg, []byte("t"), ops, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
				refused = errors.Is(err, bigset.ErrDiskFull)
				if !refused {
					t.Fatalf("add: %v", err)
				}
			}
		}
		_, err := p.store.Remove(bg, []byte("s"), [][]byte{[]byte(bulkName(1))}, bigset.WriteOptions{})
		if !refused || err != nil && !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("adds refused %v, remove %v", refused, err)
		}
		must(t, p.store.Failed(), "failed")
		took := time.Since(began)
		if most := int64(24 + 2*took/time.Second); tables.Load() > 2*most {
			t.Errorf("%d tables were begun in %v", tables.Load(), took)
		}
		if got, err := p.store.Contains(bg, []byte("s"), []byte(bulkName(7))); err != nil || !got.Present() {
			t.Errorf("a read: %v, %v", got, err)
		}
		if !lifts {
			began = time.Now()
			_ = p.store.Close()
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("closing took %v", took)
			}
			full.Store(0)
			p.open(t)
			must(t, p.store.Close(), "close")
			continue
		}
		full.Store(0)
		must(t, p.store.Flush(bg), "flush when there is room")
		p.store.CheckSpace()
		_, err = p.store.Add(bg, []byte("s"), [][]byte{[]byte("more")}, bigset.WriteOptions{})
		must(t, err, "add when there is room")
		must(t, p.store.Close(), "close")
	}
}

// TestCompactionsFindNoRoom: while flushes find room and compactions don't, level 0 grows until Pebble would stop all writes, for good
// if nobody makes room. Writes and flushes are refused before that, reads go on, and so do writes when there is room again.
func TestCompactionsFindNoRoom(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
	var full atomic.Bool
	full.Store(true)
	p.disk.SetHook("full", func(op errorfs.Op) error {
		if !full.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") || !strings.Contains(string(debug.Stack()), ").compact1(") {
			return nil
		}
		return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
	})
	write := func(i int) error { // a remove, since adds are refused at once
		_, err := p.store.Remove(bg, []byte("s"), [][]byte{[]byte(bulkName(i))}, bigset.WriteOptions{})
		return errors.Join(err, p.store.Flush(bg))
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 60 && err == nil; i++ {
			err = write(i)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("writes with a growing level 0: %v", err)
		}
	case <-time.After(10 * time.Second):
		full.Store(false)
		t.Fatalf("a write waits; then %v", <-done)
	}
	must(t, p.store.Failed(), "failed")
	if got, err := p.store.Contains(bg, []byte("s"), []byte(bulkName(150))); err != nil || !got.Present() {
		t.Errorf("a read: %v, %v", got, err)
	}
	full.Store(false)
	err := write(100)
	for began := time.Now(); errors.Is(err, bigset.ErrDiskFull) && time.Since(began) < 10*time.Second; err = write(100) {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, err, "a write when there is room")
	must(t, p.store.Close(), "close")
}

// TestPagesWithoutRoom: while a flush finds no room, pages of filters that would be stored as a table are refused at once: Pebble would
// have that table, and all writers after it, wait for the flush.
func TestPagesWithoutRoom(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	f, err := p.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Options: bloomslice.Options{Capacity: 2_000_000}})
	must(t, err, "create")
	_, err = f.Mark(bg, []byte("k"))
	must(t, err, "mark")
	must(t, p.store.Filters().Flush(bg), "flush filters") // to the log and to memory
	must(t, f.MarkAll(bg, testkit.TaggedKeys("k", 0, 2000), make([]bool, 2000)), "mark")
	p.disk.SetHook("full", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})
	if err := p.store.Flush(bg); !errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("flush: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- p.store.Filters().Flush(bg) }()
	select {
	case err = <-done:
	case <-time.After(10 * time.Second):
		t.Error("pages wait for a flush")
		p.disk.SetHook("full", nil)
		err = <-done
	}
	if !errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("flush of filters: %v", err)
	}
	p.disk.SetHook("full", nil)
	must(t, p.store.Flush(bg), "flush when there is room")
	must(t, p.store.Filters().Flush(bg), "flush filters when there is room")
	must(t, p.store.Close(), "close")
}

// TestMarksOnFullDisk opens stores with a log of marks while the disk becomes full at each operation: all keys are found, and marks are
// refused until the log of marks is in pages. Nothing is lost by crashes, on the full disk and after.
func TestMarksOnFullDisk(t *testing.T) {
	t.Parallel()
	base := newPair("base")
	base.open(t)
	f, err := base.store.Filters().Create(bg, []byte("f"), bigset.FilterOptions{Durability: bigset.FilterSync})
	must(t, err, "create")
	keys := func(from, to int) (all [][]byte) {
		for i := from; i < to; i++ {
			all = append(all, []byte(bulkName(i)))
		}
		return all
	}
	must(t, f.MarkAll(bg, keys(0, 200), make([]bool, 200)), "mark")
	left := base.disk.CrashClone(0, 0)
	must(t, base.store.Close(), "close")
	has := func(label string, disk *testkit.Disk, s *engine.Store, n int) {
		t.Helper()
		if s == nil {
			o := base.opt
			o.FS = disk
			s, err = engine.Open("store", &o)
			must(t, err, label)
			defer s.Close()
		}
		f, err := s.Filters().Get([]byte("f"))
		must(t, err, label)
		there := make([]bool, n)
		must(t, f.CheckAll(keys(0, n), there), label)
		if slices.Contains(there, false) {
			t.Errorf("%s: a key is missing", label)
		}
	}
	over, refused := 0, 0
	for n := int64(0); ; n += everyNth() {
		p := &pair{label: fmt.Sprintf("full from operation %d on", n), disk: left.CrashClone(100, 0), opt: base.opt}
		failed := p.disk.FillFor(n, notCompacting)
		must(t, p.openIn(t), p.label)
		has(p.label, nil, p.store, 200)
		if failed.Load() == 0 {
			p.disk.Heal()
			must(t, p.store.Close(), "close")
			break
		}
		f, err := p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		if _, err := f.Mark(bg, []byte("refused")); !errors.Is(err, bigset.ErrDiskFull) {
			t.Errorf("%s: mark: %v", p.label, err)
		}
		has(p.label+", crashed", p.disk.CrashClone(int(n%3)*50, uint64(n)), nil, 200)
		if p.store.Failed() != nil { // the log was hit
			over++
			closeWithin(t, p.store, p.label)
			p.disk.Heal()
			p.open(t)
		} else if refused++; n%2 == 0 {
			held := p.store.Held()
			if err := p.store.Close(); held && err != nil || err != nil && !errors.Is(err, bigset.ErrDiskFull) && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: close: %v", p.label, err)
			}
			p.disk.Heal()
			p.open(t)
		}
		p.disk.Heal()
		has(p.label+", opened again", nil, p.store, 200)
		p.store.CheckSpace()
		must(t, p.store.RunnerTick(bg), "tick")
		p.store.CheckSpace()
		f, err = p.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		must(t, f.MarkAll(bg, keys(200, 300), make([]bool, 100)), p.label)
		has(p.label+", crashed after", p.disk.CrashClone(0, 0), nil, 300)
		must(t, p.store.Close(), "close")
		has(p.label+", again", p.disk, nil, 300)
	}
	t.Logf("%d opens on a full disk, %d that the store failed by", refused+over, over)
	if !testing.Short() && refused < 20 {
		t.Error("too few")
	}
}
