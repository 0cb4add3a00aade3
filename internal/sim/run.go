package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"bigset/convergence"
)

// Kinds are the kinds of faults that a report counts, in the order in which it shows them.
var Kinds = []string{"loss", "duplicate", "delay", "reorder", "partition", "crash", "crash-unsynced", "io-error", "disk-full", "copy",
	"copy-crash", "compaction", "rewrite", "stream-failover", "skew"}

// Options say how much is simulated. Zero is the default.
type Options struct {
	Seed      uint64        // of the first schedule
	Schedules int           // how many; 0 is 11,200, or no limit with Duration
	Duration  time.Duration // 0 is no limit
	Replicas  int           // of each schedule, 3 to 7; 0 is a mixture
	// Progress is told a few times a second; it may read the report until it returns.
	Progress func(*Report)
}

// ErrOptions says that options can't be.
var ErrOptions = errors.New("sim: bad options")

// Report is what schedules did and found.
type Report struct {
	Schedules  int            `json:"schedules"`
	Operations int            `json:"operations"` // at replicas: of clients, and messages of other replicas that were applied
	Faults     map[string]int `json:"faults"`     // by kind
	Checks     int            `json:"checks"`     // states of replicas, and reads, that were judged
	Violations int            `json:"violations"`

	Failure *convergence.Failure `json:"-"` // the violation, shrunk
}

func newReport() *Report {
	r := &Report{Faults: map[string]int{}}
	for _, k := range Kinds {
		r.Faults[k] = 0
	}
	return r
}

// Failed reports whether something was violated.
func (r *Report) Failed() bool { return r.Violations > 0 }

const (
	schedulesDefault = 11_200
	engineEvery      = 11  // one schedule in so many has engines
	clusterEvery     = 56  // one schedule in so many is of a whole cluster
	portion          = 112 // schedules between two looks at the clock
	replicasLeast    = 3
	replicasMost     = 7
	steps            = 180 // of a schedule, at most about so many
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Schedules < 0 || o.Duration < 0:
		return o, fmt.Errorf("%w: schedules and seconds can't be negative", ErrOptions)
	case o.Replicas != 0 && (o.Replicas < replicasLeast || o.Replicas > replicasMost):
		return o, fmt.Errorf("%w: %d replicas; there are %d to %d", ErrOptions, o.Replicas, replicasLeast, replicasMost)
	case o.Schedules == 0 && o.Duration == 0:
		o.Schedules = schedulesDefault
	}
	return o, nil
}

// Run runs schedules, until one violates what was promised, or the options or ctx end it: of 112 there are 10 over engines, 2 of whole
// clusters, and the others are over the rules alone. A violation is no error: it is in the report, shrunk, but for one of a cluster:
// that has a script without steps, which its seed runs again.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	r := newReport()
	if o, err = o.withDefaults(); err != nil {
		return r, err
	}
	engines, done := Engines()
	defer func() { err = errors.Join(err, done()) }()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	for n := uint64(0); ctx.Err() == nil && !r.Failed() && (o.Schedules == 0 || r.Schedules < o.Schedules); n++ {
		size := portion
		if o.Schedules > 0 {
			size = min(size, o.Schedules-r.Schedules)
		}
		some, whole := max(1, size/engineEvery), size/clusterEvery
		k := convergence.Options{Seed: o.Seed<<20 + n, Replicas: o.Replicas, Steps: steps}
		if k.Replicas == 0 {
			k.Replicas = []int{3, 3, 4, 5, 3, 7, 4, 6}[n%8]
		}
		if err := r.explore(ctx, engines, k, some, o.Progress); err != nil || r.Failed() {
			return r, err
		}
		if err := r.explore(ctx, Rules(), k, size-some-whole, o.Progress); err != nil || r.Failed() {
			return r, err
		}
		if err := r.clusters(ctx, k.Seed*clusterEvery, o.Replicas, whole); err != nil {
			return r, err
		}
	}
	return r, nil
}

// clusters runs schedules of whole clusters, from a seed on, and adds what they did.
func (r *Report) clusters(ctx context.Context, seed uint64, replicas, schedules int) error {
	for end := seed + uint64(schedules); seed != end && ctx.Err() == nil; seed++ {
		n := clusterSize(seed, replicas)
		v, err := runCluster(seed, n, r, map[string]int{})
		if err != nil {
			return err
		}
		if v != nil {
			r.Violations = 1
			r.Failure = &convergence.Failure{Violation: v, Script: &convergence.Script{System: clusterName, Seed: seed, Replicas: n}}
			return nil
		}
	}
	return nil
}

// explore runs schedules of one system of the kit and adds what they did.
func (r *Report) explore(ctx context.Context, sys convergence.System, o convergence.Options, schedules int, tell func(*Report)) error {
	if schedules == 0 {
		return nil
	}
	o.Schedules = schedules
	before := *r
	before.Faults = maps.Clone(r.Faults)
	show := func(k *convergence.Report) {
		*r = Report{before.Schedules + k.Schedules, before.Operations + k.Operations + k.Deliveries, maps.Clone(before.Faults), before.Checks + k.Checks, 0, k.Failure}
		for kind := range r.Faults {
			r.Faults[kind] += k.Faults[kind]
		}
		if k.Failure != nil {
			r.Violations = 1
		}
	}
	if tell != nil {
		o.Progress = func(k *convergence.Report) {
			show(k)
			tell(r)
		}
	}
	k, err := convergence.Explore(ctx, sys, o)
	show(k)
	return err
}

// Replay runs the schedule of a file that holds a violation. It returns nil when nothing is violated, with the script and what each
// step did. What can't be read is an error that wraps convergence.ErrScript.
func Replay(in io.Reader) (_ *convergence.Violation, _ *convergence.Script, err error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, nil, err
	}
	s, err := convergence.ReadScript(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	if s.System == clusterName {
		v, err := replayCluster(s)
		return v, s, err
	}
	sys := Rules()
	if s.System != sys.Name {
		var done func() error
		sys, done = Engines()
		defer func() { err = errors.Join(err, done()) }()
	}
	return convergence.Replay(sys, bytes.NewReader(text))
}

// replayCluster runs the schedule of a whole cluster again.
func replayCluster(s *convergence.Script) (*convergence.Violation, error) {
	switch {
	case s.Replicas < replicasLeast || s.Replicas > replicasMost:
		return nil, fmt.Errorf("%w: %d replicas; a cluster has %d to %d", convergence.ErrScript, s.Replicas, replicasLeast, replicasMost)
	case len(s.Steps) > 0:
		return nil, fmt.Errorf("%w: a cluster takes no steps: its schedule follows from its seed", convergence.ErrScript)
	}
	return runCluster(s.Seed, s.Replicas, newReport(), map[string]int{})
}
