package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/internal/testkit/tier"
	"bigset/keyscheme"
)

// portions returns a whole set in portions of about bytesMax bytes of keys, and checks them against the model.
func (p *pair) portions(t rapid.TB, set string, bytesMax int) (all []*bigset.Portion) {
	t.Helper()
	var after []byte
	keys := map[clock.Dot]string{}
	for {
		s, err := p.store.Replica().ExportPortion(bg, []byte(set), after, bytesMax)
		must(t, err, p.label+": export")
		f, err := engine.PortionFacts(s)
		must(t, err, p.label+": unpack")
		n := 0
		for _, e := range f.Keys {
			if after != nil && bytes.Compare(e.Name, after) <= 0 || !s.Done && bytes.Compare(e.Name, s.Bound) > 0 {
				t.Fatalf("%s: element %q in a portion from %q to %q", p.label, e.Name, after, s.Bound)
			}
			for _, d := range e.Dots {
				keys[d] = string(e.Name)
				n++
			}
		}
		if n != s.Count || string(s.Set) != set || s.Done != (s.Bound == nil) {
			t.Fatalf("%s: a portion %+v with %d keys", p.label, s, n)
		}
		all = append(all, s)
		if after = s.Bound; s.Done {
			break
		}
	}
	m := p.model.Set(set)
	if fmt.Sprint(keys) != fmt.Sprint(m.Keys) {
		t.Fatalf("%s: portions hold %v, want %v", p.label, keys, m.Keys)
	}
	return all
}

// ingest takes a portion in store and model, and compares what they answer.
func (p *pair) ingest(t rapid.TB, s *bigset.Portion) bigset.FactsResult {
	t.Helper()
	p.absorb(t, string(s.Set))
	f, err := engine.PortionFacts(s)
	must(t, err, "unpack")
	got, err := p.store.Replica().IngestPortion(bg, s, nil)
	must(t, err, p.label+": ingest")
	if want := p.model.ApplyFacts(f); got != want {
		t.Fatalf("%s: the portion changed %+v, want %+v", p.label, got, want)
	} else if want != (bigset.FactsResult{}) {
		p.tell(string(s.Set))
	}
	p.model.Acknowledged()
	return got
}

// took adds to the model what a portion says that the store has taken, and checks the store against it.
func (p *pair) took(t rapid.TB, s *bigset.Portion) {
	t.Helper()
	f, err := engine.PortionFacts(s)
	must(t, err, "unpack")
	p.model.ApplyFacts(f)
	p.check(t)
	p.verify(t)
}

// keysInTables returns how many keys the tables hold, each copy counted.
func (p *pair) keysInTables(t *testing.T) uint64 {
	t.Helper()
	p.flush(t)
	st, err := p.store.Stats()
	must(t, err, "stats")
	return st.KeysInTables
}

// twoStores returns a store that sends and one that receives, and all deltas that the first will make.
func twoStores(t *testing.T, receiver string, tune func(*engine.Options)) (a, b *pair, sent *[]bigset.Delta) {
	t.Helper()
	a, b, sent = newPair("sender"), newPair(receiver), new([]bigset.Delta)
	if tune != nil {
		tune(&b.opt)
	}
	a.minted = func(_ rapid.TB, d bigset.Delta) { *sent = append(*sent, d) }
	a.open(t)
	b.open(t)
	return a, b, sent
}

