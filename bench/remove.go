package bench

// remove: first inserts, for comparison, then removes of half of the elements, each with its narrow context.
func remove(e *env) error {
	return e.turns(allSystems, func(name string) error {
		n := e.blobSize(name, e.elements)
		return e.with(name, openOptions{}, func(sys system) error {
			s, dots := sys.set(setName), make([]uint64, n)
			if err := e.insertOneByOne(sys, s, Row{Workload: "remove/insert", Elements: n}, dots, 0, n); err != nil {
				return err
			}
			ops := n / 2
			if err := e.removeOneByOne(sys, s, Row{Workload: "remove", Elements: n}, dots, ops); err != nil {
				return err
			}
			if name == systemPebble { // raw Pebble has only noted the removes
				ops = 0
			}
			return e.check(sys, setName, n-ops)
		})
	})
}

// removeOneByOne measures the removes of so many elements, anywhere in the set.
func (e *env) removeOneByOne(sys system, s set, row Row, dots []uint64, ops int) error {
	victim, b := scatter(len(dots), e.cfg.Seed), newBatch(1)
	return e.measure(sys, row, func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			at := victim(i)
			b.reset().add(e.names(), at, dots[at])
			return s.remove(b.list, b.dots)
		})
		if err != nil {
			return err
		}
		p.user = p.ops * elementBytes
		return p.settle(sys)
	})
}
