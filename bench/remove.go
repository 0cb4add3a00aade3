package bench

import "bigset/bench/system"

// remove: removes of half of the elements of a set, each with its narrow context; and for comparison as many inserts into
// a set of the same size.
func remove(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements)
		for _, part := range e.removeParts() {
			err := e.with(c, system.Options{Warm: true}, func(sys system.System) error {
				s := sys.Set(system.SetName)
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
func (e *env) insertBeside(sys system.System, s system.Set, dots []uint64) error {
	n := len(dots)
	dots = append(dots, make([]uint64, n/2)...)
	if err := e.insertOneByOne(sys, s, Row{Workload: "remove/insert", Elements: n}, dots, n, len(dots)); err != nil {
		return err
	}
	return e.check(sys, system.SetName, len(dots))
}

// removeHalf measures the removes of half of the elements, anywhere in the set.
func (e *env) removeHalf(c contender, sys system.System, s system.Set, dots []uint64) error {
	n := len(dots)
	victim, b, ops := system.Scatter(n, e.cfg.Seed), system.NewBatch(1), n/2
	err := e.measure(sys, Row{Workload: "remove", Elements: n}, func(p *phase) error {
		err := p.loop(ops, func(i int) error {
			at := victim(i)
			b.Reset().Add(e.names(), at, dots[at])
			return system.RemoveAll(s, b)
		})
		if err != nil {
			return err
		}
		p.user = p.ops * system.ElementBytes
		return p.settle(sys)
	})
	if err != nil {
		return err
	}
	if c.system == system.NamePebble { // raw Pebble has only noted the removes
		ops = 0
	}
	return e.check(sys, system.SetName, n-ops)
}
