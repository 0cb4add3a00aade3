package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"bigset"
	"bigset/clock"
	"bigset/engine"
	"bigset/internal/testkit"
	"bigset/keyscheme"
)

// counts returns all parts of a range, asking on until it is done, and by how many calls.
func (p *pair) counts(t *testing.T, r bigset.CountRange) (all []bigset.ElementDigest, calls int) {
	t.Helper()
	for {
		c, err := p.store.Replica().CountParts(bg, []byte(healSet), r)
		must(t, err, p.label+": counts of parts")
		if (c.Clock != nil) != r.Clock {
			t.Fatalf("%s: clock %v, asked for it: %v", p.label, c.Clock, r.Clock)
		}
		for _, part := range c.Parts {
			if r.After != nil && string(part.Bound) <= string(r.After) {
				t.Fatalf("%s: a part ends at %q, not after %q", p.label, part.Bound, r.After)
			}
			r.After = part.Bound
		}
		all, calls = append(all, c.Parts...), calls+1
		if c.Done {
			return all, calls
		}
	}
}

// TestCountPartsTime: a question ends when its time is up by the store's clock, and continues from there. However slow the machine, it does not end while that clock stands still.
func TestCountPartsTime(t *testing.T) {
	t.Parallel()
	const n = 10_000
	for name, step := range map[string]time.Duration{"stands still": 0, "runs": 100 * time.Millisecond} {
		var now atomic.Int64
		store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1, Now: func() time.Time { return time.UnixMilli(now.Add(step.Milliseconds())) }})
		must(t, err, "open")
		var elements [][]byte
		for _, name := range elementNames(0, n) {
			elements = append(elements, []byte(name))
		}
		_, err = store.Add(bg, []byte(healSet), elements, bigset.WriteOptions{Durability: bigset.NoSync})
		must(t, err, "add")
		r, calls, counted := bigset.CountRange{Mean: 64}, 0, uint64(0)
		for done := false; !done; calls++ {
			c, err := store.Replica().CountParts(bg, []byte(healSet), r)
			must(t, err, "count")
			for _, part := range c.Parts {
				r.After, counted = part.Bound, counted+part.Elements
			}
			done = c.Done
		}
		if counted != n || (calls == 1) != (step == 0) || calls > 5 {
			t.Errorf("a clock that %s: %d elements in %d calls", name, counted, calls)
		}
		must(t, store.Close(), "close")
	}
}

// TestCountParts: the counts of stores with the same elements are the same, part by part, whatever lies on disk, and are what Count says.
func TestCountParts(t *testing.T) {
	t.Parallel()
	const n = 5000
	p, q := newPair("one"), newPair("other")
	p.open(t)
	q.open(t)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(0, n), bigset.NoSync)
	p.all(t, healSet, keyscheme.OpRemove, elementNames(100, 200), bigset.NoSync)
	p.all(t, healSet, keyscheme.OpAdd, elementNames(150, 160), bigset.NoSync)
	for _, s := range p.portions(t, healSet, 0) { // q has never had the keys that are dead
		q.ingest(t, s)
	}
	must(t, q.store.CompactTables(bg), "compact")
	same := func(a, b bigset.ElementDigest) bool { return a.Same(&b) && string(a.Bound) == string(b.Bound) }
	for _, mean := range []int{1, 32, 64, bigset.ElementsMeanMax} {
		for _, o := range []bigset.ReadOptions{{}, {From: []byte(bulkName(120)), To: []byte(bulkName(3000))}, {Prefix: []byte(bulkName(40)[:4])}, {After: []byte(bulkName(7))}, {To: []byte{}}} {
			r := bigset.CountRange{From: o.From, To: o.To, Prefix: o.Prefix, After: o.After, Mean: mean, Clock: mean == 32}
			ps, _ := p.counts(t, r)
			qs, _ := q.counts(t, r)
			want, err := p.store.Count(bg, []byte(healSet), engine.CountOptions{ReadOptions: o})
			must(t, err, "count")
			if sum := sumOf(ps); !slices.EqualFunc(ps, qs, same) || sum.Elements != want.Elements {
				t.Errorf("mean %d, %+v: %d and %d parts, %+v, want %d", mean, o, len(ps), len(qs), sum, want.Elements)
			}
		}
		ps, _ := p.counts(t, bigset.CountRange{Mean: mean})
		if want := (n - 90) / mean; len(ps) < want*2/3 || len(ps) > want*3/2+1 || mean == 1 && len(ps) != want {
			t.Errorf("mean %d: %d parts", mean, len(ps))
		}
	}
	q.all(t, healSet, keyscheme.OpAdd, []string{bulkName(10) + "+"}, bigset.NoSync) // one more
	q.all(t, healSet, keyscheme.OpAdd, []string{bulkName(1000)}, bigset.NoSync)     // the same element by another dot
	q.all(t, healSet, keyscheme.OpRemove, []string{bulkName(n - 1)}, bigset.NoSync) // one less
	ps, _ := p.counts(t, bigset.CountRange{Mean: 1})
	qs, _ := q.counts(t, bigset.CountRange{Mean: 1})
	has := map[string][16]byte{}
	for _, d := range ps {
		has[string(d.Bound)] = d.Sum
	}
	var differ []string
	for _, d := range qs {
		if has[string(d.Bound)] != d.Sum {
			differ = append(differ, string(d.Bound))
		}
	}
	if want := []string{bulkName(10) + "+", bulkName(1000)}; !slices.Equal(differ, want) || len(qs) != len(ps) {
		t.Errorf("%q differ, want %q; %d and %d parts", differ, want, len(ps), len(qs))
	}
	p.close(t)
	q.close(t)
}

