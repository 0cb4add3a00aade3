package bench

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"bigset/bench/system"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/filters"
)

// systemBare is the lower bound of the cost of a bloom filter: the hashes, and probes of bits in one piece of memory.
const systemBare = "bare"

const (
	// bloomProbability is the probability of the filters: bloomd's default.
	bloomProbability = 0.0001
	// bloomKeyBytes is the length of a key.
	bloomKeyBytes = 12
)

// bloomName is the filter that workloads use.
var bloomName = []byte("bench")

// bloomOptions returns the options of a filter for keys keys.
func bloomOptions(keys int, probability float64) bigset.FilterOptions {
	o := bloomslice.DefaultOptions()
	o.Capacity, o.Probability = max(bloomslice.CapacityMin+1, uint64(keys)), probability
	return bigset.FilterOptions{Options: o, Durability: bigset.FilterInterval}
}

// bloomKeys are consecutive keys, stored one after another.
type bloomKeys []byte

func newBloomKeys(from, n int) bloomKeys {
	keys := make(bloomKeys, 0, n*bloomKeyBytes)
	for i := range n {
		keys = fmt.Appendf(keys, "%0*d", bloomKeyBytes, from+i)
	}
	return keys
}

func (k bloomKeys) at(i int) []byte {
	return k[i*bloomKeyBytes : (i+1)*bloomKeyBytes : (i+1)*bloomKeyBytes]
}

func (k bloomKeys) len() int { return len(k) / bloomKeyBytes }

// marker is something that contains keys.
type marker interface {
	check(key []byte) (bool, error)
	mark(key []byte) (bool, error)
}

// bigsetFilter is a filter of the engine.
type bigsetFilter struct {
	env *env
	f   *filters.Filter
}

func (b bigsetFilter) check(key []byte) (bool, error) { return b.f.Check(key) }

func (b bigsetFilter) mark(key []byte) (bool, error) { return b.f.Mark(b.env.ctx, key) }

// bareFilter is one layer of the same shape without anything around it. Concurrent marks need a lock.
type bareFilter struct {
	bits    []uint64
	k       uint64
	perHash uint64
	mu      *sync.Mutex // nil if only one goroutine marks
}

func newBareFilter(o bloomslice.Options, together bool) (*bareFilter, error) {
	shape, err := o.Shape(0)
	if err != nil {
		return nil, err
	}
	b := &bareFilter{bits: make([]uint64, shape.Bytes/8+1), k: uint64(shape.K), perHash: shape.Bytes * 8 / uint64(shape.K)}
	if together {
		b.mu = new(sync.Mutex)
	}
	return b, nil
}

// place returns the place of the i-th bit of a key.
func (b *bareFilter) place(h *bloomslice.Hash, i uint64) uint64 {
	if i < uint64(len(h)) {
		return i*b.perHash + h[i]%b.perHash
	}
	const prime = 1<<64 - 59
	product := i * h[3]
	if product >= prime {
		product -= prime
	}
	return i*b.perHash + (h[1]+product)%b.perHash
}

