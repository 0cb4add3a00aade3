package engine_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

func onLog(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileFlush:
		return strings.HasSuffix(op.Path, ".log")
	}
	return false
}

// onMarks says which operations are on the log of marks.
func onMarks(op errorfs.Op) bool { return strings.Contains(op.Path, "filters-") }

func onSpan(op errorfs.Op) bool {
	return testkit.IsWrite(op) && op.Kind != errorfs.OpRemove && strings.Contains(op.Path, "span-")
}

// TestLogFails fails the log at its first, second, … write or sync: the writer gets an error, the store takes no more
// writes, reads go on, and whatever was acknowledged as synced is kept by the next open.
func TestLogFails(t *testing.T) {
	t.Parallel()
	share, faults := tier.ShareOf(t, 60, 15), 0
	for _, kind := range testkit.FaultKinds {
		for _, once := range []bool{false, true} {
			operations := 120 // on the log, of some 130 in a script
			if kind.Short {
				operations = 60 // half of them are writes
			}
			for n := share.First; n < operations; n += share.Every {
				logFails(t, fmt.Sprintf("%s at %d, once %v", kind.Name, n, once), int64(n), once, kind.Cause, kind.Short)
				faults++
			}
		}
	}
	tier.Count(t, "faults", faults)
}

func logFails(t *testing.T, label string, n int64, once bool, cause error, short bool) {
	p := newPair(label)
	p.opt.HotBytes = []int64{512 << 10, -1}[n%2]
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 20), bigset.Sync)
	hook, fired := testkit.Failing(n, once, cause, onLog)
	if short {
		p.disk.SetShortWrites(func(path string) error { return hook(errorfs.Op{Kind: errorfs.OpFileWrite, Path: path}) })
	} else {
		p.disk.SetHook("fail", hook)
	}
	var err error
	for i := 0; err == nil && i < 200; i++ {
		err = p.tryWrite(i)
	}
	if !fired.Load() {
		t.Fatalf("%s: the log never failed", label)
	}
	if once && cause == syscall.ENOSPC && p.store.Failed() == nil { // a write is tried again: none has failed, adds are refused
		if !errors.Is(err, bigset.ErrDiskFull) {
			t.Fatalf("%s: error %v", label, err)
		}
		p.disk.SetHook("fail", nil)
		p.disk.SetShortWrites(nil)
		p.check(t)
		p.survivor(t, label, p.disk.CrashClone(0, 0))
		p.close(t)
		return
	}
	if !errors.Is(err, bigset.ErrFailed) || !errors.Is(p.store.Failed(), bigset.ErrFailed) || !errors.Is(err, cause) {
		t.Fatalf("%s: error %v, the store says %v", label, err, p.store.Failed())
	}
	if errors.Is(cause, syscall.ENOSPC) != errors.Is(err, bigset.ErrDiskFull) {
		t.Errorf("%s: %v is, or is not, a full disk", label, err)
	}
	if err := p.tryWrite(0); !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("%s: the next write: %v", label, err)
	}
	if err := p.store.Replica().ApplyDelta(bg, bigset.Delta{Set: []byte("s"), Clear: clock.Of(clock.Dot{Actor: "x", Counter: 1})}, bigset.ApplyOptions{Durability: bigset.NoSync}); !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("%s: the next delta: %v", label, err)
	}
	if got, err := p.store.Look(bg, []byte("s"), []byte(bulkName(1))); err != nil || !got.Present {
		t.Errorf("%s: a read after the failure: %v, %v", label, got, err)
	}
	left := []*testkit.Disk{p.disk.CrashClone(0, 0), p.disk.CrashClone(50, uint64(n)), p.disk.CrashClone(100, 0)}
	p.disk.SetHook("fail", nil)
	p.disk.SetShortWrites(nil)
	for _, disk := range left {
		p.survivor(t, label, disk)
	}
	closeWithin(t, p.store, label)
}

// closeWithin closes a store that has failed; the error is of no account, but it must end.
func closeWithin(t *testing.T, s *engine.Store, label string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("%s: closing the failed store hangs", label)
	}
}

