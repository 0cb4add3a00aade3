package coord_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
	"bigset/server/coord"
	"bigset/server/peer"
	"bigset/server/peer/local"
)

// newSlices returns a line to a replica of slices, which is to be closed.
func newSlices(t rapid.TB, node string) (l *sliceLine, done func()) {
	t.Helper()
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1, MemTableBytes: 1 << 20, Durability: bigset.NoSync})
	if err != nil {
		t.Fatal(err)
	}
	replica, err := local.New(node, store, peer.Normal)
	if err != nil {
		t.Fatal(err)
	}
	replica.SetSeat(bloomslice.Seat(node[len(node)-1] - 'a'))
	return &sliceLine{SliceReplica: replica}, func() { _ = store.Close() }
}

// sliceLine is the way to a replica of slices, for an exchange: it breaks.
type sliceLine struct {
	peer.SliceReplica
	calls  int
	fails  int             // the call that fails, from 1
	cause  error           // what it fails with; nil means errDown
	before func()          // each call
	bad    map[string]bool // filters whose pages can't be read
	sent   int             // bytes of sums and pages
	drops  int
}

var errDown = fmt.Errorf("%w: the line is down", peer.ErrUnavailable)

func (l *sliceLine) over() error {
	if l.calls++; l.before != nil {
		l.before()
	}
	if l.calls == l.fails {
		return cmp.Or(l.cause, errDown)
	}
	return nil
}

func (l *sliceLine) DropGeneration(ctx context.Context, name []byte, slices uint32, generation uint64) (peer.Member, error) {
	if err := l.over(); err != nil {
		return l.Member(), err
	}
	l.drops++
	return l.SliceReplica.DropGeneration(ctx, name, slices, generation)
}

