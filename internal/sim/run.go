package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"bigset/convergence"
)

// Options say how much is simulated. Zero is the default.
type Options struct {
	Seed      uint64        // of the first schedule
	Schedules int           // how many; 0 is 11,000, or no limit with Duration
	Duration  time.Duration // 0 is no limit
	Replicas  int           // of each schedule, 3 to 7; 0 is a mixture
	// Stores runs no schedules with the rules alone: of 14 schedules, 10 run on engines and 4 on whole clusters.
	Stores bool
	// ShrinkRuns limits how many runs it takes to shorten a schedule that violates something; 0 is a few thousand, which may take
	// minutes.
	ShrinkRuns int
	// Progress is called a few times a second; it may read the report until it returns.
	Progress func(*Report)
}

// ErrOptions is returned for options that are not valid.
var ErrOptions = errors.New("sim: bad options")

const (
	schedulesDefault = 11_000
	storesDefault    = 1_400
	replicasLeast    = 3
	replicasMost     = 7
	steps            = 180 // of a schedule, at most about this many
	engineReplays    = 10  // of a schedule that failed: an engine has goroutines of its own
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Schedules < 0 || o.Duration < 0 || o.ShrinkRuns < 0:
		return o, fmt.Errorf("%w: schedules, seconds and runs can't be negative", ErrOptions)
	case o.Replicas != 0 && (o.Replicas < replicasLeast || o.Replicas > replicasMost):
		return o, fmt.Errorf("%w: %d replicas, want %d to %d", ErrOptions, o.Replicas, replicasLeast, replicasMost)
	case o.Schedules == 0 && o.Duration == 0:
		o.Schedules = schedulesDefault
		if o.Stores {
			o.Schedules = storesDefault
		}
	}
	return o, nil
}

// source is where the schedules of one kind come from: a sequence of batches that depends only on the seed of the run.
type source struct {
	kind      string
	share     float64 // of the time, if no number of schedules is given
	schedules int     // left to run
	batch     int     // schedules in one
	batches   uint64  // so far
	run       func(ctx context.Context, batch uint64, schedules int) error
}

// mixture is how many schedules of each kind run if a number of schedules is given, in proportion: about half of the time goes to
// rules.
var mixture = map[string]int{kindRules: 100, kindEngines: 5, kindClusters: 3, kindMembers: 2}

// Run runs schedules until one violates what was promised, or the options or ctx end it. If a number of schedules is given, it is
// divided among the kinds: of 110, rounded up, 5 run on engines, 3 on whole clusters, 2 on members of clusters, and the others
// run on the rules alone. Without a number each kind gets its share of the time: the rules get half. The n-th schedule of a kind
// follows from the seed, however many schedules of other kinds run. If a number of replicas is given, no schedules of members run.
// A violation is not an error: it is in the report, shrunk.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	r = newReport()
	if o, err = o.withDefaults(); err != nil {
		return r, err
	}
	r.Seed = o.Seed
	engines, done := Engines()
	defer func() { err = errors.Join(err, done()) }()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	began := time.Now()
	list := r.sources(o, engines)
	for ctx.Err() == nil && !r.Failed() {
		s := r.next(list)
		if s == nil {
			break
		}
		size, at := min(s.batch, s.schedules), time.Now()
		before := r.Schedules
		err = s.run(ctx, s.batches, size)
		s.batches++
		s.schedules -= size
		r.ran(s.kind, r.Schedules-before, time.Since(at))
		r.Seconds = time.Since(began).Seconds()
		if err != nil {
			break
		}
		if o.Progress != nil {
			o.Progress(r)
		}
	}
	r.judge()
	return r, err
}

// next returns the source whose turn it is: the one that is furthest below its share, of the schedules or of the time. It returns
// nil if no source is left.
func (r *Report) next(list []*source) (best *source) {
	least := math.Inf(1)
	for _, s := range list {
		done := r.Kinds[s.kind].Seconds / s.share
		if s.schedules < math.MaxInt/2 {
			done = float64(r.Of(s.kind)) / float64(r.Of(s.kind)+s.schedules)
		}
		if s.schedules > 0 && done < least {
			best, least = s, done
		}
	}
	return best
}

// sources returns the sources of a run's schedules.
func (r *Report) sources(o Options, engines convergence.System) []*source {
	explore := func(sys convergence.System, kind, replays int) func(context.Context, uint64, int) error {
		return func(ctx context.Context, batch uint64, schedules int) error {
			k := convergence.Options{Seed: o.seed(kind, batch), Replicas: o.Replicas, Steps: steps, ShrinkRuns: o.ShrinkRuns, Schedules: schedules, Replays: replays, Workers: 1}
			if k.Replicas == 0 {
				k.Replicas = []int{3, 3, 4, 5, 3, 7, 4, 6}[batch%8]
			}
			found, err := convergence.Explore(ctx, sys, k)
			if err == nil {
				r.add(found)
			}
			return err
		}
	}
	play := func(kind int, draw func(seed uint64) *script) func(context.Context, uint64, int) error {
		return func(ctx context.Context, batch uint64, _ int) error { return r.play(ctx, draw(o.seed(kind, batch)), o) }
	}
	cluster := func(seed uint64) *script { return drawScript(seed, clusterSize(seed, o.Replicas)) }
	list := []*source{
		{kind: kindEngines, share: 0.2, batch: 5, run: explore(engines, 1, engineReplays)},
		{kind: kindClusters, share: 0.1, batch: 1, run: play(2, cluster)},
		{kind: kindMembers, share: 0.2, batch: 1, run: play(3, drawMembers)},
		{kind: kindRules, share: 0.5, batch: 50, run: explore(Rules(), 0, 0)},
	}
	return o.split(list)
}

// seed returns the seed of a batch of a kind.
func (o Options) seed(kind int, batch uint64) uint64 {
	return o.Seed<<24 | uint64(kind)<<22 | batch&(1<<22-1)
}

// split returns the sources that have schedules, and sets how many.
func (o Options) split(list []*source) []*source {
	of := mixture
	switch {
	case o.Stores:
		of = map[string]int{kindEngines: 10, kindClusters: 4}
	case o.Replicas > 0:
		of = map[string]int{kindRules: 100, kindEngines: 5, kindClusters: 5}
	}
	list = slices.DeleteFunc(list, func(s *source) bool { return of[s.kind] == 0 })
	sum, left := 0, o.Schedules
	for _, s := range list {
		sum += of[s.kind]
	}
	for i, s := range list {
		if s.schedules = math.MaxInt; o.Schedules > 0 {
			if s.schedules = left; i < len(list)-1 {
				s.schedules = min(left, (o.Schedules*of[s.kind]+sum-1)/sum)
			}
			left -= s.schedules
		}
	}
	return list
}

// play runs the schedule of a cluster, and adds what it did.
func (r *Report) play(ctx context.Context, s *script, o Options) error {
	v, err := runScript(s, r)
	if err != nil || v == nil {
		return err
	}
	r.Violations = 1
	r.Failure, err = explainCluster(ctx, s, v, o.ShrinkRuns)
	return err
}
