package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"bigset/bench/system"

	"bigset/compaction"
)

// RaceConfig configures Race.
type RaceConfig struct {
	Seed  uint64  // of elements and victims; equal seeds do equal operations
	Scale float64 // of the work, as a share of the default; 0 means 1
	Dir   string  // where the temporary folder is made, which is always removed; "" is as in Config
	// Tick is how often the stores are sampled; 0 means 250 ms.
	Tick time.Duration
	// Show is called with the current leg, after each sample and once when the leg ends. It is called by one goroutine at a time, may keep
	// its argument but must not change it, and should not block. Nil means no calls.
	Show func(Leg)

	quiet time.Duration // how long a store must be idle to count as at rest; 0 means churnRest
}

// Leg is one load of the race: its description, its progress, and the figures of each racer.
type Leg struct {
	Name     string `json:"name"`
	About    string `json:"about"`
	Elements int    `json:"elements"` // of the set; for the queue, those that pass through it

	Finished bool     `json:"finished"` // all was done, and both stores were verified afterwards
	Ops      uint64   `json:"ops"`      // adds and removes of each racer, including those that loaded the set
	Stream   string   `json:"stream"`   // hash of these operations: the same for both
	Racers   [2]Racer `json:"racers"`   // set-tombstones, point deletes

	// Phase is the current phase, of whose Of steps Done are done. Marks are the times at which phases began.
	Phase    string     `json:"-"`
	Done, Of int64      `json:"-"`
	Marks    []RaceMark `json:"-"`
}

// RaceMark is the time at which a phase began, since the beginning of the leg.
type RaceMark struct {
	At   time.Duration
	Text string
}

// Racer contains the figures of one way to delete in a leg. Sizes are in bytes. Loading the set of a leg does not count.
type Racer struct {
	Name     string `json:"name"`
	Strategy string `json:"strategy"`
	Record   string `json:"record"`

	// BytesWritten counts the bytes written to log and tables. Pebble counts a log that is being flushed twice, so the figure may fall in
	// the middle of a leg.
	BytesWritten uint64 `json:"bytes_written"`
	BytesBelow   uint64 `json:"bytes_below"` // those among them written to tables: by flushes, compactions and the rewriter
	// KeysDead counts element keys in tables that are not live. Deletes written over them are not counted.
	KeysDead    uint64 `json:"keys_dead"`
	KeysLive    uint64 `json:"keys_live"`
	BytesBefore uint64 `json:"bytes_before"` // of tables at the beginning of the leg
	BytesTables uint64 `json:"bytes_tables"` // of tables in use
	// SpaceBack is the share of the space of dead elements in tables that is free again; nil if not all dead elements had been in tables.
	SpaceBack *float64 `json:"space_back,omitempty"`

	Reads   int64   `json:"reads"`
	ReadP50 float64 `json:"read_p50_us"`
	ReadP99 float64 `json:"read_p99_us"`
	Seconds float64 `json:"seconds"` // duration of its operations, including reads

	Samples []RaceSample `json:"-"`
}

// RaceSample is the state of a racer at one moment of a leg.
type RaceSample struct {
	At           time.Duration // since the leg began
	BytesWritten uint64
	KeysDead     uint64
	BytesTables  uint64
	SpaceBack    float64 // NaN if unknown
	ReadP99      float64 // µs, of the reads since the last sample; NaN if there were none
}

// RacerNames are the names of the racers, in the order of Leg.Racers.
var RacerNames = [2]string{"set-tombstones", "point deletes"}

// raceStrategies are their strategies.
var raceStrategies = [2]compaction.Strategy{compaction.Default(), compaction.PointDeletes()}

// The default work.
const (
	raceSettled     = 1_800_000 // elements of the settled set, nine in ten of which die
	raceQueue       = 1_000_000 // elements that pass through the queue
	raceChurn       = 60_000    // elements of the set that is turned over
	raceLeast       = 2_000     // elements at any scale
	raceMemTableMin = 256 << 10
	raceTick        = 250 * time.Millisecond

	racePage       = 100 // elements of a read
	raceReads      = 10  // reads of each racer after a batch of removes
	raceQueueTurn  = 50  // adds in a turn
	raceQueueReads = 4   // turns between two reads of the head
	raceChurnReads = 4   // batches between two reads
)

