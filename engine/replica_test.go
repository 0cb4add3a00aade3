package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// facts applies facts in store and model, and compares what they answer.
func (p *pair) facts(t rapid.TB, f bigset.Facts, sync bigset.Durability) bigset.FactsResult {
	t.Helper()
	p.absorb(t, string(f.Set))
	got, err := p.store.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: sync})
	must(t, err, p.label+": apply facts")
	want := p.model.ApplyFacts(f)
	if got != want {
		t.Fatalf("%s: facts changed %+v, want %+v", p.label, got, want)
	}
	if want != (bigset.FactsResult{}) {
		p.tell(string(f.Set))
	}
	if sync == bigset.Sync {
		p.model.Acknowledged()
	}
	return got
}

func element(name string, dots ...clock.Dot) fold.Element {
	return fold.Element{Name: []byte(name), Dots: dots}
}

func dotsOf(actor clock.Actor, first, last uint64) *clock.Clock {
	c := &clock.Clock{}
	c.AddRange(actor, first, last)
	return c
}

func (p *pair) known(t rapid.TB, set string) bigset.State {
	t.Helper()
	st, err := p.store.Replica().State(bg, []byte(set))
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}
	}
	must(t, err, p.label+": state")
	return st
}

// TestApplyFacts: facts are checked against what the receiver has seen, whatever it is that they say.
func TestApplyFacts(t *testing.T) {
	t.Parallel()
	x := func(n uint64) clock.Dot { return clock.Dot{Actor: "x", Counter: n} }
	for _, sync := range []bigset.Durability{bigset.NoSync, bigset.Sync} {
		p := newPair("store")
		p.open(t)
		p.all(t, "s", keyscheme.OpAdd, []string{"a", "b"}, sync)
		own := clock.Dot{Actor: p.store.Replica().Actor(), Counter: 1}
		for _, f := range []bigset.Facts{
			{},
			{Keys: []fold.Element{element("b", x(1)), element("c", x(2), x(3))}},
			{Keys: []fold.Element{element("b", x(1)), element("d", x(5))}},         // one is known
			{Keys: []fold.Element{element("e", x(6))}, Dead: clock.Of(x(6), x(2))}, // dies as it comes
			{Keys: []fold.Element{element("f", x(9))}, Dead: dotsOf("x", 7, 9)},    // it and what nobody has seen yet
			{Keys: []fold.Element{element("g", x(8)), element("e", x(6))}},         // dead before it came
			{Keys: []fold.Element{element("a", own)}, Dead: clock.Of(own)},         // its own dot
			{Dead: dotsOf("y", 1, 10_000)},                                         // more than are taken one by one
			{Keys: []fold.Element{element("h", clock.Dot{Actor: "y", Counter: 99})}, Dead: dotsOf("y", 50, 20_000)},
			{Keys: []fold.Element{element("h", clock.Dot{Actor: "z", Counter: math.MaxUint64})}},
		} {
			f.Set = []byte("s")
			p.facts(t, f, sync)
			p.check(t)
			p.facts(t, f, sync) // nothing is new
			p.check(t)
		}
		if err := testkit.SameElements(p.read(t, "s", bigset.ReadOptions{}), p.model.Set("s").Elements()); err != nil {
			t.Error(err)
		}
		p.counted(t, len(p.model.Set("s").Elements()), true) // some element may have two dots
		p.facts(t, bigset.Facts{Set: []byte("new"), Dead: clock.Of(x(1))}, sync)
		p.verify(t)
		p.close(t)
		p.open(t)
		p.check(t)
		p.verify(t)
		p.close(t)
	}
}

// TestFactsAndWrites: facts share a batch with operations that look for what they have brought.
func TestFactsAndWrites(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"first"}, bigset.NoSync)
	results := make(chan error, 2)
	must(t, p.store.HoldingWriters([]byte("s"), func() error { // both wait in the queue
		f := bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("a", clock.Dot{Actor: "x", Counter: 1})}}
		go func() {
			_, err := p.store.Replica().ApplyFacts(bg, f, bigset.ApplyOptions{Durability: bigset.NoSync})
			results <- err
		}()
		p.queued(t, "s", 1)
		go func() {
			_, err := p.store.Remove(bg, []byte("s"), [][]byte{[]byte("a")}, bigset.WriteOptions{})
			results <- err
		}()
		p.queued(t, "s", 2)
		return nil
	}), "hold")
	must(t, errors.Join(<-results, <-results), "facts and remove")
	if got, err := p.store.Look(bg, []byte("s"), []byte("a")); err != nil || got.Present {
		t.Errorf("removed after the facts: %v, %v", got, err)
	}
	p.verify(t)
}

