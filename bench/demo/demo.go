package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"bigset/bench"
	"bigset/internal/sim"
)

// Config configures Run.
type Config struct {
	Seed  uint64  // of the race's operations and the drill's schedules
	Scale float64 // of all work, as a share of the default, which takes about a minute on two cores; 0 means 1
	Dir   string  // where the temporary folder is made; "" means the system's default place. The folder is always removed
	// Show is called with the state a few times a second, by one goroutine at a time. It may keep the state, but must not change it, and
	// should not block. Nil means no calls.
	Show func(State)

	race     func(context.Context, bench.RaceConfig) ([]bench.Leg, error) // bench.Race; tests plant bugs in it
	simulate func(context.Context, sim.Options) (*sim.Report, error)      // likewise sim.Run
	tick     time.Duration                                                // 0 means the race's default
	limit    time.Duration                                                // 0 means limitUsual, multiplied by the scale if that is above 1
}

// limitUsual bounds the time of a demonstration, which takes about a minute.
const limitUsual = 10 * time.Minute

// The least and the greatest scale.
const (
	ScaleMin = 0.001
	ScaleMax = 100
)

// ErrConfig is returned for a Config that can't be run.
var ErrConfig = errors.New("demo: bad configuration")

// ErrTime is returned for a demonstration that did not finish within ten minutes, times the scale if that is above 1.
var ErrTime = errors.New("demo: out of time")

// State is what is shown while Run works.
type State struct {
	Elapsed time.Duration
	Leg     *bench.Leg // of the race: the leg that runs or has just ended; nil before and after the race
	Drill   *Drill     // nil before the drill
	Note    string     // that the demonstration takes long, and what to do about it; "" if it does not
}

// Result is the result of Run.
type Result struct {
	Pass        bool     `json:"pass"`        // race and drill were completed, and no promise was broken
	Interrupted bool     `json:"interrupted"` // it was interrupted; the result contains what was done until then
	Problems    []string `json:"problems,omitempty"`
	Seed        uint64   `json:"seed"` // repeats the run
	Scale       float64  `json:"scale"`
	Seconds     float64  `json:"seconds"`

	Machine bench.Machine `json:"machine"`
	Race    []bench.Leg   `json:"race"`
	Table   []Figure      `json:"table"`
	Drill   *Drill        `json:"drill,omitempty"` // nil if not begun
	Report  string        `json:"report,omitempty"`
}

// Run runs the race, then the drill, and judges. It ends with ErrTime if that takes more than ten times as long as usual. If anything other than a broken promise or ctx ends it, Run returns an error beside what
// was done until then.
func Run(ctx context.Context, c Config) (*Result, error) {
	if c.Scale == 0 {
		c.Scale = 1
	}
	if !(c.Scale >= ScaleMin && c.Scale <= ScaleMax) {
		return nil, fmt.Errorf("%w: a scale of %v: it must be %v to %v", ErrConfig, c.Scale, ScaleMin, ScaleMax)
	}
	if c.Show == nil {
		c.Show = func(State) {}
	}
	if c.race == nil {
		c.race = bench.Race
	}
	if c.simulate == nil {
		c.simulate = sim.Run
	}
	if c.limit == 0 {
		c.limit = time.Duration(float64(limitUsual) * max(1, c.Scale))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("%w: it had not finished after %v", ErrTime, c.limit))
	defer cancel()
	began := time.Now()
	r := &Result{Seed: c.Seed, Scale: c.Scale, Machine: bench.ThisMachine()}
	p := &pace{scale: c.Scale}
	race := bench.RaceConfig{Seed: c.Seed, Scale: c.Scale, Dir: c.Dir, Tick: c.tick,
		Show: func(l bench.Leg) {
			passed := time.Since(began)
			c.Show(State{Elapsed: passed, Leg: &l, Note: p.note(&l, passed)})
		}}
	var err error
	r.Race, err = c.race(ctx, race)
	if errors.Is(err, bench.ErrWrong) { // the drill may show why
		r.Problems, err = append(r.Problems, err.Error()), nil
	}
	if err == nil {
		r.Drill, err = drill(ctx, c, func(d *Drill) { c.Show(State{Elapsed: time.Since(began), Drill: d, Note: p.text}) })
	}
	for i := range r.Race {
		r.Table = append(r.Table, figures(&r.Race[i])...)
	}
	r.judge()
	r.Seconds = math.Round(time.Since(began).Seconds()*10) / 10
	if ctx.Err() == nil || r.Pass {
		return r, err
	}
	if left := (*fs.PathError)(nil); !errors.As(err, &left) { // unless the folder could not be removed
		err = nil
	}
	if late := context.Cause(ctx); errors.Is(late, ErrTime) {
		return r, errors.Join(late, err)
	}
	r.Interrupted = true
	return r, err
}

// judge decides whether the run has passed.
func (r *Result) judge() {
	if d := r.Drill; d != nil && d.Violation != "" {
		r.Problems = append(r.Problems, d.Violation)
	}
	finished := len(r.Race) > 0 && r.Drill != nil && r.Drill.Finished
	for _, l := range r.Race {
		finished = finished && l.Finished
	}
	r.Pass = finished && len(r.Problems) == 0 && r.Drill.broken() == 0
}

// Failed reports whether a promise was broken. An interrupt does not change that.
func (r *Result) Failed() bool { return len(r.Problems) > 0 || r.Drill != nil && r.Drill.broken() > 0 }
