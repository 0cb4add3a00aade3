package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// TestMintedOnce writes sets of stores of one origin, drops their ranges, and gives them back what others know of them, while the stores are closed,
// crash and are copied. Another replica hears of every event at once, and so remembers also what a crash takes back. No dot is issued twice. A drop
// gives the sets of its range an actor that nobody had, and leaves all other sets theirs.
func TestMintedOnce(t *testing.T) {
	t.Parallel()
	drops, crashes := 0, 0
	check := func(t *rapid.T) {
		w := newMinters(t)
		defer w.end()
		t.Repeat(map[string]func(*rapid.T){
			"write":       w.write,
			"write again": w.write,
			"drop":        w.drop,
			"drop again":  w.dropAgain,
			"give back":   w.giveBack,
			"deliver":     w.deliver,
			"close":       w.close,
			"crash":       w.crash,
			"copy":        w.copyStore,
		})
		w.converge(t)
		drops, crashes = drops+w.drops, crashes+w.crashes
	}
	for tries := 0; tries < 50 && (drops == 0 || crashes == 0); tries++ { // a short run has few checks
		rapid.Check(t, check)
	}
	if drops == 0 || crashes == 0 {
		t.Errorf("%d drops, %d crashes", drops, crashes)
	}
	tier.Count(t, "drops", drops)
	tier.Count(t, "crashes", crashes)
}

// minters are stores that descend from one, and a replica that knows all that they ever did.
type minters struct {
	t       rapid.TB
	names   []string // in the order of their slots
	stores  []*minter
	replica *engine.Store
	deltas  []bigset.Delta
	minted  map[string]bool // set and dot
	drops   int
	crashes int
}

// minter is a store and the actors under which it mints the dots of each set.
type minter struct {
	label  string
	disk   *testkit.Disk
	dir    string
	store  *engine.Store
	actors map[string]clock.Actor
	last   [2]int // the range that was dropped last, by the places of its first and last set
}

const mintersMax = 3

func newMinters(t *rapid.T) *minters {
	w := &minters{t: t, names: slotsOf(6), minted: map[string]bool{}}
	r := newPair("replica")
	r.open(t)
	w.replica = r.store
	m := &minter{label: "store", disk: testkit.NewDisk(), dir: "store"}
	w.stores = append(w.stores, m)
	m.open(t)
	m.actors = w.actorsOf(m)
	return w
}

func (w *minters) end() {
	for _, m := range w.stores {
		_ = m.store.Close() // a failure was reported where it happened
	}
	_ = w.replica.Close()
}

func (m *minter) open(t rapid.TB) {
	t.Helper()
	opt := newPair(m.label).opt
	opt.FS = m.disk
	var err error
	m.store, err = engine.Open(m.dir, &opt)
	must(t, err, "open "+m.label)
}

func (w *minters) actorsOf(m *minter) map[string]clock.Actor {
	actors := map[string]clock.Actor{}
	for _, name := range w.names {
		actors[name] = m.store.Replica().ActorOf([]byte(name))
	}
	return actors
}

// expect makes sure that sets have an actor that nobody has minted their dots under, and that the others have kept theirs.
func (w *minters) expect(t rapid.TB, m *minter, fresh []string) {
	t.Helper()
	now := w.actorsOf(m)
	for _, name := range w.names {
		if !slices.Contains(fresh, name) {
			if now[name] != m.actors[name] {
				t.Fatalf("%s: %q has actor %x, had %x", m.label, name, string(now[name]), string(m.actors[name]))
			}
			continue
		}
		for _, o := range w.stores {
			if now[name] == o.actors[name] {
				t.Fatalf("%s: %q has actor %x, as %s had", m.label, name, string(now[name]), o.label)
			}
		}
		if w.minted[fmt.Sprintf("%s %x 1", name, string(now[name]))] {
			t.Fatalf("%s: %q has actor %x again", m.label, name, string(now[name]))
		}
	}
	m.actors = now
}

