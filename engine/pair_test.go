package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

var bg = context.Background()

// silent is a logger for stores whose troubles are made by the test.
var silent = slog.New(slog.DiscardHandler)

func must(t rapid.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// pair is a store on a disk of its own, and its model.
type pair struct {
	label  string
	disk   *testkit.Disk
	opt    engine.Options
	tables tables // what it was opened with, if they were drawn
	store  *engine.Store
	model  *testkit.Replica
	split  []int // where clocks and tombstones are split into pages, as SplitRecords takes it; nil is where they always are

	minted  func(t rapid.TB, d bigset.Delta) // called with every delta that the store makes, if not nil
	changed func(set string)                 // called with every set that a batch has changed, if not nil
}

// newPair returns a pair that is not open yet. The options are those of a store in which nothing happens by itself, and in
// which little data has the shape of much.
func newPair(label string) *pair {
	p := &pair{label: label, disk: testkit.NewDisk(), model: testkit.NewReplica(), opt: engine.Options{
		BackgroundInterval:    -1,
		MemTableBytes:         64 << 10,
		HotBytes:              -1, // look-ups read keys
		SpanBytes:             4 << 10,
		RewriteBytesPerSecond: 1 << 40,
		Logger:                silent,
	}}
	p.opt.Tune(testkit.SmallTables)
	p.opt.RunsOf(4)
	p.opt.TablesOf(4)
	return p
}

func (p *pair) open(t rapid.TB) {
	t.Helper()
	p.opt.FS = p.disk
	var err error
	p.store, err = engine.Open("store", &p.opt)
	must(t, err, "open "+p.label)
	if p.split != nil {
		p.store.SplitRecords(p.split[0], p.split[1], p.split[2], p.split[3])
	}
}

// eager is a strategy that rewrites whenever there is anything to drop.
func eager(p compaction.Strategy) compaction.Strategy {
	pol := p.(compaction.Policy)
	pol.KeysMin, pol.Excess, pol.Idle, pol.DeadsMin = 1, 1e-9, 1e-9, 1e-9
	return pol
}

// whileCopied runs do once, in the middle of what copies keys into tables (a pass, a sweep, an ingest) from now until stop is called:
// its first table is begun, and writers are not held. stop reports whether that has happened.
func (p *pair) whileCopied(do func()) (stop func() bool) {
	var begun atomic.Bool
	p.disk.SetHook("copied", func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && begun.CompareAndSwap(false, true) {
			do()
		}
		return nil
	})
	return func() bool {
		p.disk.SetHook("copied", nil)
		return begun.Load()
	}
}

func (p *pair) tell(set string) {
	if p.changed != nil {
		p.changed(set)
	}
}

// write does operations in store and model, and compares what they answer.
func (p *pair) write(t rapid.TB, set string, ops []bigset.Op, o bigset.WriteOptions) bigset.Result {
	t.Helper()
	p.absorb(t, set)
	changes := p.model.Set(set).Changes(ops, o.Policy)
	got, err := p.store.Write(bg, []byte(set), ops, o)
	want, wantErr := p.model.Set(set).Coordinate([]byte(set), p.store.Replica().ActorOf([]byte(set)), ops, o.Policy)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: write %q: error %v, want %v", p.label, set, err, wantErr)
	}
	if err != nil {
		return bigset.Result{}
	}
	if err := testkit.SameDelta(got.Delta, want.Delta); err != nil {
		t.Fatalf("%s: %v", p.label, err)
	}
	if got.Removed != want.Removed || !slices.Equal(got.Dots, want.Dots) {
		t.Fatalf("%s: removed %d, dots %v, want %d, %v", p.label, got.Removed, got.Dots, want.Removed, want.Dots)
	}
	for i, want := range changes {
		if got.Changed(i) != want {
			t.Fatalf("%s: operation %d of %d changed something: %v, want %v", p.label, i, len(ops), got.Changed(i), want)
		}
	}
	if !got.Delta.Empty() {
		p.model.Wrote(got.Delta)
		if p.minted != nil {
			p.minted(t, got.Delta)
		}
		p.tell(set)
	}
	if o.Durability == bigset.Sync {
		p.model.Acknowledged()
	}
	return got
}

