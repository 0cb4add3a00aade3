package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/internal/testkit"
	"bigset/server/door"
	"bigset/server/wire"
)

// exists wants a member to say that a filter exists.
func (p *process) exists(t *testing.T, name string) {
	t.Helper()
	if created, err := p.member.Filters().Create(ctx1(t), []byte(name), door.FilterCreate{}); created || err != nil {
		t.Errorf("node %d creates %s, which exists: %v, %v", p.i, name, created, err)
	}
}

// gone wants a member to say that a filter does not exist.
func (p *process) gone(t *testing.T, name string) {
	t.Helper()
	if err := p.member.Filters().Drop(ctx1(t), []byte(name)); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("node %d drops %s, which is gone: %v", p.i, name, err)
	}
}

// kept waits until all members keep on their disks that all know the filters.
func (w *trio) kept(names ...string) {
	w.t.Helper()
	until(w.t, "members that keep what all have", func() bool {
		for i, p := range w.procs {
			c, err := openCatalogue(w.disks[i])
			must(w.t, err)
			v := p.member.View()
			c.resume(v.Epoch())
			if slices.ContainsFunc(names, func(name string) bool { _, known := c.everywhere([]byte(name)); return !known }) {
				return false
			}
		}
		return w.listed()
	})
}

// TestFiltersKnownAfterStart: a member that was started again while another one is away says which filters exist and which are gone, as far as
// all members knew it before. With a disk that is no longer that of a member it does not.
func TestFiltersKnownAfterStart(t *testing.T) {
	t.Parallel()
	w := startTrio(t)
	w.procs[1].create(t, "f")
	w.procs[1].create(t, "g")
	must(t, w.procs[1].member.Filters().Drop(ctx1(t), []byte("g")))
	w.kept("f", "g")
	w.procs[2].stop()
	for i := range 2 {
		w.procs[i].stop()
		p := w.start(i)
		p.exists(t, "f")
		p.gone(t, "g")
		if created, err := p.member.Filters().Create(ctx1(t), []byte("g"), door.FilterCreate{}); created || !errors.Is(err, door.ErrUnavailable) {
			t.Errorf("node %d creates one while a member is away: %v, %v", i, created, err)
		}
	}
	w.start(2)
	until(t, "three members", w.listed)
	disk, files := w.disks[1], w.files[1]
	w.procs[1].stop()
	w.disks[1], w.files[1] = newDisk("b2"), testkit.NewDisk()
	time.Sleep(cloneTime)
	w.start(1)
	until(t, "a member with another disk", w.listed)
	must(t, w.procs[0].member.Filters().Drop(ctx1(t), []byte("f")))
	w.procs[1].stop()
	w.procs[2].stop()
	w.disks[1], w.files[1] = disk, files
	time.Sleep(cloneTime)
	p := w.start(1)
	until(t, "a member that knows that its disk is another one", func() bool {
		v := p.member.View()
		return !v.Serves
	})
	if created, err := p.member.Filters().Create(ctx1(t), []byte("f"), door.FilterCreate{}); created || !errors.Is(err, door.ErrUnavailable) {
		t.Errorf("a member with the disk of before says of a filter that was dropped: %v, %v", created, err)
	}
	w.start(2)
	until(t, "the disk of before in a new epoch", w.listed)
	if _, err := p.member.Filters().Find(ctx1(t), []byte("f")); !errors.Is(err, bigset.ErrNoFilter) {
		t.Errorf("it finds what was dropped: %v", err)
	}
}

// silence makes members answer no question for their state once it has begun.
type silence struct {
	t         *testing.T
	begun     atomic.Bool
	answering atomic.Int32
}

func (s *silence) around(h wire.Handler) wire.Handler {
	return func(ctx context.Context, r *wire.Request, send func([]byte) error) ([]byte, error) {
		if r.Verb == verbState {
			s.answering.Add(1)
			defer s.answering.Add(-1)
			if s.begun.Load() {
				return nil, wire.ErrBusy
			}
		}
		return h(ctx, r, send)
	}
}

func (s *silence) begin() {
	s.begun.Store(true)
	until(s.t, "the last answers", func() bool { return s.answering.Load() == 0 })
}

// TestFiltersKnownByAnswer: a member that was told that a filter exists, or that it has dropped one, need not ask again. Nor does one that has
// heard the same sum from all disks of the epoch.
func TestFiltersKnownByAnswer(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	silent := &silence{t: t}
	w.around = silent.around
	w.birth()
	silent.begin()
	w.procs[1].create(t, "f")
	w.procs[1].create(t, "g")
	must(t, w.procs[1].member.Filters().Drop(ctx1(t), []byte("g")))
	c := w.procs[2].member
	known := func(name string) bool {
		_, yes := c.filters.known([]byte(name))
		return yes
	}
	if known("f") || known("g") {
		t.Error("a member that was told nothing knows that all have it")
	}
	w.procs[2].exists(t, "f")
	if !known("f") || known("g") {
		t.Errorf("it was told of f: f %v, g %v", known("f"), known("g"))
	}
	said := func(change func(*State)) map[string]State {
		states := map[string]State{}
		for _, p := range w.procs[:2] {
			s, err := p.member.membership.State(t.Context())
			must(t, err)
			s.Committed = s.Committed.clone()
			if p.i == 0 {
				change(&s)
			}
			states[s.ID] = s
		}
		return states
	}
	for _, tt := range []struct {
		what   string
		change func(*State)
		want   bool
	}{
		{"another epoch", func(s *State) { s.Committed.Epoch-- }, false},
		{"another disk", func(s *State) { s.Identity = Hex("a2") }, false},
		{"other filters", func(s *State) { s.Filtered++ }, false},
		{"all", func(*State) {}, true},
	} {
		if err := c.filters.learnFrom(t.Context(), said(tt.change)); err != nil && tt.want || known("g") != tt.want {
			t.Errorf("%s: %v, %v", tt.what, known("g"), err)
		}
	}
	w.procs[0].stop()
	for _, p := range w.procs[1:] {
		p.exists(t, "f")
		p.gone(t, "g")
	}
}

// learner is the filters of a first member that learns something while it asks whether the others are ready.
type learner struct {
	LocalFilters
	then *atomic.Pointer[func()]
}

func (l learner) LastGeneration() uint64 {
	if then := l.then.Swap(nil); then != nil {
		(*then)()
	}
	return l.LocalFilters.LastGeneration()
}

// TestFiltersLearnedWhileAsked: a filter that the first member learns of while it decides does not count as one that all members have.
func TestFiltersLearnedWhileAsked(t *testing.T) {
	t.Parallel()
	w := newTrio(t, 3)
	silent := &silence{t: t}
	w.around = silent.around
	var then atomic.Pointer[func()]
	w.filters = func(i int, f LocalFilters) LocalFilters {
		if i > 0 {
			return f
		}
		return learner{f, &then}
	}
	w.birth()
	silent.begin()
	w.procs[0].create(t, "f")
	f := w.procs[0].member.filters
	g := newEntry([]byte("g"), bigset.NextGeneration(f.list.lastGeneration(), time.Now()), f.served["f"].spec.Options)
	learned := sync.OnceFunc(func() { must(t, f.take(ctx1(t), []FilterEntry{g})) })
	then.Store(&learned)
	w.procs[1].exists(t, "g")
	if then.Load() != nil {
		t.Error("the first member was not asked")
	}
	for _, p := range w.procs {
		if p.member.filters.list.get(g.Name) == nil {
			t.Errorf("node %d does not have what exists", p.i)
		}
	}
}