// tryWrite writes one element, synced or not. The model takes what was answered; an operation that failed may have
// happened, so the model takes it too, as not acknowledged.
func (p *pair) tryWrite(i int) error {
	o := bigset.WriteOptions{Durability: bigset.NoSync}
	if i%3 == 0 {
		o.Durability = bigset.Sync
	}
	op := bigset.Op{Kind: keyscheme.OpAdd, Element: []byte(bulkName(i % 30))}
	refused := p.store.Failed() != nil
	_, err := p.store.Write(bg, []byte("s"), []bigset.Op{op}, o)
	if refused || errors.As(err, new(*engine.DiskSpaceError)) {
		return err
	}
	want, _ := p.model.Set("s").Coordinate([]byte("s"), p.store.Replica().Actor(), []bigset.Op{op}, o.Policy)
	p.model.Wrote(want.Delta)
	if err == nil && o.Durability == bigset.Sync {
		p.model.Acknowledged()
	}
	return err
}

// TestRewriterFails fails every single operation on the rewriter's files: the pass ends with an error, the store lives, and
// nothing is lost; the next pass does the work.
func TestRewriterFails(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for n := int64(0); ; n++ {
			label := fmt.Sprintf("%v at %d", cause, n)
			p := newPair(label)
			p.opt.Strategy, p.opt.SpanBytes = compaction.Default(), 1<<20
			p.open(t)
			p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
			p.all(t, "s", keyscheme.OpRemove, elementNames(50, 150), bigset.Sync)
			hook, fired := testkit.Failing(n, false, cause, onSpan)
			p.disk.SetHook("fail", hook)
			_, err := p.store.RewriteSpan(bg, []byte("s"), nil, 1)
			p.disk.SetHook("fail", nil)
			if fired.Load() && err == nil {
				t.Logf("%s: the pass went well all the same", label)
			}
			if err != nil && (!errors.Is(err, cause) || errors.Is(err, bigset.ErrDiskFull) != (cause == syscall.ENOSPC)) {
				t.Errorf("%s: %v", label, err)
			}
			must(t, p.store.Failed(), label)
			p.check(t)
			p.survivor(t, label, p.disk.CrashClone(0, 0))
			_, err = p.store.Compact(bg, engine.CompactOptions{})
			must(t, err, label)
			p.checkClean(t, "s")
			p.verify(t)
			if names, err := p.disk.List("store"); err != nil || strings.Contains(strings.Join(names, " "), "span-") {
				t.Errorf("%s: left behind: %v (%v)", label, names, err)
			}
			p.close(t)
			if !fired.Load() {
				break
			}
		}
	}
}

// TestFlushFails fails the tables of flushes for a while: writers wait or go on, nothing fails for good, and when there is
// space again everything can be read.
func TestFlushFails(t *testing.T) {
	p := newPair("store")
	p.open(t)
	var fails atomic.Int64
	p.disk.SetHook("fail", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") && fails.Add(1) < 9 {
			return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	})
	for i := range 20 {
		p.all(t, "s", keyscheme.OpAdd, elementNames(i*100, i*100+100), bigset.Sync)
	}
	p.flush(t)
	if fails.Load() < 9 {
		t.Errorf("flushes failed %d times", fails.Load())
	}
	p.check(t)
	p.survivor(t, "after", p.disk.CrashClone(0, 0))
	p.close(t)
}

