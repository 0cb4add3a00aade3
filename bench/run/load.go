package run

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cespare/xxhash/v2"

	"bigset"
	"bigset/bench/spec"
	"bigset/bench/system"
)

// load is what the clients of a workload know of one store: which elements live, and who owns them. The phases of a round use one load, one after
// the other.
//
// Elements have numbers. In a phase with T clients that own elements, client k owns those whose number leaves k when divided by T, old ones and new
// ones. So a client needs to know nothing of the others, and each phase may have as many clients as it likes.
type load struct {
	w       *spec.Workload
	size    int
	names   names
	sets    int
	dots    bool // are kept, for narrow contexts and look-ups by dot
	forgets bool // the store keeps what it is told to remove, as raw Pebble does that only notes removes

	owners int             // clients that own elements in this phase, or did last
	parts  [][]*population // by set and owner; nil is nobody yet

	phase   int
	clients []*client
}

func newLoad(w *spec.Workload, size int, seed uint64) *load {
	l := &load{w: w, size: size, names: names{seed: seed, Elements: w.Elements}, sets: max(1, w.Sets.Count.At(size)), owners: 1}
	for _, p := range w.Phases {
		for _, r := range p.Roles {
			writes := slices.ContainsFunc(r.Mix, func(s spec.Share) bool {
				return s.Kind == spec.Remove || s.Kind == spec.Replace || s.Kind == spec.Exchange
			})
			l.dots = l.dots || r.ByDot || writes
		}
	}
	l.reset()
	return l
}

// reset forgets all elements: the sets were dropped, or the store is a new one. The elements that come are others than before.
func (l *load) reset() {
	next := make([]uint64, l.sets)
	for set := range l.parts {
		next[set] = l.next(set)
	}
	l.owners, l.parts = 1, make([][]*population, l.sets)
	for set, n := range next {
		if n > 0 {
			l.parts[set] = []*population{{next: n, kept: l.dots, seqs: []uint32{}, tree: []uint32{}}}
		}
	}
}

// next returns the least number above those of all elements that a set ever had.
func (l *load) next(set int) (next uint64) {
	for k, p := range l.parts[set] {
		if p != nil && p.next > 0 {
			next = max(next, (p.next-1)*uint64(l.owners)+uint64(k)+1)
		}
	}
	return next
}

// live returns the number of elements that a set must have.
func (l *load) live(set int) (n int) {
	for _, p := range l.parts[set] {
		if p != nil {
			n += p.len()
		}
	}
	return n
}

// setName returns the name of a set.
func setName(set int) string { return fmt.Sprintf("bench-%d", set) }

// divide gives the elements of each set to so many clients.
func (l *load) divide(owners int) {
	if owners == l.owners || owners == 0 {
		return
	}
	for set, parts := range l.parts {
		l.parts[set] = l.divided(set, parts, owners)
	}
	l.owners = owners
}

// element is an element of a set, as it goes from one client to another.
type element struct{ number, dot uint64 }

func (l *load) divided(set int, parts []*population, owners int) []*population {
	var live, gone []element
	for k, p := range parts {
		if p == nil {
			continue
		}
		number := func(seq uint64) uint64 { return seq*uint64(l.owners) + uint64(k) }
		for rank := range p.len() {
			place := p.at(rank)
			live = append(live, element{number(p.seq(place)), p.dot(place)})
		}
		for _, seq := range p.gone {
			gone = append(gone, element{number: number(uint64(seq))})
		}
	}
	next := l.next(set)
	if next == 0 {
		return nil
	}
	slices.SortFunc(live, func(a, b element) int { return int(int64(a.number) - int64(b.number)) })
	to := make([]*population, owners)
	for k := range to {
		to[k] = newPopulation(l.dots)
		to[k].next = (max(next, uint64(k)) - uint64(k) + uint64(owners) - 1) / uint64(owners)
		to[k].seqs, to[k].tree = []uint32{}, []uint32{}
	}
	for _, e := range live {
		to[e.number%uint64(owners)].take(e.number/uint64(owners), e.dot)
	}
	for _, e := range gone {
		p := to[e.number%uint64(owners)]
		p.gone = append(p.gone, uint32(e.number/uint64(owners)))
		p.removed++
	}
	for _, p := range to {
		p.unspread()
	}
	return to
}