// all does the same to many elements, in one batch.
func (p *pair) all(t rapid.TB, set string, kind keyscheme.Op, elements []string, d bigset.Durability) bigset.Result {
	t.Helper()
	ops := make([]bigset.Op, len(elements))
	for i, e := range elements {
		ops[i] = bigset.Op{Kind: kind, Element: []byte(e)}
	}
	return p.write(t, set, ops, bigset.WriteOptions{Durability: d})
}

// apply applies a delta of another store, or of this one's past.
func (p *pair) apply(t rapid.TB, d bigset.Delta, sync bigset.Durability) {
	t.Helper()
	if err := p.store.Replica().ApplyDelta(bg, d, bigset.ApplyOptions{Durability: sync}); err != nil {
		t.Fatalf("%s: apply %+v: %v", p.label, d, err)
	}
	if p.model.Apply(d) {
		p.tell(string(d.Set))
	}
	if sync == bigset.Sync {
		p.model.Acknowledged()
	}
}

// drop deletes a set. It reports whether there was one.
func (p *pair) drop(t rapid.TB, set string, seen *clock.Clock, sync bigset.Durability) (bigset.Delta, bool) {
	t.Helper()
	got, err := p.store.Drop(bg, []byte(set), bigset.DropOptions{Seen: seen, Durability: sync})
	model := p.model.Set(set)
	before := model.Clone()
	want, wantErr := model.Drop([]byte(set), seen)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: drop %q: error %v, want %v", p.label, set, err, wantErr)
	}
	if err != nil {
		return bigset.Delta{}, false
	}
	if err := testkit.SameDelta(got, want); err != nil {
		t.Fatalf("%s: drop %q: %v", p.label, set, err)
	}
	if before.Diff(model) != nil {
		p.model.Wrote(got)
		p.tell(set)
	}
	if sync == bigset.Sync {
		p.model.Acknowledged()
	}
	return got, true
}

func (p *pair) flush(t rapid.TB) {
	t.Helper()
	must(t, p.store.Flush(bg), "flush")
	p.model.Acknowledged()
}

func (p *pair) close(t rapid.TB) {
	t.Helper()
	must(t, p.store.Close(), "close "+p.label)
	p.model.Acknowledged()
}

// lose goes on with what a crash has left of the disk. It returns how many batches the crash took back.
func (p *pair) lose(t rapid.TB, left *testkit.Disk) int {
	t.Helper()
	_ = p.store.Close() // of the past: nobody will ever see it
	p.disk = left
	p.open(t)
	return p.recovered(t)
}

// recovered rolls the model back to what has survived.
func (p *pair) recovered(t rapid.TB) int {
	t.Helper()
	lost, err := p.model.Crashed(func(name string) (is testkit.State, err error) {
		if is.Seen, is.Dead, err = p.store.SeenAndDead([]byte(name)); err != nil || !p.opt.KeepContexts {
			return is, err
		}
		open, err := p.store.UnresolvedKeys([]byte(name))
		if is.Unresolved = testkit.Dots(open); err == nil {
			is.Elements, err = readAll(p.store, name, bigset.ReadOptions{})
		}
		if errors.Is(err, bigset.ErrNotFound) {
			err = nil
		}
		return is, err
	})
	must(t, err, p.label+": what survived")
	return lost
}

// check compares Seen, Dead and the keys of every set with the model's.
func (p *pair) check(t rapid.TB) {
	t.Helper()
	for set := range p.model.Sets {
		p.checkSet(t, set)
	}
}

func (p *pair) checkSet(t rapid.TB, set string) {
	t.Helper()
	model := p.model.Set(set)
	p.absorb(t, set)
	keys, err := p.store.StoredKeys([]byte(set))
	must(t, err, "keys")
	for dot, e := range model.Keys {
		if got, ok := keys[dot]; !ok || got != e {
			t.Fatalf("%s, set %q: live dot %v of %q has the key %q (%v)", p.label, set, dot, e, got, ok)
		}
	}
	for dot := range keys {
		if _, ok := model.Keys[dot]; !ok && !model.Dead.Has(dot) {
			t.Fatalf("%s, set %q: key of dot %v, which is not dead and not live", p.label, set, dot)
		}
	}
	p.checkHot(t, set)
	if len(model.Wide) > 0 {
		if err := testkit.SameElements(p.read(t, set, bigset.ReadOptions{}), model.Elements()); err != nil {
			t.Fatalf("%s, set %q: %v", p.label, set, err)
		}
	}
}

