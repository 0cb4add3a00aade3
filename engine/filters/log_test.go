package filters_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
)

// TestReplayOfManyPages: a log that sets bits in more pages than one batch holds is replayed like one with few pages.
func TestReplayOfManyPages(t *testing.T) {
	m := newMarking("store")
	m.open(t)
	o := bigset.FilterOptions{Options: bloomslice.Options{Capacity: 1_000_000}, Durability: bigset.FilterSync}
	_, err := m.store.Filters().Create(bg, []byte("large"), o)
	must(t, err, "create")
	m.filters["large"] = &marked{d: bigset.FilterSync, alive: true, keys: map[string]bool{}}
	m.mark(t, "large", 0, 300)
	c := markCrash{"power cut", m.disk.CrashClone(0, 0), false, m.filters}
	must(t, m.store.Close(), "close")
	c.check(t, m.opt)
}

// markCrash is a disk after a crash, and what was acknowledged by then.
type markCrash struct {
	label string
	disk  *testkit.Disk
	all   bool // what was written is kept: the process ended, not the machine
	want  map[string]*marked
}

// markCrashes are crashes at which a test knew what was acknowledged.
func markCrashes(points []testkit.Crash[map[string]*marked]) (list []markCrash) {
	for _, p := range points {
		list = append(list, markCrash{p.Label, p.Disk, p.Percent == 100, p.Known})
	}
	return list
}

func (c *markCrash) check(t *testing.T, opt options) {
	t.Helper()
	m := &marking{room: &room{label: c.label, disk: c.disk, opt: opt}}
	m.open(t)
	durable := synced
	if c.all {
		durable = logged
	}
	m.has(t, c.want, durable)
	if left := segments(t, m.disk, "store"); len(left) > 0 {
		t.Fatalf("%s: an open has left %v", c.label, left)
	}
	must(t, m.store.Close(), "close")
	m.open(t) // from pages alone
	m.has(t, c.want, durable)
	must(t, m.store.Close(), "close")
}

// TestMarksSurviveCrashes ends the process, and the machine, before every operation on the disk of a history. A key that was
// acknowledged is kept by the next open if marks of its filter are that durable, and nothing of a dropped filter is in another
// one of its name. The test crashes again while the log is replayed.
func TestMarksSurviveCrashes(t *testing.T) {
	t.Parallel()
	m := newMarking("history")
	var want atomic.Pointer[map[string]*marked]
	want.Store(&map[string]*marked{})
	m.step = func() { want.Store(new(m.snapshot())) }
	stop := testkit.Crashing[map[string]*marked]{
		Short: 11,
		Push:  6,
		Fits:  func(op errorfs.Op) bool { return !strings.HasPrefix(op.Path, "copy") },
		Known: func() map[string]*marked { return *want.Load() },
	}.On(t, m.disk)
	m.markHistory(t, 2)
	points, operations := stop()
	crashes := markCrashes(points)
	replays, logs := 0, 0
	for i := range crashes {
		c := &crashes[i]
		if len(segments(t, c.disk, "store")) > 0 {
			if logs++; logs%8 == 1 { // the first one, and each eighth after it
				replays++
				m.crashesAgain(t, c)
				continue
			}
		}
		c.check(t, m.opt)
	}
	tier.Count(t, "crashes", len(crashes))
	t.Logf("%d operations, %d crashes, of %d the replay crashed again", operations, len(crashes), replays)
	if !testing.Short() && (operations < 160 || replays < 5) {
		t.Error("the history is too short")
	}
	for folder, want := range m.copies { // has what no log says
		if left := segments(t, m.disk, folder); len(left) > 0 {
			t.Errorf("a checkpoint has %v", left)
		}
		if want["server"].d == bigset.FilterInterval { // is in memory only
			clear(want["server"].keys)
		}
		q := &marking{room: m.openedAt(t, folder, folder, m.disk)}
		q.has(t, want, func(bigset.FilterDurability) bool { return true })
		must(t, q.store.Close(), "close")
	}
}

// TestRestoreTakesMarks: a store that is restored from a folder that a crash has left has what the folder's log of marks says.
func TestRestoreTakesMarks(t *testing.T) {
	m := newMarking("store")
	m.open(t)
	m.create(t, "f", bigset.FilterLog, false)
	m.mark(t, "f", 0, 10)
	left := m.disk.CrashClone(100, 0)
	must(t, m.store.Close(), "close")
	_, err := restore("store", "restored", left)
	must(t, err, "restore")
	q := &marking{room: m.openedAt(t, "restored", "restored", left)}
	q.has(t, m.filters, logged)
	must(t, q.store.Close(), "close")
}

