package clock

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// pack packs the pages that were written since they were last packed.
func pack(c *Clock) {
	tok := c.token()
	for i := range c.recs {
		c.recs[i].optimize(tok)
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, m := drawPair(t, "steps")
		m.verify(t, c)
		pack(c)
		m.verify(t, c)
	})
}

// Every step may clone: afterwards each side lives on alone.
func TestCloneIsIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clocks, models := []*Clock{new(Clock)}, []model{{}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(clocks)-1).Draw(t, "which")
			j := rapid.IntRange(0, len(clocks)-1).Draw(t, "with")
			c, m := clocks[i], models[i]
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				clocks, models = append(clocks, c.Clone()), append(models, m.clone())
			case 1:
				c.Union(clocks[j])
				models[i] = m.union(models[j])
			case 2:
				c.Subtract(clocks[j])
				models[i] = m.andNot(models[j])
			case 3:
				c.Intersect(clocks[j])
				models[i] = m.and(models[j])
			case 4:
				if err := c.UnionEncoded(clocks[j].Append(nil)); err != nil {
					t.Fatal(err)
				}
				models[i] = m.union(models[j])
			case 5:
				pack(c)
			default:
				mutate(t, c, m)
			}
		}
		for i, c := range clocks {
			models[i].verify(t, c)
		}
	})
}

// Dense pages, one counter at a time, in random order: containers of every kind, full pages, gaps that close.
func TestAddEveryCounter(t *testing.T) {
	const top = 4 << 16
	for _, seed := range []uint64{1, 2, 3} {
		rnd := rand.New(rand.NewPCG(seed, 0))
		order := rnd.Perm(top)
		c, in := new(Clock), make([]bool, top+2)
		for k, v := range order {
			n := uint64(v) + 1
			if fresh := c.Add(Dot{"a", n}); fresh == in[n] || c.Add(Dot{"a", n}) {
				t.Fatalf("Add(%d) = %v", n, fresh)
			}
			in[n] = true
			if k%(top/16) == 0 {
				mustCheck(t, c)
			}
			if c.Len() != uint64(k+1) {
				t.Fatalf("Len %d after %d", c.Len(), k+1)
			}
		}
		mustCheck(t, c)
		if c.String() != "{61:1-262144}" {
			t.Fatal(c)
		}
	}
}

func TestCounterBorders(t *testing.T) {
	const most = 1<<64 - 1
	c := new(Clock)
	if c.Add(Dot{"a", 0}) || c.Add(Dot{"", 1}) || c.Add(Dot{Actor(make([]byte, 256)), 1}) || !c.Empty() {
		t.Fatal("took what is no dot")
	}
	c.AddRange("a", 5, 4)
	c.AddRange("", 1, 4)
	c.AddRange("a", 0, 0)
	if !c.Empty() {
		t.Fatal("took an empty range")
	}
	c.AddRange("a", most, most)
	c.AddRange("a", 0, most-2)
	mustCheck(t, c)
	if c.Base("a") != most-2 || c.Len() != most-1 || c.GapCount() != 1 || c.Contains(Dot{"a", most - 1}) {
		t.Fatal(c)
	}
	if !c.Add(Dot{"a", most - 1}) || c.Add(Dot{"a", most}) || c.Base("a") != most {
		t.Fatal(c)
	}
	c.AddRange("b", 1, 1)
	c.AddRange("b", 3, most)
	mustCheck(t, c)
	if c.Len() != most || c.HeapBytes() > 1000 {
		t.Fatalf("Len %d, %d bytes", c.Len(), c.HeapBytes())
	}
	if got := c.String(); got != "{61:1-18446744073709551615 62:1,3-18446744073709551615}" {
		t.Fatal(got)
	}
}

func TestNilReadsAsEmpty(t *testing.T) {
	var c *Clock
	var r *Counters
	if c.Contains(Dot{"a", 1}) || c.Max("a") != 0 || c.Base("a") != 0 || c.Len() != 0 || !c.Empty() || c.GapCount() != 0 ||
		c.ContainsBytes([]byte("a"), 1) || c.Counters("a") != nil || c.Counters("") != nil ||
		!c.Equal(Of()) || !c.Descends(c) || c.Intersects(c) || len(c.Actors()) != 0 || c.String() != "{}" ||
		!c.Clone().Empty() || len(c.Append(nil)) != 2 || r.Contains(1) || r.ContainsAny(0, 9) || r.Max() != 0 || r.Base() != 0 || r.Len() != 0 {
		t.Fatal("nil is not empty")
	}
	d := Of(Dot{"a", 2})
	d.Union(c)
	d.Subtract(c)
	if d.String() != "{61:2}" {
		t.Fatal(d)
	}
	if d.Intersect(c); !d.Empty() {
		t.Fatal(d)
	}
}

func TestManyActors(t *testing.T) {
	c, want := new(Clock), []Actor(nil)
	for i := range 300 {
		a := Actor([]byte{byte(i * 7), byte(i * 13 >> 3)})
		c.Add(Dot{a, uint64(i + 1)})
		want = append(want, a)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if mustCheck(t, c); !slices.Equal(c.Actors(), want) {
		t.Fatalf("%d actors, want %d", len(c.Actors()), len(want))
	}
	for _, a := range want {
		if c.Max(a) == 0 || c.Counters(a).Max() != c.Max(a) {
			t.Fatalf("lost %x", string(a))
		}
	}
	if c.Max("\x00") != 0 || c.Max("\xff\xff\xff") != 0 {
		t.Fatal("found an actor that is not there")
	}
}

// One goroutine reads without a lock while others clone under it, and write to their clones: run with -race.
func TestReadersBesideClone(t *testing.T) {
	c := tenMillion()
	c.Add(Dot{"b", 3})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range uint64(200) {
				mu.Lock()
				d := c.Clone()
				mu.Unlock()
				d.Add(Dot{"a", 1<<40 + i})
				d.AddRange("a", 5_000_000, 5_100_000)
				d.Add(Dot{"b", 1})
			}
		})
	}
	for i := range uint64(20_000) {
		n := i*499%10_000_000 + 1
		if got := c.Contains(Dot{"a", n}); got != (n%100 != 0) {
			t.Fatalf("Contains(%d) = %v", n, got)
		}
		if c.Max("b") != 3 {
			t.Fatal(c.Max("b"))
		}
	}
	wg.Wait()
	mustCheck(t, c)
}

// tenMillion holds the events 1..10^7 of one actor but every hundredth.
func tenMillion() *Clock {
	c := new(Clock)
	for n := uint64(1); n <= 10_000_000; n += 100 {
		c.AddRange("a", n, n+98)
	}
	pack(c)
	return c
}
