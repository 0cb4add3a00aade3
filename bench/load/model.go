package load

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/compaction"
)

// Model is what a store should contain: the live elements of each set, and what is known about them. Only one goroutine may use it; while
// Clients run, each client uses the populations of its own parts.
type Model struct {
	w      *spec.Workload
	system spec.System
	seed   uint64
	size   int // elements of all sets together
	names  names

	// The elements of each set are divided into parts, whatever the clients of a phase are: those of part j have the numbers base + i*parts
	// + j. Each client of a phase owns some of the parts, and all clients own equally many.
	sets, parts int
	base        uint64
	pops        []*population // of set s and part j at s*parts+j; nil if nothing was added
	cursors     []map[int]int // by part and set, for choosers that continue from phase to phase

	dots    bool        // dots of elements are kept
	deletes bool        // raw Pebble deletes removed elements
	stale   atomic.Bool // the system may have more keys than live elements: raw Pebble that only records removes
}

// partsMax is the largest number of parts such that every client gets equally many.
const partsMax = 1024

// NewModel returns the model of an empty store on which a system runs a workload at a size.
func NewModel(w *spec.Workload, system spec.System, size int, seed uint64) *Model {
	m := &Model{w: w, system: system, seed: seed, size: size, names: names{seed, w.Elements}}
	m.sets, m.parts = max(1, w.Sets.Count.At(size)), 1
	most := 1
	for i := range w.Phases {
		n := clientsOf(&w.Phases[i])
		most = max(most, n)
		if m.parts <= partsMax {
			m.parts = m.parts / gcd(m.parts, max(1, n)) * max(1, n)
		}
		for _, role := range w.Phases[i].Roles {
			m.deletes = m.deletes || slices.ContainsFunc(role.Mix, func(k spec.Share) bool { return k.Kind == spec.Take })
			m.dots = m.dots || role.ByDot && system == spec.Pebble
			for _, k := range role.Mix {
				replaces := k.Kind == spec.Replace || k.Kind == spec.Remove || k.Kind == spec.Exchange
				m.dots = m.dots || replaces && (role.Context == spec.Narrow || role.Context == "" || system != spec.Bigset)
			}
		}
	}
	if m.parts > partsMax {
		m.parts = most
	}
	m.deletes = m.deletes || slices.Contains(w.Strategies, compaction.PointDeletes().Name())
	m.Forget()
	return m
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// clientsOf returns how many clients a phase has, without probes.
func clientsOf(p *spec.Phase) (n int) {
	for _, role := range p.Roles {
		if role.Every == (spec.Count{}) {
			n += role.Clients
		}
	}
	return n
}

// Deletes reports whether raw Pebble deletes removed elements.
func (m *Model) Deletes() bool { return m.deletes }

// Sets returns the names of the sets.
func (m *Model) Sets() []string {
	list := make([]string, m.sets)
	for set := range list {
		list[set] = m.setName(set)
	}
	return list
}

// Forget empties the model because the store was emptied. Elements that are added later get other numbers.
func (m *Model) Forget() {
	last := uint64(0)
	for _, p := range m.pops {
		if p != nil {
			last = max(last, p.next)
		}
	}
	m.base += last * uint64(m.parts)
	m.pops = make([]*population, m.sets*m.parts)
	m.cursors = make([]map[int]int, m.parts)
	m.stale.Store(false)
}

// population returns the population of a set and part.
func (m *Model) population(set, part int) *population {
	p := m.pops[set*m.parts+part]
	if p == nil {
		p = newPopulation(m.dots)
		m.pops[set*m.parts+part] = p
	}
	return p
}

// Live returns how many elements all sets have.
func (m *Model) Live() (n int) {
	for set := range m.sets {
		n += m.live(set)
	}
	return n
}

// live returns how many elements a set has.
func (m *Model) live(set int) (n int) {
	for _, p := range m.pops[set*m.parts : (set+1)*m.parts] {
		if p != nil {
			n += p.live
		}
	}
	return n
}

func (m *Model) setName(set int) string {
	if m.sets == 1 {
		return system.SetName
	}
	return fmt.Sprintf("%s-%07d", system.SetName, set)
}

// number returns the number of an element of a part.
func (m *Model) number(seq uint64, part int) uint64 {
	return m.base + seq*uint64(m.parts) + uint64(part)
}

// fillBatch is the number of elements in a batch that fills a store.
const fillBatch = 1000

// Fill adds all live elements to an empty store.
func (m *Model) Fill(ctx context.Context, sys system.System) error {
	size := fillBatch
	if m.system == spec.Blob {
		size = m.size // it would be rewritten with each batch
	}
	var c system.Change
	var arena []byte
	for set := range m.sets {
		h := sys.Set(m.setName(set))
		for part := range m.parts {
			p := m.pops[set*m.parts+part]
			for from := 0; p != nil && from < p.live; from += len(c.Fresh) {
				if err := ctx.Err(); err != nil {
					return err
				}
				arena, c.Fresh, c.FreshDots = arena[:0], c.Fresh[:0], c.FreshDots[:0]
				for rank := from; rank < min(p.live, from+size); rank++ {
					at := len(arena)
					arena = m.names.append(arena, m.number(p.seq(p.at(rank)), part))
					c.Fresh, c.FreshDots = append(c.Fresh, arena[at:len(arena):len(arena)]), append(c.FreshDots, 0)
				}
				if err := h.Change(&c); err != nil {
					return err
				}
				for i, dot := range c.FreshDots {
					p.setDot(p.at(from+i), dot)
				}
			}
		}
	}
	m.stale.Store(false)
	return nil
}

// Verify verifies a store, and compares the number of elements of at most most sets with the model; 0 means all sets.
func (m *Model) Verify(sys system.System, most int) error {
	if m.stale.Load() {
		return nil // the system was not asked to delete removed elements
	}
	step := 1
	if most > 0 {
		step = max(1, m.sets/most)
	}
	for set := 0; set < m.sets; set += step {
		n := m.live(set)
		if n == 0 && !slices.ContainsFunc(m.pops[set*m.parts:(set+1)*m.parts], func(p *population) bool { return p != nil }) {
			continue // the set was never made
		}
		if err := sys.Verify(m.setName(set), n); err != nil {
			return fmt.Errorf("set %s: %w", m.setName(set), err)
		}
	}
	return nil
}