func (w *minters) store(t *rapid.T) *minter { return rapid.SampledFrom(w.stores).Draw(t, "store") }

func (w *minters) set(t *rapid.T) string { return rapid.SampledFrom(w.names).Draw(t, "set") }

func (w *minters) write(t *rapid.T) {
	m, set := w.store(t), w.set(t)
	ops := make([]bigset.Op, rapid.SampledFrom([]int{1, 3, 20}).Draw(t, "operations"))
	for i := range ops {
		kind := rapid.SampledFrom([]keyscheme.Op{keyscheme.OpAdd, keyscheme.OpAdd, keyscheme.OpRemove}).Draw(t, "kind")
		ops[i] = bigset.Op{Kind: kind, Element: []byte(bulkName(rapid.IntRange(0, 19).Draw(t, "element")))}
	}
	r, err := m.store.Write(bg, []byte(set), ops, bigset.WriteOptions{Durability: drawDurability(t)})
	must(t, err, m.label+": write")
	if r.Delta.Empty() {
		return
	}
	if r.Delta.Actor != m.actors[set] {
		t.Fatalf("%s: wrote %q under %x, want %x", m.label, set, string(r.Delta.Actor), string(m.actors[set]))
	}
	for i := range r.Delta.Items {
		id := fmt.Sprintf("%s %x %d", set, string(r.Delta.Actor), r.Delta.First+uint64(i))
		if w.minted[id] {
			t.Fatalf("%s: dot %s issued twice", m.label, id)
		}
		w.minted[id] = true
	}
	w.deltas = append(w.deltas, r.Delta)
	must(t, w.replica.Replica().ApplyDelta(bg, r.Delta, bigset.ApplyOptions{Durability: bigset.NoSync}), "the replica applies a delta")
}

// drop drops the range of some sets.
func (w *minters) drop(t *rapid.T) {
	first := rapid.IntRange(0, len(w.names)-1).Draw(t, "first")
	last := rapid.IntRange(first, min(first+2, len(w.names)-1)).Draw(t, "last")
	w.dropRange(t, w.store(t), first, last)
}

// dropAgain drops the range that a store has dropped last.
func (w *minters) dropAgain(t *rapid.T) {
	m := w.store(t)
	w.dropRange(t, m, m.last[0], m.last[1])
}

// dropRange drops the slots from that of a set to that of another, and may crash in the middle.
func (w *minters) dropRange(t *rapid.T, m *minter, first, last int) {
	m.last = [2]int{first, last}
	var crash func() *testkit.Disk
	if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
		percent, seed := drawSurvival(t)
		crash = m.disk.CrashAt(rapid.Int64Range(0, 20).Draw(t, "at disk operation"), percent, seed)
	}
	must(t, m.store.Replica().DropRange(bg, keyscheme.SetSlot([]byte(w.names[first])), keyscheme.SetSlot([]byte(w.names[last]))), m.label+": drop range")
	w.drops++
	if crash != nil {
		if left := crash(); left != nil {
			w.lose(t, m, left)
			return
		}
	}
	w.expect(t, m, w.names[first:last+1])
	for _, name := range w.names[first : last+1] {
		if _, err := m.store.Replica().State(bg, []byte(name)); !errors.Is(err, bigset.ErrNotFound) {
			t.Fatalf("%s: %q was dropped: %v", m.label, name, err)
		}
	}
}

// giveBack gives a store what the replica has of a set, with dots of actors that the store had.
func (w *minters) giveBack(t *rapid.T) {
	w.copyTo(t, w.store(t), w.set(t), rapid.SampledFrom([]int{100, 1000}).Draw(t, "bytes"))
}

