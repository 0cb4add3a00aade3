package bench

import "bigset/bench/system"

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
	list := []contender{{system: system.NameBigset}, {system: system.NamePebble}}
	return e.turns(list, func(c contender) error {
		dir, o := e.folder(), system.Options{MemTableBytes: e.scaledMemTable(coldFull)}
		return e.inFolder(dir, func() error {
			err := e.opened(c, dir, o, func(sys system.System) (err error) {
				o.CacheBytes, err = e.loadCold(sys)
				return err
			})
			if err != nil {
				return err
			}
			return e.opened(c, dir, o, func(sys system.System) error { return e.coldOn(sys) })
		})
	})
}

// loadCold loads and compacts the set and returns the bytes of the cache to open it with.
func (e *env) loadCold(sys system.System) (cache int64, err error) {
	if _, err := e.loaded(sys, sys.Set(system.SetName), e.elements); err != nil {
		return 0, err
	}
	if err := sys.Compact(e.ctx, system.SetName); err != nil {
		return 0, err
	}
	u, err := sys.Usage()
	return int64(max(1, u.Tables/coldShare)), err
}

func (e *env) coldOn(sys system.System) error {
	n, ops := e.elements, coldOps
	if e.cfg.Full {
		ops = coldOpsFull
	}
	if r, ok := sys.(*system.Raw); ok { // it has forgotten them
		r.Handle(system.SetName).LastDot().Store(uint64(n))
	}
	s, place := sys.Set(system.SetName), system.Scatter(n, e.cfg.Seed)
	for _, k := range []lookUp{
		{"hit", func(i int) int { return place(i % n) }, true},
		{"miss", func(i int) int { return n + place(i%n) }, false},
	} {
		if err := e.measure(sys, Row{Workload: "cold/contains-" + k.part, Elements: n}, e.looking(ops, k, s.Contains)); err != nil {
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
	return e.check(sys, system.SetName, n+inserts)
}

// coldRange measures the time to the first element of ranges anywhere in the set, other places than were looked up.
func (e *env) coldRange(sys system.System, s system.Set, n, ops int) error {
	place, from, to := system.Scatter(n, e.cfg.Seed+1), make([]byte, 0, system.ElementBytes), []byte("g") // behind all digits
	return e.measure(sys, Row{Workload: "cold/range", Elements: n}, func(p *phase) error {
		missing := 0
		err := p.loop(ops, func(i int) error {
			from = e.names().Append(from[:0], place(i%n))
			found, err := s.First(system.Query{From: from, To: to, Limit: rangeElements})
			if !found {
				missing++
			}
			return err
		})
		if err != nil {
			return err
		}
		return system.Expect("queries without an answer", missing, 0)
	})
}

// coldGoals are those of the same loads on a store in the cache, less a tenth.
func coldGoals() []goal {
	return []goal{
		beside("of a raw prefix seek", "cold/contains-hit", "cold/contains-hit", 0.7),
		beside("of a raw prefix seek", "cold/contains-miss", "cold/contains-miss", 0.7),
		{what: "time to the first element, of a raw seek", of: pick{workload: "cold/range", system: system.NameBigset},
			to: pick{workload: "cold/range", system: system.NamePebble}, have: latency, atMost: true, limit: 2.2},
		beside("of raw", "cold/insert", "cold/insert", 0.6),
	}
}