// TestEachKeyBothWays delivers every key by a delta and in a table, in either order, and some by neither, and compacts through
// the drop filter while they die: no key ever has a second copy, which would crash Pebble (issue 6168).
func TestEachKeyBothWays(t *testing.T) {
	t.Parallel()
	for _, portionBytes := range []int{1, 4000, 0} {
		for order := range 3 {
			a, b, deltas := twoStores(t, fmt.Sprintf("receiver, portions of %d, order %d", portionBytes, order), func(o *engine.Options) {
				o.Strategy = compaction.Filter()
			})
			for i := range 12 {
				a.all(t, "s", keyscheme.OpAdd, elementNames(25*i, 25*i+25), bigset.NoSync)
			}
			deliver := func() {
				for i, d := range *deltas {
					if order < 2 || i%2 == 0 {
						b.apply(t, d, bigset.NoSync)
					}
				}
				b.flush(t)
			}
			if order > 0 {
				deliver()
			}
			for round := range 2 {
				for i, s := range a.portions(t, "s", portionBytes) {
					b.ingest(t, s)
					if i%7 == 6 {
						must(t, b.store.CompactTables(bg), "compact")
					}
				}
				deliver()
				if n := b.keysInTables(t); round == 0 && n != 300 {
					t.Errorf("%s: %d keys in tables, want 300", b.label, n)
				}
				b.check(t)
				b.verify(t)
				*deltas = nil
				a.all(t, "s", keyscheme.OpRemove, elementNames(100*round, 100*round+80), bigset.NoSync)
				a.all(t, "s", keyscheme.OpAdd, elementNames(100*round+40, 100*round+60), bigset.NoSync)
				if order == 0 {
					deliver()
				}
				publish(t, b)
				must(t, b.store.CompactTables(bg), "compact")
			}
			for _, s := range a.portions(t, "s", portionBytes) {
				b.ingest(t, s)
			}
			b.check(t)
			if err := a.model.Set("s").Diff(b.model.Set("s")); err != nil {
				t.Errorf("%s: %v", b.label, err)
			}
			if a, b := digests(t, a.store, 0, keyscheme.SlotMax), digests(t, b.store, 0, keyscheme.SlotMax); a["s"] != b["s"] {
				t.Error("the digests differ")
			}
			b.counted(t, len(b.model.Set("s").Elements()), true)
			must(t, b.store.CompactTables(bg), "compact")
			b.verify(t)
			a.close(t)
			b.close(t)
			b.open(t)
			b.check(t)
			b.verify(t)
			b.close(t)
		}
	}
}

// TestIngestWhileWritten: what arrives by deltas while portions come in, also of the same keys, and while the rewriter works, is
// there at the end, once.
func TestIngestWhileWritten(t *testing.T) {
	a, b, deltas := twoStores(t, "receiver", func(o *engine.Options) {
		o.BackgroundInterval, o.Strategy = 1, eager(compaction.Default())
	})
	for i := range tier.Times(40) {
		a.all(t, "s", keyscheme.OpAdd, elementNames(20*i, 20*i+30), bigset.NoSync)
	}
	portions := a.portions(t, "s", 1500)
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for _, i := range rand.Perm(len(*deltas)) {
				if err := b.store.Replica().ApplyDelta(bg, (*deltas)[i], bigset.ApplyOptions{Durability: bigset.NoSync}); err != nil {
					return err
				}
				if _, err := readAll(b.store, "s", bigset.ReadOptions{}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for _, i := range rand.Perm(len(portions)) {
		_, err := b.store.Replica().IngestPortion(bg, portions[i], nil)
		must(t, err, "ingest")
	}
	must(t, <-done, "deltas")
	if err := testkit.SameElements(b.read(t, "s", bigset.ReadOptions{}), a.model.Set("s").Elements()); err != nil {
		t.Error(err)
	}
	b.verify(t)
	must(t, a.store.Close(), "close")
	must(t, b.store.Close(), "close")
}

// TestIngestCrashes crashes at every operation on the disk of an ingest into a set with batches that were not synced: all of the
// portion exists or nothing of it, and nothing else is lost.
func TestIngestCrashes(t *testing.T) {
	t.Parallel()
	a := newPair("sender")
	a.open(t)
	a.all(t, "s", keyscheme.OpAdd, elementNames(0, 120), bigset.NoSync)
	a.all(t, "s", keyscheme.OpRemove, elementNames(30, 60), bigset.NoSync)
	whole := a.portions(t, "s", 0)[0]
	a.close(t)
	for _, cut := range [][]int{nil, {24, 40, 32, 64}} {
		portion := *whole
		if cut != nil { // what has died would bring what lives in the same page
			portion.Dead = nil
		}
		for at := int64(0); ; at++ {
			p := newPair(fmt.Sprintf("crash at %d", at))
			p.split = cut
			p.open(t)
			for _, actor := range []clock.Actor{"a clock of", "many actors", "is in pages"} {
				p.apply(t, bigset.Delta{Set: []byte("s"), Actor: actor, First: 1, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte(actor)}}}, bigset.NoSync)
			}
			p.all(t, "s", keyscheme.OpAdd, elementNames(100, 130), bigset.Sync)
			p.all(t, "s", keyscheme.OpAdd, elementNames(120, 150), bigset.NoSync)
			acknowledged := p.model.AcknowledgedCount()
			crash := p.disk.CrashAt(at, []int{0, 50, 100}[at%3], uint64(at))
			p.ingest(t, &portion)
			left := crash()
			if left == nil {
				left = p.disk.CrashClone(0, 1)
				if p.lose(t, left) != 0 {
					t.Error("an ingest was lost")
				}
				p.close(t)
				if at < 10 {
					t.Errorf("only %d disk operations", at)
				}
				break
			}
			p.model.AcknowledgedOnly(acknowledged)
			p.lose(t, left)
			p.check(t)
			p.verify(t)
			p.ingest(t, &portion)
			p.check(t)
			p.verify(t)
			p.close(t)
		}
	}
}

