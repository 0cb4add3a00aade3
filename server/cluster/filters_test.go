package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
	"bigset/server/wire"
)

// listed reports whether all members know which filters there are, and know the same.
func (w *trio) listed() bool {
	var sums []uint64
	for _, p := range w.procs {
		if p == nil {
			continue
		}
		listed, sum := p.member.filters.list.state()
		if sums = append(sums, sum); !listed || sum != sums[0] {
			return false
		}
	}
	return w.whole()
}

// ctx1 is for what should not take long.
func ctx1(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (p *process) create(t testing.TB, name string) {
	t.Helper()
	if created, err := p.member.Filters().Create(ctx1(t), []byte(name), door.FilterCreate{}); err != nil || !created {
		t.Fatalf("node %d creates %s: %v, %v", p.i, name, created, err)
	}
}

func (p *process) filter(t testing.TB, name string) door.Filter {
	t.Helper()
	f, err := p.member.Filters().Find(ctx1(t), []byte(name))
	if err != nil {
		t.Fatalf("node %d: %s: %v", p.i, name, err)
	}
	return f
}

func keysOf(format string, n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, format, i))
	}
	return keys
}

// mark marks keys and returns how many were new.
func (p *process) mark(t testing.TB, name string, keys [][]byte) (news int) {
	t.Helper()
	added := make([]bool, len(keys))
	if err := p.filter(t, name).Set(ctx1(t), keys, added); err != nil {
		t.Fatalf("node %d marks in %s: %v", p.i, name, err)
	}
	for _, yes := range added {
		if yes {
			news++
		}
	}
	return news
}

// has returns how many of some keys a filter has.
func (p *process) has(t testing.TB, name string, keys [][]byte) (n int) {
	t.Helper()
	present := make([]bool, len(keys))
	if err := p.filter(t, name).Check(ctx1(t), keys, present); err != nil {
		t.Fatalf("node %d checks %s: %v", p.i, name, err)
	}
	for _, yes := range present {
		if yes {
			n++
		}
	}
	return n
}

// TestFiltersOfThree: filters that one member creates all serve, also with one away, when none can be created or dropped; and they stay with a member that comes with another
// disk, whichever it is.
func TestFiltersOfThree(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[1].create(t, "f")
	for _, p := range w.procs {
		if created, err := p.member.Filters().Create(ctx1(t), []byte("f"), door.FilterCreate{}); created || err != nil {
			t.Errorf("node %d creates it again: %v, %v", p.i, created, err)
		}
		if _, err := p.member.Filters().Find(ctx1(t), []byte("g")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("node %d finds one that is not: %v", p.i, err)
		}
	}
	first := keysOf("first-%d", 500)
	if n := w.procs[2].mark(t, "f", first); n < 495 {
		t.Errorf("%d of 500 were new", n)
	}
	for _, p := range w.procs {
		if n := p.has(t, "f", first); n != 500 {
			t.Errorf("node %d has %d of 500", p.i, n)
		}
	}
	info, err := w.procs[0].filter(t, "f").Info(ctx1(t), true)
	if err != nil || info.Size < 495 || info.Size > 500 || info.SetHits+info.SetMisses != 500 || info.CheckHits != 1500 || info.Capacity < 100_000 {
		t.Errorf("info %+v, %v", info, err)
	}
	w.procs[1].stop()
	began := time.Now()
	for _, change := range []error{
		func() error {
			_, err := w.procs[0].member.Filters().Create(ctx1(t), []byte("late"), door.FilterCreate{})
			return err
		}(),
		w.procs[2].member.Filters().Drop(ctx1(t), []byte("f")),
	} {
		if !errors.Is(change, door.ErrUnavailable) {
			t.Errorf("a change with one member away: %v", change)
		}
	}
	if took := time.Since(began); took > orderTime {
		t.Errorf("it took %v to refuse", took)
	}
	second := keysOf("second-%d", 500)
	w.procs[0].mark(t, "f", second)
	if n := w.procs[2].has(t, "f", second); n != 500 {
		t.Errorf("%d of 500 with one away", n)
	}
	if info, err := w.procs[2].filter(t, "f").Info(ctx1(t), false); err != nil || info.Size < 985 {
		t.Errorf("info with one away: %+v, %v", info, err)
	}
	if _, err := w.procs[2].filter(t, "f").Info(ctx1(t), true); !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("exact figures with one away: %v", err)
	}
	must(t, w.procs[2].member.Filters().FlushAll(ctx1(t)))
	w.start(1)
	until(t, "a member that was away", w.listed)
	for _, lost := range []int{2, 0} {
		w.procs[lost].stop()
		w.disks[lost], w.files[lost] = newDisk(fmt.Sprintf("%d-new", lost)), testkit.NewDisk()
		time.Sleep(cloneTime)
		w.start(lost)
		until(t, "a member that lost its disk", w.listed)
		for _, keys := range [][][]byte{first, second} {
			if n := w.procs[lost].has(t, "f", keys); n != 500 {
				t.Errorf("node %d has %d of 500 after it lost its disk", lost, n)
			}
		}
	}
	w.procs[2].create(t, "late")
	must(t, w.procs[1].member.Filters().Drop(ctx1(t), []byte("f")))
	for _, p := range w.procs {
		if _, err := p.member.Filters().Find(ctx1(t), []byte("f")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("node %d finds what was dropped: %v", p.i, err)
		}
		if list, _ := p.store.Filters().List(nil); len(list) != 0 {
			t.Errorf("node %d still stores %d filters", p.i, len(list))
		}
	}
	w.procs[0].create(t, "f")
	if n := w.procs[1].has(t, "f", first); n != 0 {
		t.Errorf("a filter that was created again has %d keys of the one before", n)
	}
}

