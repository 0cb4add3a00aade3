package load

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"bigset/bench/spec"
)

// TestPopulation holds a population to a list of its elements.
func TestPopulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type element struct{ seq, dot uint64 }
		var model, gone []element
		kept := rapid.Bool().Draw(t, "dots")
		p := newPopulation(kept)
		next := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					e := element{next, next * 3}
					if seq := p.add(e.dot); seq != e.seq {
						t.Fatalf("the element after %d others has the number %d", e.seq, seq)
					}
					model = append(model, e)
					next++
				}
			},
			"remove": func(t *rapid.T) {
				for range min(len(model), rapid.IntRange(1, 150).Draw(t, "n")) {
					rank := rapid.IntRange(0, len(model)-1).Draw(t, "rank")
					p.remove(p.at(rank))
					gone = append(gone, model[rank])
					model = slices.Delete(model, rank, rank+1)
				}
			},
			"replace": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip()
				}
				rank := rapid.IntRange(0, len(model)-1).Draw(t, "rank")
				model[rank].dot = rapid.Uint64().Draw(t, "dot")
				p.setDot(p.at(rank), model[rank].dot)
			},
			"dead": func(t *rapid.T) {
				seq, ok := p.dead(rand.New(rand.NewPCG(1, next)))
				recent := gone[max(0, len(gone)-goneMax):]
				if ok != (len(gone) > 0) || ok && !slices.ContainsFunc(recent, func(e element) bool { return e.seq == seq }) {
					t.Fatalf("dead: %d, %v, and %v were removed last", seq, ok, recent)
				}
			},
			"": func(t *rapid.T) {
				if p.live != len(model) {
					t.Fatalf("%d elements, should be %d", p.live, len(model))
				}
				for rank, e := range model {
					place := p.at(rank)
					if p.seq(place) != e.seq || kept && p.dot(place) != e.dot {
						t.Fatalf("rank %d: element %d, dot %d, should be %v", rank, p.seq(place), p.dot(place), e)
					}
				}
				if bound := 2*len(model) + sparePlaces; p.tree != nil && p.places > bound && len(gone) > 0 {
					t.Fatalf("%d places for %d elements", p.places, len(model))
				}
			},
		})
	})
}

// TestPopulationKeepsNothing checks that adds alone take no memory.
func TestPopulationKeepsNothing(t *testing.T) {
	p := newPopulation(false)
	if n := testing.AllocsPerRun(10_000, func() { p.add(1) }); n != 0 {
		t.Errorf("%v allocations an add", n)
	}
}

// shares draws and returns how often each rank was chosen.
func shares(d spec.Distribution, window, n, draws int) []float64 {
	c := newChooser(d, window, rand.New(rand.NewPCG(1, 2)))
	counts := make([]float64, n)
	for range draws {
		counts[c.choose(n)] += 1 / float64(draws)
	}
	return counts
}

// TestChoose compares the distributions with their shares by definition.
func TestChoose(t *testing.T) {
	const n, draws = 100, 400_000
	harmonic := 0.0
	for i := range n {
		harmonic += math.Pow(float64(i+1), -0.99)
	}
	byZipf := func(i int) float64 { return math.Pow(float64(i+1), -0.99) / harmonic }
	tests := []struct {
		d      spec.Distribution
		window int
		want   func(rank int) float64
		sorted bool // which are popular is left open
	}{
		{spec.Distribution{Kind: spec.Uniform}, 0, func(int) float64 { return 0.01 }, false},
		{spec.Distribution{Kind: spec.Latest, Theta: 0.99}, 0, func(rank int) float64 { return byZipf(n - 1 - rank) }, false},
		{spec.Distribution{Kind: spec.Zipfian, Theta: 0.99}, 0, byZipf, true},
		{spec.Distribution{Kind: spec.Pareto, Share: 0.2}, 0, func(i int) float64 {
			if i < 20 {
				return 0.04
			}
			return 0.0025
		}, true},
		{spec.Distribution{Kind: spec.Young, Share: 0.05, Choices: 0.9}, 0, func(rank int) float64 {
			if rank >= 95 {
				return 0.18
			}
			return 0.1 / 95
		}, false},
		{spec.Distribution{Kind: spec.Queue}, 0, func(rank int) float64 {
			if rank == 0 {
				return 1
			}
			return 0
		}, false},
		{spec.Distribution{Kind: spec.Sawtooth}, 0, func(int) float64 { return 0.01 }, false},
		{spec.Distribution{Kind: spec.Timeline}, 10, func(rank int) float64 {
			if rank >= 90 {
				return 0.1
			}
			return 0
		}, false},
	}
	for _, test := range tests {
		got := shares(test.d, test.window, n, draws)
		if test.sorted {
			if slices.IsSortedFunc(got, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
				t.Errorf("%s: the popular ones are the oldest", test.d.Kind)
			}
			slices.Sort(got)
			slices.Reverse(got)
		}
		for rank, share := range got {
			want := test.want(rank)
			if sigma := math.Sqrt(want/draws) + 1e-9; math.Abs(share-want) > 5*sigma+0.01*want {
				t.Errorf("%s: rank %d in %.5f of the choices, should be %.5f", test.d.Kind, rank, share, want)
			}
		}
	}
}

