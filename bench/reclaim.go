package bench

import (
	"bigset/bench/system"
	"bigset/compaction"
)

// rivals are those that workloads about dead keys compare: the run's strategy, point deletes, and Pebble by hand doing
// what point deletes do.
func (e *env) rivals() []contender {
	list := []contender{{system: system.NameBigset}}
	if classic := compaction.PointDeletes().Name(); e.cfg.Strategy != classic {
		list = append(list, contender{system: system.NameBigset, strategy: classic})
	}
	return append(list, contender{system: system.NamePebble}, contender{system: system.NameBlob})
}

// rivalOptions are how they are opened.
func rivalOptions(c contender, memTable int) system.Options {
	o := system.Options{MemTableBytes: memTable}
	if c.system != system.NameBigset {
		o.Deletes, o.Record = true, compaction.Set
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
			return e.opened(c, dir, o, func(sys system.System) error { return e.reclaimOn(sys, dots) })
		})
	})
}

// settleAtBottom makes a store of the records that the contender works on and compacts all of it to the bottommost level.
func (e *env) settleAtBottom(dir string, c contender, o system.Options) (dots []uint64, err error) {
	if c.system == system.NameBigset {
		strategy := c.strategy
		if strategy == "" {
			strategy = e.cfg.Strategy
		}
		if o, err = e.cfg.fill(o, strategy); err != nil {
			return nil, err
		}
		c.strategy = compaction.None().Name() // it compacts everything
	}
	err = e.opened(c, dir, o, func(sys system.System) error {
		if dots, err = e.loaded(sys, sys.Set(system.SetName), e.blobSize(c, e.elements)); err != nil {
			return err
		}
		return sys.Compact(e.ctx, system.SetName)
	})
	return dots, err
}

func (e *env) reclaimOn(sys system.System, dots []uint64) error {
	n, s := len(dots), sys.Set(system.SetName)
	before, err := sys.Usage()
	if err != nil {
		return err
	}
	victim, gone := system.Scatter(n, e.cfg.Seed), n-n/10
	f, hist, err := e.figures(sys, func(p *phase) error {
		return p.watch(sys.Dir(), func() error {
			if err := e.removeBatches(s, p, dots, victim, gone); err != nil {
				return err
			}
			if err := sys.Compact(e.ctx, system.SetName); err != nil {
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
	label(sys, &row)
	e.rows.Add(row, f, hist)
	row.Workload = "reclaim/settled" // what there was
	e.rows.Add(row, Figures{BytesOnDisk: new(before.Tables)}, nil)
	return e.check(sys, system.SetName, n-gone)
}

// removeBatches removes the first so many victims, in batches.
func (e *env) removeBatches(s system.Set, p *phase, dots []uint64, victim func(int) int, gone int) error {
	b := system.NewBatch(batchSize)
	err := p.loop((gone+batchSize-1)/batchSize, func(i int) error {
		b.Reset()
		for k := i * batchSize; k < min(gone, (i+1)*batchSize); k++ {
			b.Add(e.names(), victim(k), dots[victim(k)])
		}
		return system.RemoveAll(s, b)
	})
	p.ops = uint64(gone)
	p.user = p.ops * system.ElementBytes
	return err
}

// freshLoad loads elements, given by their numbers, to a store of its own of the same kind, and returns the bytes of its
// tables and the figures of full reads of it.
func (e *env) freshLoad(like system.System, n int, at func(i int) int) (tables *uint64, read Figures, err error) {
	c, o := contender{system: system.NameBlob}, system.Options{}
	switch like := like.(type) {
	case *system.Bigset:
		c, o.Record = contender{system: system.NameBigset, strategy: compaction.None().Name()}, like.Record()
	case *system.Raw:
		c.system, o.Record = system.NamePebble, like.Record()
	}
	err = e.with(c, o, func(sys system.System) error {
		s, b := sys.Set(system.SetName), system.NewBatch(batchSize)
		for i := 0; i < n; {
			b.Reset()
			for ; i < n && len(b.List) < batchSize; i++ {
				b.Add(e.names(), at(i), 0)
			}
			if err := s.Insert(b.List, nil); err != nil {
				return err
			}
		}
		if _, err := sys.Settle(e.ctx); err != nil {
			return err
		}
		u, err := sys.Usage()
		if err != nil {
			return err
		}
		tables = new(u.Tables)
		read, _, err = e.figures(sys, func(p *phase) error { return p.readAll(s, n) })
		return err
	})
	return tables, read, err
}

// readAll reads a set of so many elements as often as makes a measurable time.
func (p *phase) readAll(s system.Set, elements int) error {
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
	return system.Expect("elements read", got, reads*elements)
}

func reclaimGoals(strategy string) []goal {
	own := pick{workload: "reclaim", system: system.NameBigset}
	classic := pick{workload: "reclaim", system: system.NameBigset, strategy: compaction.PointDeletes().Name()}
	if strategy == classic.strategy {
		return nil
	}
	return []goal{
		{what: "bytes written, of point deletes'", of: own, to: classic, have: written, atMost: true, limit: 0.1},
		{what: "CPU, of point deletes'", of: own, to: classic, have: cpuTotal, atMost: true, limit: 0.5,
			why: "a small set; what a rewrite costs by itself shows less at a million elements (0.30)"},
		{what: "tables, of a fresh load", of: own, have: space, atMost: true, limit: 1.25},
		{what: "peak above what there was, in spans of 16 MiB", of: own,
			to: pick{workload: "reclaim/settled", system: system.NameBigset}, have: peakSpans, atMost: true, limit: 1},
	}
}
