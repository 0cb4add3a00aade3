package bench

import "bigset/bench/system"

// contains: look-ups of elements that are there, that never were, and that are dead but still on disk. The bare row is all
// three together. Raw Pebble looks for any key of the element, which it must seek, as bigset does; and in rows of their own
// for one key by Get, for which one has to know the dot.
func contains(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.blobSize(c, e.elements)
		return e.with(c, system.Options{Warm: true}, func(sys system.System) error {
			s := sys.Set(system.SetName)
			dots, err := e.loaded(sys, s, n)
			if err != nil {
				return err
			}
			dead := n / deadShare
			if err := e.bury(sys, s, dots[:dead]); err != nil {
				return err
			}
			return e.lookUps(c, sys, s, dots, dead)
		})
	})
}

// deadShare is one in how many elements is dead: so few that nothing rewrites the tables that they lie in.
const deadShare = 20

// bury removes the first elements, in batches, and settles that.
func (e *env) bury(sys system.System, s system.Set, dots []uint64) error {
	b := system.NewBatch(batchSize)
	for at := 0; at < len(dots); at += batchSize {
		b.Reset()
		for i := at; i < min(len(dots), at+batchSize); i++ {
			b.Add(e.names(), i, dots[i])
		}
		if err := system.RemoveAll(s, b); err != nil {
			return err
		}
	}
	_, err := sys.Settle(e.ctx)
	return err
}

// lookUp is one kind of look-up: the part's name, how elements are chosen, and whether they should be found.
type lookUp struct {
	part  string
	at    func(i int) int
	found bool
}

// lookUps measures all kinds of look-up. The first dead elements are dead.
func (e *env) lookUps(c contender, sys system.System, s system.Set, dots []uint64, dead int) error {
	n := len(dots)
	live, never, gone := system.Scatter(n-dead, e.cfg.Seed), system.Scatter(n, e.cfg.Seed), system.Scatter(max(1, dead), e.cfg.Seed)
	kinds := []lookUp{
		{"hit", func(i int) int { return dead + live(i%(n-dead)) }, true},
		{"miss", func(i int) int { return n + never(i%n) }, false},
		{"dead", func(i int) int { return gone(i % max(1, dead)) }, c.system == system.NamePebble},
	}
	if dead == 0 {
		kinds = kinds[:2]
	}
	all, sum := Figures{}, newHistogram()
	for _, k := range kinds {
		f, hist, err := e.figures(sys, e.looking(e.lookUpOps(c), k, s.Contains))
		if err != nil {
			return err
		}
		row := Row{Workload: "contains/" + k.part, Elements: n}
		label(sys, &row)
		e.rows.Add(row, f, hist)
		addUp(&all, f)
		sum.Merge(hist)
		if raw, ok := s.(*system.RawSet); ok {
			if err := e.getByDot(sys, raw, k, dots); err != nil {
				return err
			}
		}
	}
	all.Latencies(sum)
	row := Row{Workload: "contains", Elements: n}
	label(sys, &row)
	e.rows.Add(row, all, sum)
	return nil
}

// lookUpOps is how many look-ups of a kind are measured.
func (e *env) lookUpOps(c contender) int {
	switch {
	case c.system == system.NameBlob:
		return 300
	case e.cfg.Full:
		return 200_000
	}
	return min(20_000, max(100, e.elements))
}

// looking returns the load of so many look-ups of one kind.
func (e *env) looking(ops int, k lookUp, look func(element []byte) (bool, error)) func(*phase) error {
	return func(p *phase) error {
		wrong, buf := 0, make([]byte, 0, system.ElementBytes)
		err := p.loop(ops, func(i int) error {
			buf = e.names().Append(buf[:0], k.at(i))
			found, err := look(buf)
			if found != k.found {
				wrong++
			}
			return err
		})
		if err != nil {
			return err
		}
		return system.Expect("wrong answers about "+k.part, wrong, 0)
	}
}

// getByDot measures the look-up of one key by Get.
func (e *env) getByDot(sys system.System, raw *system.RawSet, k lookUp, dots []uint64) error {
	buf := make([]byte, 0, system.ElementBytes)
	return e.measure(sys, Row{Workload: "contains/" + k.part + "-get", Elements: len(dots)}, func(p *phase) error {
		wrong := 0
		err := p.loop(e.lookUpOps(contender{system: system.NamePebble}), func(i int) error {
			at := k.at(i)
			buf = e.names().Append(buf[:0], at)
			found, err := raw.Get(buf, dots[at%len(dots)])
			if found != k.found {
				wrong++
			}
			return err
		})
		if err != nil {
			return err
		}
		return system.Expect("wrong answers about "+k.part, wrong, 0)
	})
}

// addUp adds the operations, time and CPU of another load.
func addUp(f *Figures, o Figures) {
	took := seconds(&o) + seconds(f)
	if f.CPUMicros != nil && o.CPUMicros != nil {
		o.CPUMicros = new((*f.CPUMicros*float64(f.Ops) + *o.CPUMicros*float64(o.Ops)) / float64(f.Ops+o.Ops))
	}
	f.CPUMicros, f.HeapBytes = o.CPUMicros, o.HeapBytes
	f.Ops += o.Ops
	f.OpsPerSecond = float64(f.Ops) / max(took, 1e-9)
}

func seconds(f *Figures) float64 {
	if f.OpsPerSecond == 0 {
		return 0
	}
	return float64(f.Ops) / f.OpsPerSecond
}

func containsGoals() (list []goal) {
	for _, part := range []string{"hit", "miss", "dead"} {
		g := beside("of a raw prefix seek", "contains/"+part, "contains/"+part, 0.8)
		g.why = "an answer with its context costs a look into the clock beside the seek"
		list = append(list, g)
	}
	for _, part := range []string{"hit", "miss", "dead"} {
		list = append(list, beside("of a raw Get", "contains/"+part, "contains/"+part+"-get", 0.5))
	}
	return list
}
