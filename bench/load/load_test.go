package load

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bigset/bench/load/choose"
	"bigset/bench/spec"
	"bigset/bench/spec/parser"
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

// TestSawtoothRemoves checks that each element is removed once, in order.
func TestSawtoothRemoves(t *testing.T) {
	p, c := newPopulation(false), choose.New(spec.Distribution{Kind: spec.Sawtooth}, 0, rand.New(rand.NewPCG(1, 1)))
	for range 100 {
		p.add(0)
	}
	for want := range uint64(100) {
		rank := c.Choose(p.live)
		place := p.at(rank)
		if got := p.seq(place); got != want {
			t.Fatalf("element %d comes, should be %d", got, want)
		}
		p.remove(place)
		c.Removed(rank)
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
	w, err := parser.Parse("w.yaml", []byte("name: w\nabout: draws\nsize: 100\nphases:\n  - {name: load, clients: 2, ops: 100%, mix: {add: 1}}\n"+
		"  - {name: main, ops: 10, roles: [{mix: {hit: 1}}, {name: look, mix: {first: 1}, every: 5}]}\n"), parser.Known{})
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

// TestThousandSets: the clients of the ready workload add equally many elements to each set, and its readers read a fifth of the sets four times
// as often as all others together.
func TestThousandSets(t *testing.T) {
	text, err := os.ReadFile("../spec/workloads/thousand-sets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, err := parser.Parse("thousand-sets.yaml", text, parser.Known{})
	if err != nil {
		t.Fatal(err)
	}
	const each = 20 // adds to a set
	m := NewModel(w, spec.Bigset, 1000*each, 1)
	for phase := range w.Phases {
		c, err := NewClients(m, nil, Groups(w), phase, 1000*each)
		if err != nil {
			t.Fatal(err)
		}
		counts := make([]int, m.sets)
		for i := range 1000 * each {
			counts[c.clients[i%len(c.clients)].sets.Choose(m.sets)]++
		}
		slices.SortFunc(counts, func(a, b int) int { return b - a })
		most := 0
		for _, n := range counts[:200] {
			most += n
		}
		if name := w.Phases[phase].Name; name == "read" && (most < 15*1000*each/20 || most > 17*1000*each/20) {
			t.Errorf("%s: a fifth of the sets got %d of %d operations", name, most, 1000*each)
		} else if name == "main" && (counts[0] != each || counts[999] != each) {
			t.Errorf("%s: sets got %d to %d operations", name, counts[999], counts[0])
		}
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

// TestDueInAll: a client has as many operations as are due before the end, by the rule that says when each is, of rates that stay, rise and fall.
func TestDueInAll(t *testing.T) {
	for _, rate := range [][2]float64{{600, 0}, {1000, 3000}, {3000, 1000}, {0.5, 0}, {7, 7}, {333, 10}} {
		for clients := 1; clients <= 3; clients++ {
			for nth := range clients {
				c := &client{Clients: &Clients{duration: 1300 * time.Millisecond}, nth: nth, role: &spec.Role{Clients: clients, Rate: rate[0], RateEnd: rate[1]}}
				want := 0
				for ; ; want++ {
					if due, more := c.due(want); !more || due >= c.duration-time.Microsecond { // it is a fraction
						break
					}
				}
				if got := c.dueInAll(); got != want {
					t.Errorf("rate %v, client %d of %d: %d, want %d", rate, nth, clients, got, want)
				}
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

// TestLevel: ranks among parts of any sizes reach each element once, the older ones first.
func TestLevel(t *testing.T) {
	for _, lives := range [][]int{{4}, {3, 3}, {1, 2, 5}, {0, 0, 2, 2, 7}} {
		sum, seen, before := 0, map[[2]int]bool{}, 0
		for _, n := range lives {
			sum += n
		}
		for rank := range sum {
			within, nth := level(lives, rank)
			long := 0 // parts that have such a rank
			for _, n := range lives {
				if n > within {
					long++
				}
			}
			if seen[[2]int{within, nth}] || nth >= long || within < before {
				t.Errorf("%v: rank %d is %d of part %d, of %d parts", lives, rank, within, nth, long)
			}
			seen[[2]int{within, nth}] = true
			before = within
		}
	}
}
