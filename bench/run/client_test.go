package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"bigset/bench/spec"
	"bigset/bench/system"
)

// modelStore is sets as maps, which check what they are told.
type modelStore struct {
	t    *rapid.T
	sets map[string]map[string]uint64 // dots by element
	dot  uint64
	once map[string]bool // elements that were ever added as new
}

func newModelStore(t *rapid.T) *modelStore {
	return &modelStore{t: t, sets: map[string]map[string]uint64{}, once: map[string]bool{}}
}

func (m *modelStore) open(name string) system.Set {
	if m.sets[name] == nil {
		m.sets[name] = map[string]uint64{}
	}
	return &modelSet{m, name, m.sets[name]}
}

type modelSet struct {
	*modelStore
	name string
	has  map[string]uint64
}

func (s *modelSet) Insert(elements [][]byte, dots []uint64) error {
	for i, e := range elements {
		if s.once[s.name+string(e)] {
			s.t.Fatalf("%q is new a second time", e)
		}
		s.once[s.name+string(e)] = true
		s.dot++
		s.has[string(e)], dots[i] = s.dot, s.dot
	}
	return nil
}

func (s *modelSet) Replace(elements [][]byte, old []uint64, known bool, dots []uint64) error {
	for i, e := range elements {
		if known && s.has[string(e)] == 0 {
			s.t.Fatalf("%q is replaced, and is not there", e)
		}
		s.dot++
		s.has[string(e)], dots[i] = s.dot, s.dot
	}
	return nil
}

func (s *modelSet) Remove(elements [][]byte, old []uint64, known bool) error {
	for i, e := range elements {
		if dot := s.has[string(e)]; dot == 0 || known && dot != old[i] {
			s.t.Fatalf("%q is removed by dot %d, and has %d", e, old[i], dot)
		}
		delete(s.has, string(e))
	}
	return nil
}

func (s *modelSet) Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error {
	if err := s.Remove(gone, goneDots, true); err != nil {
		return err
	}
	return s.Insert(fresh, freshDots)
}

func (s *modelSet) TakeFirst(n int) error {
	var names []string
	for e := range s.has {
		names = append(names, e)
	}
	sort.Strings(names)
	for _, e := range names[:n] {
		delete(s.has, e)
	}
	return nil
}

func (s *modelSet) Observe([]byte, uint64) error          { panic("not used") }
func (s *modelSet) Contains(element []byte) (bool, error) { return s.has[string(element)] > 0, nil }
func (s *modelSet) First(system.Query) (bool, error)      { return len(s.has) > 0, nil }
func (s *modelSet) Count() (int, error)                   { return len(s.has), nil }
func (s *modelSet) Read(limit int, each func(n int)) error {
	return s.Scan(system.Query{Limit: limit}, each)
}

func (s *modelSet) Scan(q system.Query, each func(n int)) error {
	n := 0
	for e := range s.has {
		if q.From == nil || e >= string(q.From) {
			n++
		}
	}
	if q.Limit > 0 {
		n = min(n, q.Limit)
	}
	each(n)
	return nil
}

// drawWorkload draws a workload of some phases.
func drawWorkload(t *rapid.T) *spec.Workload {
	w := &spec.Workload{Name: "w", Sets: spec.Sets{Count: spec.Count{Absolute: rapid.IntRange(1, 4).Draw(t, "sets")}},
		Elements: spec.Elements{MinBytes: rapid.IntRange(8, 20).Draw(t, "bytes"), Ascending: rapid.Bool().Draw(t, "ascending")}}
	w.Elements.MaxBytes = w.Elements.MinBytes + rapid.IntRange(0, 10).Draw(t, "more")
	w.Phases = []spec.Phase{{Name: "load", Ops: spec.Count{Of: 1}, Roles: []spec.Role{{Clients: rapid.IntRange(1, 3).Draw(t, "loaders"),
		Batch: spec.Count{Absolute: 7}, Mix: []spec.Share{{Kind: spec.Add, Weight: 1}}}}}}
	kinds := []spec.Kind{spec.Add, spec.Replace, spec.Remove, spec.Exchange, spec.Hit, spec.Miss, spec.Dead, spec.Read, spec.Range, spec.First, spec.CountAll}
	distributions := []spec.Distribution{{Kind: spec.Uniform}, {Kind: spec.Zipfian, Theta: 0.9}, {Kind: spec.Latest, Theta: 0.5}, {Kind: spec.Queue},
		{Kind: spec.Sawtooth}, {Kind: spec.Young, Share: 0.1, Choices: 0.9}, {Kind: spec.Pareto, Share: 0.2}, {Kind: spec.Timeline, Window: spec.Count{Absolute: 5}}}
	for p := range rapid.IntRange(1, 4).Draw(t, "phases") {
		phase := spec.Phase{Name: fmt.Sprint(p), Ops: spec.Count{Absolute: rapid.IntRange(1, 300).Draw(t, "ops")}}
		for range rapid.IntRange(1, 3).Draw(t, "roles") {
			role := spec.Role{Clients: rapid.IntRange(1, 4).Draw(t, "clients"), Choose: rapid.SampledFrom(distributions).Draw(t, "choose"),
				Batch: spec.Count{Absolute: rapid.IntRange(1, 5).Draw(t, "batch")}, Turns: rapid.Bool().Draw(t, "turns"),
				Context: rapid.SampledFrom([]spec.Context{spec.Narrow, spec.None}).Draw(t, "context")}
			for range rapid.IntRange(1, 3).Draw(t, "kinds") {
				role.Mix = append(role.Mix, spec.Share{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Weight: rapid.Float64Range(0.1, 5).Draw(t, "weight")})
			}
			phase.Roles = append(phase.Roles, role)
		}
		w.Phases = append(w.Phases, phase)
	}
	return w
}

