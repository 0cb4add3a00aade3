package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/server/coord"
	"bigset/server/door"
	"bigset/server/peer"
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
