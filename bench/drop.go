package bench

import (
	"fmt"
	"time"

	"bigset/bench/system"
)

// drop: a whole set is deleted. The bare row is the time until that is acknowledged and durable; drop/space is the time
// from then until the space is back. Raw Pebble writes one range delete, and of a blob one delete; both are compacted for
// the space.
func drop(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == system.NameBlob {
			n = min(n, blobReadMax)
		}
		return e.with(c, system.Options{}, func(sys system.System) error {
			if _, err := e.loaded(sys, sys.Set(system.SetName), n); err != nil {
				return err
			}
			return e.dropOn(sys, n)
		})
	})
}

// dropSpace is the share of a set's bytes that may be left when its space counts as back.
const (
	dropSpace    = 0.02
	dropSpaceMin = 16 << 10 // bytes: of tables that hold no elements
	dropWait     = 2 * time.Minute
)

func (e *env) dropOn(sys system.System, n int) error {
	before, err := sys.Usage()
	if err != nil {
		return err
	}
	var ack time.Duration
	f, hist, err := e.figures(sys, func(p *phase) error {
		return p.watch(sys.Dir(), func() error {
			began := time.Now()
			if err := sys.Drop(system.SetName); err != nil {
				return err
			}
			ack = time.Since(began)
			if err := e.spaceBack(sys, max(dropSpaceMin, uint64(float64(before.Tables)*dropSpace))); err != nil {
				return err
			}
			p.note(time.Since(began) - ack)
			p.ops, p.user, p.settled = 1, system.ElementBytes, time.Now()
			return nil
		})
	})
	if err != nil {
		return err
	}
	row := Row{Workload: "drop", Elements: n}
	label(sys, &row)
	acked, ackHist := Figures{}, newHistogram()
	p := &phase{hist: ackHist, ops: 1}
	p.note(ack)
	p.figures(&acked, ack, 0)
	acked.CPUMicros = nil
	e.rows.Add(row, acked, ackHist)
	row.Workload = "drop/space"
	e.rows.Add(row, f, hist)
	row.Workload = "drop/settled" // what there was
	e.rows.Add(row, Figures{BytesOnDisk: new(before.Tables)}, nil)
	return e.check(sys, system.SetName, 0)
}

// spaceBack waits until the tables in use take no more than that.
func (e *env) spaceBack(sys system.System, most uint64) error {
	if _, ok := sys.(*system.Bigset); !ok { // a delete takes effect when it is compacted
		if err := sys.Compact(e.ctx, system.SetName); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		u, err := sys.Usage()
		switch {
		case err != nil:
			return err
		case u.Tables <= most:
			return nil
		case time.Since(began) > dropWait:
			return fmt.Errorf("bench: %d bytes of tables are left %v after a drop", u.Tables, dropWait)
		}
		select {
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-time.After(system.RestPoll):
		}
	}
}

func dropGoals() []goal {
	return []goal{
		{what: "to acknowledge", of: pick{workload: "drop", system: system.NameBigset}, have: milliseconds, atMost: true, limit: 20, unit: " ms"},
		{what: "until the space is back", of: pick{workload: "drop/space", system: system.NameBigset}, have: milliseconds, atMost: true, limit: 60_000, unit: " ms"},
		{what: "bytes written, of what there was", of: pick{workload: "drop/space", system: system.NameBigset},
			to: pick{workload: "drop/settled", system: system.NameBigset}, atMost: true, limit: 0.01,
			have: func(of, to *Figures) (float64, bool) { return countRatio(of.BytesWritten, to.BytesOnDisk) }},
	}
}