// drive runs a workload on a model, its clients in an order that depends on a seed, and returns the hashes of the phases.
func drive(t *rapid.T, w *spec.Workload, order uint64) (hashes []string, store *modelStore) {
	rng := rand.New(rand.NewPCG(order, 1))
	l, m := newLoad(w, 400, 5), newModelStore(t)
	for p := range w.Phases {
		clients, err := l.begin(p, m.open)
		if err != nil {
			t.Fatal(err)
		}
		left, total := make([]int, len(clients)), 0
		for i, c := range clients {
			left[i] = l.share(c)
			total += left[i]
		}
		if want := w.Phases[p].Ops.At(400); total != want {
			t.Fatalf("the clients share %d operations of %d", total, want)
		}
		for busy := slices.Clone(clients); len(busy) > 0; {
			i := rng.IntN(len(busy))
			at := slices.Index(clients, busy[i])
			if left[at] <= 0 {
				busy = slices.Delete(busy, i, i+1)
				continue
			}
			done, err := busy[i].do()
			if left[at] -= max(1, done.ops); err != nil {
				if done.kind == "" || !slices.Contains([]spec.Kind{spec.Replace, spec.Remove, spec.Exchange, spec.Hit, spec.Dead, spec.Range}, done.kind) {
					t.Fatal(err)
				}
				busy = slices.Delete(busy, i, i+1) // it has nothing left
			}
		}
		hashes = append(hashes, l.hash())
		for set := range l.sets {
			if have := len(m.sets[setName(set)]); have != l.live(set) {
				t.Fatalf("set %d has %d elements, the load says %d", set, have, l.live(set))
			}
		}
	}
	return hashes, m
}

// TestClients runs workloads on a model, which finds operations on elements that are not there. Whatever the order of the clients, they do the same.
func TestClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		a, first := drive(t, w, 1)
		b, second := drive(t, w, 2)
		if !slices.Equal(a, b) {
			t.Fatalf("hashes %v in one order of clients, %v in another", a, b)
		}
		for name, has := range first.sets {
			if len(second.sets[name]) != len(has) {
				t.Fatalf("%s: %d elements in one order, %d in another", name, len(has), len(second.sets[name]))
			}
			for e := range has {
				if second.sets[name][e] == 0 {
					t.Fatalf("%s: %q is there in one order alone", name, e)
				}
			}
		}
	})
}

// TestReload checks that a fresh store has the same elements, and that their dots are known.
func TestReload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		l, m := newLoad(w, 100, 5), newModelStore(t)
		l.dots = true
		clients, err := l.begin(0, m.open)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := clients[0].do(); err != nil {
				t.Fatal(err)
			}
		}
		fresh := newModelStore(t)
		fresh.dot = 1000
		if err := l.reload(fresh.open); err != nil {
			t.Fatal(err)
		}
		for name, has := range m.sets {
			for e := range has {
				if fresh.sets[name][e] == 0 {
					t.Fatalf("%s: %q was not loaded again", name, e)
				}
			}
		}
		w.Phases[0].Roles[0].Mix[0].Kind = spec.Remove // by dots
		again, err := l.begin(0, fresh.open)
		if err == nil {
			_, err = again[0].do()
		}
		if err != nil {
			t.Fatal(err)
		}
		l.reset()
		if l.live(0) != 0 {
			t.Fatalf("%d elements after a reset", l.live(0))
		}
		w.Phases[0].Roles[0].Mix[0].Kind = spec.Add
		if again, err = l.begin(0, m.open); err == nil {
			_, err = again[0].do() // which must be new to m
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
