package bench

import "bigset/bench/system"

// growTenths: the first and the last of so many equal parts of the inserts are compared.
const growTenths = 10

// growFull is the number of elements at which the run's memtable is used; with fewer it shrinks as they do, so that the
// store grows by as many flushes.
const growFull = 10_000_000

// grow: new elements into one set, one an operation, from none to all. The first tenth and the last are measured, each from
// a store at rest, and those between inserted likewise. The clock runs while inserts are made: compactions that a tenth
// leaves to do, which are few or many by chance, are not in it. Heaps are those at rest. What a row has kept is its speed
// beside that of the first tenth.
func grow(e *env) error {
	list := []contender{{system: system.NameBigset}, {system: system.NamePebble}}
	return e.turns(list, func(c contender) error {
		return e.with(c, system.Options{Warm: true, MemTableBytes: e.scaledMemTable(growFull)}, func(sys system.System) error {
			n := max(growTenths, e.elements)
			if err := e.growOn(sys, n); err != nil {
				return err
			}
			return e.check(sys, system.SetName, n)
		})
	})
}

func (e *env) growOn(sys system.System, n int) error {
	s, tenth := sys.Set(system.SetName), n/growTenths
	first := Row{Workload: "grow/first", Elements: n}
	speed, err := e.grown(sys, s, first, 0, tenth, 0)
	if err != nil {
		return err
	}
	between := &phase{ctx: e.ctx, hist: newHistogram()}
	if err := e.growing(s, tenth, n-tenth)(between); err != nil {
		return err
	}
	if err := between.settle(sys); err != nil {
		return err
	}
	_, err = e.grown(sys, s, Row{Workload: "grow", Elements: n}, n-tenth, n, speed)
	return err
}

// grown measures the inserts of one part and returns their speed. The part that came first had the speed before.
func (e *env) grown(sys system.System, s system.Set, row Row, first, last int, before float64) (float64, error) {
	f, hist, err := e.figures(sys, e.growing(s, first, last))
	if err == nil {
		_, err = sys.Settle(e.ctx)
	}
	if err != nil {
		return 0, err
	}
	f.HeapBytes = new(heapBytes())
	if before > 0 {
		f.Kept = new(f.OpsPerSecond / before)
	}
	label(sys, &row)
	e.rows.Add(row, f, hist)
	return f.OpsPerSecond, nil
}

// growing returns the load that inserts the elements with numbers from first to before last.
func (e *env) growing(s system.Set, first, last int) func(*phase) error {
	b := system.NewBatch(1)
	return func(p *phase) error {
		return p.loop(last-first, func(i int) error {
			b.Reset().Add(e.names(), first+i, 0)
			return s.Insert(b.List, nil)
		})
	}
}

// kept is what one row has kept of its speed, beside what the other has.
func kept(of, to *Figures) (float64, bool) {
	if of.Kept == nil || to.Kept == nil {
		return 0, false
	}
	return ratio(*of.Kept, *to.Kept)
}

// heap is the heap of one row beside that of the other.
func heap(of, to *Figures) (float64, bool) { return countRatio(of.HeapBytes, to.HeapBytes) }

// growHeapMax leaves room for noise: what is held of tables, and memtables that are more or less full.
const growHeapMax = 1.1

func growGoals() []goal {
	last := pick{workload: "grow", system: system.NameBigset}
	return []goal{
		{what: "last tenth of the first, of what raw keeps", of: last, to: pick{workload: "grow", system: system.NamePebble},
			have: kept, limit: 0.95},
		{what: "heap after the last tenth, of that after the first", of: last, to: pick{workload: "grow/first", system: system.NameBigset},
			have: heap, atMost: true, limit: growHeapMax},
	}
}