// begin returns the clients of a phase, in the order of its roles. open returns a handle of a set; each is used by one client.
func (l *load) begin(phase int, open func(name string) system.Set) ([]*client, error) {
	l.phase, l.clients = phase, nil
	roles := l.w.Phases[phase].Roles
	clients, writers, owners := 0, 0, 0
	for i := range roles {
		r := &roles[i]
		if r.Every != (spec.Count{}) {
			continue
		}
		clients += r.Clients
		if writes(r) {
			writers += r.Clients
		}
		if owns(r) {
			owners += r.Clients
		}
	}
	l.divide(owners)
	for set, parts := range l.parts { // each client then writes to a place of its own
		if parts == nil {
			l.parts[set] = make([]*population, l.owners)
		}
	}
	owner := 0
	for i := range roles {
		r := &roles[i]
		for n := range r.Clients {
			c := newClient(l, i, n, open)
			c.serial = clients == 1 || writers == 0
			if c.probe {
				c.owner = 0 // of the other client, which stands still
			} else if owns(r) {
				c.owner = owner
				owner++
			} else {
				c.owner = -1
			}
			if r.Context == spec.Wide {
				if err := c.see(); err != nil {
					return nil, err
				}
			}
			l.clients = append(l.clients, c)
		}
	}
	return l.clients, nil
}

func does(r *spec.Role, is func(spec.Kind) bool) bool {
	return slices.ContainsFunc(r.Mix, func(s spec.Share) bool { return is(s.Kind) })
}

func writes(r *spec.Role) bool { return does(r, spec.Kind.Writes) }

// owns reports whether clients of a role need elements of their own.
func owns(r *spec.Role) bool {
	return does(r, func(k spec.Kind) bool {
		return k.Writes() || k == spec.Hit || k == spec.Dead || k == spec.Range || k == spec.Prefix
	})
}

// share returns how many operations of a phase, as Phase.Ops counts them, a client does. Clients share them evenly; a probe has none.
func (l *load) share(c *client) int {
	of, at := 0, 0
	for _, other := range l.clients {
		if other == c {
			at = of
		}
		if !other.probe {
			of++
		}
	}
	if c.probe {
		return 0
	}
	ops := l.w.Phases[l.phase].Ops.At(l.size)
	return (ops*(at+1))/of - (ops*at)/of
}

// hash returns a hash of all operations that the clients of the phase did, in the order of each client. Equal workloads, sizes and seeds give equal
// hashes, if a phase ends by its count of operations.
func (l *load) hash() string {
	h := xxhash.New()
	var b [8]byte
	for _, c := range l.clients {
		binary.BigEndian.PutUint64(b[:], c.stream.Sum64())
		_, _ = h.Write(b[:]) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// reload inserts all elements that live once more, into a new store, and notes their dots.
func (l *load) reload(open func(name string) system.Set) error {
	for set, parts := range l.parts {
		handle := open(setName(set))
		for k, p := range parts {
			if p == nil {
				continue
			}
			p.gone, p.removed = nil, 0
			b := &system.Batch{}
			for rank := 0; rank < p.len(); rank += reloadBatch {
				b.Reset()
				last := min(p.len(), rank+reloadBatch)
				for i := rank; i < last; i++ {
					l.appendName(b, p.seq(p.at(i))*uint64(l.owners)+uint64(k))
				}
				if err := handle.Insert(b.List, b.Dots); err != nil {
					return err
				}
				for i := rank; i < last; i++ {
					p.setDot(p.at(i), b.Dots[i-rank])
				}
			}
		}
	}
	return nil
}

// reloadBatch is how many elements are loaded at a time.
const reloadBatch = 1000

// appendName adds the element of a number to a batch.
func (l *load) appendName(b *system.Batch, number uint64) {
	at := len(b.Arena)
	b.Arena = l.names.append(b.Arena, number)
	b.List, b.Dots = append(b.List, b.Arena[at:]), append(b.Dots, 0)
}

// random returns the random numbers of a client.
func (l *load) random(role, n int) *rand.Rand {
	return rand.New(rand.NewPCG(l.names.seed, uint64(l.phase)<<48|uint64(role)<<32|uint64(n)))
}

// seenContext is the context of a whole set when a phase began.
type seenContext = bigset.Context
