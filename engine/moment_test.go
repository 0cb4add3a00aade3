package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bigset"
	"bigset/compaction"
	"bigset/engine"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// momentNames reads a set of a moment, by chunks of a few elements.
func momentNames(t *testing.T, m *engine.Moment, set int, o bigset.ReadOptions) (names []string) {
	t.Helper()
	o.BatchSize = 7
	for chunk, err := range m.Read(bg, set, o) {
		must(t, err, "read a moment")
		for _, e := range chunk.Elements {
			names = append(names, string(e.Name))
		}
	}
	return names
}

func openMoment(t *testing.T, s *engine.Store, sets ...string) *engine.Moment {
	t.Helper()
	names := make([][]byte, len(sets))
	for i, set := range sets {
		names[i] = []byte(set)
	}
	m, err := s.Moment(bg, names)
	must(t, err, "open a moment")
	return m
}

// momentPair returns a pair whose set s has the elements. It is closed at the end of the test. tune, if it is not nil, changes its options.
func momentPair(t *testing.T, tune func(*engine.Options), elements ...string) *pair {
	t.Helper()
	p := newPair("store")
	if tune != nil {
		tune(&p.opt)
	}
	p.open(t)
	t.Cleanup(func() { p.close(t) })
	p.all(t, "s", keyscheme.OpAdd, elements, bigset.Sync)
	return p
}

func setRecords(o *engine.Options) { o.Record = compaction.Set }

// whenViewed calls do once, when the next moment has taken its views and has not opened its iterators. The moment waits until do returns, or for
// as long as wait. do has a goroutine of its own, because the moment holds locks that a writer must not hold. join waits for it.
func (p *pair) whenViewed(t *testing.T, wait time.Duration, do func() error) (join func()) {
	done := make(chan struct{})
	p.store.WhenViewed(func() {
		p.store.WhenViewed(nil)
		go func() {
			defer close(done)
			if err := do(); err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-done:
		case <-time.After(wait):
		}
	})
	return func() { <-done }
}

// TestMomentHasWholeBatches: a batch adds, replaces and removes elements after the views of a moment were taken and before its iterators are opened. The moment
// shows nothing of it, in reads and in look-ups.
func TestMomentHasWholeBatches(t *testing.T) {
	p := momentPair(t, nil, "a", "b", "c")
	p.whenViewed(t, time.Minute, func() error {
		ops := []bigset.Op{{Kind: keyscheme.OpRemove, Element: []byte("b")}, {Kind: keyscheme.OpAdd, Element: []byte("a")}, {Kind: keyscheme.OpAdd, Element: []byte("bb")}}
		_, err := p.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{})
		return err
	})
	m := openMoment(t, p.store, "s", "nothing", "s")
	for set, want := range [][]string{{"a", "b", "c"}, nil, {"a", "b", "c"}} {
		if got := momentNames(t, m, set, bigset.ReadOptions{}); !slices.Equal(got, want) {
			t.Errorf("set %d of the moment has %q, want %q", set, got, want)
		}
		yes := make([]bool, 4)
		must(t, m.Contains(bg, set, [][]byte{[]byte("a"), []byte("b"), []byte("bb"), []byte("c")}, yes), "look up")
		if has := len(want) > 0; !slices.Equal(yes, []bool{has, has, false, has}) {
			t.Errorf("look-ups in set %d of the moment: %v", set, yes)
		}
	}
	yes := make([]bool, 4)
	must(t, m.Contains(bg, 0, [][]byte{[]byte("a"), []byte("b"), []byte("bb"), []byte("c")}, yes), "look up")
	if want := []bool{true, true, false, true}; !slices.Equal(yes, want) {
		t.Errorf("look-ups in the moment: %v, want %v", yes, want)
	}
	must(t, m.Close(), "close")
	m = openMoment(t, p.store, "s")
	if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, []string{"a", "bb", "c"}) {
		t.Errorf("the next moment has %q", got)
	}
	must(t, m.Close(), "close")
}