// TestFiltersListed: close, clear and list as bloomd's, over all members.
func TestFiltersListed(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	for i := range 40 {
		w.procs[i%3].create(t, fmt.Sprintf("f%02d", i))
	}
	keys := keysOf("k%d", 100)
	w.procs[0].mark(t, "f07", keys)
	var names []string
	for after := ""; ; {
		part, err := w.procs[1].member.Filters().List(ctx1(t), door.FilterListing{Prefix: []byte("f"), After: after, Most: 7, Absolute: true})
		must(t, err)
		for _, info := range part {
			names = append(names, info.Name)
			if want := info.Name == "f07"; info.Size >= 99 != want {
				t.Errorf("%s has %d keys", info.Name, info.Size)
			}
		}
		if len(part) < 7 {
			break
		}
		after = names[len(names)-1]
	}
	if len(names) != 40 || names[0] != "f00" || names[39] != "f39" {
		t.Errorf("names %v", names)
	}
	all := w.procs[2].member.Filters()
	if err := all.Clear(ctx1(t), []byte("f07")); !errors.Is(err, bigset.ErrFilterOpen) {
		t.Errorf("clear of one that is open: %v", err)
	}
	until(t, "a filter that is closed", func() bool { // what members compare, and marks that come late, open it for a moment
		must(t, all.Close(ctx1(t), []byte("f07")))
		info, err := w.procs[0].filter(t, "f07").Info(ctx1(t), false)
		if err != nil || info.Size < 99 {
			t.Fatalf("closed: %+v, %v", info, err)
		}
		return !info.InMemory
	})
	until(t, "a filter that is cleared", func() bool {
		must(t, all.Close(ctx1(t), []byte("f07")))
		err := all.Clear(ctx1(t), []byte("f07"))
		if err != nil && !errors.Is(err, bigset.ErrFilterOpen) {
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := w.procs[0].member.Filters().Find(ctx1(t), []byte("f07")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("a cleared one is found: %v", err)
	}
	if err := w.procs[0].member.Filters().Drop(ctx1(t), []byte("f07")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("a cleared one is dropped: %v", err)
	}
	w.procs[1].create(t, "f07")
	if n := w.procs[2].has(t, "f07", keys); n != 100 {
		t.Errorf("a filter that came back has %d of 100", n)
	}
	yes, large := true, uint64(1)<<60
	for _, told := range []door.FilterCreate{{InMemory: &yes}, {Capacity: &large}} {
		if _, err := all.Create(ctx1(t), []byte("odd"), told); !errors.Is(err, bloomslice.ErrOptions) {
			t.Errorf("%+v: %v", told, err)
		}
	}
}

// TestFiltersAtOnce: of creations of one name at the same moment one creates it, and of drops one drops it.
func TestFiltersAtOnce(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	w.disks[0].slow = 5 * time.Millisecond
	w.birth()
	for round := range 5 {
		var mu sync.Mutex
		var all sync.WaitGroup
		created, dropped := 0, 0
		side := func(do func(p *process)) {
			for _, p := range w.procs {
				for range 3 {
					all.Go(func() { do(p) })
				}
			}
			all.Wait()
		}
		side(func(p *process) {
			yes, err := p.member.Filters().Create(ctx1(t), []byte("one"), door.FilterCreate{})
			mu.Lock()
			defer mu.Unlock()
			if yes {
				created++
			}
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		side(func(p *process) {
			err := p.member.Filters().Drop(ctx1(t), []byte("one"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				dropped++
			} else if !errors.Is(err, bigset.ErrNoFilter) {
				t.Errorf("round %d: %v", round, err)
			}
		})
		if created != 1 || dropped != 1 {
			t.Errorf("round %d: created %d times, dropped %d times", round, created, dropped)
		}
	}
	f := w.procs[0].member.filters
	end, err := f.begin(ctx1(t))
	must(t, err)
	defer end()
	ended, cancel := context.WithCancel(ctx1(t))
	cancel()
	waited := make(chan error, 1)
	go func() {
		_, err := f.Create(ended, []byte("two"), door.FilterCreate{})
		waited <- err
	}()
	select {
	case err := <-waited:
		if !errors.Is(err, door.ErrUnavailable) || errors.Is(err, door.ErrUnknown) || errors.Is(err, door.ErrMembersAway) {
			t.Errorf("behind another decision, out of time: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a decision waits for another one although nobody waits for it")
	}
}

// TestFiltersPutBack: a disk that was put back from an old copy brings no dropped filter back, and learns which there are now.
func TestFiltersPutBack(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[0].create(t, "old")
	w.procs[0].mark(t, "old", keysOf("k%d", 50))
	until(t, "all", w.listed)
	w.procs[2].stop()
	disk, files := w.disks[2].clone("put back"), w.files[2].CrashClone(0, 1)
	w.start(2)
	until(t, "all again", w.listed)
	until(t, "the drop", func() bool { return w.procs[1].member.Filters().Drop(ctx1(t), []byte("old")) == nil })
	w.procs[1].create(t, "new")
	w.procs[2].stop()
	w.disks[2], w.files[2] = disk, files
	time.Sleep(cloneTime)
	w.start(2)
	if _, err := w.procs[2].member.Filters().Find(ctx1(t), []byte("old")); err == nil {
		t.Error("a disk that was put back serves what it had before it has learned what was dropped")
	}
	until(t, "a disk that was put back", w.listed)
	if _, err := w.procs[2].member.Filters().Find(ctx1(t), []byte("old")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("what was dropped is back: %v", err)
	}
	until(t, "its slices", func() bool {
		list, err := w.procs[2].store.Filters().List(nil)
		return err == nil && len(list) == 0
	})
	w.procs[2].mark(t, "new", keysOf("k%d", 50))
}

// TestFiltersBefore: filters that the first member had before the cluster was born are those of the cluster, but those in memory only.
func TestFiltersBefore(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	s, err := engine.Open("db", &engine.Options{FS: w.files[1], BackgroundInterval: -1})
	must(t, err)
	f, err := s.Filters().Create(ctx1(t), []byte("mine"), bigset.FilterOptions{})
	must(t, err)
	_, err = s.Filters().Create(ctx1(t), []byte("memory"), bigset.FilterOptions{InMemory: true})
	must(t, err)
	keys := keysOf("k%d", 1000)
	must(t, f.MarkAll(ctx1(t), keys, make([]bool, len(keys))))
	must(t, s.Close())
	w.disks[1].data = true
	w.birth()
	for _, p := range w.procs {
		if n := p.has(t, "mine", keys); n != len(keys) {
			t.Errorf("node %d has %d of %d", p.i, n, len(keys))
		}
		if _, err := p.member.Filters().Find(ctx1(t), []byte("memory")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("node %d serves one in memory: %v", p.i, err)
		}
	}
	w.procs[1].stop() // the others have all of it
	if n := w.procs[0].has(t, "mine", keys); n != len(keys) {
		t.Errorf("%d of %d without the member that had it", n, len(keys))
	}
	w.procs[0].mark(t, "mine", keysOf("more%d", 1000))
}

// TestFiltersHalfDecided: a change that the first member decided on and could not send to the others comes to all of them later.
func TestFiltersHalfDecided(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[0].create(t, "gone")
	w.procs[0].mark(t, "gone", keysOf("k%d", 20))
	f := w.procs[0].member.filters
	made := newEntry([]byte("made"), bigset.NextGeneration(f.list.lastGeneration(), time.Now()), f.served["gone"].spec.Options)
	dropped := *f.list.get([]byte("gone"))
	dropped.State, dropped.Change = FilterDropped, 1
	must(t, f.take(ctx1(t), []FilterEntry{made, dropped}))
	until(t, "all have heard", w.listed)
	for _, p := range w.procs {
		if _, err := p.member.Filters().Find(ctx1(t), []byte("gone")); !errors.Is(err, bigset.ErrNoFilter) {
			t.Errorf("node %d: %v", p.i, err)
		}
		p.mark(t, "made", keysOf("k%d", 20))
	}
}

// TestFiltersUnheard: no member says that a filter exists, or that it is gone, before all members have that on disk.
func TestFiltersUnheard(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	f := []byte("f")
	c := w.disks[2]
	fails := func() { // the store of c fails when c writes the entry of the filter
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refuses = func(value []byte) error {
			if bytes.Contains(value, []byte(`"name":"`+hex.EncodeToString(f)+`"`)) {
				c.failed = fmt.Errorf("%w: no room", bigset.ErrFailed)
			}
			return c.failed
		}
	}
	restarts := func(what string) {
		t.Helper()
		c.mu.Lock()
		c.failed, c.refuses = nil, nil
		c.mu.Unlock()
		until(t, what, func() bool {
			for _, p := range w.procs {
				if _, known := p.member.filters.list.everywhere(f); !known {
					return false
				}
			}
			return w.listed()
		})
	}
	all := func(what string, do func(*Filters) error, want ...error) {
		t.Helper()
		for _, p := range w.procs {
			err := do(p.member.Filters())
			for _, e := range want {
				if !errors.Is(err, e) {
					t.Errorf("%s at node %d: %v, want %v", what, p.i, err, e)
				}
			}
			if want == nil && err != nil {
				t.Errorf("%s at node %d: %v", what, p.i, err)
			}
		}
	}
	again := func(fs *Filters) error {
		created, err := fs.Create(ctx1(t), f, door.FilterCreate{})
		if created {
			t.Error("it is created twice")
		}
		return err
	}
	fails()
	if _, err := w.procs[1].member.Filters().Create(ctx1(t), f, door.FilterCreate{}); !errors.Is(err, door.ErrUnknown) {
		t.Errorf("a creation that c does not keep: %v", err)
	}
	all("it is created again", again, door.ErrMembersAway)
	restarts("the filter")
	all("it is created again when all have it", again)
	for what, change := range map[string]func(*Filters) error{
		"clear": func(fs *Filters) error { return fs.Clear(ctx1(t), f) }, "drop": func(fs *Filters) error { return fs.Drop(ctx1(t), f) },
	} {
		_, err := w.procs[1].member.Filters().Create(ctx1(t), f, door.FilterCreate{})
		must(t, err)
		must(t, w.procs[1].member.Filters().Close(ctx1(t), f))
		fails()
		if err := change(w.procs[1].member.Filters()); !errors.Is(err, door.ErrUnknown) {
			t.Errorf("a %s that c does not keep: %v", what, err)
		}
		all(what+" again", change, door.ErrMembersAway)
		restarts(what)
		all(what+" when all know it", change, bigset.ErrNoFilter)
	}
}

// unwritten is the filters of a store that takes no writes while err is set.
type unwritten struct {
	LocalFilters
	err *atomic.Pointer[error]
}

func (u unwritten) fails(do func() error) error {
	if err := u.err.Load(); err != nil {
		return *err
	}
	return do()
}

func (u unwritten) Close(ctx context.Context, name []byte) error {
	return u.fails(func() error { return u.LocalFilters.Close(ctx, name) })
}

func (u unwritten) Flush(ctx context.Context, name []byte) error {
	return u.fails(func() error { return u.LocalFilters.Flush(ctx, name) })
}

func (u unwritten) FlushAll(ctx context.Context) error {
	return u.fails(func() error { return u.LocalFilters.FlushAll(ctx) })
}

// TestFiltersUnwritten: a member whose store takes no writes counts as one that is down when filters are flushed or closed, whichever member
// is asked.
func TestFiltersUnwritten(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	var failing [3]atomic.Pointer[error]
	w.filters = func(i int, f LocalFilters) LocalFilters { return unwritten{f, &failing[i]} }
	w.birth()
	f := []byte("f")
	w.procs[0].create(t, "f")
	failed, full := fmt.Errorf("%w: no such device", bigset.ErrFailed), fmt.Errorf("%w: 0 bytes are left", bigset.ErrDiskFull)
	for _, c := range []struct {
		what         string
		errs         [3]error
		flush, close error // what they return
	}{
		{what: "all take writes"},
		{what: "c has failed", errs: [3]error{2: failed}},
		{what: "the first is full", errs: [3]error{0: full}},
		{what: "b has failed, c is full", errs: [3]error{1: failed, 2: full}, flush: door.ErrUnavailable},
		{what: "all have failed", errs: [3]error{failed, failed, failed}, flush: door.ErrUnavailable, close: door.ErrUnavailable},
		{what: "c has another fault", errs: [3]error{2: bigset.ErrCorrupt}, flush: bigset.ErrCorrupt, close: bigset.ErrCorrupt},
	} {
		for i, err := range c.errs {
			failing[i].Store(nil)
			if err != nil {
				failing[i].Store(&err)
			}
		}
		for _, p := range w.procs {
			fs := p.member.Filters()
			for what, got := range map[string]struct{ err, want error }{
				"flush": {fs.Flush(ctx1(t), f), c.flush}, "flush all": {fs.FlushAll(ctx1(t)), c.flush}, "close": {fs.Close(ctx1(t), f), c.close},
			} {
				if !errors.Is(got.err, got.want) || errors.Is(got.err, door.ErrUnknown) {
					t.Errorf("%s: node %d answers to %s: %v, want %v", c.what, p.i, what, got.err, got.want)
				}
			}
		}
	}
}

// TestDropEndsInCrash: a member whose catalogue has a drop, and whose store does not, drops it when it starts.
func TestDropEndsInCrash(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[0].create(t, "f")
	w.procs[0].mark(t, "f", keysOf("k%d", 20))
	until(t, "the marks", func() bool {
		list, err := w.procs[1].store.Filters().List(nil)
		return err == nil && len(list) == 1
	})
	dropped := *w.procs[1].member.filters.list.get([]byte("f"))
	dropped.State, dropped.Change = FilterDropped, 1
	_, err := w.procs[1].member.filters.list.merge(ctx1(t), []FilterEntry{dropped})
	must(t, err)
	w.procs[1].stop()
	w.start(1)
	if list, err := w.procs[1].store.Filters().List(nil); err != nil || len(list) != 0 {
		t.Errorf("%d filters, %v", len(list), err)
	}
	until(t, "all have heard", w.listed)
}

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

// TestFiltersGeneration: a filter that is created comes after all that any member has met, also where a member's clock runs ahead.
func TestFiltersGeneration(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	must(t, w.procs[2].store.Filters().DropGeneration(ctx1(t), []byte("f"), 16, ahead))
	w.procs[1].create(t, "f")
	w.procs[0].mark(t, "f", keysOf("k%d", 50))
	if n := w.procs[2].has(t, "f", keysOf("k%d", 50)); n != 50 {
		t.Errorf("%d of 50", n)
	}
}

// TestFiltersControl: only members may ask, and only the first of them may announce what was decided.
func TestFiltersControl(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[0].create(t, "f")
	f := w.procs[2].member.filters
	e := *f.list.get([]byte("f"))
	e.State, e.Change = FilterDropped, 9
	changed, err := json.Marshal(decree{1, 0, e})
	must(t, err)
	bad, err := json.Marshal(decree{1, 0, FilterEntry{Name: Hex("g"), Generation: 1}})
	must(t, err)
	other, err := json.Marshal(decree{2, 1 << 40, *f.list.get([]byte("f"))})
	must(t, err)
	for _, from := range []wire.Remote{{Role: wire.RoleClient, Name: "a"}, {Role: wire.RoleNode, Name: "z"}, {Role: wire.RoleNode, Name: "b"}} {
		if _, err := f.control(ctx1(t), &wire.Request{Verb: verbChanged, Body: changed, From: &from}); !errors.Is(err, ErrForeign) {
			t.Errorf("%+v reports a drop: %v", from, err)
		}
		if _, err := f.control(ctx1(t), &wire.Request{Verb: verbDecide, Body: changed, From: &from}); !errors.Is(err, ErrForeign) {
			t.Errorf("%+v has another than the first decide: %v", from, err)
		}
	}
	first := wire.Remote{Role: wire.RoleNode, Name: "a"}
	for _, r := range []wire.Request{
		{Verb: verbChanged, Body: bad}, {Verb: verbChanged, Body: []byte("{")}, {Verb: verbOrder, Body: []byte(`{"do":"melt"}`)}, {Verb: verbOrder, Body: nil},
		{Verb: verbFigures, Body: []byte(`[]`)}, {Verb: verbEntries, Body: []byte(`7`)}, {Verb: verbReady, Body: []byte(`"zz"`)}, {Verb: verbFigures + 1},
	} {
		r.From = &first
		if _, err := f.control(ctx1(t), &r); !errors.Is(err, ErrRecord) {
			t.Errorf("verb %d, %q: %v", r.Verb, r.Body, err)
		}
	}
	if _, err := f.control(ctx1(t), &wire.Request{Verb: verbChanged, Body: other, From: &first}); !errors.Is(err, ErrForeign) {
		t.Errorf("one of another generation reports a filter: %v", err)
	}
	for _, d := range []decision{{Do: doDrop}, {Do: "melt", Entry: &e}, {Do: doDrop, Entry: &FilterEntry{Name: Hex("g")}}} {
		if _, err := w.procs[0].member.filters.decideHere(ctx1(t), d); !errors.Is(err, ErrRecord) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if _, err := f.Find(ctx1(t), []byte("f")); err != nil {
		t.Errorf("the filter went: %v", err)
	}
}

// TestPartlyDone: if some of a request's keys are marked, no answer says that nothing has happened.
func TestPartlyDone(t *testing.T) {
	t.Parallel()
	short := &coord.QuorumError{Of: 2, Err: peer.ErrUnavailable}
	for what, tt := range map[string]struct {
		err     error
		unknown bool
		want    error
	}{
		"none marked":       {&coord.FilterError{Keys: []int{0, 1}, Of: 2, Err: short}, false, door.ErrUnavailable},
		"one marked":        {&coord.FilterError{Keys: []int{1}, Of: 2, Err: short}, true, door.ErrUnknown},
		"one unknown":       {&coord.FilterError{Keys: []int{0, 1}, Unknown: 1, Of: 2, Err: short}, true, door.ErrUnknown},
		"one at a new gate": {&coord.FilterError{Keys: []int{1}, Of: 2, Err: peer.ErrNotMine}, true, peer.ErrNotMine},
		"dropped":           {&coord.FilterError{Keys: []int{1}, Of: 2, Err: bigset.ErrNoFilter}, false, bigset.ErrNoFilter},
		"refused":           {fmt.Errorf("no: %w", coord.ErrRequest), false, bigset.ErrRequest},
	} {
		if err := failure(partlyDone(tt.err)); !errors.Is(err, tt.want) || errors.Is(err, door.ErrUnknown) != tt.unknown || tt.unknown && errors.Is(err, door.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// moved is a replica that is no owner of slice 1 of any filter, for a request through the routes of before.
type moved struct {
	replica
	met func()
}

func (r *moved) Mark(ctx context.Context, spec bigset.SliceSpec, hashes []bloomslice.Hash) (bigset.Marks, []bool, peer.Member, error) {
	if spec.Slice == 1 {
		r.met()
		return bigset.Marks{}, nil, r.Member(), peer.ErrNotMine
	}
	return r.replica.Mark(ctx, spec, hashes)
}

func (r *moved) MarkMany(ctx context.Context, spec bigset.SliceSpec, groups []peer.SliceKeys) ([]peer.SliceMarked, peer.Member, error) {
	at := slices.IndexFunc(groups, func(g peer.SliceKeys) bool { return g.Slice == 1 })
	if at < 0 {
		return r.replica.MarkMany(ctx, spec, groups)
	}
	r.met()
	all, by, err := r.replica.MarkMany(ctx, spec, slices.Delete(slices.Clone(groups), at, at+1))
	if err != nil {
		return nil, by, err
	}
	return slices.Insert(all, at, peer.SliceMarked{SliceMarks: peer.SliceMarks{Slice: 1}, Err: peer.ErrNotMine}), by, nil
}

// TestMarkAcrossEpochs: keys that were marked partly under one epoch and partly under the next were all new.
func TestMarkAcrossEpochs(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[0].create(t, "f")
	m := w.procs[0].member
	l := m.live.Load()
	var once sync.Once
	met := func() {
		once.Do(func() { time.AfterFunc(100*time.Millisecond, func() { m.live.Store(l) }) })
	}
	var all []replica
	for _, r := range l.replicas {
		all = append(all, &moved{r, met})
	}
	odd := newLive(l.view, l.ownership, all, l.near, time.Now)
	odd.epoch = l.epoch - 1
	m.live.Store(odd)
	keys := keysOf("k%d", 200)
	if news := w.procs[0].mark(t, "f", keys); news != len(keys) || m.live.Load() != l {
		t.Errorf("%d of %d keys are new", news, len(keys))
	}
	if news := w.procs[0].mark(t, "f", keys); news != 0 {
		t.Errorf("%d keys are new again", news)
	}
}

// TestAgainAfterUnknown: what a first try may have done stays unknown, whatever a later one says.
func TestAgainAfterUnknown(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 1)
	m := w.start(0).member
	until(t, "birth", w.whole)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing waits for another epoch
	maybe := &coord.UnknownError{Acked: 1, W: 2, DW: coord.None, Err: peer.ErrNotMine}
	routes := m.live.Load()
	for what, tt := range map[string]struct {
		tries   []error
		unknown bool
		want    error
	}{
		"no quorum after it":      {[]error{maybe, &coord.QuorumError{Of: 2, Err: peer.ErrUnavailable}}, true, door.ErrUnknown},
		"refused after it":        {[]error{maybe, bigset.ErrLimit}, true, door.ErrUnknown},
		"other members after it":  {[]error{maybe, peer.ErrNotMine, bigset.ErrLimit}, true, door.ErrUnknown},
		"no routes after it":      {[]error{maybe, nil}, true, door.ErrUnknown},
		"unknown twice":           {[]error{maybe, &coord.UnknownError{Acked: 2, W: 3}}, true, door.ErrUnknown},
		"dropped after it":        {[]error{maybe, bigset.ErrNoFilter}, false, bigset.ErrNoFilter},
		"only refused":            {[]error{peer.ErrNotMine, bigset.ErrLimit}, false, bigset.ErrLimit},
		"only without routes":     {[]error{peer.ErrNotMine, nil}, false, door.ErrUnavailable},
		"other members each time": {[]error{peer.ErrNotMine, &coord.QuorumError{Of: 2, Err: peer.ErrUnavailable}}, false, door.ErrUnavailable},
	} {
		try := -1
		_, err := again(ctx, m.Backend(), always, func(*live) (int, error) {
			try++
			if try+1 < len(tt.tries) && tt.tries[try+1] == nil {
				m.live.Store(nil)
			}
			return 0, tt.tries[try]
		})
		m.live.Store(routes)
		var u *door.UnknownError
		if !errors.Is(err, tt.want) || errors.As(err, &u) != tt.unknown || tt.unknown && (u.W == 0 || errors.Is(err, door.ErrUnavailable) || errors.Is(err, bigset.ErrLimit)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
