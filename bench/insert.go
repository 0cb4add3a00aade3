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

// observedOps is how many adds insert-observed measures, at most two for each element of the set.

// writers is how many goroutines insert-concurrent has.
const writers = 64

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
