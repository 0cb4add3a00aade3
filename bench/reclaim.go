package bench

import (
	"bigset/compaction"
)

// rivals are those that workloads about dead keys compare: the run's strategy, point deletes, and Pebble by hand doing
// what point deletes do.
func (e *env) rivals() []contender {
	list := []contender{{system: systemBigset}}
	if classic := compaction.PointDeletes().Name(); e.cfg.Strategy != classic {
		list = append(list, contender{system: systemBigset, strategy: classic})
	}
	return append(list, contender{system: systemPebble}, contender{system: systemBlob})
}

// rivalOptions are how they are opened.
func rivalOptions(c contender, memTable int) openOptions {
	o := openOptions{memTable: memTable}
	if c.system != systemBigset {
		o.deletes, o.record = true, compaction.Set
	}
	return o
}

// reclaim: nine of ten elements of a set that has settled at the bottom are removed, in batches, each with its narrow
// context, and the store is compacted the way its strategy does. An operation is one remove.
func reclaim(e *env) error {
	return e.turns(e.rivals(), func(c contender) error {
		dir, o := e.folder(), rivalOptions(c, 0)
		return e.inFolder(dir, func() error {
			dots, err := e.settleAtBottom(dir, c, o)
			if err != nil {
				return err
			}
			return e.opened(c, dir, o, func(sys system) error { return e.reclaimOn(sys, dots) })
		})
	})
}

// settleAtBottom makes a store of the records that the contender works on and compacts all of it to the bottommost level.
func (e *env) settleAtBottom(dir string, c contender, o openOptions) (dots []uint64, err error) {
	if c.system == systemBigset {
		strategy := c.strategy
		if strategy == "" {
			strategy = e.cfg.Strategy
		}
		if o, err = o.fill(e.cfg, strategy); err != nil {
			return nil, err
		}
		c.strategy = compaction.None().Name() // it compacts everything
	}
	err = e.opened(c, dir, o, func(sys system) error {
		if dots, err = e.loaded(sys, sys.set(setName), e.blobSize(c, e.elements)); err != nil {
			return err
		}
		return sys.compact(e.ctx, setName)
	})
	return dots, err
}

func (e *env) reclaimOn(sys system, dots []uint64) error {
	n, s := len(dots), sys.set(setName)
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
			if err := sys.compact(e.ctx, setName); err != nil {
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
func (e *env) removeBatches(s set, p *phase, dots []uint64, victim func(int) int, gone int) error {
	b := newBatch(batchSize)
	err := p.loop((gone+batchSize-1)/batchSize, func(i int) error {
		b.reset()
		for k := i * batchSize; k < min(gone, (i+1)*batchSize); k++ {
			b.add(e.names(), victim(k), dots[victim(k)])
		}
		return removeAll(s, b)
	})
	p.ops = uint64(gone)
	p.user = p.ops * elementBytes
	return err
}

// freshLoad loads elements, given by their numbers, to a store of its own of the same kind, and returns the bytes of its
// tables and the figures of full reads of it.
func (e *env) freshLoad(like system, n int, at func(i int) int) (tables *uint64, read Figures, err error) {
	c, o := contender{system: systemBlob}, openOptions{}
	switch like := like.(type) {
	case *bigsetSystem:
		c, o.record = contender{system: systemBigset, strategy: compaction.None().Name()}, like.record
	case *rawSystem:
		c.system, o.record = systemPebble, like.record
	}
	err = e.with(c, o, func(sys system) error {
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
		read, _, err = e.figures(sys, func(p *phase) error { return p.readAll(s, n) })
		return err
	})
	return tables, read, err
}

// readAll reads a set of so many elements as often as makes a measurable time.
func (p *phase) readAll(s set, elements int) error {
	reads, got := max(1, readElements/max(1, elements)), 0
	for range reads {
		if err := p.ctx.Err(); err != nil {
			return err
		}
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
		{what: "CPU, of point deletes'", of: own, to: classic, have: cpuTotal, atMost: true, limit: 0.5,
			why: "a small set; what a rewrite costs by itself shows less at a million elements (0.30)"},
		{what: "tables, of a fresh load", of: own, have: space, atMost: true, limit: 1.25},
		{what: "peak above what there was, in spans of 16 MiB", of: own,
			to: pick{workload: "reclaim/settled", system: systemBigset}, have: peakSpans, atMost: true, limit: 1},
	}
}