// crashesAgain crashes the open after a crash, and the first mark, everywhere.
func (m *marking) crashesAgain(t *testing.T, c *markCrash) {
	t.Helper()
	again := &marking{room: &room{label: c.label + ", again", disk: c.disk, opt: m.opt}}
	stop := again.disk.CrashEverywhere(0, 30, 100)
	again.open(t)
	if f, err := again.store.Filters().Get([]byte("sync")); err == nil { // begins a segment
		_, err = f.Mark(bg, []byte("after"))
		must(t, err, "mark")
	}
	left := stop()
	must(t, again.store.Close(), "close")
	for i, disk := range left {
		if i%4 < 2 {
			next := markCrash{fmt.Sprintf("%s, again %d", c.label, i), disk, c.all, c.want}
			next.check(t, m.opt)
		}
	}
}

// TestMarksAcknowledgedTogether: many goroutines mark the same keys, and are answered Yes or No. Each key gets one Yes. After a
// crash before any write, every key that was acknowledged, either way, is kept: for filters of durability log if the process
// ended, for those of durability sync also if the machine did.
func TestMarksAcknowledgedTogether(t *testing.T) {
	t.Parallel()
	for _, d := range []bigset.FilterDurability{bigset.FilterLog, bigset.FilterSync} {
		m := newMarking(fmt.Sprintf("durability %d", d))
		m.open(t)
		m.create(t, "f", d, false)
		f, err := m.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		var mu sync.Mutex
		acked := &marked{d: d, alive: true, keys: map[string]bool{}}
		yes := map[string]int{}
		percent := 0
		if d == bigset.FilterLog {
			percent = 100
		}
		var operations atomic.Int64
		stop := testkit.Crashing[map[string]*marked]{
			Rates: []int{percent},
			Fits: func(errorfs.Op) bool {
				time.Sleep(200 * time.Microsecond) // goroutines that are acknowledged too early get the time to report it
				n := operations.Add(1)
				return n%3 == 0 && n/3 <= int64(tier.Times(60))
			},
			Known: func() map[string]*marked {
				mu.Lock()
				defer mu.Unlock()
				return map[string]*marked{"f": acked.clone()}
			},
		}.On(t, m.disk)
		const keys = 400
		var wg sync.WaitGroup
		for g := range 8 {
			r := tier.Random(t)
			wg.Go(func() {
				for i := range keys {
					key := fmt.Appendf(nil, "key%05d", max(0, i-r.IntN(4)))
					if i%50 == 49 && g == 0 {
						must(t, m.store.Filters().Flush(bg), "flush")
					}
					added, err := f.Mark(bg, key)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					acked.keys[string(key)] = true
					if added {
						yes[string(key)]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		points, _ := stop()
		for key, n := range yes {
			if n != 1 {
				t.Errorf("%s: %s was added %d times", m.label, key, n)
			}
		}
		if len(yes) != len(acked.keys) {
			t.Errorf("%s: %d keys, %d of them were added", m.label, len(acked.keys), len(yes))
		}
		must(t, m.store.Close(), "close")
		for _, c := range markCrashes(points) {
			c.check(t, m.opt)
		}
		t.Logf("%s: %d operations, %d crashes", m.label, operations.Load(), len(points))
	}
}

// TestFoundMarkWaits: a key that was found is acknowledged when the mark that set its bits is.
func TestFoundMarkWaits(t *testing.T) {
	t.Parallel()
	for _, d := range []bigset.FilterDurability{bigset.FilterLog, bigset.FilterSync} {
		m := newMarking("store")
		m.open(t)
		m.create(t, "f", d, false)
		m.mark(t, "f", 0, 1) // makes the segment
		at, on := make(chan struct{}), make(chan struct{})
		m.disk.SetHook("block", func(op errorfs.Op) error {
			sync := op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync
			if onMarks(op) && (sync || d == bigset.FilterLog && op.Kind == errorfs.OpFileWrite) {
				at <- struct{}{}
				<-on
			}
			return nil
		})
		f, err := m.store.Filters().Get([]byte("f"))
		must(t, err, "filter")
		answers := make(chan bool)
		mark := func() {
			added, err := f.Mark(bg, []byte("twice"))
			if err != nil {
				t.Error(err)
			}
			answers <- added
		}
		go mark()
		<-at
		go mark()
		select {
		case added := <-answers:
			t.Fatalf("durability %d: answered %v before the mark is durable", d, added)
		case <-time.After(100 * time.Millisecond):
		}
		has, err := f.Check([]byte("twice"))
		if err != nil || !has {
			t.Errorf("durability %d: a check: %v, %v", d, has, err)
		}
		close(on)
		if a, b := <-answers, <-answers; a == b {
			t.Errorf("durability %d: two answers %v", d, a)
		}
		m.disk.SetHook("block", nil)
		must(t, m.store.Close(), "close")
	}
}

// TestMarksFail fails each operation once, and the log from each of its operations on. No key that was acknowledged is lost, and a store
// whose log has failed says so and acknowledges nothing more.
func TestMarksFail(t *testing.T) {
	t.Parallel()
	share := tier.ShareOf(t, 23, 6)
	for _, kind := range testkit.FaultKinds {
		for _, log := range []bool{false, true} {
			fits := func(op errorfs.Op) bool {
				return onMarks(op) && op.Kind != errorfs.OpStat || !log && !testkit.FatalElsewhere(op) && !testkit.LateInOpen(op)
			}
			n, step := int64(share.First), int64(share.Every)
			for marksFail(t, fmt.Sprintf("%s at %d, only the log %v", kind.Name, n, log), n, kind.Cause, kind.Short, log, fits) {
				n += step
			}
			tier.Count(t, "faults", int(n/step))
			t.Logf("%s, only the log %v: %d operations, every %d. failed", kind.Name, log, n, step)
		}
	}
}

func marksFail(t *testing.T, label string, n int64, cause error, short, log bool, fits func(op errorfs.Op) bool) (fired bool) {
	m := newMarking(label)
	m.open(t) // the rest may fail
	must(t, m.store.Close(), "close")
	hook, did := testkit.Failing(n, !log, cause, fits)
	var seen atomic.Bool
	m.disk.SetHook("fail", func(op errorfs.Op) error {
		if short && op.Kind == errorfs.OpFileWrite {
			return nil
		}
		err := hook(op)
		if err != nil && onMarks(op) && (op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileWrite && cause == syscall.EIO) {
			seen.Store(true)
		}
		return err
	})
	if short {
		m.disk.SetHook("fail", nil)
		m.disk.SetShortWrites(func(path string) error {
			return hook(errorfs.Op{Kind: errorfs.OpFileWrite, Path: path})
		})
	}
	m.faulty = true
	m.faultyHistory(t)
	failed := m.store.Failed()
	m.disk.SetHook("fail", nil)
	m.disk.SetShortWrites(nil)
	if seen.Load() && failed == nil {
		t.Fatalf("%s: the log has failed, and the store says nothing", label)
	}
	if failed != nil {
		f, err := m.store.Filters().Get([]byte("sync"))
		if err == nil {
			_, err = f.Mark(bg, []byte("key00000"))
		}
		if !errors.Is(err, bigset.ErrFailed) && !errors.Is(err, bigset.ErrNoFilter) {
			t.Fatalf("%s: a mark of a failed store: %v", label, err)
		}
	}
	power, process := m.disk.CrashClone(0, 0), m.disk.CrashClone(100, 0)
	for _, c := range []markCrash{{label + ", power cut", power, false, m.filters}, {label + ", killed", process, true, m.filters}} {
		c.check(t, m.opt)
	}
	closeWithin(t, m.store, label)
	last := markCrash{label + ", closed", m.disk.CrashClone(100, 0), true, m.filters}
	last.check(t, m.opt)
	return did.Load()
}

// faultyHistory is a short history on a store that was made before. The store stays open.
func (m *marking) faultyHistory(t *testing.T) {
	m.opt.FS = m.disk
	var err error
	for m.store, err = open("store", &m.opt); err != nil; m.store, err = open("store", &m.opt) {
		m.disk.SetHook("fail", nil) // that it could not be opened is all that came of it
		m.disk.SetShortWrites(nil)
	}
	m.create(t, "sync", bigset.FilterSync, false)
	m.create(t, "log", bigset.FilterLog, false)
	m.mark(t, "sync", 0, 20)
	m.mark(t, "log", 0, 20)
	m.mark(t, "sync", 10, 30)
	_ = m.store.Filters().Flush(bg)
	m.mark(t, "log", 30, 40)
	m.mark(t, "sync", 30, 31)
	m.drop(t, "log")
	m.create(t, "log", bigset.FilterLog, false)
	m.mark(t, "log", 50, 55)
	_ = m.store.Filters().Flush(bg)
	m.mark(t, "sync", 50, 55)
	m.mark(t, "log", 60, 61)
}

// TestMarksFlipped changes each byte of a log of marks that a crash has left. The store reports what is damaged, or has all that
// was acknowledged except the last mark, because damage there looks like what a crash takes back.
func TestMarksFlipped(t *testing.T) {
	t.Parallel()
	m := newMarking("store")
	m.open(t)
	m.create(t, "f", bigset.FilterSync, false)
	for i := range 6 {
		m.mark(t, "f", 2*i, 2*i+2)
	}
	left := m.disk.CrashClone(0, 0)
	names := segments(t, left, "store")
	if len(names) != 1 {
		t.Fatalf("segments %v", names)
	}
	must(t, m.store.Close(), "close")
	file := left.PathJoin("store", names[0])
	data := testkit.ReadFile(t, left, file)
	share := tier.ShareOf(t, 7, 6)
	refused, lost := 0, 0
	for at := share.First; at < len(data); at += share.Every {
		for _, cut := range []bool{false, true} {
			disk := left.CrashClone(100, 0)
			bad := slices.Clone(data)
			if bad[at] ^= 1 << (at % 8); cut {
				bad = bad[:at]
			}
			testkit.WriteFile(t, disk, file, bad)
			o := m.opt
			o.FS = disk
			s, err := open("store", &o)
			if err != nil {
				if !errors.Is(err, bigset.ErrCorrupt) || !strings.Contains(err.Error(), names[0]) || cut {
					t.Fatalf("byte %d of %d, cut %v: %v", at, len(data), cut, err)
				}
				refused++
				continue
			}
			f, err := s.Filters().Get([]byte("f"))
			must(t, err, "filter")
			for i, key := range markKeys(0, 12) {
				has, err := f.Check(key)
				must(t, err, "check")
				if has {
					continue
				}
				if lost++; !cut && i < 10 {
					t.Fatalf("byte %d of %d: %s was lost, and nobody says so", at, len(data), key)
				}
			}
			must(t, s.Close(), "close")
		}
	}
	t.Logf("%d bytes, %d refused, %d keys of the tail lost", len(data), refused, lost)
	if refused == 0 || lost == 0 {
		t.Error("this tells nothing")
	}
}

// TestLongSegmentIsFlushed: a segment that has become long is flushed and removed without a request.
func TestLongSegmentIsFlushed(t *testing.T) {
	m := newMarking("store")
	m.opt.segmentBytes = 2 << 10
	var made atomic.Int64
	m.disk.SetHook("count", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && onMarks(op) {
			made.Add(1)
		}
		return nil
	})
	m.open(t)
	m.create(t, "f", bigset.FilterLog, false)
	most := 0
	for i := 0; made.Load() < 5; i++ {
		m.mark(t, "f", i, i+1)
		most = max(most, len(segments(t, m.disk, "store")))
		if i > 50_000 {
			t.Fatalf("%d segments were made", made.Load())
		}
	}
	if most > 20 {
		t.Errorf("%d segments at a time", most)
	}
	m.has(t, m.filters, logged)
	process := markCrash{"killed", m.disk.CrashClone(100, 0), true, m.filters}
	must(t, m.store.Close(), "close")
	process.check(t, m.opt)
}

// TestMarkLoggedAllocates: a mark of a filter that logs allocates no more than one that does not.
func TestMarkLoggedAllocates(t *testing.T) {
	m := newMarking("store")
	m.open(t)
	counts := map[bigset.FilterDurability]float64{}
	for _, d := range []bigset.FilterDurability{bigset.FilterInterval, bigset.FilterLog, bigset.FilterSync} {
		name := fmt.Sprint(d)
		m.create(t, name, d, false)
		f, err := m.store.Filters().Get([]byte(name))
		must(t, err, "filter")
		keys, added, i := markKeys(0, 3000), make([]bool, 1), 0
		counts[d] = testing.AllocsPerRun(2000, func() {
			if err := f.MarkAll(bg, keys[i:i+1], added); err != nil || !added[0] {
				t.Fatal(added, err)
			}
			i++
		})
	}
	for d, n := range counts {
		if n > counts[bigset.FilterInterval]+1 { // what the disk in memory allocates
			t.Errorf("durability %d: %v allocations, %v without a log", d, n, counts[bigset.FilterInterval])
		}
	}
	t.Log(counts)
	must(t, m.store.Close(), "close")
}

// onMarks reports which operations are on the log of marks.
func onMarks(op errorfs.Op) bool { return strings.Contains(op.Path, "filters-") }