// TestPortionsRefused: what is malformed, or can't be, is refused, and changes nothing.
func TestPortionsRefused(t *testing.T) {
	a, b, _ := twoStores(t, "receiver", nil)
	defer a.close(t)
	defer b.close(t)
	b.all(t, "s", keyscheme.OpAdd, []string{"own"}, bigset.NoSync)
	a.all(t, "s", keyscheme.OpAdd, elementNames(0, 50), bigset.NoSync)
	a.apply(t, bigset.Delta{Set: []byte("s"), Actor: b.store.Replica().Actor(), First: 2, Items: []bigset.Item{{Kind: keyscheme.OpAdd, Element: []byte("n010")}}}, bigset.NoSync)
	future := a.portions(t, "s", 0)[0]
	good := *future
	var err error
	small := newPair("another")
	small.open(t)
	defer small.close(t)
	small.all(t, "s", keyscheme.OpAdd, elementNames(0, 50), bigset.NoSync)
	good = *small.portions(t, "s", 0)[0]
	with := func(f func(*bigset.Portion)) *bigset.Portion {
		s := good
		s.Keys = bytes.Clone(s.Keys)
		f(&s)
		return &s
	}
	for what, c := range map[string]struct {
		portion *bigset.Portion
		want    error
	}{
		"our future":          {future, bigset.ErrFacts},
		"a death of our own":  {with(func(s *bigset.Portion) { s.Dead = dotsOf(b.store.Replica().Actor(), 2, 2) }), bigset.ErrFacts},
		"no name":             {with(func(s *bigset.Portion) { s.Set = nil }), bigset.ErrRequest},
		"a long name":         {with(func(s *bigset.Portion) { s.Set = make([]byte, bigset.SetNameBytesMax+1) }), bigset.ErrLimit},
		"another count":       {with(func(s *bigset.Portion) { s.Count++ }), bigset.ErrFacts},
		"cut short":           {with(func(s *bigset.Portion) { s.Keys = s.Keys[:len(s.Keys)-1] }), bigset.ErrFacts},
		"a key twice":         {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 0) }), bigset.ErrFacts},
		"not in order":        {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 1, 'a', 0, 2); s.Count++ }), bigset.ErrFacts},
		"a dot twice":         {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 1, 'z', 0, 0); s.Count++ }), bigset.ErrFacts},
		"no such actor":       {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 1, 'z', 2, 2); s.Count++ }), bigset.ErrFacts},
		"an actor of 0 bytes": {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 1, 'z', 1, 0, 2); s.Count++ }), bigset.ErrFacts},
		"counter 0":           {with(func(s *bigset.Portion) { s.Keys = append(s.Keys, 0, 1, 'z', 1, 1, 'x', 0); s.Count++ }), bigset.ErrFacts},
	} {
		if _, err = b.store.Replica().IngestPortion(bg, c.portion, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		b.check(t)
	}
	if _, err := b.store.Replica().ExportPortion(bg, []byte("s"), nil, bigset.PortionBytesMax+1); !errors.Is(err, bigset.ErrRequest) {
		t.Errorf("too large: %v", err)
	}
	if _, err := b.store.Replica().ExportPortion(bg, []byte("never"), nil, 0); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("never: %v", err)
	}
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	taken := 0
	for range tier.Times(20_000) { // any bytes are taken or refused, and nothing panics
		s := with(func(s *bigset.Portion) {
			s.Set, s.Dead = []byte("t"), nil
			for range 1 + r.IntN(3) {
				s.Keys[r.IntN(len(s.Keys))] ^= byte(1 << r.IntN(8))
			}
		})
		if _, err = b.store.Replica().IngestPortion(bg, s, nil); err == nil {
			taken++
		} else if !errors.Is(err, bigset.ErrFacts) && !errors.Is(err, bigset.ErrLimit) {
			t.Fatalf("%x: %v", s.Keys, err)
		}
		if taken > 50 {
			break
		}
	}
	b.verify(t)
	p := openPair(t, "open")
	defer p.close(t)
	p.one(t, keyscheme.OpAdd, "a", bigset.SawAll(clock.Of()))
	if _, err := p.store.Replica().ExportPortion(bg, []byte("s"), nil, 0); !errors.Is(err, bigset.ErrUnresolved) {
		t.Errorf("an unresolved key: %v", err)
	}
}

