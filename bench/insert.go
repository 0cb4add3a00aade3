package bench

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// batchSize is the number of elements in a batch, where elements are written in batches.
const batchSize = 1000

// names returns the elements of this run.
func (e *env) names() elements { return elements{e.cfg.Seed} }

// load inserts the elements with numbers from first to before last, in batches, and returns their dots. It counts in the
// phase if there is one.
func (e *env) load(s set, p *phase, first, last int) ([]uint64, error) {
	dots := make([]uint64, last-first)
	b := newBatch(batchSize)
	insert := func(i int) error {
		from := first + i*batchSize
		to := min(last, from+batchSize)
		b.reset()
		for k := from; k < to; k++ {
			b.add(e.names(), k, 0)
		}
		return s.insert(b.list, dots[from-first:to-first])
	}
	if p == nil {
		p = &phase{ctx: e.ctx, hist: newHistogram()}
	}
	err := p.loop((last-first+batchSize-1)/batchSize, insert)
	p.ops = uint64(last - first)
	p.user += uint64(last-first) * elementBytes
	return dots, err
}

// loaded inserts elements 0 to n-1, unmeasured, and settles them.
func (e *env) loaded(sys system, s set, n int) (dots []uint64, err error) {
	if blob, ok := s.(*blobSet); ok {
		dots, err = e.loadWhole(blob, n)
	} else {
		dots, err = e.load(s, nil, 0, n)
	}
	if err != nil {
		return nil, err
	}
	_, err = sys.settle(e.ctx)
	return dots, err
}

// loadWhole inserts elements in one batch: a blob would be rewritten with each.
func (e *env) loadWhole(s *blobSet, n int) ([]uint64, error) {
	b := newBatch(n)
	for i := range n {
		b.add(e.names(), i, 0)
	}
	return b.dots, s.insert(b.list, b.dots)
}

// insertOneByOne measures inserts of one element an operation, with numbers from first to before last.
func (e *env) insertOneByOne(sys system, s set, row Row, dots []uint64, first, last int) error {
	b := newBatch(1)
	return e.measure(sys, row, func(p *phase) error {
		err := p.loop(last-first, func(i int) error {
			b.reset().add(e.names(), first+i, 0)
			if err := s.insert(b.list, b.dots); err != nil {
				return err
			}
			dots[first+i] = b.dots[0]
			return nil
		})
		if err != nil {
			return err
		}
		p.user = p.ops * elementBytes
		return p.settle(sys)
	})
}

// insert: new elements, empty context, one writer, one element an operation.
func insert(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements)
		return e.with(c, openOptions{warm: true}, func(sys system) error {
			s := sys.set(setName)
			if err := e.insertOneByOne(sys, s, Row{Workload: "insert", Elements: n}, make([]uint64, n), 0, n); err != nil {
				return err
			}
			return e.check(sys, setName, n)
		})
	})
}

// insertBatch: new elements in batches. An operation is one element; latencies are those of batches.
func insertBatch(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements) // a blob is one batch, or a few
		return e.with(c, openOptions{warm: true}, func(sys system) error {
			s := sys.set(setName)
			err := e.measure(sys, Row{Workload: "insert-batch", Elements: n}, func(p *phase) error {
				if _, err := e.load(s, p, 0, n); err != nil {
					return err
				}
				return p.settle(sys)
			})
			if err != nil {
				return err
			}
			return e.check(sys, setName, n)
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
			if c.system == systemBlob && n != e.sizes()[0] {
				return nil
			}
			return e.with(c, openOptions{warm: true}, func(sys system) error {
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

func (e *env) observeOn(sys system, c contender, n int) error {
	s := sys.set(setName)
	dots, err := e.loaded(sys, s, n)
	if err != nil {
		return err
	}
	ops := min(2*n, observedOps)
	if e.cfg.Full {
		ops = min(2*n, observedOpsFull)
	}
	if c.system == systemBlob {
		ops = min(ops, n)
	}
	present, buf := scatter(n, e.cfg.Seed), make([]byte, 0, elementBytes)
	err = e.measure(sys, Row{Workload: "insert-observed", Elements: n}, func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			if i%2 == 1 {
				buf = e.names().append(buf[:0], n+i/2)
				return s.observe(buf, 0)
			}
			at := present(i / 2)
			buf = e.names().append(buf[:0], at)
			return s.observe(buf, dots[at])
		})
		if err != nil {
			return err
		}
		p.user = p.ops * elementBytes
		return p.settle(sys)
	})
	if err != nil || c.system == systemPebble { // raw Pebble has kept the keys of what was replaced
		return err
	}
	return e.check(sys, setName, n+ops/2)
}

// writers is how many goroutines insert-concurrent has.
const writers = 64

// insertConcurrent: many writers into one set, each operation synced.
func insertConcurrent(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == systemBlob {
			n = min(n, blobMax/4)
		}
		n = max(1, n/writers) * writers
		return e.with(c, openOptions{sync: true, warm: true}, func(sys system) error {
			err := e.measure(sys, Row{Workload: "insert-concurrent", Elements: n}, func(p *phase) error {
				if err := e.writeTogether(sys, p, n/writers); err != nil {
					return err
				}
				return p.settle(sys)
			})
			if err != nil {
				return err
			}
			return e.check(sys, setName, n)
		})
	})
}

// writeTogether lets all writers insert so many elements each.
func (e *env) writeTogether(sys system, p *phase, each int) error {
	err := together(p, each, func(w int) func(i int) error {
		s, b := sys.set(setName), newBatch(1)
		return func(i int) error {
			b.reset().add(e.names(), w*each+i, 0)
			return s.insert(b.list, nil)
		}
	})
	p.user = p.ops * elementBytes
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