// TestMomentOfSeveralSets: while the views of two sets are taken, an element comes into the first one and then leaves the second. It is in one of them at every moment.
func TestMomentOfSeveralSets(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	p.all(t, "a", keyscheme.OpAdd, []string{"y"}, bigset.Sync)
	p.all(t, "b", keyscheme.OpAdd, []string{"x"}, bigset.Sync)
	moved := make(chan struct{})
	p.store.WhenViewing(func() {
		p.store.WhenViewing(nil)
		go func() {
			defer close(moved)
			_, err := p.store.Add(bg, []byte("a"), [][]byte{[]byte("x")}, bigset.WriteOptions{})
			if err == nil {
				_, err = p.store.Remove(bg, []byte("b"), [][]byte{[]byte("x")}, bigset.WriteOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		}()
		select { // it waits until the views are taken
		case <-moved:
		case <-time.After(50 * time.Millisecond):
		}
	})
	m := openMoment(t, p.store, "a", "b")
	<-moved
	a, b := momentNames(t, m, 0, bigset.ReadOptions{}), momentNames(t, m, 1, bigset.ReadOptions{})
	if slices.Contains(a, "x") == slices.Contains(b, "x") {
		t.Errorf("the first set has %q, the second %q: no such moment was", a, b)
	}
	must(t, m.Close(), "close")
}

// TestMomentOnPointDeletes: on a store that deletes killed keys a batch replaces and removes elements while a moment is opened. The moment shows
// all of it or nothing.
func TestMomentOnPointDeletes(t *testing.T) {
	p := momentPair(t, setRecords, "a", "b", "c")
	join := p.whenViewed(t, 50*time.Millisecond, func() error { // it waits until the moment is open
		ops := []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("a")}, {Kind: keyscheme.OpRemove, Element: []byte("b")}, {Kind: keyscheme.OpAdd, Element: []byte("bb")}}
		_, err := p.store.Write(bg, []byte("s"), ops, bigset.WriteOptions{Durability: bigset.NoSync})
		return err
	})
	m := openMoment(t, p.store, "s")
	join()
	before, after := []string{"a", "b", "c"}, []string{"a", "bb", "c"}
	if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, before) && !slices.Equal(got, after) {
		t.Errorf("the moment has %q: no such moment was", got)
	}
	must(t, m.Close(), "close")
}

// TestWritersBesideAWaitingMoment: on a store that deletes killed keys a list of sets waits for a swap. Writers do not wait for it.
func TestWritersBesideAWaitingMoment(t *testing.T) {
	p := momentPair(t, setRecords, "a")
	waits, end := p.store.Swapping()
	listed, written := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(listed)
		for _, err := range p.store.Sets(bg, bigset.SetsOptions{}) {
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for !waits() {
		time.Sleep(time.Millisecond)
	}
	go func() {
		_, err := p.store.Add(bg, []byte("s"), [][]byte{[]byte("a")}, bigset.WriteOptions{Durability: bigset.NoSync})
		written <- err
	}()
	select {
	case err := <-written:
		must(t, err, "add")
	case <-time.After(time.Minute):
		t.Error("the writer waits for the swap")
	}
	end()
	<-listed
}

// TestMomentOfSetThatIsExcised: after the view of a moment was taken, its set is dropped and excised, and gets an element again. The set was never
// without elements for longer than the drop, so the moment shows that element.
func TestMomentOfSetThatIsExcised(t *testing.T) {
	p := momentPair(t, nil, "a", "b", "c")
	p.whenViewed(t, time.Minute, func() error {
		_, err := p.store.Drop(bg, []byte("s"), bigset.DropOptions{})
		if err == nil {
			err = p.store.RunnerTick(bg)
		}
		if err == nil {
			_, err = p.store.Add(bg, []byte("s"), [][]byte{[]byte("d")}, bigset.WriteOptions{})
		}
		return err
	})
	m := openMoment(t, p.store, "s")
	if stats, err := p.store.Stats(); err != nil || stats.Excises != 1 {
		t.Fatalf("%d excises, %v", stats.Excises, err)
	}
	if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, []string{"d"}) {
		t.Errorf("the moment has %q: no such moment was", got)
	}
	must(t, m.Close(), "close")
}

