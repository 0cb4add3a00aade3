package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/internal/ring"
	"bigset/server/door"
	"bigset/server/wire"
)

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

// TestFlushOfOne: where one member's acknowledgement is enough, a mark may be at the member that has not flushed.
func TestFlushOfOne(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	w.settings = ring.Settings{N: 3, W: 1}
	var failing [3]atomic.Pointer[error]
	w.filters = func(i int, f LocalFilters) LocalFilters { return unwritten{f, &failing[i]} }
	w.birth()
	w.procs[0].create(t, "f")
	fs := w.procs[0].member.Filters()
	must(t, fs.Flush(ctx1(t), []byte("f")))
	failed := fmt.Errorf("%w: no such device", bigset.ErrFailed)
	failing[2].Store(&failed)
	for what, err := range map[string]error{"flush": fs.Flush(ctx1(t), []byte("f")), "flush all": fs.FlushAll(ctx1(t))} {
		if !errors.Is(err, door.ErrUnavailable) {
			t.Errorf("%s without a member that may have the only copy of a mark: %v", what, err)
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
