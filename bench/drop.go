package bench

import (
	"fmt"
	"time"
)

// drop: a whole set is deleted. The bare row is the time until that is acknowledged and durable; drop/space is the time
// from then until the space is back. Raw Pebble writes one range delete, and of a blob one delete; both are compacted for
// the space.
func drop(e *env) error {
	return e.turns(allSystems, func(c contender) error {
		n := e.elements
		if c.system == systemBlob {
			n = min(n, blobReadMax)
		}
		return e.with(c, openOptions{}, func(sys system) error {
			if _, err := e.loaded(sys, sys.set(setName), n); err != nil {
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

func (e *env) dropOn(sys system, n int) error {
	before, err := sys.usage()
	if err != nil {
		return err
	}
	var ack time.Duration
	f, hist, err := e.figures(sys, func(p *phase) error {
		return p.watch(sys.dir(), func() error {
			began := time.Now()
			if err := sys.drop(setName); err != nil {
				return err
			}
			ack = time.Since(began)
			if err := e.spaceBack(sys, max(dropSpaceMin, uint64(float64(before.tables)*dropSpace))); err != nil {
				return err
			}
			p.note(time.Since(began) - ack)
			p.ops, p.user, p.settled = 1, elementBytes, time.Now()
			return nil
		})
	})
	if err != nil {
		return err
	}
	row := Row{Workload: "drop", Elements: n}
	sys.label(&row)
	acked, ackHist := Figures{}, newHistogram()
	p := &phase{hist: ackHist, ops: 1}
	p.note(ack)
	acked.time(p, ack, 0)
	acked.CPUMicros = nil
	e.rows.add(row, acked, ackHist)
	row.Workload = "drop/space"
	e.rows.add(row, f, hist)
	row.Workload = "drop/settled" // what there was
	e.rows.add(row, Figures{BytesOnDisk: new(before.tables)}, nil)
	return e.check(sys, setName, 0)
}

// spaceBack waits until the tables in use take no more than that.
func (e *env) spaceBack(sys system, most uint64) error {
	if _, ok := sys.(*bigsetSystem); !ok { // a delete takes effect when it is compacted
		if err := sys.compact(e.ctx, setName); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		u, err := sys.usage()
		switch {
		case err != nil:
			return err
		case u.tables <= most:
			return nil
		case time.Since(began) > dropWait:
			return fmt.Errorf("bench: %d bytes of tables are left %v after a drop", u.tables, dropWait)
		}
		select {
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-time.After(restPoll):
		}
	}
}

func dropGoals() []goal {
	return []goal{
		{what: "to acknowledge", of: pick{workload: "drop", system: systemBigset}, have: milliseconds, atMost: true, limit: 20, unit: " ms"},
		{what: "until the space is back", of: pick{workload: "drop/space", system: systemBigset}, have: milliseconds, atMost: true, limit: 60_000, unit: " ms"},
		{what: "bytes written, of what there was", of: pick{workload: "drop/space", system: systemBigset},
			to: pick{workload: "drop/settled", system: systemBigset}, atMost: true, limit: 0.01,
			have: func(of, to *Figures) (float64, bool) { return countRatio(of.BytesWritten, to.BytesOnDisk) }},
	}
}
