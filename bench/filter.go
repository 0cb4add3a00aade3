package bench

import (
	"fmt"
	"time"

	"bigset/bench/system"

	"bigset/compaction"
	"bigset/engine"
)

// filter: what asking about every record costs. The same store with the filter and without is loaded in two halves, the
// first of which is flushed; then the second is flushed and both are compacted; then all is read: where nothing is dead,
// where another set's tombstone is registered, and where 1 % is dead.
func filter(e *env) error {
	for _, c := range filterCases {
		err := e.turns(filterContenders, func(with contender) error {
			o := system.Options{Record: compaction.Merge, Warm: true}
			return e.with(with, o, func(sys system.System) error { return e.filtering(sys.(*system.Bigset), c) })
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
	filterContenders = []contender{{system: system.NameBigset, strategy: compaction.Filter().Name()}, {system: system.NameBigset, strategy: compaction.None().Name()}}
)

// filtering measures the three phases of one case. The row of the case is all of them.
func (e *env) filtering(sys *system.Bigset, c string) error {
	s, n := sys.Handle(system.SetName), e.elements
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
			p.ops = uint64(n)
			if err := p.settle(sys); err != nil { // two tables, one above the other, are enough for a compaction
				return err
			}
			if _, err := sys.Store().Compact(e.ctx, engine.CompactOptions{Set: s.Name()}); err != nil {
				return err
			}
			return p.settle(sys)
		},
		"scan": func(p *phase) error { return p.readAll(s, n-dead) },
	}
	all, sum := Figures{}, newHistogram()
	for _, name := range filterPhases {
		f, hist, err := e.figures(sys, loads[name])
		if err != nil {
			return err
		}
		row := Row{Workload: sub("filter", c, name), Elements: n}
		label(sys, &row)
		e.rows.Add(row, f, hist)
		addUp(&all, f)
		sum.Merge(hist)
	}
	row := Row{Workload: sub("filter", c), Elements: n}
	label(sys, &row)
	all.Latencies(sum)
	e.rows.Add(row, all, sum)
	return e.check(sys, system.SetName, n-dead)
}

// filterLoad adds the elements in two halves and flushes the first; with deaths it removes 1 % of each batch after it.
func (e *env) filterLoad(sys *system.Bigset, s *system.BigsetSet, p *phase, deaths bool) (dead int, err error) {
	half, b := (e.elements+1)/2, system.NewBatch(batchSize)
	for _, bounds := range [][2]int{{0, half}, {half, e.elements}} {
		for at := bounds[0]; at < bounds[1]; at += batchSize {
			dots, err := e.load(s, p, at, min(bounds[1], at+batchSize))
			if err != nil {
				return dead, err
			}
			b.Reset()
			for i := 0; deaths && i < len(dots); i += 100 {
				b.Add(e.names(), at+i, dots[i])
			}
			if len(b.List) > 0 {
				if err := system.RemoveAll(s, b); err != nil {
					return dead, err
				}
				dead += len(b.List)
			}
		}
		if bounds[0] == 0 {
			if err := p.settle(sys); err != nil {
				return dead, err
			}
		}
	}
	p.settled = time.Time{}
	p.ops = uint64(e.elements)
	return dead, nil
}

// registerWait is how long a tombstone may take to reach the filter.
const registerWait = 10 * time.Second

// registerOther makes another set with a tombstone, and waits until the filter has it.
func (e *env) registerOther(sys *system.Bigset) error {
	const n = 2000
	other, b := sys.Handle("other"), system.NewBatch(batchSize)
	dots, err := e.load(other, nil, 0, n)
	if err != nil {
		return err
	}
	for i := 0; i < n; i += 2 {
		b.Add(e.names(), i, dots[i])
	}
	if err := system.RemoveAll(other, b); err != nil {
		return err
	}
	for began := time.Now(); sys.Store().Strategy().Filters(); {
		st, err := sys.Store().Stats()
		switch {
		case err != nil:
			return err
		case st.TombstonesPublished > 0:
			return nil
		case time.Since(began) > registerWait:
			return fmt.Errorf("bench: no tombstone reached the filter in %v", registerWait)
		}
		time.Sleep(system.RestPoll)
	}
	return e.ctx.Err()
}

func filterGoals() (list []goal) {
	for _, c := range filterCases {
		for _, phase := range filterPhases {
			name := sub("filter", c, phase)
			list = append(list, goal{what: "CPU, of no filter", have: cpu, atMost: true, limit: 1.15,
				why: "a phase takes a fraction of a second in a small run; where elements are dead, each key costs a look into Dead",
				of:  pick{workload: name, system: system.NameBigset, strategy: filterContenders[0].strategy},
				to:  pick{workload: name, system: system.NameBigset, strategy: filterContenders[1].strategy}})
		}
	}
	return list
}
