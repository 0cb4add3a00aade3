package bench

import (
	"errors"
	"sync"

	"bigset/bench/system"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// batchSize is the number of elements in a batch, for elements written in batches.
const batchSize = 1000

// names returns the elements of this run.
func (e *env) names() system.Elements { return system.Elements{Seed: e.cfg.Seed} }

// loaded inserts elements 0 to n-1 in batches, unmeasured, and settles them.
func (e *env) loaded(sys system.System, n int) error {
	s, b := sys.Set(system.SetName), system.NewBatch(batchSize)
	for first := 0; first < n; first += batchSize {
		b.Reset()
		for k := first; k < min(n, first+batchSize); k++ {
			b.Add(e.names(), k, 0)
		}
		if err := errors.Join(e.ctx.Err(), s.Insert(b.List, b.Dots)); err != nil {
			return err
		}
	}
	_, err := sys.Settle(e.ctx)
	return err
}

// insertOneByOne measures inserts of elements 0 to n-1, one for each operation.
func (e *env) insertOneByOne(sys system.System, s system.Set, row Row) error {
	b := system.NewBatch(1)
	return e.measure(sys, row, func(p *phase) error {
		err := p.loop(e.elements, func(i int) error {
			b.Reset().Add(e.names(), i, 0)
			return s.Insert(b.List, b.Dots)
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
}

// writers is how many goroutines insert-concurrent has.
const writers = 64

// together makes each writer do each operations. f returns the operation of one writer.
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