// TestScattered checks that it is a permutation, and that most things stay where they are when others come.
func TestScattered(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64, 100, 1000, 1025} {
		seen := make([]bool, n)
		for i := range n {
			at := scattered(i, n)
			if seen[at] {
				t.Fatalf("%d of %d: two things at %d", i, n, at)
			}
			seen[at] = true
		}
	}
	moved := 0
	for i := range 1500 {
		if scattered(i, 1500) != scattered(i, 1510) {
			moved++
		}
	}
	if moved > 60 {
		t.Errorf("%d of 1,500 things moved when ten came", moved)
	}
}

// TestSawtoothRemoves checks that each element is removed once, in order.
func TestSawtoothRemoves(t *testing.T) {
	p, c := newPopulation(false), newChooser(spec.Distribution{Kind: spec.Sawtooth}, 0, rand.New(rand.NewPCG(1, 1)))
	for range 100 {
		p.add(0)
	}
	for want := range uint64(100) {
		rank := c.choose(p.live)
		place := p.at(rank)
		if got := p.seq(place); got != want {
			t.Fatalf("element %d comes, should be %d", got, want)
		}
		p.remove(place)
		c.removed(rank)
	}
}

// TestNames checks lengths, order, and that no two numbers have one element.
func TestNames(t *testing.T) {
	for _, e := range []spec.Elements{{MinBytes: 16, MaxBytes: 16}, {MinBytes: 8, MaxBytes: 64}, {MinBytes: 16, MaxBytes: 16, Ascending: true},
		{MinBytes: 8, MaxBytes: 8}, {MinBytes: 9, MaxBytes: 40, Ascending: true}, {MinBytes: 100, MaxBytes: 120}} {
		seen, lengths, before := map[string]bool{}, map[int]bool{}, []byte(nil)
		for i := range uint64(3000) {
			name := names{seed: 3, Elements: e}.append(nil, i*7)
			if seen[string(name)] || len(name) < e.MinBytes || len(name) > e.MaxBytes {
				t.Fatalf("%+v: %q for %d", e, name, i*7)
			}
			if e.Ascending && bytes.Compare(before, name) >= 0 {
				t.Fatalf("%+v: %q after %q", e, name, before)
			}
			seen[string(name)], lengths[len(name)], before = true, true, name
		}
		if len(lengths) != e.MaxBytes-e.MinBytes+1 {
			t.Errorf("%+v: %d lengths", e, len(lengths))
		}
		again := names{seed: 3, Elements: e}
		if other := (names{seed: 4, Elements: e}); !e.Ascending && bytes.Equal(again.append(nil, 1), other.append(nil, 1)) {
			t.Errorf("%+v: the seed does nothing", e)
		}
	}
}

// TestStreams: each client of each phase draws other numbers with each seed, and the same ones again with the same seed.
func TestStreams(t *testing.T) {
	w, err := spec.Parse("w.yaml", []byte("name: w\nabout: draws\nsize: 100\nphases:\n  - {name: load, clients: 2, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, ops: 10, roles: [{mix: {hit: 1}}, {name: look, mix: {first: 1}, every: 5}]}\n"), spec.Known{})
	if err != nil {
		t.Fatal(err)
	}
	draws := func(seed uint64) (list []uint64) {
		m := NewModel(w, spec.Bigset, 100, seed)
		for phase := range w.Phases {
			c, err := NewClients(m, nil, Groups(w), phase, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range slices.Concat(c.clients, c.clients[0].probes) {
				list = append(list, one.rng.Uint64())
			}
		}
		return list
	}
	all := slices.Concat(draws(1), draws(2))
	if again := draws(1); !slices.Equal(again, all[:len(again)]) {
		t.Errorf("drew %v, and then %v", all[:len(again)], again)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 8 {
		t.Errorf("clients drew alike: %v", all)
	}
}

// TestNumbers: an element tells its number.
func TestNumbers(t *testing.T) {
	for _, e := range []spec.Elements{{MinBytes: 16, MaxBytes: 16}, {MinBytes: 8, MaxBytes: 64}, {MinBytes: 20, MaxBytes: 30, Ascending: true}, {MinBytes: 8, MaxBytes: 8, Ascending: true}} {
		n := names{7, e}
		for _, number := range []uint64{0, 1, 77, 1 << 33} {
			if got, ok := n.number(n.append(nil, number)); !ok || got != number {
				t.Errorf("%+v: got %d, %v, want %d", e, got, ok, number)
			}
		}
	}
}

func BenchmarkPopulation(b *testing.B) {
	p, rng := newPopulation(true), rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		p.add(1)
	}
	for b.Loop() {
		p.remove(p.at(rng.IntN(p.live)))
		p.add(1)
	}
}

func BenchmarkZipf(b *testing.B) {
	c := newChooser(spec.Distribution{Kind: spec.Zipfian, Theta: 0.99}, 0, rand.New(rand.NewPCG(1, 1)))
	n := 1_000_000
	for b.Loop() {
		c.choose(n)
		n++
	}
}
