package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bigset/bench/system"

	"bigset/compaction"
)

const (
	// mixedFull is the number of elements at which the run's memtable is used; with fewer it shrinks as they do.
	mixedFull    = 1_000_000
	mixedWriters = 2
	mixedBatch   = 5 // adds in a write, and removes in one when most of what was loaded is gone
	// mixedStay is one in how many of the loaded elements stays: so many go that the rewriter does not wait for the burst
	// of removes to end. They go in the first mixedBurst share of the writes.
	mixedStay  = 10
	mixedBurst = 0.4

	mixedWritesPerSecond  = 1000 // of all writers together
	mixedLookUpsPerSecond = 2000
	mixedReadsPerSecond   = 50
	mixedSeconds          = 2 // so long that one swap is not a hundredth of it
	mixedSecondsFull      = 60
)

// mixed: writers and readers of one set, each at a steady rate, while the strategy works on it: two writers remove nine of
// ten of the loaded elements and then replace elements, one looks elements up, one reads the first 1,000. Beside it, the
// same on a store that drops nothing. An operation is one batch, look-up or read. One that is late because the one before
// took too long counts from when it was due. A default run has one round of it: it takes as long as it takes.
func mixed(e *env) error {
	if e.round > 0 && e.cfg.Rounds == 0 && !e.cfg.Full {
		return nil
	}
	list := []contender{{system: system.NameBigset}}
	if none := compaction.None().Name(); e.cfg.Strategy != none {
		list = append(list, contender{system: system.NameBigset, strategy: none})
	}
	return e.turns(list, func(c contender) error {
		o := system.Options{Warm: true, MemTableBytes: e.scaledMemTable(mixedFull), Record: compaction.Merge}
		if s, err := compaction.ByName(e.cfg.Strategy); err == nil {
			o.Record = system.RecordFor(s)
		}
		return e.with(c, o, func(sys system.System) error { return e.mixedOn(sys.(*system.Bigset), e.elements) })
	})
}

func (e *env) mixedOn(b *system.Bigset, n int) error {
	dots, err := e.loaded(b, b.Set(system.SetName), n)
	if err == nil {
		err = b.Compact(e.ctx, system.SetName)
	}
	if err != nil {
		return err
	}
	before, err := b.Store().Stats()
	if err != nil {
		return err
	}
	m := &mixedRun{env: e, b: b, dots: dots, stay: max(1, n/mixedStay), seconds: mixedSeconds}
	if e.cfg.Full {
		m.seconds = mixedSecondsFull
	}
	if err := m.run(); err != nil {
		return err
	}
	during, err := b.Store().Stats()
	if err != nil {
		return err
	}
	row := Row{Elements: n}
	label(b, &row)
	for part, count := range map[string]uint64{
		"swapped": during.Rewrites - before.Rewrites,
		"left":    during.RewritesLeft - before.RewritesLeft,
		"stalls":  b.Stalls(),
	} {
		row.Workload = sub("mixed", part)
		e.rows.Add(row, Figures{Ops: count}, nil)
	}
	if _, err := b.Settle(e.ctx); err != nil {
		return err
	}
	if err := b.RestFully(e.ctx); err != nil {
		return err
	}
	u, err := b.Usage()
	if err != nil {
		return err
	}
	row.Workload = "mixed/rest"
	e.rows.Add(row, Figures{KeysLive: new(u.Live), KeysDead: new(u.Keys - min(u.Keys, u.Live)), BytesOnDisk: new(u.Tables)}, nil)
	return e.check(b, system.SetName, m.stay+m.added-m.replaced)
}

// mixedRun is one run of the load on one store. Loaded elements with numbers below stay are not removed.
type mixedRun struct {
	*env
	b       *system.Bigset
	dots    []uint64
	stay    int
	seconds float64

	mu              sync.Mutex
	added, replaced int // elements of the writers' own
}

// role is what one goroutine does, and how often a second.
type role struct {
	part string
	rate float64
	do   func(i, of int) error
}