// TestReadFails fails reads of tables in the middle of a batch that looks elements up. The batch fails as a whole; the dots
// that it had taken must not enter the clock without their keys.
func TestReadFails(t *testing.T) {
	p := newPair("store")
	p.opt.BlockCacheBytes = 1
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 200), bigset.Sync)
	p.flush(t)
	must(t, p.store.CompactTables(bg), "settle")
	p.close(t)
	failed := 0
	for n := int64(0); n < 12; n++ {
		p.open(t)
		p.all(t, "s", keyscheme.OpAdd, []string{"first"}, bigset.Sync) // the clock is in memory
		hook, _ := testkit.Failing(n, false, syscall.EIO, func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst")
		})
		p.disk.SetHook("fail", hook)
		ops := []bigset.Op{
			{Kind: keyscheme.OpAdd, Element: []byte("new"), Context: bigset.Saw()},
			{Kind: keyscheme.OpRemove, Element: []byte(bulkName(3)), Context: bigset.Saw(clock.Dot{Actor: "elsewhere", Counter: 9})},
			{Kind: keyscheme.OpAdd, Element: []byte(bulkName(150))},
			{Kind: keyscheme.OpRemove, Element: []byte(bulkName(20))},
		}
		_, err := p.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{})
		_, contains := p.store.Look(bg, []byte("s"), []byte(bulkName(77)))
		got, read := readAll(p.store, "s", bigset.ReadOptions{})
		p.disk.SetHook("fail", nil)
		if err == nil {
			p.model.Set("s").Coordinate([]byte("s"), p.store.Replica().Actor(), ops, bigset.PolicyCoordinator)
		} else {
			failed++
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("write: %v", err)
			}
			for what, err := range map[string]error{"contains": contains, "read": read} {
				if err != nil && !errors.Is(err, syscall.EIO) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		must(t, p.store.Failed(), "the store has failed by a read")
		if read == nil {
			must(t, testkit.SameElements(got, p.model.Set("s").Elements()), "a read without an error")
		}
		p.check(t)
		p.all(t, "s", keyscheme.OpAdd, []string{"after"}, bigset.Sync)
		p.check(t)
		p.close(t)
		p.open(t)
		p.check(t)
		p.verify(t)
		p.close(t)
	}
	if failed == 0 {
		t.Error("no read failed in a batch")
	}
}

// TestEveryOperationFails fails the store's n-th disk operation, whatever it is, in a script that opens, writes, flushes,
// compacts, rewrites, drops, excises, makes a checkpoint and closes. It may only give errors; what was acknowledged must be
// there after all, and a checkpoint is whole or is none.
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	share := tier.ShareOf(t, 41, 12)
	for _, kind := range testkit.FaultKinds {
		t.Run(kind.Name, func(t *testing.T) {
			n, step := int64(share.First), int64(share.Every)
			for operationFails(t, n, kind.Cause, kind.Short) {
				n += step
			}
			tier.Count(t, "faults", int(n/step))
			t.Logf("%d operations, every %d. failed", n, step)
		})
	}
}

// fatalElsewhere is testkit.FatalElsewhere, but that nothing of a checkpoint is the store's.
func fatalElsewhere(op errorfs.Op) bool {
	return !strings.HasPrefix(op.Path, faultyCheckpoint) && testkit.FatalElsewhere(op)
}

func operationFails(t *testing.T, n int64, cause error, short bool) (fired bool) {
	p := newPair(fmt.Sprintf("operation %d", n))
	p.opt.Strategy = eager(compaction.Default())
	p.opt.HotBytes = []int64{512 << 10, -1}[n%2]
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.Sync)
	p.all(t, "t", keyscheme.OpAdd, elementNames(0, 30), bigset.Sync)
	p.close(t)
	hook, did := testkit.Failing(n, true, cause, func(op errorfs.Op) bool { return !fatalElsewhere(op) && !testkit.LateInOpen(op) })
	if short {
		p.disk.SetShortWrites(func(path string) error {
			return hook(errorfs.Op{Kind: errorfs.OpFileWrite, Path: path})
		})
	} else {
		p.disk.SetHook("fail", hook)
	}
	p.opt.FS = p.disk
	s, err := engine.Open("store", &p.opt)
	if err == nil {
		p.store = s
		copied := p.faultyScript(t)
		closeWithin(t, s, p.label)
		p.disk.SetHook("fail", nil)
		p.disk.SetShortWrites(nil)
		copied.check(t)
	}
	p.disk.SetHook("fail", nil)
	p.disk.SetShortWrites(nil)
	p.survivor(t, p.label, p.disk.CrashClone(0, 0))
	p.survivor(t, p.label, p.disk.CrashClone(100, 0))
	return did.Load()
}