// TestIngestLateWrites: deltas of a portion's keys, and others, arrive while its tables are written, once or again and again. No
// key comes twice, and what was not synced is durable with the portion, whose clock names it.
func TestIngestLateWrites(t *testing.T) {
	for times := 1; times <= 4; times++ {
		a, b, deltas := twoStores(t, fmt.Sprintf("receiver, %d late deltas", times), nil)
		for i := range 8 {
			a.all(t, "s", keyscheme.OpAdd, elementNames(20*i, 20*i+20), bigset.NoSync)
		}
		s := a.portions(t, "s", 0)[0]
		b.apply(t, (*deltas)[7], bigset.Sync)
		late := 0
		b.disk.SetHook("late", func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "span-") && late < min(times, 3) { // the next one is written with writers held
				late++
				if late < times || times < 3 {
					b.apply(t, (*deltas)[late], bigset.NoSync)
				}
				b.all(t, "s", keyscheme.OpAdd, elementNames(300+late, 301+late), bigset.NoSync)
			}
			return nil
		})
		b.ingest(t, s)
		b.disk.SetHook("late", nil)
		left := b.disk.CrashClone(0, 1)
		if n := b.keysInTables(t); n != uint64(160+late) {
			t.Errorf("%s: %d keys in tables, want %d", b.label, n, 160+late)
		}
		if b.lose(t, left) != 0 {
			t.Errorf("%s: something was lost", b.label)
		}
		b.check(t)
		b.verify(t)
		a.close(t)
		b.close(t)
	}
}

// TestIngestAndPass: a portion that comes in while the rewriter copies the place where it belongs is not swapped out again.
func TestIngestAndPass(t *testing.T) {
	a, b, _ := twoStores(t, "receiver", nil)
	defer a.close(t)
	a.all(t, "s", keyscheme.OpAdd, elementNames(0, 60), bigset.NoSync)
	b.all(t, "s", keyscheme.OpAdd, elementNames(20, 100), bigset.NoSync)
	b.all(t, "s", keyscheme.OpRemove, elementNames(30, 90), bigset.NoSync)
	b.flush(t)
	s, done := a.portions(t, "s", 0)[0], make(chan error, 1)
	stop := b.whileCopied(func() {
		go func() { _, err := b.store.Replica().IngestPortion(bg, s, nil); done <- err }()
		<-settled(b)
	})
	rewriteAll(t, b)
	must(t, <-done, "ingest")
	stop()
	b.took(t, s)
	b.close(t)
}

// TestIngestIntoDeadRun: keys that come in where readers seek over dead ones are read.
func TestIngestIntoDeadRun(t *testing.T) {
	a, b, _ := twoStores(t, "receiver", nil)
	defer a.close(t)
	defer b.close(t)
	a.all(t, "s", keyscheme.OpAdd, elementNames(40, 60), bigset.NoSync)
	b.all(t, "s", keyscheme.OpAdd, elementNames(0, 100), bigset.NoSync)
	b.all(t, "s", keyscheme.OpRemove, elementNames(10, 90), bigset.NoSync)
	for range 3 {
		b.read(t, "s", bigset.ReadOptions{})
	}
	if b.store.RunsPassed() == 0 {
		t.Fatal("no run is known")
	}
	b.ingest(t, a.portions(t, "s", 0)[0])
	if err := testkit.SameElements(b.read(t, "s", bigset.ReadOptions{}), b.model.Set("s").Elements()); err != nil {
		t.Error(err)
	}
}

