package sim

import (
	"context"
	"errors"
	"fmt"
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
	Schedules int           // how many; 0 is 44,000, or no limit with Duration
	Duration  time.Duration // 0 is no limit
	Replicas  int           // of each schedule, 3 to 7; 0 is a mixture
	// Stores runs no schedules over the rules alone: of 14 there are 10 over engines and 4 of whole clusters.
	Stores bool
	// ShrinkRuns limits how many runs it takes to shorten a schedule that violates something; 0 is some thousand, which may take minutes.
	ShrinkRuns int
	// Progress is told a few times a second; it may read the report until it returns.
	Progress func(*Report)
}

// ErrOptions says that options can't be.
var ErrOptions = errors.New("sim: bad options")

// Report is what schedules did and found.
type Report struct {
	Schedules int `json:"schedules"`
	Engines   int `json:"schedules_of_engines"`  // of Schedules, those over real engines
	Clusters  int `json:"schedules_of_clusters"` // and those of whole clusters; the others are over the rules alone
	// Operations are those of clients: elements added and removed, sets deleted; in clusters also sets read and elements looked up. A
	// batch of two counts twice, a retry not at all, and nothing that goes between replicas.
	Operations int            `json:"operations"`
	Faults     map[string]int `json:"faults"` // by kind, those that had an effect
	Checks     int            `json:"checks"` // states of replicas, and reads, that were judged
	Violations int            `json:"violations"`

	Failure *Failure `json:"-"` // the violation, shrunk
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
	schedulesDefault = 44_000
	storesDefault    = schedulesDefault / portion * portionStores
	engineEvery      = 44                                         // one schedule in so many has engines
	clusterEvery     = 110                                        // one schedule in so many is of a whole cluster, by turns without epochs and with them
	portion          = 440                                        // schedules between two looks at the clock
	portionStores    = portion/engineEvery + portion/clusterEvery // of them those that are not over the rules alone
	replicasLeast    = 3
	replicasMost     = 7
	steps            = 180 // of a schedule, at most about so many
	engineReplays    = 10  // of one that failed: an engine has goroutines of its own
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Schedules < 0 || o.Duration < 0 || o.ShrinkRuns < 0:
		return o, fmt.Errorf("%w: schedules, seconds and runs can't be negative", ErrOptions)
	case o.Replicas != 0 && (o.Replicas < replicasLeast || o.Replicas > replicasMost):
		return o, fmt.Errorf("%w: %d replicas; there are %d to %d", ErrOptions, o.Replicas, replicasLeast, replicasMost)
	case o.Schedules == 0 && o.Duration == 0:
		o.Schedules = schedulesDefault
		if o.Stores {
			o.Schedules = storesDefault
		}
	}
	return o, nil
}

// Run runs schedules, until one violates what was promised, or the options or ctx end it: of 440 there are 10 over engines, 4 of whole
// clusters, two of them with epochs unless a number of replicas is given, and the others are over the rules alone. A violation is no error: it is in the report, shrunk.
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
		some, rules, whole := o.portion(r.Schedules)
		k := convergence.Options{Seed: o.Seed<<20 + n, Replicas: o.Replicas, Steps: steps, ShrinkRuns: o.ShrinkRuns}
		if k.Replicas == 0 {
			k.Replicas = []int{3, 3, 4, 5, 3, 7, 4, 6}[n%8]
		}
		k.Replays = engineReplays
		if err := r.explore(ctx, engines, k, some, o.Progress); err != nil || r.Failed() {
			return r, err
		}
		k.Replays = 0
		if err := r.explore(ctx, Rules(), k, rules, o.Progress); err != nil || r.Failed() {
			return r, err
		}
		if err := r.clusters(ctx, k.Seed*clusterEvery, whole, o); err != nil {
			return r, err
		}
	}
	return r, nil
}

// portion returns how many schedules over engines, over the rules alone, and of whole clusters come next, after so many.
func (o Options) portion(done int) (engines, rules, clusters int) {
	size := portion
	if o.Stores {
		size = portionStores
	}
	if o.Schedules > 0 {
		size = min(size, o.Schedules-done)
	}
	if o.Stores {
		engines = (size*(portion/engineEvery) + portionStores - 1) / portionStores
		return engines, 0, size - engines
	}
	engines, clusters = max(1, size/engineEvery), size/clusterEvery
	return engines, size - engines - clusters, clusters
}

// clusters runs schedules of whole clusters, from a seed on, and adds what they did.
func (r *Report) clusters(ctx context.Context, seed uint64, schedules int, o Options) error {
	for end := seed + uint64(schedules); seed != end && ctx.Err() == nil; seed++ {
		s := drawScript(seed, clusterSize(seed, o.Replicas))
		if o.Replicas == 0 && seed%2 == 1 {
			s = drawMembers(seed / 2)
		}
		v, err := runScript(s, r, map[string]int{})
		if err != nil {
			return err
		}
		if v != nil {
			r.Violations = 1
			r.Failure, err = explainCluster(ctx, s, v, o.ShrinkRuns)
			return err
		}
		if o.Progress != nil && o.Stores { // they take a good part of the time
			o.Progress(r)
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
		*r = before
		r.Schedules += k.Schedules
		if sys.Name == engineSystem {
			r.Engines += k.Schedules
		}
		r.Operations += k.Operations
		r.Checks += k.Checks
		r.Faults = maps.Clone(before.Faults)
		for kind := range r.Faults {
			r.Faults[kind] += effects(k, kind)
		}
		if k.Failure != nil {
			r.Violations = 1
			r.Failure = &Failure{Violation: k.Failure.Violation, Seed: k.Failure.Script.Seed, Script: k.Failure.Script.String(), text: k.Failure.String()}
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

// effects is how many faults of a kind the kit's schedules had, without those of which nobody noticed anything: nothing there reads a
// clock, and a disk may be well again before it is written to.
func effects(k *convergence.Report, kind string) int {
	switch kind {
	case "skew":
		return 0
	case "io-error", "disk-full":
		return k.Sometimes[effect+kind]
	}
	return k.Faults[kind]
}
