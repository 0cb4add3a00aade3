package load

import (
	"math/bits"
	"math/rand/v2"
	"sort"
)

// population is the elements of one client in one set, by age. An element is identified by its sequence number: the client's first has 0.
// Its place is where it is stored, and is valid until the next remove. Only one goroutine may use a population.
//
// As long as nothing was removed, an element's rank, place and sequence number are equal, and nothing is stored but dots, if they are kept.
// Afterwards a population takes 8 bytes for each place, 16 with dots, and has at most about twice as many places as live elements.
type population struct {
	next   uint64 // sequence number of the next element
	places int    // in use, by live elements and removed ones
	live   int

	kept bool     // dots are kept
	dots []uint64 // by place

	// seqs and tree are nil as long as nothing was removed. tree is a Fenwick tree that counts live elements.
	seqs []uint32
	tree []uint32

	gone    []uint32 // a ring of the elements that were removed last
	removed uint64   // how many were removed in total
}

const (
	// goneMax is how many removed elements are remembered for look-ups.
	goneMax = 256
	// sparePlaces is how many places of removed elements are always kept.
	sparePlaces = 64
)

func newPopulation(dots bool) *population { return &population{kept: dots} }

// add adds a new element, the youngest, and returns its sequence number. A client may have 2^32 of them in a set.
func (p *population) add(dot uint64) (seq uint64) {
	seq = p.next
	p.next++
	if p.kept {
		p.dots = append(p.dots, dot)
	}
	if p.tree != nil {
		p.seqs = append(p.seqs, uint32(seq))
		p.grow()
	}
	p.places++
	p.live++
	return seq
}

// grow adds a live place to the tree: node i counts the places from i-lowbit(i)+1 to i.
func (p *population) grow() {
	i := len(p.tree) + 1
	count := uint32(1)
	for k := i - 1; k > i-i&-i; k -= k & -k {
		count += p.tree[k-1]
	}
	p.tree = append(p.tree, count)
}

// at returns the place of the live element with a rank; 0 is the oldest.
func (p *population) at(rank int) (place int) {
	if p.tree == nil {
		return rank
	}
	left := uint32(rank) // live elements still to be passed
	for step := 1 << (bits.Len(uint(len(p.tree))) - 1); step > 0; step >>= 1 {
		if next := place + step; next <= len(p.tree) && p.tree[next-1] <= left {
			place, left = next, left-p.tree[next-1]
		}
	}
	return place
}

// seq returns the sequence number of the element at a place.
func (p *population) seq(place int) uint64 {
	if p.tree == nil {
		return uint64(place)
	}
	return uint64(p.seqs[place])
}

// dot returns the counter of the dot of the element at a place, 0 if dots are not kept.
func (p *population) dot(place int) uint64 {
	if !p.kept {
		return 0
	}
	return p.dots[place]
}

// setDot records that the element at a place now has another dot.
func (p *population) setDot(place int, dot uint64) {
	if p.kept {
		p.dots[place] = dot
	}
}

// remove removes the live element at a place. Places change.
func (p *population) remove(place int) {
	if p.tree == nil {
		p.spread()
	}
	if len(p.gone) < goneMax {
		p.gone = append(p.gone, p.seqs[place])
	} else {
		p.gone[p.removed%goneMax] = p.seqs[place]
	}
	p.removed++
	p.live--
	for i := place + 1; i <= len(p.tree); i += i & -i {
		p.tree[i-1]--
	}
	if p.places > 2*p.live+sparePlaces {
		p.pack()
	}
}

// spread begins to store sequence numbers.
func (p *population) spread() {
	p.seqs, p.tree = make([]uint32, p.places), make([]uint32, 0, p.places)
	for i := range p.seqs {
		p.seqs[i] = uint32(i)
		p.grow()
	}
}

// pack gives the live elements consecutive new places and releases the rest of the memory.
func (p *population) pack() {
	packed := &population{next: p.next, places: p.live, live: p.live, kept: p.kept, gone: p.gone, removed: p.removed,
		seqs: make([]uint32, p.live), tree: make([]uint32, 0, p.live)}
	if p.kept {
		packed.dots = make([]uint64, p.live)
	}
	for rank := range p.live {
		from := p.at(rank)
		packed.seqs[rank] = p.seqs[from]
		if p.kept {
			packed.dots[rank] = p.dots[from]
		}
		packed.grow()
	}
	*p = *packed
}

// dead returns an element that was removed recently, if any.
func (p *population) dead(rng *rand.Rand) (seq uint64, ok bool) {
	if len(p.gone) == 0 {
		return 0, false
	}
	return uint64(p.gone[rng.IntN(len(p.gone))]), true
}

// find returns the place of the live element with a sequence number, if any.
func (p *population) find(seq uint64) (place int, ok bool) {
	if p.tree == nil {
		return int(seq), seq < p.next
	}
	place = sort.Search(p.places, func(i int) bool { return uint64(p.seqs[i]) >= seq })
	if place == p.places || uint64(p.seqs[place]) != seq {
		return 0, false
	}
	rank := 0
	for i := place; i > 0; i -= i & -i {
		rank += int(p.tree[i-1])
	}
	return place, rank < p.live && p.at(rank) == place
}