// TestIngestPace: a large portion is written part by part at the caller's pace. Passes over the set do not wait for it, and if it ends with an error nothing has changed.
func TestIngestPace(t *testing.T) {
	t.Parallel()
	a, b, _ := twoStores(t, "receiver", nil)
	defer a.close(t)
	for i := range 10 {
		var names []string
		for j := range 20 {
			names = append(names, fmt.Sprintf("%03d-%s", 20*i+j, strings.Repeat("x", 8000)))
		}
		a.all(t, "s", keyscheme.OpAdd, names, bigset.NoSync)
	}
	b.all(t, "s", keyscheme.OpAdd, elementNames(20, 100), bigset.NoSync)
	b.all(t, "s", keyscheme.OpRemove, elementNames(30, 90), bigset.NoSync)
	b.flush(t)
	s := a.portions(t, "s", 0)[0]
	stopped := errors.New("stopped")
	calls := 0
	_, err := b.store.Replica().IngestPortion(bg, s, func(context.Context, float64) error {
		if calls++; calls == 3 {
			return stopped
		}
		return nil
	})
	if !errors.Is(err, stopped) || errors.Is(err, bigset.ErrFailed) {
		t.Errorf("an ingest whose pace was stopped: %v", err)
	}
	b.check(t)
	var parts []float64
	_, err = b.store.Replica().IngestPortion(bg, s, func(_ context.Context, part float64) error {
		if parts = append(parts, part); len(parts) == 1 {
			passed := make(chan error, 1)
			go func() {
				_, err := b.store.RewriteSpan(bg, []byte("s"), nil, 0)
				passed <- err
			}()
			select {
			case err := <-passed:
				must(t, err, "a pass beside an ingest")
			case <-time.After(time.Minute):
				t.Error("a pass waits for the pace of an ingest")
			}
		}
		return nil
	})
	must(t, err, "ingest")
	if len(parts) < 5 || !slices.IsSorted(parts) || parts[0] > 0.25 || parts[len(parts)-1] != 1 {
		t.Errorf("parts %v", parts)
	}
	b.took(t, s)
	b.close(t)
}

// TestIngestBesideDropRange: the range of a set is dropped while a portion of it is written, which leaves out keys that were there before. They come with the portion.
func TestIngestBesideDropRange(t *testing.T) {
	t.Parallel()
	a, b, deltas := twoStores(t, "receiver", nil)
	defer a.close(t)
	for i := range 8 {
		a.all(t, "s", keyscheme.OpAdd, elementNames(20*i, 20*i+20), bigset.NoSync)
	}
	b.apply(t, (*deltas)[3], bigset.Sync)
	s, slot := a.portions(t, "s", 0)[0], keyscheme.SetSlot([]byte("s"))
	dropped := false
	_, err := b.store.Replica().IngestPortion(bg, s, func(ctx context.Context, _ float64) error {
		if dropped {
			return nil
		}
		dropped = true
		return b.store.Replica().DropRange(ctx, slot, slot)
	})
	must(t, err, "ingest")
	got, err := b.store.Replica().ExportPortion(bg, []byte("s"), nil, 0)
	must(t, err, "export")
	if !dropped || got.Count != 160 || !got.Done {
		t.Errorf("dropped %t, %d keys, want 160", dropped, got.Count)
	}
	must(t, b.store.Close(), "close")
}

// TestIngestReadsBefore: what an ingest reads around its table it reads before it holds writers.
func TestIngestReadsBefore(t *testing.T) {
	t.Parallel()
	set := []byte("set")
	s, disk := openCold(t, set)
	from, err := engine.Open("store", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1})
	must(t, err, "open")
	defer func() { must(t, from.Close(), "close") }()
	var elements [][]byte
	for i := range 1000 { // between two elements of the other store
		elements = append(elements, fmt.Appendf(nil, "0030-%04d", i))
	}
	_, err = from.Add(bg, set, elements, bigset.WriteOptions{})
	must(t, err, "add")
	portion, err := from.Replica().ExportPortion(bg, set, nil, 0)
	must(t, err, "export")
	var before, held atomic.Int32
	disk.SetHook("reads", func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileReadAt || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		if strings.Contains(string(debug.Stack()), "engine.(*ingestion).ingest(") {
			held.Add(1)
		} else {
			before.Add(1)
		}
		return nil
	})
	res, err := s.Replica().IngestPortion(bg, portion, nil)
	disk.SetHook("reads", nil)
	must(t, err, "ingest")
	if stats, err := s.Stats(); err != nil || res.Keys != 1000 || stats.Ingests != 1 {
		t.Fatalf("%+v, %d ingests, %v", res, stats.Ingests, err)
	}
	if before.Load() == 0 || held.Load() > 0 {
		t.Errorf("%d reads before writers are held, and %d then", before.Load(), held.Load())
	}
}
