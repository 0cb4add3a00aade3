package bench

import (
	"bigset/compaction"
	"bigset/engine"
)

// rivals are the strategies that are compared: the run's own and point deletes.
func (e *env) rivals() []string {
	classic := compaction.PointDeletes().Name()
	if e.cfg.Strategy == classic {
		return []string{classic}
	}
	return []string{e.cfg.Strategy, classic}
}

// reclaim: nine of ten elements of a set that has settled at the bottom are removed, in batches, each with its narrow
// context, and the store is compacted the way its strategy does. An operation is one remove.
func reclaim(e *env) error {
	return e.turns(e.rivals(), func(strategy string) error {
		dir := e.folder()
		return e.inFolder(dir, func() error {
			dots, err := e.settleAtBottom(dir, strategy)
			if err != nil {
				return err
			}
			return e.opened(systemBigset, dir, openOptions{strategy: strategy}, func(sys system) error {
				return e.reclaimOn(sys.(*bigsetSystem), dots)
			})
		})
	})
}

// settleAtBottom makes a store of the records that the strategy works on and compacts all of it to the bottommost level.
func (e *env) settleAtBottom(dir, strategy string) (dots []uint64, err error) {
	o, err := openOptions{strategy: strategy}.fill(e.cfg)
	if err != nil {
		return nil, err
	}
	o.strategy = compaction.None().Name()
	err = e.opened(systemBigset, dir, o, func(sys system) error {
		if dots, err = e.loaded(sys, sys.set(setName), e.elements); err != nil {
			return err
		}
		return sys.(*bigsetSystem).compact(e)
	})
	return dots, err
}

// compact takes dead keys off the disk the way the store's strategy does.
func (b *bigsetSystem) compact(e *env) error {
	_, err := b.store.Compact(e.ctx, engine.CompactOptions{Set: []byte(setName)})
	return err
}

func (e *env) reclaimOn(sys *bigsetSystem, dots []uint64) error {
	n, s := len(dots), sys.handle(setName)
	before, err := sys.usage()
	if err != nil {
		return err
	}
	victim, gone := scatter(n, e.cfg.Seed), n-n/10
	f, hist, err := e.figures(sys, func(p *phase) error {
		return p.watch(sys.dir(), func() error {
			if err := e.removeBatches(s, p, dots, victim, gone); err != nil {
				return err
			}
			if err := sys.compact(e); err != nil {
				return err
			}
			return p.settle(sys)
		})
	})
	if err != nil {
		return err
	}
	if f.BytesLive, _, err = e.freshLoad(sys, n-gone, func(i int) int { return victim(gone + i) }); err != nil {
		return err
	}
	row := Row{Workload: "reclaim", Elements: n}
	sys.label(&row)
	e.rows.add(row, f, hist)
	row.Workload = "reclaim/settled" // what there was
	e.rows.add(row, Figures{BytesOnDisk: new(before.tables)}, nil)
	return e.check(sys, setName, n-gone)
}

// removeBatches removes the first so many victims, in batches.
func (e *env) removeBatches(s *bigsetSet, p *phase, dots []uint64, victim func(int) int, gone int) error {
	b := newBatch(batchSize)
	err := p.loop((gone+batchSize-1)/batchSize, func(i int) error {
		b.reset()
		for k := i * batchSize; k < min(gone, (i+1)*batchSize); k++ {
			b.add(e.names(), victim(k), dots[victim(k)])
		}
		return s.remove(b.list, b.dots)
	})
	p.ops = uint64(gone)
	p.user = p.ops * elementBytes
	return err
}

// freshLoad loads elements, given by their numbers, to a store of its own of the same records, and returns the bytes of
// its tables and how many elements a second a full read of it gives.
func (e *env) freshLoad(like *bigsetSystem, n int, at func(i int) int) (tables *uint64, read Figures, err error) {
	o := openOptions{strategy: compaction.None().Name(), record: like.record}
	err = e.with(systemBigset, o, func(sys system) error {
		s, b := sys.set(setName), newBatch(batchSize)
		for i := 0; i < n; {
			b.reset()
			for ; i < n && len(b.list) < batchSize; i++ {
				b.add(e.names(), at(i), 0)
			}
			if err := s.insert(b.list, nil); err != nil {
				return err
			}
		}
		if _, err := sys.settle(e.ctx); err != nil {
			return err
		}
		u, err := sys.usage()
		if err != nil {
			return err
		}
		tables = new(u.tables)
		read, _, err = e.figures(sys, func(p *phase) error { return p.readAll(s, e.elements, n) })
		return err
	})
	return tables, read, err
}

// readAll reads a set of so many elements as often as makes a measurable time.
func (p *phase) readAll(s set, atLeast, elements int) error {
	reads, got := max(1, atLeast/max(1, elements)), 0
	for range reads {
		if err := p.reading(s, 0, &got); err != nil {
			return err
		}
	}
	p.ops = uint64(got)
	return expect("elements read", got, reads*elements)
}

func reclaimGoals(strategy string) []goal {
	own := pick{workload: "reclaim", system: systemBigset}
	classic := pick{workload: "reclaim", system: systemBigset, strategy: compaction.PointDeletes().Name()}
	if strategy == classic.strategy {
		return nil
	}
	return []goal{
		{what: "bytes written, of point deletes'", of: own, to: classic, have: written, atMost: true, limit: 0.1},
		{what: "CPU, of point deletes'", of: own, to: classic, have: cpuTotal, atMost: true, limit: 0.5},
		{what: "tables, of a fresh load", of: own, have: space, atMost: true, limit: 1.25},
		{what: "peak above what there was, in spans of 16 MiB", of: own,
			to: pick{workload: "reclaim/settled", system: systemBigset}, have: peakSpans, atMost: true, limit: 1},
	}
}