// run lets all roles work at their rates for the time of the run and records their figures.
func (m *mixedRun) run() error {
	var roles []role
	for w := range mixedWriters {
		roles = append(roles, role{"mixed/write", mixedWritesPerSecond / mixedWriters, m.writer(w)})
	}
	roles = append(roles, role{"mixed/look-up", mixedLookUpsPerSecond, m.lookUp()}, role{"mixed/first-1000", mixedReadsPerSecond, m.reader()})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	phases, errs := make([]*phase, len(roles)), make([]error, len(roles))
	began := time.Now()
	for i, r := range roles {
		phases[i] = &phase{ctx: ctx, hist: newHistogram()}
		wg.Go(func() {
			if errs[i] = phases[i].paced(r, m.seconds); errs[i] != nil {
				cancel() // the others need not go on
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range roles {
		if i+1 < len(roles) && roles[i+1].part == roles[i].part { // writers count together
			phases[i+1].hist.Merge(phases[i].hist)
			phases[i+1].ops += phases[i].ops
			continue
		}
		row, f := Row{Workload: roles[i].part, Elements: m.elements}, Figures{}
		label(m.b, &row)
		f.Ops, f.OpsPerSecond = phases[i].ops, float64(phases[i].ops)/took.Seconds()
		f.Latencies(phases[i].hist)
		m.rows.Add(row, f, phases[i].hist)
	}
	return nil
}

// paced does what a role does at its rate.
func (p *phase) paced(r role, seconds float64) error {
	count, interval := max(1, int(r.rate*seconds)), time.Duration(float64(time.Second)/r.rate)
	began := time.Now()
	last := began // when the operation before ended
	for i := range count {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		due := began.Add(time.Duration(i) * interval)
		from := due
		if last.Before(due) { // in time: that a sleep ends late is no latency
			time.Sleep(time.Until(due))
			from = time.Now()
		}
		if err := r.do(i, count); err != nil {
			return err
		}
		last = time.Now()
		p.note(last.Sub(from))
	}
	p.ops += uint64(count)
	return nil
}

// writer returns what the w-th writer does. It removes its share of the loaded elements, then the oldest of its own.
func (m *mixedRun) writer(w int) func(i, of int) error {
	s, n := m.b.Handle(system.SetName), len(m.dots)
	share := (n - m.stay - w + mixedWriters - 1) / mixedWriters // numbers stay+w, stay+w+mixedWriters, and so on
	place := system.Scatter(max(1, share), m.cfg.Seed)
	removed, added, replaced := 0, 0, 0
	var own []uint64 // dots of the elements that it has added
	gone, fresh := system.NewBatch(batchSize), system.NewBatch(mixedBatch)
	number := func(k int) int { return n + w + k*mixedWriters } // of its k-th element
	return func(i, of int) error {
		gone.Reset()
		fresh.Reset()
		for upTo := min(share, 1+int(float64(share*(i+1))/(mixedBurst*float64(of)))); removed < upTo; removed++ {
			at := m.stay + w + place(removed)*mixedWriters
			gone.Add(m.names(), at, m.dots[at])
		}
		if removed == share {
			for k := 0; k < mixedBatch && replaced < added; k, replaced = k+1, replaced+1 {
				gone.Add(m.names(), number(replaced), own[replaced])
			}
		}
		for range mixedBatch {
			fresh.Add(m.names(), number(added), 0)
			added++
		}
		if err := s.Exchange(gone.List, gone.Dots, fresh.List, fresh.Dots); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		own = append(own, fresh.Dots...)
		if i == of-1 {
			m.mu.Lock()
			m.added, m.replaced = m.added+added, m.replaced+replaced
			m.mu.Unlock()
		}
		return nil
	}
}

// lookUp returns what looks up elements that stay, and others that never were.
func (m *mixedRun) lookUp() func(i, of int) error {
	s, place, buf := m.b.Set(system.SetName), system.Scatter(m.stay, m.cfg.Seed), make([]byte, 0, system.ElementBytes)
	return func(i, _ int) error {
		at := place(i / 2 % m.stay)
		if i%2 == 1 {
			at = -1 - at
		}
		buf = m.names().Append(buf[:0], at)
		found, err := s.Contains(buf)
		if err != nil {
			return err
		}
		return system.Expect("found", found, at >= 0)
	}
}

// reader returns what reads the first elements.
func (m *mixedRun) reader() func(i, of int) error {
	s := m.b.Set(system.SetName)
	return func(int, int) error {
		got := 0
		if err := s.Read(firstElements, func(n int) { got += n }); err != nil {
			return err
		}
		return system.Expect("enough elements", got >= min(firstElements, m.stay), true)
	}
}

func counted(of, _ *Figures) (float64, bool) { return float64(of.Ops), true }

// garbageMin is the garbage below which no set is looked at, garbageShare that of the live keys above which one that is
// written is rewritten: what the default strategy says.
const (
	garbageMin   = 4096
	garbageShare = 0.3
)

// garbage is what is dead at rest, of what the default strategy leaves.
func garbage(of, _ *Figures) (float64, bool) {
	if of.KeysDead == nil || of.KeysLive == nil {
		return 0, false
	}
	return ratio(float64(*of.KeysDead), max(garbageMin, garbageShare*float64(*of.KeysLive)))
}

func mixedGoals(strategy string) (list []goal) {
	none := compaction.None().Name()
	if strategy == none {
		return nil
	}
	own := func(part string) pick { return pick{workload: sub("mixed", part), system: system.NameBigset} }
	for _, part := range []string{"write", "look-up", "first-1000"} {
		list = append(list, goal{what: "p99, of that without a strategy", of: own(part),
			to: pick{workload: sub("mixed", part), system: system.NameBigset, strategy: none}, have: tail, atMost: true, limit: 3})
	}
	return append(list,
		goal{what: "times that writes waited for flushes or compactions", of: own("stalls"), have: counted, atMost: true},
		goal{what: "garbage at rest, of what the strategy leaves", of: own("rest"), have: garbage, atMost: true, limit: 1},
	)
}