func (l *sliceLine) SliceDigests(ctx context.Context, first, last keyscheme.Slot) iter.Seq2[bigset.SliceDigest, error] {
	return func(yield func(bigset.SliceDigest, error) bool) {
		for d, err := range l.SliceReplica.SliceDigests(ctx, first, last) {
			if e := l.over(); e != nil {
				err = e
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func (l *sliceLine) PageSums(ctx context.Context, spec bigset.SliceSpec, after *bigset.PagePlace, most int) (s bigset.PageSums, m peer.Member, err error) {
	if err := l.over(); err != nil {
		return s, l.Member(), err
	}
	s, m, err = l.SliceReplica.PageSums(ctx, spec, after, most)
	l.sent += 12 * len(s.Sums)
	return s, m, err
}

func (l *sliceLine) Pages(ctx context.Context, spec bigset.SliceSpec, places []bigset.PagePlace) (p bigset.SlicePages, m peer.Member, err error) {
	if err := l.over(); err != nil {
		return p, l.Member(), err
	}
	if l.bad[string(spec.Name)] {
		return p, l.Member(), fmt.Errorf("%w: a block", bigset.ErrCorrupt)
	}
	p, m, err = l.SliceReplica.Pages(ctx, spec, places)
	for i := range p.Pages {
		l.sent += len(p.Pages[i].Value)
	}
	return p, m, err
}

func (l *sliceLine) MergePages(ctx context.Context, p bigset.SlicePages) (peer.Member, error) {
	if err := l.over(); err != nil {
		return l.Member(), err
	}
	return l.SliceReplica.MergePages(ctx, p)
}

// soonFull has layers of 100 keys.
var soonFull = bigset.FilterOptions{
	Options:    bloomslice.Options{Capacity: 10_001, Probability: 1e-3, Scale: 2, Reduction: 0.9, Slices: 2, Owners: 50},
	Durability: bigset.FilterInterval,
}

func sliceOf(name string, slice uint32, generation uint64) bigset.SliceSpec {
	return bigset.SliceSpec{Name: []byte(name), Slice: slice, Generation: generation, Options: soonFull}
}

func numberedHashes(from, n int) (all []bloomslice.Hash) {
	for i := range n {
		all = append(all, bloomslice.Sum(fmt.Appendf(nil, "key %d", from+i)))
	}
	return all
}

// dumpSlices is all that a replica has of slices, bit by bit, with the figures, and what is dropped.
func dumpSlices(t rapid.TB, r peer.SliceReplica) string {
	t.Helper()
	var b strings.Builder
	for d, err := range r.SliceDigests(ctx, 0, keyscheme.SlotMax) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s/%d generation %d dropped %v\n", d.Name, d.Slice, d.Generation, d.Dropped)
		if d.Dropped {
			continue
		}
		s, _, err := r.PageSums(ctx, d.SliceSpec, nil, 0)
		if err != nil || !s.Done {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v %+v\n", s.Layers, bloomslice.FiguresOf(s.Layers))
		for i := range s.Sums {
			p, _, err := r.Pages(ctx, d.SliceSpec, []bigset.PagePlace{s.Sums[i].PagePlace})
			if err != nil || len(p.Pages) != 1 {
				t.Fatal(err, p)
			}
			bits, err := bloomslice.DecodePage(nil, p.Pages[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%v %x\n", s.Sums[i].PagePlace, bits)
		}
	}
	return b.String()
}

// sliceWorld is three replicas, and what should be in them.
type sliceWorld struct {
	t     *rapid.T
	lines []*sliceLine
	key   int
	at    map[string]*filterModel // by name/slice
	gen   map[string]uint64       // the last that was given, by name
	last  uint64                  // that was given to any
	late  []bigset.Marks
}

// filterModel is what has been done to a slice, by generation.
type filterModel struct {
	marked  map[uint64][]bloomslice.Hash
	added   map[uint64]uint64 // how many were counted
	dropped uint64            // the last that was
}

func (w *sliceWorld) model(spec bigset.SliceSpec) *filterModel {
	k := fmt.Sprintf("%s/%d", spec.Name, spec.Slice)
	if w.at[k] == nil {
		w.at[k] = &filterModel{marked: map[uint64][]bloomslice.Hash{}, added: map[uint64]uint64{}}
	}
	return w.at[k]
}

// mark marks keys, some of which were marked before, and sends the marks to some others.
func (w *sliceWorld) mark(at int, name string, n int, tell []bool) {
	from := max(0, w.key-rapid.IntRange(0, 20).Draw(w.t, "again"))
	w.key = max(w.key, from+n)
	hashes := map[uint32][]bloomslice.Hash{}
	for _, h := range numberedHashes(from, n) {
		slice := h.Slice(soonFull.Slices)
		hashes[slice] = append(hashes[slice], h)
	}
	for slice := range soonFull.Slices {
		spec := sliceOf(name, slice, w.gen[name])
		m, added, _, err := w.lines[at].SliceReplica.Mark(ctx, spec, hashes[slice])
		if errors.Is(err, bigset.ErrNoFilter) {
			return
		}
		if err != nil {
			w.t.Fatal(err)
		}
		model := w.model(spec)
		model.marked[spec.Generation] = append(model.marked[spec.Generation], hashes[slice]...)
		for _, new := range added {
			if new {
				model.added[spec.Generation]++
			}
		}
		w.late = append(w.late, m)
		for i, told := range tell {
			if told && i != at {
				w.apply(i, m)
			}
		}
	}
}

func (w *sliceWorld) apply(at int, m bigset.Marks) {
	if _, _, err := w.lines[at].SliceReplica.ApplyMarks(ctx, m); err != nil && !errors.Is(err, bigset.ErrNoFilter) {
		w.t.Fatal(err)
	}
}

// exchange lets two replicas exchange; it may be broken off, and they are marked at the same time.
func (w *sliceWorld) exchange(a, b int) {
	la, lb := w.lines[a], w.lines[b]
	la.calls, lb.calls = 0, 0
	la.fails, lb.fails = rapid.IntRange(0, 12).Draw(w.t, "fails"), rapid.IntRange(0, 12).Draw(w.t, "fails")
	marks := rapid.IntRange(0, 3).Draw(w.t, "marks during it")
	lb.before = func() {
		if marks > 0 {
			marks--
			w.mark(b, w.draw(), 5, nil)
		}
	}
	_, err := coord.ExchangeSlices(ctx, la, lb, 0, keyscheme.SlotMax)
	if err != nil && !errors.Is(err, errDown) {
		w.t.Fatal(err)
	}
	la.fails, lb.fails, lb.before = 0, 0, nil
}

func (w *sliceWorld) draw() string {
	name := rapid.SampledFrom([]string{"f", "g"}).Draw(w.t, "filter")
	if w.gen[name] == 0 {
		w.next(name)
	}
	return name
}

// next gives a filter its next generation, which is that of no other.
func (w *sliceWorld) next(name string) {
	w.last++
	w.gen[name] = w.last
}

func (w *sliceWorld) step() {
	at := rapid.IntRange(0, 2).Draw(w.t, "at")
	switch k := rapid.IntRange(0, 99).Draw(w.t, "what"); {
	case k < 45:
		w.mark(at, w.draw(), rapid.IntRange(1, 250).Draw(w.t, "keys"), []bool{k%2 == 0, k%3 == 0, k%5 == 0})
	case k < 55 && len(w.late) > 0:
		w.apply(at, rapid.SampledFrom(w.late).Draw(w.t, "late"))
	case k < 62:
		w.next(w.draw())
	case k < 70:
		name := w.draw()
		if _, err := w.lines[at].SliceReplica.DropGeneration(ctx, []byte(name), soonFull.Slices, w.gen[name]); err != nil {
			w.t.Fatal(err)
		}
		for slice := range soonFull.Slices {
			w.model(sliceOf(name, slice, 0)).dropped = w.gen[name]
		}
	default:
		w.exchange(at, (at+1+k%2)%3)
	}
}

// settle exchanges until no replica has anything to send, and compares the results.
func (w *sliceWorld) settle() {
	for _, i := range []int{0, 1, 0} {
		if _, err := coord.ExchangeSlices(ctx, w.lines[i], w.lines[i+1], 0, keyscheme.SlotMax); err != nil {
			w.t.Fatal(err)
		}
	}
	want := dumpSlices(w.t, w.lines[0])
	for i, l := range w.lines {
		if got := dumpSlices(w.t, l); got != want {
			w.t.Fatalf("node %d has %.2000s\n--- and node 0\n%.2000s", i, got, want)
		}
		sum, err := coord.ExchangeSlices(ctx, l, w.lines[(i+1)%3], 0, keyscheme.SlotMax)
		if err != nil || sum != (coord.Exchanged{Slices: len(w.at)}) {
			w.t.Fatalf("equal ones: %+v, %v, %d slices", sum, err, len(w.at))
		}
	}
	digests := map[string]bigset.SliceDigest{}
	for d, err := range w.lines[0].SliceDigests(ctx, 0, keyscheme.SlotMax) {
		if err != nil {
			w.t.Fatal(err)
		}
		digests[fmt.Sprintf("%s/%d", d.Name, d.Slice)] = d
	}
	for k, m := range w.at {
		w.check(k, m, digests[k])
	}
}

func (w *sliceWorld) check(name string, m *filterModel, d bigset.SliceDigest) {
	last := m.dropped
	for g := range m.marked {
		last = max(last, g)
	}
	if d.Generation != last || d.Dropped != (last == m.dropped) {
		w.t.Fatalf("%s: generation %d dropped %v, want %d, the last that was dropped is %d", name, d.Generation, d.Dropped, last, m.dropped)
	}
	if d.Dropped {
		return
	}
	for _, l := range w.lines {
		present, _, err := l.Check(ctx, d.SliceSpec, m.marked[last])
		if err != nil {
			w.t.Fatal(err)
		}
		for i, has := range present {
			if !has {
				w.t.Fatalf("%s denies mark %d of %s", l.Member().Node, i, name)
			}
		}
		s, _, err := l.PageSums(ctx, d.SliceSpec, nil, 0)
		if size := bloomslice.FiguresOf(s.Layers).Size; err != nil || size != m.added[last] {
			w.t.Fatalf("%s counts %d keys of %s, %d were added: %v", l.Member().Node, size, name, m.added[last], err)
		}
	}
}

// TestSlicesConverge: whatever was marked, dropped and made again, at whichever replicas, and however exchanges were broken off: in the end all
// have the same, which is all of the last generation; nothing that was dropped is back.
func TestSlicesConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &sliceWorld{t: rt, at: map[string]*filterModel{}, gen: map[string]uint64{}}
		for _, node := range []string{"a", "b", "c"} {
			l, done := newSlices(rt, node)
			defer done()
			w.lines = append(w.lines, l)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			w.step()
		}
		w.settle()
	})
}

// markSome marks keys of a filter of one slice, at one replica.
func markSome(t *testing.T, r peer.SliceReplica, name string, generation uint64, from, n int) bigset.SliceSpec {
	t.Helper()
	spec := sliceOf(name, 0, generation)
	spec.Options.Slices = 1
	if _, _, _, err := r.Mark(ctx, spec, numberedHashes(from, n)); err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestExchangeSlicesEnds: a replica that is not available, or does not answer in time, ends the exchange, which says so; whichever call it is.
func TestExchangeSlicesEnds(t *testing.T) {
	for _, cause := range []error{errDown, context.DeadlineExceeded} {
		for call := 1; call <= 4; call++ {
			for end := range 2 {
				a, doneA := newSlices(t, "a")
				b, doneB := newSlices(t, "b")
				for i, name := range []string{"f", "g"} {
					markSome(t, a, name, uint64(i+1), 0, 50)
					markSome(t, b, name, uint64(i+1), 40, 50)
				}
				line := []*sliceLine{a, b}[end]
				line.fails, line.cause = call, cause
				if sum, err := coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax); !errors.Is(err, cause) || sum.Slices > 1 {
					t.Errorf("call %d, %v: %+v, %v", call, cause, sum, err)
				}
				doneA()
				doneB()
			}
		}
	}
}

// TestExchangeSlicesGoesOn: what fails for one slice is reported, and the others are exchanged.
func TestExchangeSlicesGoesOn(t *testing.T) {
	names := []string{"one", "two", "three", "four"}
	a, doneA := newSlices(t, "a")
	defer doneA()
	b, doneB := newSlices(t, "b")
	defer doneB()
	for i, name := range names {
		markSome(t, a, name, uint64(i+1), 0, 50)
		markSome(t, b, name, uint64(i+1), 40, 50)
	}
	a.bad = map[string]bool{"two": true}
	sum, err := coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax)
	if !errors.Is(err, bigset.ErrCorrupt) || sum.Slices != len(names) || sum.SlicesDiffer < 3 {
		t.Errorf("%+v, %v", sum, err)
	}
	if text := fmt.Sprint(err); !strings.Contains(text, `filter "two": page 0 of layer 0 of seat 0`) || strings.Contains(text, "three") {
		t.Errorf("%v", err)
	}
	a.bad = nil
	sum, err = coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax)
	if err != nil || sum.SlicesDiffer != 1 || sum.Pages != 1 {
		t.Errorf("repaired: %+v, %v", sum, err)
	}
	if da, db := dumpSlices(t, a), dumpSlices(t, b); da != db {
		t.Errorf("%.2000s\n--- differs from\n%.2000s", da, db)
	}
}

// TestExchangeSlicesAgain: a filter was dropped, which one replica missed, and made again. Of slices that were not marked since, one replica has the note of the drop, and the
// other needs none: that is no difference, however often they are exchanged.
func TestExchangeSlicesAgain(t *testing.T) {
	a, doneA := newSlices(t, "a")
	defer doneA()
	b, doneB := newSlices(t, "b")
	defer doneB()
	mark := func(r peer.SliceReplica, slice uint32, generation uint64) {
		hashes := slices.DeleteFunc(numberedHashes(0, 100), func(h bloomslice.Hash) bool { return h.Slice(soonFull.Slices) != slice })
		if _, _, _, err := r.Mark(ctx, sliceOf("f", slice, generation), hashes); err != nil {
			t.Fatal(err)
		}
	}
	exchange := func() coord.Exchanged {
		sum, err := coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	mark(a, 0, 1)
	if _, err := a.DropGeneration(ctx, []byte("f"), soonFull.Slices, 1); err != nil {
		t.Fatal(err)
	}
	mark(a, 0, 2)
	mark(b, 0, 2)
	exchange()
	if sum := exchange(); sum.SlicesDiffer+sum.SlicesDropped > 0 {
		t.Errorf("exchanged again: %+v", sum)
	}
	mark(b, 1, 2)
	if sum := exchange(); sum.SlicesDiffer != 1 || sum.SlicesDropped != 0 || sum.Pages == 0 {
		t.Errorf("after more was marked: %+v", sum)
	}
	if sum := exchange(); sum.SlicesDiffer+sum.SlicesDropped > 0 {
		t.Errorf("and again: %+v", sum)
	}
}

// TestExchangeSlicesTraffic: two filters of 300 KB differ in one page: that page is sent, in both directions, and sums of that
// filter.
func TestExchangeSlicesTraffic(t *testing.T) {
	a, doneA := newSlices(t, "a")
	defer doneA()
	b, doneB := newSlices(t, "b")
	defer doneB()
	spec := bigset.SliceSpec{Options: bigset.FilterOptions{Options: bloomslice.DefaultOptions(), Durability: bigset.FilterInterval}}
	for i, name := range []string{"f", "g"} {
		spec.Name, spec.Generation = []byte(name), uint64(i+1)
		if _, _, _, err := a.Mark(ctx, spec, numberedHashes(0, 2000)); err != nil {
			t.Fatal(err)
		}
	}
	exchange := func(want coord.Exchanged, bytesMax int) {
		t.Helper()
		a.sent, b.sent = 0, 0
		sum, err := coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax)
		if err != nil || sum != want || a.sent+b.sent > bytesMax {
			t.Errorf("%+v, %v; %d bytes sent", sum, err, a.sent+b.sent)
		}
	}
	shape, err := spec.Options.Shape(0)
	if err != nil {
		t.Fatal(err)
	}
	pages := int((shape.Bytes + bloomslice.PageBytes - 1) / bloomslice.PageBytes)
	exchange(coord.Exchanged{Slices: 2, SlicesDiffer: 2, Pages: uint64(2 * pages)}, 1<<20)
	exchange(coord.Exchanged{Slices: 2}, 0)
	page, err := bloomslice.AppendPage(nil, []byte{0xFF})
	if err != nil {
		t.Fatal(err)
	}
	layer := bloomslice.Layer{ID: bloomslice.LayerID{Owner: bloomslice.Seat(0).Owner()}, Shape: shape}
	at := bigset.PagePlace{Layer: layer.ID, Page: 7}
	if _, err := b.MergePages(ctx, bigset.SlicePages{SliceSpec: spec, Layers: []bloomslice.Layer{layer}, Pages: []bigset.SlicePage{{PagePlace: at, Value: page}}}); err != nil {
		t.Fatal(err)
	}
	exchange(coord.Exchanged{Slices: 2, SlicesDiffer: 1, Pages: 2}, 4*12*pages+2*1000) // neither knows that the other has no more
	exchange(coord.Exchanged{Slices: 2}, 0)
}

// TestSharesExchangeSlices: shares have slices exchanged, too, though a set fails; drops go over.
func TestSharesExchangeSlices(t *testing.T) {
	s := newSched(1)
	c := newCluster(t, s, 2)
	a, b := c.links[0], c.links[1]
	if _, err := a.store.Add(ctx, []byte("bad"), [][]byte{[]byte("x")}, bigset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	markSome(t, a, "f", 1, 0, 150)
	markSome(t, b, "f", 1, 100, 150)
	markSome(t, b, "gone", 2, 0, 5)
	if _, err := a.DropGeneration(ctx, []byte("gone"), 1, 2); err != nil {
		t.Fatal(err)
	}
	shares := []coord.Share{{A: refusing{a, "bad", errRefusing}, B: b, Last: keyscheme.SlotMax}}
	c.coordinator(coord.Options{Shares: func() []coord.Share { return shares }})
	s.run(t, 90*time.Second, func() {})
	all := c.exchanges()
	if len(all) != 1 || all[0].Kind != coord.EventExchangeFailed || !errors.Is(all[0].Err, errRefusing) {
		t.Fatalf("%+v", all)
	}
	if e := all[0].Exchanged; e.Slices != 2 || e.SlicesDiffer != 2 || e.SlicesDropped != 1 || e.Pages == 0 || e.Sets != 1 {
		t.Errorf("%+v", e)
	}
	if da, db := dumpSlices(t, a), dumpSlices(t, b); da != db || !strings.Contains(da, "generation 2 dropped true") {
		t.Errorf("%.2000s\n--- differs from\n%.2000s", da, db)
	}
}

// TestSharesSlicesThough: the slices of a share are exchanged though a replica gives no answer about sets, or none in time; and where one
// takes no slices the event says so.
func TestSharesSlicesThough(t *testing.T) {
	for what, spoil := range map[string]func(*link){
		"unavailable": func(l *link) { l.down = true },
		"mute":        func(l *link) { l.fault = mute },
	} {
		s := newSched(1)
		c := newCluster(t, s, 2)
		a, b := c.links[0], c.links[1]
		markSome(t, a, "f", 1, 0, 150)
		spoil(b)
		c.coordinator(coord.Options{Shares: c.chain, ExchangeTimeout: 20 * time.Second})
		s.run(t, 90*time.Second, func() {})
		all := c.exchanges()
		if len(all) != 1 || all[0].Kind != coord.EventExchangeFailed || all[0].Exchanged.Slices != 1 {
			t.Errorf("%s: %+v", what, all)
		}
		if da, db := dumpSlices(t, a), dumpSlices(t, b); da != db {
			t.Errorf("%s: %.2000s\n--- differs from\n%.2000s", what, da, db)
		}
	}
	s := newSched(1)
	c := newCluster(t, s, 2)
	sets := func(l *link) peer.Replica { return struct{ peer.Replica }{l} }
	for i, share := range []coord.Share{
		{A: sets(c.links[0]), B: c.links[1], Last: keyscheme.SlotMax},
		{A: c.links[0], B: sets(c.links[1]), Last: keyscheme.SlotMax},
		{A: sets(c.links[0]), B: sets(c.links[1]), Last: keyscheme.SlotMax},
	} {
		co := c.coordinator(coord.Options{Shares: func() []coord.Share { return []coord.Share{share} }})
		s.run(t, 90*time.Second, func() {})
		all := c.exchanges()
		c.events = nil
		if len(all) != 1 || (all[0].Err == nil) != (i == 2) {
			t.Errorf("share %d: %+v", i, all)
		} else if i < 2 && !strings.Contains(all[0].Err.Error(), c.links[i].Member().String()) {
			t.Errorf("share %d: %v", i, all[0].Err)
		}
		s.run(t, minute, func() { _ = co.Close(ctx) })
		c.events = nil
	}
}

// TestExchangeDropsOnce: a filter that one knows to be dropped is dropped at the other once, however many slices it has. Slices count where the other has something of them.
func TestExchangeDropsOnce(t *testing.T) {
	for end := range 2 {
		a, doneA := newSlices(t, "a")
		b, doneB := newSlices(t, "b")
		knows, other := a, b
		if end == 1 {
			knows, other = b, a
		}
		for i, name := range []string{"f", "g"} {
			if _, err := knows.SliceReplica.DropGeneration(ctx, []byte(name), 16, uint64(i+3)); err != nil {
				t.Fatal(err)
			}
		}
		first := slices.DeleteFunc(numberedHashes(0, 100), func(h bloomslice.Hash) bool { return h.Slice(soonFull.Slices) != 0 })
		if _, _, _, err := other.Mark(ctx, sliceOf("f", 0, 2), first); err != nil {
			t.Fatal(err)
		}
		sum, err := coord.ExchangeSlices(ctx, a, b, 0, keyscheme.SlotMax)
		if err != nil || sum.Slices != 32 || sum.SlicesDiffer != 1 || sum.SlicesDropped != 1 || other.drops != 2 || knows.drops != 0 {
			t.Errorf("%+v, %v, %d drops", sum, err, other.drops)
		}
		if da, db := dumpSlices(t, a), dumpSlices(t, b); da != db {
			t.Errorf("%.2000s\n--- differs from\n%.2000s", da, db)
		}
		doneA()
		doneB()
	}
}
