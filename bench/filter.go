package bench

import (
	"fmt"
	"time"

	"bigset/compaction"
	"bigset/engine"
)

// filter: what asking about every record costs. The same store with the filter and without is loaded in two halves, each
// flushed, compacted and read, where nothing is dead, where another set's tombstone is registered, and where 1 % is dead.
func filter(e *env) error {
	for _, c := range filterCases {
		err := e.turns(filterStrategies, func(strategy string) error {
			o := openOptions{strategy: strategy, record: compaction.Merge}
			return e.with(systemBigset, o, func(sys system) error { return e.filtering(sys.(*bigsetSystem), c) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	filterCases      = []string{"clean", "other-set", "one-percent"}
	filterPhases     = []string{"load", "compact", "scan"}
	filterStrategies = []string{compaction.Filter().Name(), compaction.None().Name()}
)

// filtering measures the three phases of one case. The row of the case is all of them.
func (e *env) filtering(sys *bigsetSystem, c string) error {
	s, n := sys.handle(setName), e.elements
	if c == "other-set" {
		if err := e.registerOther(sys); err != nil {
			return err
		}
	}
	dead := 0
	loads := map[string]func(*phase) error{
		"load": func(p *phase) (err error) {
			dead, err = e.filterLoad(sys, s, p, c == "one-percent")
			return err
		},
		"compact": func(p *phase) error {
			_, err := sys.store.Compact(e.ctx, engine.CompactOptions{Set: s.name})
			p.ops = uint64(n)
			if err != nil {
				return err
			}
			return p.settle(sys)
		},
		"scan": func(p *phase) error { return e.filterScan(s, p, n-dead) },
	}
	all, sum := Figures{}, newHistogram()
	for _, name := range filterPhases {
		f, hist, err := e.figures(sys, loads[name])
		if err != nil {
			return err
		}
		row := Row{Workload: sub("filter", c, name), Elements: n}
		sys.label(&row)
		e.rows.add(row, f, hist)
		all.together(f)
		sum.Merge(hist)
	}
	row := Row{Workload: sub("filter", c), Elements: n}
	sys.label(&row)
	all.latencies(sum)
	e.rows.add(row, all, sum)
	return e.check(sys, setName, n-dead)
}

// filterLoad adds the elements in two halves and flushes each; with deaths it removes 1 % of each batch after it.
func (e *env) filterLoad(sys *bigsetSystem, s *bigsetSet, p *phase, deaths bool) (dead int, err error) {
	half, b := (e.elements+1)/2, newBatch(batchSize)
	for _, bounds := range [][2]int{{0, half}, {half, e.elements}} {
		for at := bounds[0]; at < bounds[1]; at += batchSize {
			dots, err := e.load(s, p, at, min(bounds[1], at+batchSize))
			if err != nil {
				return dead, err
			}
			b.reset()
			for i := 0; deaths && i < len(dots); i += 100 {
				b.add(e.names(), at+i, dots[i])
			}
			if len(b.list) > 0 {
				if err := s.remove(b.list, b.dots); err != nil {
					return dead, err
				}
				dead += len(b.list)
			}
		}
		if err := p.settle(sys); err != nil {
			return dead, err
		}
	}
	p.ops = uint64(e.elements)
	return dead, nil
}

// filterScan reads the whole set, as often as makes a measurable time.
func (e *env) filterScan(s *bigsetSet, p *phase, want int) error {
	reads, got := max(1, readElements/max(1, e.elements)), 0
	for range reads {
		if err := p.reading(s, 0, &got); err != nil {
			return err
		}
	}
	p.ops = uint64(got)
	return expect("elements read", got, reads*want)
}

// registerWait is how long a tombstone may take to reach the filter.
const registerWait = 10 * time.Second

// registerOther makes another set with a tombstone, and waits until the filter has it.
func (e *env) registerOther(sys *bigsetSystem) error {
	const n = 2000
	other, b := sys.handle("other"), newBatch(batchSize)
	dots, err := e.load(other, nil, 0, n)
	if err != nil {
		return err
	}
	for i := 0; i < n; i += 2 {
		b.add(e.names(), i, dots[i])
	}
	if err := other.remove(b.list, b.dots); err != nil {
		return err
	}
	for began := time.Now(); sys.store.Strategy().Filters(); {
		st, err := sys.store.Stats()
		switch {
		case err != nil:
			return err
		case st.TombstonesPublished > 0:
			return nil
		case time.Since(began) > registerWait:
			return fmt.Errorf("bench: no tombstone reached the filter in %v", registerWait)
		}
		time.Sleep(restPoll)
	}
	return e.ctx.Err()
}

func filterGoals() (list []goal) {
	for _, c := range filterCases {
		for _, phase := range filterPhases {
			name := sub("filter", c, phase)
			list = append(list, goal{what: "CPU, of no filter", have: cpu, atMost: true, limit: 1.15,
				of: pick{workload: name, system: systemBigset, strategy: filterStrategies[0]},
				to: pick{workload: name, system: systemBigset, strategy: filterStrategies[1]}})
		}
	}
	return list
}
