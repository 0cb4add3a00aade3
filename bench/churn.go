package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"bigset/bench/system"

	"bigset/compaction"
)

const (
	turnovers  = 10
	churnBatch = 50 // removes in a batch, and as many adds
	churnReads = 20 // full reads during a run
	// churnFull is the number of elements at which the run's memtable is used; with fewer it shrinks as they do, so that
	// it fills as often and the store has the same shape.
	churnFull = 200_000
)

// churn: ten turnovers, victims anywhere in the set.
func churn(e *env) error { return e.churning("churn", 0) }

// churnYoung: ten turnovers, 9 of 10 victims among the newest elements: 10,000 of 200,000.
func churnYoung(e *env) error { return e.churning("churn-young", 0.9) }

func (e *env) churning(workload string, young float64) error {
	plan := planChurn(e.elements, young, e.cfg.Seed)
	return e.turns(e.rivals(), func(c contender) error {
		plan := plan
		if n := e.blobSize(c, e.elements); n != e.elements {
			plan = planChurn(n, young, e.cfg.Seed)
		}
		return e.with(c, rivalOptions(c, e.scaledMemTable(churnFull)), func(sys system.System) error {
			return e.churnOn(sys, workload, plan)
		})
	})
}

// scaledMemTable returns the size of a memtable that fills as often in this run as the run's does with full elements.
func (e *env) scaledMemTable(full int) int {
	share := min(1, float64(e.elements)/float64(full))
	return max(1<<20, int(float64(e.cfg.MemTableBytes)*share))
}

// churnPlan says which elements go when: victims[b] in batch b, in which as many new ones come. New elements are numbered
// on from those loaded.
type churnPlan struct {
	elements int
	victims  [][]uint32
	live     []uint32 // at the end
}

// planChurn draws victims, a share of them among the newest twentieth of the live elements. An element goes in a later
// batch than it came.
func planChurn(n int, young float64, seed uint64) *churnPlan {
	rng := rand.New(rand.NewPCG(seed, 0xC4)) // whoever runs the same seed draws the same
	plan := &churnPlan{elements: n}
	newest := max(churnBatch, n/20)
	var old, fresh []uint32 // fresh in order of age
	for i := range n {
		if i < n-newest {
			old = append(old, uint32(i))
		} else {
			fresh = append(fresh, uint32(i))
		}
	}
	next := uint32(n)
	size := min(churnBatch, max(1, n/4))
	for range max(1, turnovers*n/size) {
		batch := make([]uint32, 0, size)
		for range size {
			among := &old
			share := young
			if young == 0 { // uniform: the newest are as likely as any
				share = float64(len(fresh)) / float64(len(fresh)+len(old))
			}
			if len(old) == 0 || rng.Float64() < share && len(fresh) > 0 {
				among = &fresh
			}
			i := rng.IntN(len(*among))
			batch = append(batch, (*among)[i])
			if among == &old {
				old[i] = old[len(old)-1]
				old = old[:len(old)-1]
			} else {
				fresh = append(fresh[:i], fresh[i+1:]...)
			}
		}
		for range size {
			fresh = append(fresh, next)
			next++
		}
		if over := len(fresh) - newest; over > 0 {
			old = append(old, fresh[:over]...)
			fresh = append(fresh[:0], fresh[over:]...)
		}
		plan.victims = append(plan.victims, batch)
	}
	plan.live = append(old, fresh...)
	return plan
}