// TestMomentBesideManySwaps: whenever a moment has taken its views, another set is excised. After some of that the moment holds excises back.
func TestMomentBesideManySwaps(t *testing.T) {
	p := momentPair(t, nil, "a", "b")
	calls, held := 0, make(chan struct{})
	p.store.WhenViewed(func() {
		if calls++; calls > lsm.OpenTries+1 {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := p.store.Add(bg, []byte("other"), [][]byte{[]byte("x")}, bigset.WriteOptions{})
			if err == nil {
				_, err = p.store.Drop(bg, []byte("other"), bigset.DropOptions{})
			}
			if err == nil {
				err = p.store.RunnerTick(bg)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		if calls <= lsm.OpenTries {
			<-done
			return
		}
		held = done
		select {
		case <-done:
			t.Error("the moment has begun again, and would do so for ever")
		case <-time.After(20 * time.Millisecond):
		}
	})
	m := openMoment(t, p.store, "s")
	<-held
	if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the moment has %q", got)
	}
	must(t, m.Close(), "close")
	if stats, err := p.store.Stats(); err != nil || calls != lsm.OpenTries+1 || stats.Excises != lsm.OpenTries+1 {
		t.Errorf("%d views, %d excises, %v", calls, stats.Excises, err)
	}
}

// TestMomentWaitsAlone: while a moment waits for one of its sets, it holds up no other.
func TestMomentWaitsAlone(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	for _, set := range []string{"a", "held", "z"} {
		p.all(t, set, keyscheme.OpAdd, []string{"x"}, bigset.Sync)
	}
	release, err := p.store.HoldSet([]byte("held"))
	must(t, err, "hold a set")
	opened := make(chan *engine.Moment)
	go func() {
		m, err := p.store.Moment(bg, [][]byte{[]byte("a"), []byte("held"), []byte("z")})
		if err != nil {
			t.Error(err)
		}
		opened <- m
	}()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 50 {
			for _, set := range []string{"a", "z"} {
				if _, err := p.store.Add(bg, []byte(set), [][]byte{fmt.Append(nil, i)}, bigset.WriteOptions{Durability: bigset.NoSync}); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Millisecond) // while the moment waits
		}
	}()
	select {
	case <-written:
	case <-time.After(time.Minute):
		t.Error("writers wait for a set that a moment waits for")
	}
	release()
	<-written
	m := <-opened
	for set, want := range []int{51, 1, 51} {
		if got := momentNames(t, m, set, bigset.ReadOptions{}); len(got) != want {
			t.Errorf("set %d has %d elements, want %d", set, len(got), want)
		}
	}
	must(t, m.Close(), "close")
	must(t, m.Close(), "close again")
}

// TestMomentPassesNoLiveKeys: a usual reader learns of a run of keys that died after a moment was opened; the moment shows them still.
func TestMomentPassesNoLiveKeys(t *testing.T) {
	names := elementNames(0, 400)
	p := momentPair(t, nil, names...)
	m := openMoment(t, p.store, "s")
	p.all(t, "s", keyscheme.OpRemove, names[100:300], bigset.Sync)
	for range 3 {
		left := 0
		for _, err := range p.store.Elements(bg, []byte("s"), bigset.ReadOptions{}) {
			must(t, err, "read")
			left++
		}
		if got := momentNames(t, m, 0, bigset.ReadOptions{}); left != 200 || len(got) != 400 {
			t.Errorf("%d elements are left, the moment has %d", left, len(got))
		}
	}
	must(t, m.Close(), "close")
}

