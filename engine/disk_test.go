package engine_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// eventLog keeps events of one kind.
type eventLog struct {
	mu  sync.Mutex
	all []engine.Event
}

func (l *eventLog) of(kind engine.EventKind) func(engine.Event) {
	return func(e engine.Event) {
		if e.Kind == kind {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, e)
		}
	}
}

func (l *eventLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// TestFreeSpace: as the disk fills up, each level is reported once; at the last one adds are refused, and nothing else is.
func TestFreeSpace(t *testing.T) {
	p := newPair("store")
	var told eventLog
	p.opt.Events = told.of(engine.EventDiskSpace)
	p.open(t)
	usage := func(percent int) {
		p.disk.SetUsage(vfs.DiskUsage{AvailBytes: uint64(percent) << 20, TotalBytes: 100 << 20})
		p.store.CheckSpace()
	}
	full := func(err error) bool {
		var space *engine.DiskSpaceError
		return errors.Is(err, bigset.ErrDiskFull) && errors.As(err, &space) && space.Reserve == 2<<20
	}
	p.all(t, "s", keyscheme.OpAdd, elementNames(0, 10), bigset.Sync)
	want := 0
	for _, c := range []struct {
		percent int
		news    bool
		refused bool
	}{{50, false, false}, {11, false, false}, {10, true, false}, {9, false, false}, {5, true, false}, {3, true, false}, {2, true, true},
		{1, false, true}, {4, false, false}, {2, true, true}, {90, false, false}} {
		usage(c.percent)
		if c.news {
			want++
		}
		if told.len() != want {
			t.Errorf("at %d %%: told %d times, want %d", c.percent, told.len(), want)
		}
		if !c.refused {
			p.all(t, "s", keyscheme.OpAdd, []string{"more"}, bigset.Sync)
			continue
		}
		_, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte("refused")}, bigset.WriteOptions{})
		if !full(err) {
			t.Errorf("at %d %%: add: %v", c.percent, err)
		}
		item := bigset.Item{Kind: keyscheme.OpAdd, Element: []byte("refused")}
		if err := p.store.Replica().ApplyDelta(bg, bigset.Delta{Set: []byte("s"), Actor: "x", First: 1, Items: []bigset.Item{item}}, bigset.ApplyOptions{Durability: bigset.Sync}); !full(err) {
			t.Errorf("at %d %%: delta: %v", c.percent, err)
		}
		p.all(t, "s", keyscheme.OpRemove, elementNames(c.percent, c.percent+1), bigset.Sync)
		p.apply(t, bigset.Delta{Set: []byte("s"), Clear: clock.Of(clock.Dot{Actor: "x", Counter: uint64(10 + want)})}, bigset.Sync)
		p.check(t)
		must(t, p.store.Failed(), "a full disk is no failure")
	}
	p.close(t)
}

// TestLittleRoom: when there is little room, the rewriter copies only what gives back more than it takes; removes, the drop filter,
// and the excising of a set go on, and so does it all when there is room again.
func TestLittleRoom(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.Strategy, p.opt.SpanBytes = eager(compaction.Default()), 1<<20
	p.opt.Tune(func(po *pebble.Options) { po.DisableAutomaticCompactions = true })
	p.open(t)
	names := elementNames(0, 200)
	for _, set := range []string{"s", "t", "u"} {
		for from := range 2 { // two tables that overlap: Pebble moves one alone, and the drop filter is asked of its records still
			var half []string
			for i := from; i < len(names); i += 2 {
				half = append(half, names[i])
			}
			p.all(t, set, keyscheme.OpAdd, half, bigset.Sync)
			p.flush(t)
		}
		must(t, p.store.CompactTables(bg), "settle")
	}
	if n, err := p.store.Unsettled(); err != nil || n > 0 {
		t.Fatalf("the drop filter is still asked of %d records, %v", n, err)
	}
	usage := func(percent int) {
		p.disk.SetUsage(vfs.DiskUsage{AvailBytes: uint64(percent) << 20, TotalBytes: 100 << 20})
		p.store.CheckSpace()
	}
	stored := func(set string, want int) {
		t.Helper()
		for range 3 {
			p.store.RunnerForgets()
			must(t, p.store.LastWritten([]byte(set), 2*compaction.QuietEnough), "age") // a set that is being written waits
			must(t, p.store.RunnerTick(bg), "tick")
		}
		keys, err := p.store.StoredKeys([]byte(set))
		must(t, err, "keys")
		if len(keys) != want {
			t.Errorf("%d keys of set %q are stored, want %d", len(keys), set, want)
		}
		p.check(t)
	}
	usage(5)
	p.all(t, "s", keyscheme.OpRemove, elementNames(0, 80), bigset.Sync)
	stored("s", 200)
	p.all(t, "t", keyscheme.OpRemove, elementNames(0, 120), bigset.Sync)
	stored("t", 80)
	p.drop(t, "u", nil, bigset.Sync)
	stored("u", 0)
	before := p.store.Filtered()
	p.all(t, "s", keyscheme.OpAdd, elementNames(300, 320), bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, elementNames(300, 320), bigset.Sync)
	publish(t, p)
	p.flush(t)
	if p.store.Filtered() == before {
		t.Error("the drop filter left nothing out")
	}
	stored("s", 200)
	usage(6)
	stored("s", 120)
	p.verify(t)
	p.close(t)
}

// TestSlowDisk: an operation that takes long is reported while it lasts.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk()
	var told eventLog
	s, err := engine.Open("store", &engine.Options{FS: disk, Logger: silent, SlowDisk: 10 * time.Millisecond, Events: told.of(engine.EventSlowDisk)})
	must(t, err, "open")
	var once atomic.Bool
	deadline := time.Now().Add(time.Minute)
	disk.SetHook("slow", func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && op.Kind != errorfs.OpFileClose && !once.Swap(true) {
			for told.len() == 0 && time.Now().Before(deadline) { // until somebody notices
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	_, err = s.Add(bg, []byte("s"), [][]byte{[]byte("a")}, bigset.WriteOptions{})
	must(t, err, "add")
	stats, err := s.Stats()
	must(t, err, "stats")
	if told.len() == 0 || stats.SlowDisk == 0 {
		t.Errorf("told %d times, counted %d", told.len(), stats.SlowDisk)
	}
	must(t, s.Close(), "close")
}