// TestFactsRefused: what can't be is refused, and changes nothing.
func TestFactsRefused(t *testing.T) {
	p := newPair("store")
	p.open(t)
	p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.Sync)
	ahead, x := clock.Dot{Actor: p.store.Replica().Actor(), Counter: 2}, clock.Dot{Actor: "x", Counter: 1}
	many := make([]fold.Element, bigset.BatchOpsMax+1)
	for i := range many {
		many[i] = element("e", clock.Dot{Actor: "x", Counter: uint64(i + 1)})
	}
	var big []fold.Element
	for n := range uint64(bigset.BatchBytesMax/bigset.ElementBytesMax) + 1 {
		big = append(big, fold.Element{Name: make([]byte, bigset.ElementBytesMax), Dots: []clock.Dot{{Actor: "x", Counter: n + 1}}})
	}
	set := []byte("s")
	for what, c := range map[string]struct {
		f    bigset.Facts
		want error
	}{
		"no name":             {bigset.Facts{Keys: []fold.Element{element("a", x)}}, bigset.ErrRequest},
		"a long name":         {bigset.Facts{Set: make([]byte, bigset.SetNameBytesMax+1)}, bigset.ErrLimit},
		"a long element":      {bigset.Facts{Set: set, Keys: []fold.Element{{Name: make([]byte, bigset.ElementBytesMax+1), Dots: []clock.Dot{x}}}}, bigset.ErrLimit},
		"no dot":              {bigset.Facts{Set: set, Keys: []fold.Element{element("b", x), element("a")}}, bigset.ErrFacts},
		"a zero dot":          {bigset.Facts{Set: set, Keys: []fold.Element{element("a", clock.Dot{Actor: "x"})}}, bigset.ErrFacts},
		"no actor":            {bigset.Facts{Set: set, Keys: []fold.Element{element("a", clock.Dot{Counter: 1})}}, bigset.ErrFacts},
		"a dot twice":         {bigset.Facts{Set: set, Keys: []fold.Element{element("a", x), element("b", x)}}, bigset.ErrFacts},
		"a dot never issued":  {bigset.Facts{Set: set, Keys: []fold.Element{element("b", x), element("a", ahead)}}, bigset.ErrFacts},
		"a death of our own":  {bigset.Facts{Set: set, Keys: []fold.Element{element("b", x)}, Dead: clock.Of(ahead)}, bigset.ErrFacts},
		"in another set":      {bigset.Facts{Set: []byte("t"), Keys: []fold.Element{element("b", x)}, Dead: clock.Of(clock.Dot{Actor: ahead.Actor, Counter: 1})}, bigset.ErrFacts},
		"too many":            {bigset.Facts{Set: set, Keys: many}, bigset.ErrLimit},
		"too much":            {bigset.Facts{Set: set, Keys: big}, bigset.ErrLimit},
		"a durability unkown": {bigset.Facts{Set: set, Keys: []fold.Element{element("a", x)}}, bigset.ErrRequest},
	} {
		d := bigset.Sync
		if c.want == bigset.ErrRequest {
			d = 9
		}
		if _, err := p.store.Replica().ApplyFacts(bg, c.f, bigset.ApplyOptions{Durability: d}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		p.check(t)
	}
	sets := 0
	for range p.store.Sets(bg, bigset.SetsOptions{Empty: true}) {
		sets++
	}
	if sets != 1 {
		t.Errorf("%d sets, want the one", sets)
	}
	p.close(t)
	if _, err := p.store.Replica().ApplyFacts(bg, bigset.Facts{Set: set}, bigset.ApplyOptions{Durability: bigset.Sync}); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestDotStatus: each dot is what it is, at one moment.
func TestDotStatus(t *testing.T) {
	p := newPair("store")
	p.open(t)
	defer p.close(t)
	first := p.all(t, "s", keyscheme.OpAdd, []string{"a", "b"}, bigset.NoSync).Dots
	second := p.all(t, "s", keyscheme.OpAdd, []string{"a"}, bigset.NoSync).Dots
	dots := []clock.Dot{first[0], second[0], first[1], {Actor: "x", Counter: 1}}
	statuses := func(set string, want ...bigset.DotStatus) {
		t.Helper()
		got, err := p.store.Replica().DotStatus(bg, []byte(set), []byte("a"), dots)
		if err != nil || !slices.Equal(got.Statuses, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		var live []clock.Dot
		for i, v := range want {
			if v == bigset.Live {
				live = append(live, dots[i])
			}
		}
		for _, asked := range [][]clock.Dot{dots, nil} { // those that nobody asks about are named, too
			if got, err := p.store.Replica().DotStatus(bg, []byte(set), []byte("a"), asked); err != nil || !slices.Equal(got.Live, live) {
				t.Errorf("live by %v, %v, want %v", got.Live, err, live)
			}
		}
	}
	statuses("s", bigset.Dead, bigset.Live, bigset.Lost, bigset.NotSeen) // the third is another element's
	statuses("t", bigset.NotSeen, bigset.NotSeen, bigset.NotSeen, bigset.NotSeen)
	p.all(t, "s", keyscheme.OpRemove, []string{"a"}, bigset.NoSync)
	statuses("s", bigset.Dead, bigset.Dead, bigset.Lost, bigset.NotSeen)
	_, err := p.store.Compact(bg, engine.CompactOptions{})
	must(t, err, "compact")
	statuses("s", bigset.Dead, bigset.Dead, bigset.Lost, bigset.NotSeen)
	if _, err := p.store.Replica().DotStatus(bg, []byte("s"), []byte("a"), []clock.Dot{{}}); !errors.Is(err, bigset.ErrContext) {
		t.Errorf("a zero dot: %v", err)
	}
	if _, err := p.store.Replica().DotStatus(bg, nil, []byte("a"), nil); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("no name: %v", err)
	}
	if _, err := p.store.Replica().DotStatus(bg, []byte("s"), make([]byte, bigset.ElementBytesMax+1), nil); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("a long element: %v", err)
	}
}

