package bench

const (
	// coldShare: the tables have so many times the bytes of the block cache.
	coldShare = 10
	// coldFull is the number of elements at which the run's memtable is used; with fewer it shrinks as they do.
	coldFull    = 10_000_000
	coldOps     = 10_000 // look-ups of a kind, and queries
	coldOpsFull = 50_000
)

// cold: look-ups, ranges and inserts where the tables are ten times the block cache. The set is loaded, compacted, and
// opened again with a cache of that size. What is not in it comes from the operating system's cache, which a benchmark
// cannot empty: blocks are found, checked and uncompressed, but need not come from the disk.
func cold(e *env) error {
	list := []contender{{system: systemBigset}, {system: systemPebble}}
	return e.turns(list, func(c contender) error {
		dir, o := e.folder(), openOptions{memTable: e.scaledMemTable(coldFull)}
		return e.inFolder(dir, func() error {
			err := e.opened(c, dir, o, func(sys system) (err error) {
				o.cache, err = e.loadCold(sys)
				return err
			})
			if err != nil {
				return err
			}
			return e.opened(c, dir, o, func(sys system) error { return e.coldOn(sys) })
		})
	})
}

// loadCold loads and compacts the set and returns the bytes of the cache to open it with.
func (e *env) loadCold(sys system) (cache int64, err error) {
	if _, err := e.loaded(sys, sys.set(setName), e.elements); err != nil {
		return 0, err
	}
	if err := sys.compact(e.ctx, setName); err != nil {
		return 0, err
	}
	u, err := sys.usage()
	return int64(max(1, u.tables/coldShare)), err
}

func (e *env) coldOn(sys system) error {
	n, ops := e.elements, coldOps
	if e.cfg.Full {
		ops = coldOpsFull
	}
	if r, ok := sys.(*rawSystem); ok { // it has forgotten them
		r.handle(setName).last.Store(uint64(n))
	}
	s, place := sys.set(setName), scatter(n, e.cfg.Seed)
	for _, k := range []lookUp{
		{"hit", func(i int) int { return place(i % n) }, true},
		{"miss", func(i int) int { return n + place(i%n) }, false},
	} {
		if err := e.measure(sys, Row{Workload: "cold/contains-" + k.part, Elements: n}, e.looking(ops, k, s.contains)); err != nil {
			return err
		}
	}
	if err := e.coldRange(sys, s, n, ops); err != nil {
		return err
	}
	inserts := max(1, n/growTenths)
	row := Row{Workload: "cold/insert", Elements: n}
	if err := e.insertOneByOne(sys, s, row, make([]uint64, n+inserts), n, n+inserts); err != nil {
		return err
	}
	return e.check(sys, setName, n+inserts)
}

// coldRange measures the time to the first element of ranges anywhere in the set, other places than were looked up.
func (e *env) coldRange(sys system, s set, n, ops int) error {
	place, from, to := scatter(n, e.cfg.Seed+1), make([]byte, 0, elementBytes), []byte("g") // behind all digits
	return e.measure(sys, Row{Workload: "cold/range", Elements: n}, func(p *phase) error {
		missing := 0
		err := p.loop(ops, func(i int) error {
			from = e.names().append(from[:0], place(i%n))
			found, err := s.first(query{from: from, to: to, limit: rangeElements})
			if !found {
				missing++
			}
			return err
		})
		if err != nil {
			return err
		}
		return expect("queries without an answer", missing, 0)
	})
}

// coldGoals are those of the same loads on a store in the cache, less a tenth.
func coldGoals() []goal {
	return []goal{
		beside("of a raw prefix seek", "cold/contains-hit", "cold/contains-hit", 0.7),
		beside("of a raw prefix seek", "cold/contains-miss", "cold/contains-miss", 0.7),
		{what: "time to the first element, of a raw seek", of: pick{workload: "cold/range", system: systemBigset},
			to: pick{workload: "cold/range", system: systemPebble}, have: latency, atMost: true, limit: 2.2},
		beside("of raw", "cold/insert", "cold/insert", 0.6),
	}
}
