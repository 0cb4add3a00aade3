package bench

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bigset/bench/system"
)

const (
	// checkpointWriters is how many goroutines write while checkpoints are made.
	checkpointWriters = 8
	// checkpointsMin and checkpointSpan are how many checkpoints are made at least, and for how long.
	checkpointsMin = 3
	checkpointSpan = 500 * time.Millisecond
)

// checkpoint: checkpoints are made one after the other while goroutines insert elements, one a synced operation. The bare
// row is the time of a checkpoint; checkpoint/writers has the latencies of inserts meanwhile, checkpoint/alone those of
// inserts before.
func checkpoint(e *env) error {
	return e.with(contender{system: system.NameBigset}, system.Options{Sync: true}, func(sys system.System) error {
		if _, err := e.loaded(sys, sys.Set(system.SetName), e.elements); err != nil {
			return err
		}
		return e.checkpointOn(sys.(*system.Bigset))
	})
}

func (e *env) checkpointOn(sys *system.Bigset) error {
	w := &backgroundWriters{env: e, sys: sys}
	w.next.Store(int64(e.elements))
	alone, took, err := w.during(func() error {
		select {
		case <-e.ctx.Done():
		case <-time.After(checkpointSpan):
		}
		return e.ctx.Err()
	})
	if err != nil {
		return err
	}
	row := Row{Elements: e.elements}
	label(sys, &row)
	made := &phase{ctx: e.ctx, hist: newHistogram()}
	var beside *phase
	var span time.Duration
	folder := e.folder()
	err = e.inFolder(folder, func() (err error) {
		beside, span, err = w.during(func() error { return e.checkpoints(sys, folder, made) })
		return err
	})
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		p    *phase
		took time.Duration
	}{{"checkpoint", made, span}, {"checkpoint/writers", beside, span}, {"checkpoint/alone", alone, took}} {
		f := Figures{}
		part.p.figures(&f, part.took, 0)
		f.CPUMicros = nil // writers and checkpoints share it
		row.Workload = part.name
		e.rows.Add(row, f, part.p.hist)
	}
	return e.checkCheckpoint(sys, int(w.next.Load()))
}

// checkpoints makes checkpoints in a folder. They are removed when all are made: to remove one is work for the disk, which
// would hold up the writers, too.
func (e *env) checkpoints(sys *system.Bigset, folder string, p *phase) error {
	for began := time.Now(); p.ops < checkpointsMin || time.Since(began) < checkpointSpan; {
		dir := filepath.Join(folder, strconv.FormatUint(p.ops, 10))
		err := p.loop(1, func(int) error { return sys.Store().Checkpoint(e.ctx, dir) })
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCheckpoint makes one more and holds it against the store.
func (e *env) checkCheckpoint(sys *system.Bigset, elements int) error {
	dir := e.folder()
	return e.inFolder(dir, func() error {
		if err := sys.Store().Checkpoint(e.ctx, dir); err != nil {
			return err
		}
		return e.opened(contender{system: system.NameBigset}, dir, system.Options{}, func(copied system.System) error {
			return e.check(copied, system.SetName, elements)
		})
	})
}

// backgroundWriters insert elements of their own into the set, each one with an operation.
type backgroundWriters struct {
	env  *env
	sys  *system.Bigset
	next atomic.Int64 // the number of the next element
}

// during lets them write while f runs, and returns their latencies and how long f took.
func (w *backgroundWriters) during(f func() error) (*phase, time.Duration, error) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	var errs [checkpointWriters]error
	var phases [checkpointWriters]*phase
	for i := range checkpointWriters {
		phases[i] = &phase{ctx: w.env.ctx, hist: newHistogram()}
		wg.Go(func() {
			s, b := w.sys.Set(system.SetName), system.NewBatch(1)
			for errs[i] == nil && !stop.Load() {
				errs[i] = phases[i].loop(1, func(int) error {
					b.Reset().Add(w.env.names(), int(w.next.Add(1)-1), 0)
					return s.Insert(b.List, nil)
				})
			}
		})
	}
	began := time.Now()
	err := f()
	took := time.Since(began)
	stop.Store(true)
	wg.Wait()
	all := &phase{ctx: w.env.ctx, hist: newHistogram()}
	for i, p := range phases {
		if err == nil && errs[i] != nil {
			err = fmt.Errorf("writer %d: %w", i, errs[i])
		}
		all.hist.Merge(p.hist)
		all.ops += p.ops
	}
	return all, took, err
}

func checkpointGoals() []goal {
	return []goal{
		{what: "of the store while it is written", of: pick{workload: "checkpoint", system: system.NameBigset}, have: milliseconds,
			atMost: true, limit: 1000, unit: " ms"},
		{what: "writers' p99, of that without", of: pick{workload: "checkpoint/writers", system: system.NameBigset},
			to: pick{workload: "checkpoint/alone", system: system.NameBigset}, have: tail, atMost: true, limit: 3},
	}
}