// churnOn runs the plan on one store. An operation is a remove or an add; a latency is that of a batch of them.
func (e *env) churnOn(sys system.System, workload string, plan *churnPlan) error {
	s, n := sys.Set(system.SetName), plan.elements
	dots, err := e.loaded(sys, s, n)
	if err != nil {
		return err
	}
	during := &readings{}
	f, hist, err := e.figures(sys, func(p *phase) error {
		return p.watch(sys.Dir(), func() error {
			return e.turnOver(sys, s, p, plan, dots, during)
		})
	})
	if err != nil {
		return err
	}
	if f.BytesLive, during.fresh, err = e.freshLoad(sys, n, func(i int) int { return int(plan.live[i]) }); err != nil {
		return err
	}
	row := Row{Workload: workload, Elements: n}
	label(sys, &row)
	e.rows.Add(row, f, hist)
	row.Workload = sub(workload, "read")
	e.rows.Add(row, during.sum, nil)
	row.Workload = sub(workload, "read-fresh")
	e.rows.Add(row, during.fresh, nil)
	after, _, err := e.figures(sys, func(p *phase) error { return p.readAll(s, n) })
	if err != nil {
		return err
	}
	row.Workload = sub(workload, "read-after")
	e.rows.Add(row, after, nil)
	return e.check(sys, system.SetName, n)
}

// readings are the full reads during a run, and that of a fresh load.
type readings struct{ sum, fresh Figures }

// turnOver runs the batches of a plan, reading the whole set now and then, and waits until the store is at rest.
func (e *env) turnOver(sys system.System, s system.Set, p *phase, plan *churnPlan, dots []uint64, during *readings) error {
	gone, fresh := system.NewBatch(churnBatch), system.NewBatch(churnBatch)
	every, ops := max(1, len(plan.victims)/churnReads), 0
	next := plan.elements
	err := p.loop(len(plan.victims), func(i int) error {
		gone.Reset()
		fresh.Reset()
		for _, v := range plan.victims[i] {
			gone.Add(e.names(), int(v), dots[v])
			fresh.Add(e.names(), next, 0)
			next++
		}
		ops += 2 * len(gone.List)
		if err := s.Exchange(gone.List, gone.Dots, fresh.List, fresh.Dots); err != nil {
			return err
		}
		dots = append(dots, fresh.Dots...)
		if i%every != every/2 {
			return nil
		}
		return p.aside(func() error { return during.read(e.ctx, s, plan.elements) })
	})
	if err != nil {
		return err
	}
	p.ops, p.user = uint64(ops), uint64(ops)*system.ElementBytes
	if err := p.settle(sys); err != nil {
		return err
	}
	if b, ok := sys.(*system.Bigset); ok { // what it does then is in the bytes, waiting for it is not in the time
		return b.RestFully(e.ctx)
	}
	return nil
}

// read reads a whole set once.
func (r *readings) read(ctx context.Context, s system.Set, want int) error {
	p := &phase{ctx: ctx, hist: newHistogram()}
	cpu, began, got := cpuNow(), time.Now(), 0
	if err := p.reading(s, 0, &got); err != nil {
		return err
	}
	p.ops = uint64(got)
	var f Figures
	p.figures(&f, time.Since(began), cpuNow()-cpu)
	addUp(&r.sum, f)
	return system.Expect("elements read", got, want)
}

func churnGoals(workload, strategy string) []goal {
	own := pick{workload: workload, system: system.NameBigset}
	classic := pick{workload: workload, system: system.NameBigset, strategy: compaction.PointDeletes().Name()}
	if strategy == classic.strategy {
		return nil
	}
	part := func(p pick, name string) pick {
		p.workload = sub(workload, name)
		return p
	}
	if workload == "churn-young" {
		return []goal{{what: "bytes below the log, of point deletes'", of: own, to: classic, have: belowLog, atMost: true, limit: 0.5}}
	}
	return []goal{
		{what: "bytes written, of point deletes'", of: own, to: classic, have: written, atMost: true, limit: 1},
		{what: "tables at rest, of a fresh load", of: own, have: space, atMost: true, limit: 1.5},
		{what: "bytes below the log, of point deletes'", of: own, to: classic, have: belowLog, atMost: true, limit: 1},
		{what: "full reads at rest, of a fresh load's", of: part(own, "read-after"), to: part(own, "read-fresh"), have: speed, limit: 0.7},
		{what: "full reads during the run, of point deletes'", of: part(own, "read"), to: part(classic, "read"), have: speed, limit: 1,
			why: "reads step over dead keys in the memtable, which nothing drops before a flush"},
	}
}
