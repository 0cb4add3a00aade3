package bench

import (
	"errors"
	"fmt"
	"time"

	"bigset/bench/system"

	"bigset/bloomslice"
	"bigset/engine"
	"bigset/engine/filters"
)

// markAll marks keys, a thousand at a time.
func (e *env) markAll(f *filters.Filter, from, n int) error {
	const at = 1000
	list, added := make([][]byte, 0, at), make([]bool, at)
	for done := 0; done < n; done += len(list) {
		keys := newBloomKeys(from+done, min(at, n-done))
		list = list[:0]
		for i := range keys.len() {
			list = append(list, keys.at(i))
		}
		if err := f.MarkAll(e.ctx, list, added[:len(list)]); err != nil {
			return err
		}
	}
	return nil
}

// holds checks that keys are in a filter.
func holds(f *filters.Filter, from, n int) error {
	keys := newBloomKeys(from, n)
	for i := range n {
		has, err := f.Check(keys.at(i))
		if err != nil {
			return err
		}
		if !has {
			return fmt.Errorf("%w: key %q is denied", system.ErrWrong, keys.at(i))
		}
	}
	return nil
}

// The probabilities of bloom-fpp, and how many absent keys are checked for each key of the capacity.
var bloomProbabilities = []float64{0.0001, 0.01}

const bloomForeign = 10