// copyTo copies a set in portions of about bytesMax bytes.
func (w *minters) copyTo(t rapid.TB, m *minter, set string, bytesMax int) {
	t.Helper()
	all, err := readAll(w.replica, set, bigset.ReadOptions{})
	if errors.Is(err, bigset.ErrNotFound) {
		return
	}
	must(t, err, "read the replica")
	for after, done := []byte(nil), false; !done; {
		s, err := w.replica.Replica().ExportPortion(bg, []byte(set), after, bytesMax)
		must(t, err, "export")
		_, err = m.store.Replica().IngestPortion(bg, s, nil)
		must(t, err, m.label+": ingest")
		after, done = s.Bound, s.Done
	}
	got, err := readAll(m.store, set, bigset.ReadOptions{})
	must(t, err, m.label+": read")
	if err := testkit.SameElements(got, all); err != nil {
		t.Fatalf("%s: %q: %v", m.label, set, err)
	}
}

// deliver brings a delta of any store at any time to any store.
func (w *minters) deliver(t *rapid.T) {
	if len(w.deltas) == 0 {
		t.Skip("no delta yet")
	}
	m := w.store(t)
	must(t, m.store.Replica().ApplyDelta(bg, rapid.SampledFrom(w.deltas).Draw(t, "delta"), bigset.ApplyOptions{Durability: drawDurability(t)}), m.label+": apply")
}

// close closes a store in order and opens it again.
func (w *minters) close(t *rapid.T) {
	m := w.store(t)
	fresh := []string(nil)
	if m.store.InDoubt() && !m.store.Marked() { // it has not written down its incarnation
		fresh = w.names
	}
	must(t, m.store.Close(), m.label+": close")
	m.open(t)
	w.expect(t, m, fresh)
}

func (w *minters) crash(t *rapid.T) {
	m := w.store(t)
	w.lose(t, m, m.disk.CrashClone(drawSurvival(t)))
}

// lose goes on with what a crash has left of a store's disk.
func (w *minters) lose(t *rapid.T, m *minter, left *testkit.Disk) {
	w.crashes++
	_ = m.store.Close() // of the past: nobody will ever see it
	m.disk = left
	m.open(t)
	fresh := []string(nil)
	if m.store.InDoubt() {
		fresh = w.names
	}
	w.expect(t, m, fresh)
}

// copyStore has a checkpoint of a store go on beside it, as a folder that was copied or put back does.
func (w *minters) copyStore(t *rapid.T) {
	if len(w.stores) == mintersMax {
		t.Skip("enough stores")
	}
	m := w.store(t)
	dir := fmt.Sprintf("copy %d", len(w.stores))
	must(t, m.store.Checkpoint(bg, dir), m.label+": checkpoint")
	c := &minter{label: dir, disk: m.disk.CrashClone(0, 1), dir: dir, actors: maps.Clone(m.actors)}
	c.open(t)
	w.stores = append(w.stores, c)
	w.expect(t, c, w.names)
}

// converge gives every store what the replica has of all sets.
func (w *minters) converge(t *rapid.T) {
	for _, m := range w.stores {
		for _, set := range w.names {
			w.copyTo(t, m, set, 1000)
		}
		rep, err := m.store.Verify(bg, engine.VerifyOptions{})
		if err != nil || !rep.OK() {
			t.Fatalf("%s: %+v, %v", m.label, rep, err)
		}
	}
}