// TestMomentStays: a moment shows its sets unchanged while they are written, dropped, flushed, compacted and rewritten: in parts, in both directions, and again.
func TestMomentStays(t *testing.T) {
	names := elementNames(0, 60)
	p := momentPair(t, func(o *engine.Options) { o.Strategy, o.SpanBytes = eager(compaction.Default()), 1<<10 }, names...)
	p.all(t, "dropped", keyscheme.OpAdd, names[:9], bigset.Sync)
	p.all(t, "s", keyscheme.OpRemove, names[10:20], bigset.Sync)
	was := slices.Concat(names[:10], names[20:])
	slices.Sort(was)
	m := openMoment(t, p.store, "s", "dropped")
	check := func(when string) {
		t.Helper()
		for range 2 {
			if got := momentNames(t, m, 0, bigset.ReadOptions{}); !slices.Equal(got, was) {
				t.Errorf("%s: %d elements, %d were in it: %q", when, len(got), len(was), got)
			}
		}
		at := was[len(was)/2]
		for what, c := range map[string]struct {
			o    bigset.ReadOptions
			want []string
		}{
			"from":    {bigset.ReadOptions{From: []byte(at), Limit: 20}, was[len(was)/2:][:20]},
			"one":     {bigset.ReadOptions{From: []byte(at), To: []byte(at + "\x00")}, was[len(was)/2:][:1]},
			"absent":  {bigset.ReadOptions{From: []byte(at + "!"), To: []byte(at + "!\x00")}, nil},
			"nothing": {bigset.ReadOptions{From: []byte("b"), To: []byte("a")}, nil},
		} {
			if got := momentNames(t, m, 0, c.o); !slices.Equal(got, c.want) {
				t.Errorf("%s: %s: %q, want %q", when, what, got, c.want)
			}
		}
		back := momentNames(t, m, 0, bigset.ReadOptions{Reverse: true})
		if slices.Reverse(back); !slices.Equal(back, was) {
			t.Errorf("%s: backwards it has %q", when, back)
		}
		if got := momentNames(t, m, 1, bigset.ReadOptions{}); len(got) != 9 {
			t.Errorf("%s: the dropped set has %q", when, got)
		}
		all := slices.Concat(elementNames(0, 105), []string{"", strings.Repeat("x", bigset.ElementBytesMax)})
		asked, yes := make([][]byte, len(all)), make([]bool, len(all))
		for i, e := range all {
			asked[i] = []byte(e)
		}
		for set, has := range [][]string{was, names[:9]} {
			must(t, m.Contains(bg, set, asked, yes), "look up")
			for i, e := range all {
				if yes[i] != slices.Contains(has, e) {
					t.Errorf("%s: %.20q is in set %d of the moment: %v", when, e, set, yes[i])
				}
			}
		}
	}
	check("at once")
	p.all(t, "s", keyscheme.OpRemove, names[20:50], bigset.Sync)
	p.all(t, "s", keyscheme.OpAdd, slices.Concat(names[:5], elementNames(60, 100)), bigset.Sync)
	_, err := p.store.Drop(bg, []byte("dropped"), bigset.DropOptions{})
	must(t, err, "drop")
	check("after writes")
	must(t, p.store.CompactTables(bg), "compact")
	_, err = p.store.RewriteSpan(bg, []byte("s"), nil, 1)
	must(t, err, "rewrite")
	check("after compactions")
	must(t, m.Close(), "close")
	if n := p.store.Readers([]byte("s")); n != 0 {
		t.Errorf("%d readers of the set are left", n)
	}
}

// TestMomentEnds: a moment can be read for a minute, and as long as the caller's context is not done. A name that can't be one is an error, and nothing is left open.
func TestMomentEnds(t *testing.T) {
	p := momentPair(t, nil, "a")
	m := openMoment(t, p.store, "s")
	chunks := 0
	for chunk, err := range m.Read(bg, 0, bigset.ReadOptions{From: []byte("b"), To: []byte("a")}) {
		must(t, err, "read nothing")
		if chunks++; !chunk.Done || chunk.Clock.Len() != 1 {
			t.Errorf("a range without elements has the clock %v, done %v", chunk.Clock, chunk.Done)
		}
	}
	if chunks != 1 {
		t.Errorf("a range without elements has %d chunks", chunks)
	}
	done, cancel := context.WithCancel(bg)
	cancel()
	fails := func(ctx context.Context, want error) {
		t.Helper()
		if err := m.Contains(ctx, 0, [][]byte{[]byte("a")}, make([]bool, 1)); !errors.Is(err, want) {
			t.Errorf("a look-up has the error %v, want %v", err, want)
		}
		for _, err := range m.Read(ctx, 0, bigset.ReadOptions{}) {
			if !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
			return
		}
		t.Errorf("nothing was read, want %v", want)
	}
	fails(done, context.Canceled)
	m.Age(2 * time.Minute)
	fails(bg, context.DeadlineExceeded)
	must(t, m.Close(), "close")
	for what, call := range map[string]struct {
		ctx  context.Context
		name string
	}{"no name": {bg, ""}, "done": {done, "s"}} {
		if m, err := p.store.Moment(call.ctx, [][]byte{[]byte("s"), []byte(call.name)}); err == nil {
			t.Errorf("%s: no error", what)
			must(t, m.Close(), fmt.Sprint("close ", what))
		}
	}
}
