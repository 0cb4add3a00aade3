package bench

import (
	"bigset/bench/system"
	"bigset/bench/system/all"
	"bigset/compaction"
)

// ErrWrong is in the chain of errors about a system that gave a wrong answer.
var ErrWrong = system.ErrWrong

// contender is a system in a comparison: bigset has a strategy, "" for the run's.
type contender struct{ system, strategy string }

// fill replaces zeros by the values of the run, for a strategy.
func (c Config) fill(o system.Options, strategy string) (system.Options, error) {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = c.MemTableBytes
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = c.CacheBytes
	}
	o.Sync = o.Sync || c.Sync
	if o.Record == 0 {
		s, err := compaction.ByName(strategy)
		if err != nil {
			return o, err
		}
		o.Record = system.RecordFor(s)
	}
	return o, nil
}

// open opens a system in a folder.
func (e *env) open(c contender, dir string, o system.Options) (sys system.System, err error) {
	strategy := c.strategy
	if strategy == "" {
		strategy = e.cfg.Strategy
	}
	if o, err = e.cfg.fill(o, strategy); err != nil {
		return nil, err
	}
	return all.Open(e.ctx, c.system, strategy, dir, o)
}

// label sets the names of a system in a row.
func label(sys system.System, r *Row) { r.System, r.Record, r.Strategy = sys.Label() }

// verifyMax is the largest number of elements for which stores are verified after a round.
const verifyMax = 1_000_000

// check verifies a small store outside the measured time.
func (e *env) check(sys system.System, name string, elements int) error {
	if elements > verifyMax {
		return nil
	}
	return sys.Verify(name, elements)
}