// bloomFPP: false positives among keys that were never added, when the filter has as many keys as its capacity (full), and ten times as
// many (ten), with rows for each probability. share is the rate of false positives relative to the configured probability.
func bloomFPP(e *env) error {
	for _, p := range bloomProbabilities {
		o := bloomOptions(e.elements, p)
		err := e.withFilter(system.Options{}, o, func(sys *system.Bigset, f *filters.Filter) error {
			n := int(o.Capacity)
			marked := 0
			for _, part := range []struct {
				name string
				keys int
			}{{"full", n}, {"ten", 10 * n}} {
				if err := e.markAll(f, marked, part.keys-marked); err != nil {
					return err
				}
				marked = part.keys
				row := Row{Workload: fmt.Sprintf("bloom-fpp/%s-%g", part.name, p), Elements: e.elements}
				label(sys, &row)
				if err := e.falsePositives(row, f, 100*n, bloomForeign*n, p); err != nil {
					return err
				}
			}
			return holds(f, 0, n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *env) falsePositives(row Row, filter *filters.Filter, from, n int, probability float64) error {
	const lap = 1_000_000
	p := &phase{ctx: e.ctx, hist: newHistogram()}
	found, began, cpu := 0, time.Now(), cpuNow()
	for done := 0; done < n; done += lap {
		yes, err := bloomAll(p, 1, newBloomKeys(from+done, min(lap, n-done)), 1, filter.Check)
		if err != nil {
			return err
		}
		found += yes
	}
	var f Figures
	p.figures(&f, time.Since(began), cpuNow()-cpu)
	f.Share = new(float64(found) / float64(n) / probability)
	e.rows.Add(row, f, p.hist)
	return nil
}

// bloomFlush: new keys within one flush interval, then a flush, and the compactions that it leaves. write_amp is the bytes written to the
// log and to tables relative to the bytes of bloomd's files.
func bloomFlush(e *env) error {
	o := bloomOptions(e.elements, bloomProbability)
	return e.withFilter(system.Options{Warm: true}, o, func(sys *system.Bigset, f *filters.Filter) error {
		if err := f.Flush(e.ctx); err != nil { // the filter itself
			return err
		}
		if _, err := sys.Settle(e.ctx); err != nil {
			return err
		}
		err := e.measure(sys, Row{Workload: "bloom-flush", Elements: e.elements}, func(p *phase) error {
			if err := e.markAll(f, 0, e.elements); err != nil {
				return err
			}
			began := time.Now()
			if err := f.Flush(e.ctx); err != nil {
				return err
			}
			p.observe(time.Since(began))
			info, err := f.Info()
			if err != nil {
				return err
			}
			p.ops, p.user = uint64(e.elements), info.Storage
			return p.settle(sys)
		})
		if err != nil {
			return err
		}
		return e.afterClose(f, e.elements)
	})
}

// afterClose closes the filter and checks that it contains the marked keys.
func (e *env) afterClose(f *filters.Filter, n int) error {
	_, err := f.Close(e.ctx)
	return errors.Join(err, holds(f, 0, n))
}

// bloomFaults is how often a filter is faulted in. bloomFaultKeys is how many keys are checked: their bits are on nearly all pages of the
// filter; the expected number of pages without a bit, of 3 MB, is below a hundredth.
const (
	bloomFaults    = 20
	bloomFaultKeys = 500
)

// bloomFault: checks of a closed filter until all its pages are in memory, in a store with a block cache much smaller than the filter.
// bloom-fault/first is the first of these checks.
func bloomFault(e *env) error {
	o := bloomOptions(e.elements, bloomProbability)
	return e.withFilter(system.Options{CacheBytes: 256 << 10}, o, func(sys *system.Bigset, f *filters.Filter) error {
		if err := e.markAll(f, 0, e.elements); err != nil {
			return err
		}
		if err := f.Flush(e.ctx); err != nil {
			return err
		}
		if _, err := sys.Settle(e.ctx); err != nil {
			return err
		}
		keys := newBloomKeys(0, min(bloomFaultKeys, e.elements))
		all, first := &phase{ctx: e.ctx, hist: newHistogram()}, &phase{ctx: e.ctx, hist: newHistogram()}
		cpu, began := cpuNow(), time.Now()
		for range bloomFaults {
			if err := all.aside(func() error { _, err := f.Close(e.ctx); return err }); err != nil {
				return err
			}
			if err := faultIn(f, keys, first, all); err != nil {
				return err
			}
		}
		row := Row{Elements: e.elements}
		label(sys, &row)
		took, cpu := time.Since(began)-all.away, cpuNow()-cpu-all.awayCPU
		for _, part := range []struct {
			name string
			p    *phase
		}{{"bloom-fault", all}, {"bloom-fault/first", first}} {
			var fig Figures
			part.p.ops, row.Workload = bloomFaults, part.name
			part.p.figures(&fig, took, cpu)
			e.rows.Add(row, fig, part.p.hist)
		}
		return nil
	})
}

func faultIn(f *filters.Filter, keys bloomKeys, first, all *phase) error {
	began := time.Now()
	for i := range keys.len() {
		has, err := f.Check(keys.at(i))
		if err := errors.Join(err, system.Expect("key of a filter faulted in", has, true)); err != nil {
			return err
		}
		if i == 0 {
			first.observe(time.Since(began))
		}
	}
	all.observe(time.Since(began))
	return nil
}

// manyName returns the name of the i-th of many filters.
func manyName(i int) []byte { return fmt.Appendf(nil, "filter-%06d", i) }

// smallCaches keep the rest of the heap small beside the part that is measured.
func smallCaches() system.Options {
	return system.Options{CacheBytes: 256 << 10, MemTableBytes: 256 << 10}
}

// bloomMany: a store with as many filters as elements, each of the least capacity. It measures opening the store and listing the filters.
// bloom-many/heap is by how much the heap is larger than with an empty store, after each filter was used and closed.
func bloomMany(e *env) error {
	c := contender{system: system.NameBigset}
	dir := e.folder()
	return e.inFolder(dir, func() error {
		var empty uint64
		err := e.opened(c, dir, smallCaches(), func(sys system.System) error {
			store := sys.(*system.Bigset).Store()
			if _, err := store.Filters().List(nil); err != nil {
				return err
			}
			empty = heapBytes()
			return e.makeFilters(store)
		})
		if err != nil {
			return err
		}
		row := Row{Elements: e.elements}
		p := &phase{ctx: e.ctx, hist: newHistogram(), ops: 1}
		began, cpu := time.Now(), cpuNow()
		return e.opened(c, dir, smallCaches(), func(sys system.System) error {
			store := sys.(*system.Bigset).Store()
			infos, err := store.Filters().List(nil)
			if err := errors.Join(err, system.Expect("filters", len(infos), e.elements)); err != nil {
				return err
			}
			var f Figures
			took := time.Since(began)
			p.observe(took)
			p.figures(&f, took, cpuNow()-cpu)
			label(sys, &row)
			row.Workload = "bloom-many"
			e.rows.Add(row, f, p.hist)
			if err := e.useAndClose(store); err != nil {
				return err
			}
			grown := max(0, int64(heapBytes())-int64(empty))
			row.Workload = "bloom-many/heap"
			e.rows.Add(row, Figures{Ops: uint64(e.elements), HeapBytes: new(uint64(grown))}, nil)
			return nil
		})
	})
}

func (e *env) makeFilters(store *engine.Store) error {
	key := []byte("key")
	for i := range e.elements {
		f, err := store.Filters().Create(e.ctx, manyName(i), bloomOptions(0, bloomProbability))
		if err != nil {
			return err
		}
		if _, err := f.Mark(e.ctx, key); err != nil {
			return err
		}
		if i%1000 == 999 { // so that not all of them are in memory at a time
			if err := closeFilters(e, store); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeFilters closes all filters: the first call records which filters were used, the second closes them.
func closeFilters(e *env, store *engine.Store) error {
	for range 2 {
		if _, err := store.Filters().CloseCold(e.ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) useAndClose(store *engine.Store) error {
	key := []byte("key")
	for i := range e.elements {
		f, err := store.Filters().Get(manyName(i))
		if err != nil {
			return err
		}
		has, err := f.Check(key)
		if err := errors.Join(err, e.ctx.Err(), system.Expect("the key of each filter", has, true)); err != nil {
			return err
		}
	}
	if err := closeFilters(e, store); err != nil {
		return err
	}
	infos, err := store.Filters().List(nil)
	for i := range infos {
		err = errors.Join(err, system.Expect("open", infos[i].Open, false))
	}
	return err
}

// bloomCrowdBytes is the memory for one key of a filter of bloomd's default size: a page for each of its bits.
const bloomCrowdBytes = 17 * bloomslice.PageBytes

// bloomCrowd: one key in each of as many filters as elements, of bloomd's default size. A third of the filters fit into memory.
// bloom-crowd/held is the same when all of them fit.
func bloomCrowd(e *env) error {
	all := int64(e.elements) * bloomCrowdBytes
	for _, part := range []struct {
		workload string
		cache    int64
	}{{"bloom-crowd", max(1<<20, all/3)}, {"bloom-crowd/held", 2*all + 1<<20}} { // the first part pays for the growth of the heap
		err := e.with(contender{system: system.NameBigset}, system.Options{FilterCacheBytes: part.cache}, func(sys system.System) error {
			row := Row{Workload: part.workload, Elements: e.elements}
			label(sys, &row)
			return e.crowd(sys.(*system.Bigset).Store(), row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *env) crowd(store *engine.Store, row Row) error {
	opened := make([]*filters.Filter, e.elements)
	for i := range opened {
		f, err := store.Filters().Create(e.ctx, manyName(i), bloomOptions(100_000, bloomProbability))
		if err != nil {
			return err
		}
		opened[i] = f
	}
	keys, added := [][]byte{[]byte("key")}, make([]bool, 1)
	err := e.clocked(row, func(p *phase) error {
		for _, f := range opened {
			n, err := f.MarkNow(keys, added) // as a server does
			if err == nil && n == 0 {
				err = f.MarkAll(e.ctx, keys, added)
			}
			if err = errors.Join(err, system.Expect("a new key", added[0], true)); err != nil {
				return err
			}
			p.ops++
		}
		return nil
	})
	for _, f := range opened {
		if err != nil {
			break
		}
		var has bool
		has, err = f.Check(keys[0])
		err = errors.Join(err, system.Expect("the key of each filter", has, true))
	}
	return err
}