// TestCountPartsBounded: one call reads a bounded number of keys, ends with a part where it can, and gives a clock that is no newer than its
// elements.
func TestCountPartsBounded(t *testing.T) {
	t.Parallel()
	const n = 50_000
	still := func() time.Time { return time.Unix(1, 0) } // no call ends because it takes long
	store, err := engine.Open("db", &engine.Options{FS: testkit.NewDisk(), BackgroundInterval: -1, MemTableBytes: 1 << 20, Now: still})
	must(t, err, "open")
	p := &pair{label: "store", store: store}
	all := func(kind keyscheme.Op, from int) {
		for ops, i := []bigset.Op(nil), from; i < n; i++ {
			if ops = append(ops, bigset.Op{Kind: kind, Element: []byte(bulkName(i))}); len(ops) == 1000 || i == n-1 {
				_, err := store.Write(bg, []byte(healSet), ops, bigset.WriteOptions{Durability: bigset.NoSync})
				must(t, err, "write")
				ops = ops[:0]
			}
		}
	}
	all(keyscheme.OpAdd, 0)
	parts, calls := p.counts(t, bigset.CountRange{Mean: 64})
	one, one1 := p.counts(t, bigset.CountRange{Mean: bigset.ElementsMeanMax}) // no element ends a part
	if sum, sum1 := sumOf(parts), sumOf(one); calls != 4 || sum.Elements != n || !sum.Same(&sum1) || one1 != 1 || len(one) != 1 {
		t.Errorf("%d calls, %d for one part: %+v, %+v", calls, one1, sum, sum1)
	}
	var ends []string // all of them are ends for a store that begins elsewhere
	for _, part := range parts {
		ends = append(ends, string(part.Bound))
	}
	later, _ := p.counts(t, bigset.CountRange{After: []byte(bulkName(20_000)), Mean: 64})
	for _, part := range later {
		if !slices.Contains(ends, string(part.Bound)) {
			t.Errorf("a part ends at %q only from elsewhere", part.Bound)
		}
	}
	if c, err := p.store.Replica().CountParts(bg, []byte(healSet), bigset.CountRange{Mean: 1, Clock: true}); err != nil || len(c.Parts) != bigset.ElementPartsMax-1 || c.Done ||
		c.Clock.Len() != n {
		t.Errorf("%d parts of one element, %v", len(c.Parts), err)
	}
	all(keyscheme.OpRemove, 100)
	if parts, _ := p.counts(t, bigset.CountRange{Mean: 1}); len(parts) > 102 {
		t.Errorf("%d parts of 100 elements", len(parts))
	}
	for what, r := range map[string]bigset.CountRange{"no mean": {}, "mean": {Mean: bigset.ElementsMeanMax + 1}} {
		if _, err := p.store.Replica().CountParts(bg, []byte(healSet), r); !errors.Is(err, bigset.ErrRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.store.Replica().CountParts(bg, []byte(healSet), bigset.CountRange{Mean: 1, Prefix: make([]byte, bigset.ElementBytesMax+1)}); !errors.Is(err, bigset.ErrLimit) {
		t.Errorf("long element: %v", err)
	}
	if _, err := p.store.Replica().CountParts(bg, []byte("unknown"), bigset.CountRange{Mean: 1}); !errors.Is(err, bigset.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err := p.store.Replica().CountParts(ended, []byte(healSet), bigset.CountRange{Mean: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	must(t, store.Close(), "close")
	if _, err := p.store.Replica().CountParts(bg, []byte(healSet), bigset.CountRange{Mean: 1}); !errors.Is(err, bigset.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestCountPartsAreFixed: what is hashed, and where parts end, are part of the protocol.
func TestCountPartsAreFixed(t *testing.T) {
	t.Parallel()
	p := newPair("store")
	p.open(t)
	f := bigset.Facts{Set: []byte(healSet)}
	for i := range 64 {
		f.Keys = append(f.Keys, element(bulkName(i), clock.Dot{Actor: "a", Counter: uint64(i + 1)}))
	}
	f.Keys[5].Dots = append(f.Keys[5].Dots, clock.Dot{Actor: "b", Counter: 1})
	p.facts(t, f, bigset.Sync)
	parts, _ := p.counts(t, bigset.CountRange{Mean: 16})
	if got := fixed(parts); got != countPartsFixed {
		t.Errorf("got\n%s", got)
	}
	p.close(t)
}

const countPartsFixed = `n003-padding 4 5cb7ccac945843c72fe0572006715bdf
n013-padding 10 08ae2b01191dad2202aee563ec893cc2
n039-padding 26 760abc74ca3b3fbab1ef60aac888132d
n048-padding 9 ecb52059c2b1ba71d2cb706da049ae6a
n063-padding 15 d62e114a3d23e209f48954084b67a0fa
`