// Race makes the engine delete by set-tombstones and by point deletes. Both do the same operations, in turns so short that changes of the
// machine affect both; the racer that begins changes from turn to turn. Three legs follow each other: a settled set most of whose elements
// die, a queue, and uniform churn. Race returns the legs that were begun, also together with an error. An error that wraps ErrWrong reports
// that a store was wrong.
func Race(ctx context.Context, c RaceConfig) (_ []Leg, err error) {
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Tick == 0 {
		c.Tick = raceTick
	}
	if c.quiet == 0 {
		c.quiet = system.RestQuiet
	}
	if c.Show == nil {
		c.Show = func(Leg) {}
	}
	root, err := os.MkdirTemp(place(c.Dir), "bigset-race-")
	if err != nil {
		return nil, fmt.Errorf("bench: temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	r := &race{conf: c, env: env{ctx: ctx, cfg: Config{Seed: c.Seed}.withDefaults(), root: root}}
	for _, run := range []func() error{r.settledSet, r.queue, r.churn} {
		if err := run(); err != nil {
			return r.legs, fmt.Errorf("bench: race: %w", err)
		}
	}
	return r.legs, nil
}

// race runs legs.
type race struct {
	env
	conf RaceConfig
	legs []Leg
}

// scaled returns a number of elements at the race's scale.
func (r *race) scaled(n int) int { return max(raceLeast, int(float64(n)*r.conf.Scale)) }

// memTable returns the size of a memtable that fills as often at this scale as one of usual bytes at scale 1.
func (r *race) memTable(usual int) int { return max(raceMemTableMin, int(float64(usual)*r.conf.Scale)) }

// settledSet: nine of ten elements of a set that has settled in the bottommost level are removed, in batches of 1,000, and pages are read
// from random places.
func (r *race) settledSet() error {
	n := r.scaled(raceSettled)
	r.elements = n
	victim, gone := system.Scatter(n, r.cfg.Seed), n-n/10
	return r.run(&leg{
		state:    Leg{Name: "settled", About: "a settled set, of which nine in ten die", Elements: n},
		memTable: r.memTable(16 << 20), load: n, bottom: true, left: n - gone,
		work: func(l *leg) error {
			return l.steps("removing", (gone+batchSize-1)/batchSize, func(i int, x *racing) error {
				b := x.batch.Reset()
				for k := i * batchSize; k < min(gone, (i+1)*batchSize); k++ {
					b.Add(r.names(), victim(k), x.dots[victim(k)])
				}
				if err := x.remove(b); err != nil {
					return err
				}
				for k := range raceReads {
					at := system.Mix(r.cfg.Seed<<32+uint64(i*raceReads+k)) % uint64(n)
					if err := x.page(r.names().Append(nil, int(at))); err != nil {
						return err
					}
				}
				return nil
			})
		},
	})
}

// queue: elements are added in ascending order, one at a time. A reader removes the first ones, so that none stays longer than a hundredth
// of the leg, and now and then reads the head.
func (r *race) queue() error {
	n := r.scaled(raceQueue)
	longest := max(queueTake, n/queueShare)
	return r.run(&leg{
		state:    Leg{Name: "queue", About: "a queue: added at the end, taken off at the head", Elements: n},
		memTable: r.memTable(64 << 20),
		work: func(l *leg) error {
			err := l.steps("adding and taking", (n+raceQueueTurn-1)/raceQueueTurn, func(i int, x *racing) error {
				for k := i * raceQueueTurn; k < min(n, (i+1)*raceQueueTurn); k++ {
					b := x.batch.Reset()
					b.Arena = system.InOrder(b.Arena, k)
					b.List, b.Dots = append(b.List, b.Arena), append(b.Dots, 0)
					if err := x.add(b); err != nil {
						return err
					}
					if x.length++; x.length >= longest {
						if err := x.take(longest / queueTake); err != nil {
							return err
						}
					}
				}
				if i%raceQueueReads == 0 {
					return x.page(nil)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return l.steps("taking the rest", (longest+batchSize-1)/batchSize, func(_ int, x *racing) error {
				return x.take(min(x.length, batchSize))
			})
		},
	})
}

// churn: every element of a set is replaced ten times over, with victims anywhere in it.
func (r *race) churn() error {
	n := r.scaled(raceChurn)
	r.elements = n
	plan := planChurn(n, 0, r.cfg.Seed)
	return r.run(&leg{
		state:    Leg{Name: "churn", About: "uniform churn: ten turnovers, victims anywhere", Elements: n},
		memTable: r.memTable(12 << 20), load: n, left: n,
		work: func(l *leg) error {
			return l.steps("replacing", len(plan.victims), func(i int, x *racing) error {
				gone, fresh := x.batch.Reset(), x.fresh.Reset()
				next := n + i*len(plan.victims[i])
				for k, v := range plan.victims[i] {
					gone.Add(r.names(), int(v), x.dots[v])
					fresh.Add(r.names(), next+k, 0)
				}
				if err := x.exchange(gone, fresh); err != nil {
					return err
				}
				x.dots = append(x.dots, fresh.Dots...)
				if i%raceChurnReads == 0 {
					return x.page(r.names().Append(nil, int(plan.victims[i][0])))
				}
				return nil
			})
		},
	})
}