// TestDotStatusMeanwhile: no dot is ever taken for lost, and the element always has one, while its element is replaced, removed and rewritten.
func TestDotStatusMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.opt.BackgroundInterval = time.Millisecond
	p.open(t)
	defer p.close(t)
	set, name := []byte("s"), []byte("a")
	var last atomic.Uint64
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for i := range tier.Times(5000) {
				res, err := p.store.Add(bg, set, [][]byte{name}, bigset.WriteOptions{Durability: bigset.NoSync})
				if err != nil {
					return err
				}
				last.Store(res.Dots[0].Counter)
				if i%500 == 0 {
					if _, err := p.store.Compact(bg, engine.CompactOptions{}); err != nil {
						return err
					}
				}
			}
			return nil
		}()
	}()
	for {
		select {
		case err := <-done:
			must(t, err, "write")
			return
		default:
		}
		n := last.Load()
		if n < 3 {
			continue
		}
		dots := []clock.Dot{{Actor: p.store.Replica().Actor(), Counter: n - 1}, {Actor: p.store.Replica().Actor(), Counter: n}}
		got, err := p.store.Replica().DotStatus(bg, set, name, dots)
		must(t, err, "status of dots")
		for i, v := range got.Statuses {
			if v != bigset.Live && v != bigset.Dead || (v == bigset.Live) != slices.Contains(got.Live, dots[i]) {
				t.Fatalf("dot %v is %v, live are %v", dots[i], v, got.Live)
			}
		}
		if len(got.Live) != 1 {
			t.Fatalf("an element that is always there has the dots %v", got.Live)
		}
	}
}

// digests returns the digests of all sets by name.
func digests(t rapid.TB, s *engine.Store, first, last keyscheme.Slot) map[string][16]byte {
	t.Helper()
	all, before := map[string][16]byte{}, bigset.SetDigest{}
	for d, err := range s.Replica().Digests(bg, first, last) {
		must(t, err, "digests")
		if d.Slot != keyscheme.SetSlot(d.Name) || d.Slot < first || d.Slot > last {
			t.Fatalf("set %q in slot %08x of %08x to %08x", d.Name, d.Slot, first, last)
		}
		if len(all) > 0 && (d.Slot < before.Slot || d.Slot == before.Slot && bytes.Equal(d.Name, before.Name)) {
			t.Fatalf("set %q comes after %q", d.Name, before.Name)
		}
		all[string(d.Name)], before = d.Sum, d
	}
	return all
}

