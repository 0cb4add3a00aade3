package run

import (
	"sync/atomic"
	"time"

	"bigset/bench/load"
	"bigset/bench/result"
	"bigset/bench/sample"
	"bigset/bench/system"
)

// Observer observes a run. Its methods are called one at a time by the goroutine that runs the phases, outside the measured time: they make
// the run longer but no figure worse. Embed Nobody for methods that you don't need.
type Observer interface {
	// Opened is called for each store after it was opened, with what the groups of its clients have done so far in the round. Closing is
	// called before the store is closed: the store must not be used after Closing has returned. Both are also called for stores that are
	// opened for a moment between phases.
	Opened(At, system.System, []*sample.Latencies)
	Closing(system.System)
	// PhaseBegan is called before the first operation of a phase, and PhaseEnded after its last, with the rows of this round; a phase that
	// is not measured has none. After PhaseEnded the Roles of the phase stay unchanged until the next one begins. For a phase that fails,
	// PhaseEnded is not called.
	PhaseBegan(*Phase)
	PhaseEnded(*Phase, []result.Row)
	// StepBegan is called when something begins that is not a phase's operations, which can take long: a step before a phase, or what a
	// phase does after its operations. The text is for people, such as "main: settling". It must return at once, because some steps are
	// part of the measured time.
	StepBegan(text string)
}

// Nobody is an Observer that does nothing.
type Nobody struct{}

// Opened implements Observer.
func (Nobody) Opened(At, system.System, []*sample.Latencies) {}

// Closing implements Observer.
func (Nobody) Closing(system.System) {}

// PhaseBegan implements Observer.
func (Nobody) PhaseBegan(*Phase) {}

// PhaseEnded implements Observer.
func (Nobody) PhaseEnded(*Phase, []result.Row) {}

// StepBegan implements Observer.
func (Nobody) StepBegan(string) {}

// At is the current position in a run.
type At struct {
	Workload         string
	System, Strategy string // the strategy is "" for systems without one
	Size             int    // elements of all sets together, for this system
	Round, Rounds    int    // from 0
}

// Phase is a running phase.
type Phase struct {
	At
	Name     string
	Row      string // the name of its row
	Measured bool
	Ops      int           // of all clients together; 0 if the phase ends by time or has none
	Duration time.Duration // 0 if it ends by operations or has none
	Roles    []load.Role   // one for each role, in the order of the file

	epoch time.Time    // when the phase was made
	began atomic.Int64 // how long after that it began; 0 means not yet
}

// Progress returns how much of the phase is done, and of how much: operations or seconds. Of is 0 if the phase has no operations. Any
// goroutine may call it.
func (p *Phase) Progress() (done, of float64) {
	if p.Duration > 0 {
		began := p.began.Load()
		if began == 0 { // it was announced, but has not begun
			return 0, p.Duration.Seconds()
		}
		return min(time.Since(p.epoch)-time.Duration(began), p.Duration).Seconds(), p.Duration.Seconds()
	}
	for _, role := range p.Roles {
		if !role.Probe {
			ops, _ := role.Ops()
			done += float64(ops)
		}
	}
	return min(done, float64(p.Ops)), float64(p.Ops)
}
