package bench

// remove: removes of half of the elements of a set, each with its narrow context; and for comparison as many inserts into
// a set of the same size.
func remove(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements)
		for _, part := range e.removeParts() {
			err := e.with(c, openOptions{warm: true}, func(sys system) error {
				s := sys.set(setName)
				dots, err := e.loaded(sys, s, n)
				if err != nil {
					return err
				}
				if part != "remove" {
					return e.insertBeside(sys, s, dots)
				}
				return e.removeHalf(c, sys, s, dots)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// removeParts are the rows of remove, in an order that changes from round to round.
func (e *env) removeParts() []string {
	if e.round%2 == 0 {
		return []string{"remove", "remove/insert"}
	}
	return []string{"remove/insert", "remove"}
}

// insertBeside measures half as many inserts as there are elements.
func (e *env) insertBeside(sys system, s set, dots []uint64) error {
	n := len(dots)
	dots = append(dots, make([]uint64, n/2)...)
	if err := e.insertOneByOne(sys, s, Row{Workload: "remove/insert", Elements: n}, dots, n, len(dots)); err != nil {
		return err
	}
	return e.check(sys, setName, len(dots))
}

// removeHalf measures the removes of half of the elements, anywhere in the set.
func (e *env) removeHalf(c contender, sys system, s set, dots []uint64) error {
	n := len(dots)
	victim, b, ops := scatter(n, e.cfg.Seed), newBatch(1), n/2
	err := e.measure(sys, Row{Workload: "remove", Elements: n}, func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			at := victim(i)
			b.reset().add(e.names(), at, dots[at])
			return removeAll(s, b)
		})
		if err != nil {
			return err
		}
		p.user = p.ops * elementBytes
		return p.settle(sys)
	})
	if err != nil {
		return err
	}
	if c.system == systemPebble { // raw Pebble has only noted the removes
		ops = 0
	}
	return e.check(sys, setName, n-ops)
}