// TestDigests: stores that know the same of a set have the same digest, however they came to it, and others have not.
func TestDigests(t *testing.T) {
	a, b := newPair("whole"), newPair("paged")
	b.split = []int{24, 40, 32, 64}
	a.open(t)
	b.open(t)
	defer a.close(t)
	defer b.close(t)
	var deltas []bigset.Delta
	a.minted = func(_ rapid.TB, d bigset.Delta) { deltas = append(deltas, d) }
	for i := range 700 {
		a.all(t, fmt.Sprintf("set %d", i), keyscheme.OpAdd, elementNames(0, 1+i%3), bigset.NoSync)
	}
	for i := range 120 {
		a.all(t, "s", keyscheme.OpAdd, elementNames(7*i, 7*i+4), bigset.NoSync)
		a.all(t, "s", keyscheme.OpRemove, elementNames(7*i+i%4, 7*i+i%4+1), bigset.NoSync)
	}
	for _, d := range slices.Backward(deltas) { // in another order: it has gaps on the way, and pages
		b.apply(t, d, bigset.NoSync)
	}
	if kinds, err := b.store.CausalKeys([]byte("s")); err != nil || kinds[keyscheme.KindTombstonePage] == 0 {
		t.Fatalf("no pages: %v, %v", kinds, err)
	}
	same := func(want bool) {
		t.Helper()
		left, right := digests(t, a.store, 0, keyscheme.SlotMax), digests(t, b.store, 0, keyscheme.SlotMax)
		if len(left) != 701 || len(right) != 701 {
			t.Fatalf("%d and %d sets", len(left), len(right))
		}
		for name, sum := range left {
			if (right[name] == sum) != (want || name != "s") {
				t.Errorf("set %q: %x and %x", name, sum, right[name])
			}
		}
	}
	same(true)
	ranges := func(s *engine.Store, first, last keyscheme.Slot, parts int) (sum []bigset.RangeDigest) {
		t.Helper()
		all, err := s.Replica().RangeDigests(bg, first, last, parts)
		must(t, err, "digests of ranges")
		for _, r := range all { // each has the sets that are in its slots
			if n := len(digests(t, s, r.First, r.Last)); uint64(n) != r.Sets || (n == 0) != (r.Sum == [16]byte{}) {
				t.Fatalf("%d sets in %+v", n, r)
			}
		}
		return all
	}
	differ := func() (n int) {
		t.Helper()
		left, right := ranges(a.store, 0, keyscheme.SlotMax, 100), ranges(b.store, 0, keyscheme.SlotMax, 100)
		if len(left) != 100 || len(right) != 100 || left[0].First != 0 || left[99].Last != keyscheme.SlotMax {
			t.Fatalf("%d and %d parts", len(left), len(right))
		}
		for i := range left {
			if left[i] != right[i] {
				n++
			}
		}
		return n
	}
	if n := differ(); n != 0 {
		t.Errorf("%d ranges differ", n)
	}
	slot := keyscheme.SetSlot([]byte("s"))
	if r := ranges(a.store, slot, slot, 7); len(r) != 1 || r[0].Sets != 1 {
		t.Errorf("the range of one slot: %+v", r)
	}
	for _, parts := range []int{0, bigset.RangePartsMax + 1} {
		if _, err := a.store.Replica().RangeDigests(bg, 0, 9, parts); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("%d parts: %v", parts, err)
		}
	}
	if _, err := a.store.Replica().RangeDigests(bg, 2, 1, 3); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("no range: %v", err)
	}
	half := keyscheme.SlotMax / 2
	if low, high := digests(t, a.store, 0, half), digests(t, a.store, half+1, keyscheme.SlotMax); len(low)+len(high) != 701 || len(low) == 0 || len(high) == 0 {
		t.Errorf("%d and %d sets in the halves", len(low), len(high))
	}
	x := clock.Dot{Actor: "x", Counter: 1}
	a.facts(t, bigset.Facts{Set: []byte("s"), Keys: []fold.Element{element("new", x)}}, bigset.NoSync)
	same(false) // one has seen more
	if n := differ(); n != 1 {
		t.Errorf("%d ranges differ, want 1", n)
	}
	b.facts(t, bigset.Facts{Set: []byte("s"), Dead: clock.Of(x)}, bigset.NoSync)
	same(false) // the other knows that it is dead
	a.facts(t, bigset.Facts{Set: []byte("s"), Dead: clock.Of(x)}, bigset.NoSync)
	same(true)
	for _, err := range a.store.Replica().Digests(bg, 2, 1) {
		if !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("no range: %v", err)
		}
	}
}
