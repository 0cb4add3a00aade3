package sim

import (
	"errors"

	"bigset/clock"
	"bigset/convergence"
	"bigset/engine"
)

// copying is a copy of one replica to another, a chunk a step, each from a short read of its own. A key comes with its dot, the
// source's Dead at any time, its clock never: the clock of the first chunk is the check at the end.
type copying struct {
	from, to *replica
	after    []byte
	first    *clock.Clock // nil before the first chunk
}

// CopyFrom implements convergence.Copier. No progress is kept: after a cut it starts again, and what has come stays.
func (r *replica) CopyFrom(src convergence.Replica) (c convergence.Copy, resumed bool, err error) {
	from := src.(*replica)
	if from.joining {
		return nil, false, convergence.ErrNotReady
	}
	return &copying{from: from, to: r}, false, nil
}

// Step implements convergence.Copy.
func (c *copying) Step() (done bool, err error) {
	if c.from.joining {
		return false, convergence.ErrNotReady
	}
	st, err := stateOf(c.from.store)
	if err != nil {
		return false, err
	}
	if c.first == nil {
		c.first = st.Seen
	}
	f := engine.Facts{Set: c.to.set, Dead: st.Dead}
	end := true
	o := engine.ReadOptions{After: c.after, BatchSize: 1 + c.to.env.Rand.IntN(2)}
	for chunk, err := range c.from.store.Read(o) {
		if errors.Is(err, engine.ErrNotFound) {
			break
		}
		if err != nil {
			return false, err
		}
		f.Keys, c.after, end = chunk.Elements, chunk.Bound, chunk.Done
		break
	}
	if !f.Empty() {
		if err := c.to.store.ApplyFacts(f, c.to.durability()); err != nil {
			return false, err
		}
	}
	if !end {
		return false, nil
	}
	return c.close()
}

// close fetches what the source had seen when the copy began and has not come. It is done when nothing is missing.
func (c *copying) close() (done bool, err error) {
	st, err := stateOf(c.to.store)
	if err != nil {
		return false, err
	}
	missing := c.first.Clone()
	if missing.Subtract(st.Seen); !missing.Empty() {
		for f, err := range c.from.store.Locate(missing) {
			if err != nil {
				return false, err
			}
			if err := c.to.store.ApplyFacts(f, c.to.durability()); err != nil {
				return false, err
			}
		}
		c.to.env.Sometimes("copy fetched what had not come by its chunks")
		return false, nil
	}
	c.to.filled |= 1 << c.from.env.ID
	if c.to.filled|1<<c.to.env.ID == 1<<c.to.env.Replicas-1 {
		c.to.joining = false
	}
	return true, nil
}

// Cut implements convergence.Copy.
func (c *copying) Cut() error { return nil }
