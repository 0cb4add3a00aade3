package bench

import (
	"sync"

	"bigset/bench/system"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// batchSize is the number of elements in a batch, where elements are written in batches.
const batchSize = 1000

// names returns the elements of this run.
func (e *env) names() system.Elements { return system.Elements{Seed: e.cfg.Seed} }

// load inserts the elements with numbers from first to before last, in batches, and returns their dots. It counts in the
// phase if there is one.
func (e *env) load(s system.Set, p *phase, first, last int) ([]uint64, error) {
	dots := make([]uint64, last-first)
	b := system.NewBatch(batchSize)
	insert := func(i int) error {
		from := first + i*batchSize
		to := min(last, from+batchSize)
		b.Reset()
		for k := from; k < to; k++ {
			b.Add(e.names(), k, 0)
		}
		return s.Insert(b.List, dots[from-first:to-first])
	}
	if p == nil {
		p = &phase{ctx: e.ctx, hist: newHistogram()}
	}
	err := p.loop((last-first+batchSize-1)/batchSize, insert)
	p.ops = uint64(last - first)
	p.user += uint64(last-first) * system.ElementBytes
	return dots, err
}

// loaded inserts elements 0 to n-1, unmeasured, and settles them.
func (e *env) loaded(sys system.System, s system.Set, n int) (dots []uint64, err error) {
	if blob, ok := s.(*system.BlobSet); ok {
		dots, err = e.loadWhole(blob, n)
	} else {
		dots, err = e.load(s, nil, 0, n)
	}
	if err != nil {
		return nil, err
	}
	_, err = sys.Settle(e.ctx)
	return dots, err
}

// loadWhole inserts elements in one batch: a blob would be rewritten with each.
func (e *env) loadWhole(s *system.BlobSet, n int) ([]uint64, error) {
	b := system.NewBatch(n)
	for i := range n {
		b.Add(e.names(), i, 0)
	}
	return b.Dots, s.Insert(b.List, b.Dots)
}

// insertOneByOne measures inserts of one element an operation, with numbers from first to before last.
func (e *env) insertOneByOne(sys system.System, s system.Set, row Row, dots []uint64, first, last int) error {
	b := system.NewBatch(1)
	return e.measure(sys, row, func(p *phase) error {
		err := p.loop(last-first, func(i int) error {
			b.Reset().Add(e.names(), first+i, 0)
			if err := s.Insert(b.List, b.Dots); err != nil {
				return err
			}
			dots[first+i] = b.Dots[0]
			return nil
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
}

// insert: new elements, empty context, one writer, one element an operation.
func insert(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements)
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			s := sys.Set(system.SetName)
			if err := e.insertOneByOne(sys, s, Row{Workload: "insert", Elements: n}, make([]uint64, n), 0, n); err != nil {
				return err
			}
			return e.check(sys, system.SetName, n)
		})
	})
}

// insertBatch: new elements in batches. An operation is one element; latencies are those of batches.
func insertBatch(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements) // a blob is one batch, or a few
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			s := sys.Set(system.SetName)
			err := e.measure(sys, Row{Workload: "insert-batch", Elements: n}, func(p *phase) error {
				if _, err := e.load(s, p, 0, n); err != nil {
					return err
				}
				return p.settle(sys)
			})
			if err != nil {
				return err
			}
			return e.check(sys, system.SetName, n)
		})
	})
}

// smallSet is the size of the small set where a large and a small one are compared.
const smallSet = 10_000

// sizes returns the sizes of a small and a large set, or one size where they would be about the same.
func (e *env) sizes() []int {
	if e.elements <= smallSet {
		return []int{e.elements}
	}
	return []int{smallSet, e.elements}
}

// insertObserved: adds under policy coordinator, every other one of an element that is present, to a small and a large set.
func insertObserved(e *env) error {
	for _, n := range e.sizes() {
		err := e.turns(allSystems, func(c contender) error {
			if c.system == system.NameBlob && n != e.sizes()[0] {
				return nil
			}
			return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
				return e.observeOn(sys, c, e.blobSize(c, n))
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// observedOps is how many adds insert-observed measures, at most two for each element of the set.
const (
	observedOps     = 20_000
	observedOpsFull = 200_000
)

func (e *env) observeOn(sys system.System, c contender, n int) error {
	s := sys.Set(system.SetName)
	dots, err := e.loaded(sys, s, n)
	if err != nil {
		return err
	}
	ops := min(2*n, observedOps)
	if e.cfg.Full {
		ops = min(2*n, observedOpsFull)
	}
	if c.system == system.NameBlob {
		ops = min(ops, n)
	}
	present, buf := system.Scatter(n, e.cfg.Seed), make([]byte, 0, system.ElementBytes)
	err = e.measure(sys, Row{Workload: "insert-observed", Elements: n}, func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			if i%2 == 1 {
				buf = e.names().Append(buf[:0], n+i/2)
				return s.Observe(buf, 0)
			}
			at := present(i / 2)
			buf = e.names().Append(buf[:0], at)
			return s.Observe(buf, dots[at])
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
	if err != nil || c.system == system.NamePebble { // raw Pebble has kept the keys of what was replaced
		return err
	}
	return e.check(sys, system.SetName, n+ops/2)
}

// writers is how many goroutines insert-concurrent has.
const writers = 64

// insertConcurrent: many writers into one set, each operation synced.
func insertConcurrent(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == system.NameBlob {
			n = min(n, blobMax/4)
		}
		n = max(1, n/writers) * writers
		return e.with(c, system.Options{Sync: true, Warm: true}, func(sys system.System) error {
			err := e.measure(sys, Row{Workload: "insert-concurrent", Elements: n}, func(p *phase) error {
				if err := e.writeTogether(sys, p, n/writers); err != nil {
					return err
				}
				return p.settle(sys)
			})
			if err != nil {
				return err
			}
			return e.check(sys, system.SetName, n)
		})
	})
}

// writeTogether lets all writers insert so many elements each.
func (e *env) writeTogether(sys system.System, p *phase, each int) error {
	err := together(p, each, func(w int) func(i int) error {
		s, b := sys.Set(system.SetName), system.NewBatch(1)
		return func(i int) error {
			b.Reset().Add(e.names(), w*each+i, 0)
			return s.Insert(b.List, nil)
		}
	})
	p.user = p.ops * system.ElementBytes
	return err
}

// together lets all writers do so many operations each, of which f returns that of one writer.
func together(p *phase, each int, f func(w int) func(i int) error) error {
	var wg sync.WaitGroup
	errs, hists := make([]error, writers), make([]*hdrhistogram.Histogram, writers)
	for w := range writers {
		hists[w] = newHistogram()
		wg.Go(func() {
			own := &phase{ctx: p.ctx, hist: hists[w]}
			errs[w] = own.loop(each, f(w))
		})
	}
	wg.Wait()
	for w := range writers {
		if errs[w] != nil {
			return errs[w]
		}
		p.hist.Merge(hists[w])
	}
	p.ops = uint64(each * writers)
	return nil
}