// checkHot compares what a store remembers of elements with the model.
func (p *pair) checkHot(t rapid.TB, set string) {
	t.Helper()
	hot, _, err := p.store.HotDots([]byte(set))
	must(t, err, "remembered dots")
	for e, dots := range hot {
		if want := p.model.Set(set).Live(e); !slices.Equal(dots, want) {
			t.Fatalf("%s, set %q: the dots of %q are remembered as %v, want %v", p.label, set, e, dots, want)
		}
	}
}

// absorb compares Seen and Dead of a set with the model's, which takes over what the store has found to be dead by itself.
func (p *pair) absorb(t rapid.TB, set string) {
	t.Helper()
	model := p.model.Set(set)
	seen, dead, err := p.store.SeenAndDead([]byte(set))
	must(t, err, "Seen and Dead")
	if !model.Seen.Equal(seen) {
		t.Fatalf("%s, set %q: Seen %v, want %v", p.label, set, seen, model.Seen.Clock())
	}
	if err := model.Absorb(dead); err != nil {
		t.Fatalf("%s, set %q: %v", p.label, set, err)
	}
}

// checkClean fails if a key is stored that is not live, or is unresolved though all that its context names is seen.
func (p *pair) checkClean(t rapid.TB, set string) {
	t.Helper()
	p.absorb(t, set)
	keys, err := p.store.StoredKeys([]byte(set))
	must(t, err, "keys")
	open, err := p.store.UnresolvedKeys([]byte(set))
	must(t, err, "unresolved keys")
	model := p.model.Set(set)
	for d := range open {
		if model.Seen.Clock().Descends(model.Wide[d].Context) {
			t.Fatalf("%s, set %q: the key of dot %v is open, and %v is seen", p.label, set, d, model.Wide[d].Context)
		}
		if model.Dead.Has(d) {
			delete(keys, d)
		}
	}
	st, err := p.store.UnresolvedCount([]byte(set))
	must(t, err, "count of unresolved keys")
	if st != int64(len(open)) {
		t.Fatalf("%s, set %q: %d unresolved keys counted, there are %v", p.label, set, st, open)
	}
	if want := p.model.Set(set).Keys; !maps.Equal(keys, want) {
		t.Fatalf("%s, set %q: %d keys %v, want %d live ones %v", p.label, set, len(keys), keys, len(want), want)
	}
}

// verify lets the store prove itself right.
func (p *pair) verify(t rapid.TB) {
	t.Helper()
	rep, err := p.store.Verify(bg, engine.VerifyOptions{})
	must(t, err, "verify")
	if !rep.OK() {
		t.Fatalf("%s: %+v", p.label, rep)
	}
}

// read returns a set's elements; an unknown set has none.
func (p *pair) read(t rapid.TB, set string, o bigset.ReadOptions) []fold.Element {
	t.Helper()
	all, err := readAll(p.store, set, o)
	if !errors.Is(err, bigset.ErrNotFound) {
		must(t, err, "read")
	}
	return all
}

func readAll(s *engine.Store, set string, o bigset.ReadOptions) (all []fold.Element, err error) {
	var last *fold.Chunk
	o.Scrap = func() (c *fold.Chunk) { // each chunk is overwritten by the next one
		c, last = last, nil
		return c
	}
	for chunk, err := range s.Read(bg, []byte(set), o) {
		if err != nil {
			return all, err
		}
		for _, e := range chunk.Elements {
			all = append(all, fold.Element{Name: bytes.Clone(e.Name), Dots: slices.Clone(e.Dots)})
		}
		last = chunk
	}
	return all, nil
}

// elementNames returns n names from a number on; they are long enough to fill blocks.
func elementNames(from, to int) []string {
	names := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		names = append(names, bulkName(i))
	}
	return names
}

// queued waits until the given number of requests wait for the writers of a set.
func (p *pair) queued(t rapid.TB, set string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var n int
		var err error
		testkit.Beside(func() { n, err = p.store.Queued([]byte(set)) }) // the caller may hold them
		if err == nil && n >= want {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Errorf("%s: %d of %d requests wait: %v", p.label, n, want, err)
			return
		}
	}
}

// settled returns a channel that is closed after a while: long enough for a goroutine to run into whatever stops it.
func settled(*pair) <-chan time.Time { return time.After(30 * time.Millisecond) }