func (b *bareFilter) has(h *bloomslice.Hash) bool {
	for i := range b.k {
		if at := b.place(h, i); b.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *bareFilter) check(key []byte) (bool, error) {
	h := bloomslice.Sum(key)
	return b.has(&h), nil
}

func (b *bareFilter) mark(key []byte) (bool, error) {
	h := bloomslice.Sum(key)
	if b.mu != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	if b.has(&h) {
		return false, nil
	}
	for i := range b.k {
		at := b.place(&h, i)
		b.bits[at/64] |= 1 << (at % 64)
	}
	return true, nil
}

// bloomHot: marks and checks of a filter whose bits are in memory, by one goroutine and by two. bloom-hot/mark adds new keys up to the
// capacity; hit and miss check keys that are in the filter and keys that are not. The bare filter is one layer of the same shape.
func bloomHot(e *env) error {
	n := e.elements
	keys, others := newBloomKeys(0, n), newBloomKeys(n, n)
	for _, threads := range []int{1, 2} {
		err := e.turns([]contender{{system: system.NameBigset}, {system: systemBare}}, func(c contender) error {
			if c.system == systemBare {
				b, err := newBareFilter(bloomOptions(n, bloomProbability).Options, threads > 1)
				if err != nil {
					return err
				}
				return e.bloomHotOn(b, Row{System: systemBare}, threads, keys, others)
			}
			return e.withFilter(system.Options{}, bloomOptions(n, bloomProbability), func(sys *system.Bigset, f *filters.Filter) error {
				var row Row
				label(sys, &row)
				return e.bloomHotOn(bigsetFilter{e, f}, row, threads, keys, others)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withFilter makes a filter in a store of its own.
func (e *env) withFilter(o system.Options, fo bigset.FilterOptions, f func(sys *system.Bigset, f *filters.Filter) error) error {
	return e.with(contender{system: system.NameBigset}, o, func(sys system.System) error {
		b := sys.(*system.Bigset)
		filter, err := b.Store().Filters().Create(e.ctx, bloomName, fo)
		if err != nil {
			return err
		}
		return f(b, filter)
	})
}

// bloomHotReads is how often all keys are checked.
const bloomHotReads = 3

func (e *env) bloomHotOn(m marker, row Row, threads int, keys, others bloomKeys) error {
	n := keys.len()
	row.Elements = n
	for _, part := range []struct {
		name        string
		keys        bloomKeys
		times       int
		least, most int // bounds of the number of true answers, each time
		f           func(key []byte) (bool, error)
	}{
		{"mark", keys, 1, n - n/100 - 1, n, m.mark},
		{"hit", keys, bloomHotReads, n, n, m.check},
		{"miss", others, bloomHotReads, 0, n / 100, m.check},
	} {
		row.Workload = "bloom-hot/" + part.name
		if threads > 1 {
			row.Workload += fmt.Sprintf("-%d", threads)
		}
		err := e.clocked(row, func(p *phase) error {
			yes, err := bloomAll(p, threads, part.keys, part.times, part.f)
			if err == nil && (yes < part.least*part.times || yes > part.most*part.times) {
				err = fmt.Errorf("%w: %s: %d of %d keys", system.ErrWrong, row.Workload, yes, n*part.times)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bloomAll calls f times times with all keys, divided among goroutines, and returns how often f returned true.
func bloomAll(p *phase, threads int, keys bloomKeys, times int, f func(key []byte) (bool, error)) (yes int, err error) {
	var wg sync.WaitGroup
	found, errs := make([]int, threads), make([]error, threads)
	n := keys.len()
	for t := range threads {
		wg.Go(func() {
			count := 0
			for range times {
				for i := t * n / threads; i < (t+1)*n/threads; i++ {
					if i%4096 == 0 && p.ctx.Err() != nil {
						errs[t] = p.ctx.Err()
						return
					}
					is, err := f(keys.at(i))
					if err != nil {
						errs[t] = err
						return
					}
					if is {
						count++
					}
				}
			}
			found[t] = count
		})
	}
	wg.Wait()
	for _, k := range found {
		yes += k
	}
	p.ops += uint64(n * times)
	return yes, errors.Join(errs...)
}

// clocked measures operations that are too short to be measured one by one, and what they allocate.
func (e *env) clocked(row Row, load func(*phase) error) error {
	runtime.GC()
	p := &phase{ctx: e.ctx, hist: newHistogram()}
	before := mallocs()
	cpu, began := cpuNow(), time.Now()
	if err := load(p); err != nil {
		return err
	}
	took, cpu := time.Since(began), cpuNow()-cpu
	var f Figures
	p.figures(&f, took, cpu)
	if p.ops > 0 {
		f.Allocs = new(float64(mallocs()-before) / float64(p.ops))
	}
	e.rows.Add(row, f, p.hist)
	return nil
}

// mallocs returns how many objects this process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