// faultyCheckpoint is where faultyScript makes its checkpoint.
const faultyCheckpoint = "copy"

// copied is what came of a checkpoint: the pair as it was then, and two answers. The second is nil where it was not made again.
type copied struct {
	*pair
	first, again error
}

// checkpoint makes a checkpoint, and once more in the same folder when that failed.
func (p *pair) checkpoint() copied {
	c := copied{pair: &pair{label: p.label + ", checkpoint", disk: p.disk, opt: p.opt, model: p.model.Clone()}}
	c.model.Acknowledged() // it has also what was not synced
	if c.first = p.store.Checkpoint(bg, faultyCheckpoint); c.first != nil {
		c.again = p.store.Checkpoint(bg, faultyCheckpoint)
	}
	return c
}

// check looks at what can be restored. After one failure the second try works, unless the first had made all of it, or it was the
// store that failed.
func (c copied) check(t *testing.T) {
	t.Helper()
	if err := c.again; err != nil && !errors.Is(err, engine.ErrNotEmpty) && !errors.Is(err, bigset.ErrFailed) {
		t.Errorf("%s: %v, and again: %v", c.label, c.first, err)
	}
	_, err := engine.Restore(bg, faultyCheckpoint, "restored", &engine.RestoreOptions{FS: c.disk})
	if errors.Is(c.again, bigset.ErrFailed) && errors.Is(err, engine.ErrNoStore) {
		return
	}
	must(t, err, c.label+": restore")
	q := c.openedAt(t, c.label, "restored", c.disk)
	q.recovered(t)
	q.check(t)
	q.verify(t)
	q.close(t)
}

// faultyScript writes and works; whatever was acknowledged enters the model as such.
func (p *pair) faultyScript(t *testing.T) copied {
	t.Helper()
	do := func(kind keyscheme.Op, from, to int, d bigset.Durability) {
		var ops []bigset.Op
		for _, e := range elementNames(from, to) {
			ops = append(ops, bigset.Op{Kind: kind, Element: []byte(e)})
		}
		before := p.store.Failed()
		_, err := p.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{Durability: d})
		if before != nil || err != nil && (p.store.Failed() == nil || errors.As(err, new(*engine.DiskSpaceError))) {
			return // refused, or a read failed: it did not happen
		}
		want, _ := p.model.Set("s").Coordinate([]byte("s"), p.store.Replica().Actor(), ops, bigset.PolicyCoordinator)
		if !want.Delta.Empty() {
			p.model.Wrote(want.Delta)
		}
		if err == nil && d == bigset.Sync {
			p.model.Acknowledged()
		}
	}
	do(keyscheme.OpRemove, 10, 60, bigset.NoSync)
	do(keyscheme.OpAdd, 100, 200, bigset.Sync)
	_ = p.store.Flush(bg)
	do(keyscheme.OpAdd, 0, 30, bigset.NoSync)
	_, _ = p.store.RewriteSpan(bg, []byte("s"), nil, 1)
	do(keyscheme.OpRemove, 0, 20, bigset.Sync)
	_, _ = p.store.Compact(bg, engine.CompactOptions{})
	if before := p.store.Failed(); before == nil {
		d, err := p.store.Drop(bg, []byte("t"), bigset.DropOptions{Durability: bigset.Sync})
		if err == nil || p.store.Failed() != nil {
			if want, _ := p.model.Set("t").Drop([]byte("t"), nil); err != nil {
				d = want
			}
			p.model.Wrote(d)
		}
		if err == nil {
			p.model.Acknowledged()
		}
	}
	_ = p.store.RunnerTick(bg)
	do(keyscheme.OpAdd, 40, 50, bigset.NoSync)
	made := p.checkpoint()
	do(keyscheme.OpRemove, 40, 50, bigset.Sync)
	_, _ = p.store.Verify(bg, engine.VerifyOptions{})
	_, _ = p.store.Look(bg, []byte("s"), []byte(bulkName(7)))
	return made
}