// TestOwnDotsAfterDrop: after its range was dropped a set takes dots of the store's former actor in every way in which dots come, and refuses those that
// the store may issue from now on, but has not issued.
func TestOwnDotsAfterDrop(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	set, other := []byte("s"), []byte("t")
	for _, name := range [][]byte{set, other} {
		p.all(t, string(name), keyscheme.OpAdd, elementNames(0, 40), bigset.NoSync)
	}
	former, slot := p.store.Replica().ActorOf(set), keyscheme.SetSlot(set)
	p.dropRange(t, slot, slot)
	p.dropRange(t, slot+1, slot+1) // the newest actor is another set's
	own := p.store.Replica().ActorOf(set)
	if own == former || p.store.Replica().ActorOf(other) != former || p.store.Replica().Actor() == own {
		t.Fatalf("actors %x after %x, %x, newest %x", string(own), string(former), string(p.store.Replica().ActorOf(other)), string(p.store.Replica().Actor()))
	}
	p.all(t, "s", keyscheme.OpAdd, []string{"mine"}, bigset.NoSync)
	portion := func(a clock.Actor, first uint64, keys int) *bigset.Portion {
		var all []fold.Element
		for i := range keys {
			all = append(all, element(fmt.Sprintf("k%03d", i), clock.Dot{Actor: a, Counter: first + uint64(i)}))
		}
		s := &bigset.Portion{Set: set, Done: true, Seen: &clock.Clock{}, Dead: &clock.Clock{}}
		s.Pack(all)
		return s
	}
	for i, c := range []struct {
		what string
		want error
		do   func(a clock.Actor, n uint64) error
	}{
		{"a narrow context", bigset.ErrContext, func(a clock.Actor, n uint64) error {
			_, err := p.store.Write(bg, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("e"), Context: bigset.Saw(clock.Dot{Actor: a, Counter: n})}}, bigset.WriteOptions{})
			return err
		}},
		{"a wide context", bigset.ErrContext, func(a clock.Actor, n uint64) error {
			seen := clock.Of(clock.Dot{Actor: a, Counter: n})
			_, err := p.store.Write(bg, set, []bigset.Op{{Kind: keyscheme.OpAdd, Element: []byte("e"), Context: bigset.SawAll(seen)}}, bigset.WriteOptions{})
			return err
		}},
		{"a drop", bigset.ErrContext, func(a clock.Actor, n uint64) error {
			_, err := p.store.Drop(bg, set, bigset.DropOptions{Seen: clock.Of(clock.Dot{Actor: a, Counter: n}), Durability: bigset.NoSync})
			return err
		}},
		{"a delta", bigset.ErrDelta, func(a clock.Actor, n uint64) error {
			return p.store.Replica().ApplyDelta(bg, bigset.Delta{Set: set, Actor: a, First: n, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("d")}}}, bigset.ApplyOptions{Durability: bigset.NoSync})
		}},
		{"facts", bigset.ErrFacts, func(a clock.Actor, n uint64) error {
			_, err := p.store.Replica().ApplyFacts(bg, bigset.Facts{Set: set, Keys: []fold.Element{element("f", clock.Dot{Actor: a, Counter: n})}}, bigset.ApplyOptions{Durability: bigset.NoSync})
			return err
		}},
		{"a death", bigset.ErrFacts, func(a clock.Actor, n uint64) error {
			_, err := p.store.Replica().ApplyFacts(bg, bigset.Facts{Set: set, Dead: clock.Of(clock.Dot{Actor: a, Counter: n})}, bigset.ApplyOptions{Durability: bigset.NoSync})
			return err
		}},
		{"a portion of few keys", bigset.ErrFacts, func(a clock.Actor, n uint64) error {
			_, err := p.store.Replica().IngestPortion(bg, portion(a, n, 1), nil)
			return err
		}},
		{"a portion of many keys", bigset.ErrFacts, func(a clock.Actor, n uint64) error {
			_, err := p.store.Replica().IngestPortion(bg, portion(a, n, 30), nil)
			return err
		}},
	} {
		n := uint64(100 * (i + 1))
		if err := c.do(own, n); !errors.Is(err, c.want) {
			t.Errorf("%s that names a dot that was never issued: %v, want %v", c.what, err, c.want)
		}
		if err := c.do(former, n); err != nil && !errors.Is(err, bigset.ErrBehind) {
			t.Errorf("%s that names a dot of the former actor: %v", c.what, err)
		}
	}
	p.verify(t)
	must(t, p.store.Close(), "close")
}
