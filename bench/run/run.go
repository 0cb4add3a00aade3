package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bigset/bench/load"
	"bigset/bench/probe"
	"bigset/bench/result"
	"bigset/bench/spec"
	"bigset/bench/system"
	"bigset/compaction"
)

// Options say how a workload is run. The zero value is the default run.
type Options struct {
	// Seed determines elements and choices; runs with equal seeds do equal operations. 0 means the file's seed, or 1 if it has none.
	Seed uint64
	// Full runs the full sizes. Sizes replace those of the file; nil keeps them.
	Full  bool
	Sizes []int
	// Rounds is how often everything is repeated; 0 means 3, with Full 5 (3 from 10 million elements on).
	Rounds int
	// Duration replaces the durations of phases; 0 keeps them.
	Duration time.Duration
	// Strategy is the run's strategy, which the files call run; "" means default. Strategies replace those of the file; nil keeps them.
	Strategy   string
	Strategies []string
	// Extra are strategies other than the ready ones. Strategy and Strategies may name them.
	Extra []compaction.Strategy
	// Systems replace those of the file; nil keeps them.
	Systems []spec.System
	// MemTableBytes and CacheBytes are those of stores for which the file sets none; 0 means 64 MiB.
	MemTableBytes int
	CacheBytes    int64
	// Sync makes writes durable unless the file decides this itself.
	Sync bool
	// Dir is where the temporary folder is made, which is always removed; "" means the system's default place, or the current folder if
	// that place is not on a disk.
	Dir string
	// Observer observes the run; nil means none.
	Observer Observer
	// Progress receives a line when something begins; nil means none are written.
	Progress func(string)
	// Unfinished contains the finished rounds of an earlier run with equal options: the run continues after them. Nil begins with the first
	// round. Keep is called after each round but the last, with all finished rounds; an error that it returns ends the run. Nil keeps
	// nothing.
	Unfinished *result.Unfinished
	Keep       func(*result.Unfinished) error

	wrap func(system.System) system.System // wraps the measured system in tests
}

// ErrOptions is returned for Options that don't fit the workload.
var ErrOptions = errors.New("run: bad options")

// ErrEmpty is in the chain of the error of a run in which no element was left for an operation.
var ErrEmpty = load.ErrEmpty

// ErrWrong is in the chain of errors about a system that gave a wrong answer, or did the wrong operations.
var ErrWrong = system.ErrWrong

// SeedOf returns the seed of a workload's run.
func (o Options) SeedOf(w *spec.Workload) uint64 { return cmp.Or(o.Seed, w.Seed, 1) }

// Check returns an error with ErrOptions in its chain if the options don't fit a workload. Run checks the same.
func Check(w *spec.Workload, o Options) error { return o.withDefaults(w).validate(w) }

func (o Options) withDefaults(w *spec.Workload) Options {
	o.Seed = o.SeedOf(w)
	if o.Sizes == nil {
		o.Sizes = w.Small
		if o.Full {
			o.Sizes = w.Full
		}
	}
	if o.Strategy == "" {
		o.Strategy = compaction.Default().Name()
	}
	if o.Strategies == nil {
		o.Strategies = w.Strategies
	}
	if o.Systems == nil {
		o.Systems = w.Systems
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 64 << 20
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Observer == nil {
		o.Observer = Nobody{}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

func (o Options) validate(w *spec.Workload) error {
	for i, n := range o.Sizes {
		switch {
		case n < 1 || n > sizeMax:
			return fmt.Errorf("%w: %d elements: a size must be 1 to %d", ErrOptions, n, sizeMax)
		case slices.Contains(o.Sizes[:i], n):
			return fmt.Errorf("%w: %d elements twice: each size runs once", ErrOptions, n)
		}
	}
	switch {
	case o.Rounds < 0 || o.Rounds > roundsMax:
		return fmt.Errorf("%w: %d rounds: there must be 1 to %d", ErrOptions, o.Rounds, roundsMax)
	case o.Duration < 0:
		return fmt.Errorf("%w: a duration of %v: it must be above 0", ErrOptions, o.Duration)
	case o.MemTableBytes < 64<<10 || o.CacheBytes < 0:
		return fmt.Errorf("%w: a memtable of %d bytes and a block cache of %d: the least are 64 KiB and 0", ErrOptions, o.MemTableBytes, o.CacheBytes)
	}
	for _, name := range append(slices.Clone(o.Strategies), o.Strategy) {
		if name == "" {
			continue
		}
		s, err := o.strategyNamed(name)
		if err == nil && w.Store.Record != "" {
			err = s.WorksOn(recordNamed(w.Store.Record))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	for _, s := range o.Systems {
		if s != spec.Bigset && s != spec.Pebble && s != spec.Blob {
			return fmt.Errorf("%w: unknown system %q, want bigset, pebble or blob", ErrOptions, s)
		}
		if what := onlyBigset(w); s != spec.Bigset && what != "" {
			return fmt.Errorf("%w: %s has %s, which only the system bigset knows: leave %s out", ErrOptions, w.Name, what, s)
		}
	}
	return nil
}

const (
	sizeMax   = 1 << 30
	roundsMax = 1000
)

// onlyBigset returns what in a workload only the engine can do, or "".
func onlyBigset(w *spec.Workload) string {
	for _, p := range w.Phases {
		for _, r := range p.Roles {
			if r.Context == spec.Wide {
				return "wide contexts"
			}
			if i := slices.IndexFunc(r.Mix, func(s spec.Share) bool { return s.Kind.OnlyBigset() }); i >= 0 {
				return "operations of the kind " + string(r.Mix[i].Kind)
			}
		}
	}
	return ""
}

// recordNamed returns the kind of record with a name.
func recordNamed(name string) compaction.Record {
	if name == compaction.Set.String() {
		return compaction.Set
	}
	return compaction.Merge
}

// strategyNamed returns the strategy with a name: one of the caller's, or a ready one.
func (o Options) strategyNamed(name string) (compaction.Strategy, error) {
	for _, s := range o.Extra {
		if s.Name() == name {
			return s, nil
		}
	}
	return compaction.ByName(name)
}

// Rounds returns how often a size is repeated in a run that was asked for a number of rounds; 0 means that it was not asked.
func Rounds(asked int, full bool, size int) int {
	switch {
	case asked > 0:
		return asked
	case full && size < 10_000_000:
		return 5
	}
	return 3
}

// contender is a system in the run: bigset has a strategy.
type contender struct {
	system   spec.System
	strategy string
}

func (c contender) String() string { return strings.TrimSpace(string(c.system) + " " + c.strategy) }

// contenders returns the systems in the run without duplicates.
func (o Options) contenders() (list []contender) {
	add := func(c contender) {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	for _, s := range o.Systems {
		if s != spec.Bigset {
			add(contender{system: s})
			continue
		}
		for _, strategy := range o.Strategies {
			add(contender{s, cmp.Or(strategy, o.Strategy)})
		}
	}
	return list
}

// Run runs a workload and returns its rows, each with the figures of its rounds. If it ends early, because ctx is done or something failed,
// it returns the error and the rows of what was finished: complete rounds and, of the incomplete one, complete phases. Its folder is always
// removed, and no goroutine of its own is left.
func Run(ctx context.Context, w *spec.Workload, o Options) (_ []result.Row, err error) {
	o = o.withDefaults(w)
	if err := o.validate(w); err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp(probe.Place(o.Dir), "bigset-bench-")
	if err != nil {
		return nil, fmt.Errorf("run: temporary folder: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(root); e != nil {
			err = errors.Join(err, fmt.Errorf("run: %w", e))
		}
	}()
	r := &runner{ctx: ctx, w: w, o: o, root: root, hashes: map[string]string{}}
	err = r.all()
	return r.rows.Rows(), err
}

// runner runs rounds.
type runner struct {
	ctx    context.Context
	w      *spec.Workload
	o      Options
	root   string
	stores int // folders made
	rows   result.Collector
	hashes map[string]string // of the operations of rows, whatever the system and the round, also of rounds of an earlier run
}

// all runs all rounds of all sizes.
func (r *runner) all() error {
	if u := r.o.Unfinished; u != nil {
		if u.Workload != r.w.Name {
			return fmt.Errorf("%w: rounds of %s to go on with", ErrOptions, u.Workload)
		}
		var err error
		if r.rows, err = u.Collect(); err != nil {
			return err
		}
		for i := range u.Rows {
			if err := r.sameOps(&u.Rows[i]); err != nil {
				return fmt.Errorf("run: the rounds to continue from: %w", err)
			}
		}
	}
	done, total := 0, 0
	for _, size := range r.o.Sizes {
		done += r.finished(size)
		total += max(r.finished(size), Rounds(r.o.Rounds, r.o.Full, size))
	}
	for _, size := range r.o.Sizes {
		for round := r.finished(size); round < Rounds(r.o.Rounds, r.o.Full, size); round++ {
			done++
			if err := r.round(size, round); err != nil {
				return fmt.Errorf("run: %s, %d elements, round %d: %w", r.w.Name, size, round+1, err)
			}
			if done == total || r.o.Keep == nil {
				continue
			}
			u, err := r.rows.Unfinished(r.w.Name, done)
			if err != nil {
				return err
			}
			if err := r.o.Keep(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// finished returns how many rounds of a size an earlier run has finished.
func (r *runner) finished(size int) (most int) {
	if r.o.Unfinished == nil {
		return 0
	}
	for _, c := range r.o.contenders() {
		if r.repeats(c, size) {
			continue
		}
		for _, row := range r.o.Unfinished.Rows {
			if row.System == string(c.system) && row.Strategy == c.strategy && row.Elements == r.size(c, size) {
				most = max(most, len(row.Rounds))
			}
		}
	}
	return most
}

// round makes all systems run the phases, in an order that changes from round to round: each comes first and last in turn.
func (r *runner) round(size, round int) error {
	order := r.o.contenders()
	if round%2 == 1 {
		slices.Reverse(order)
	}
	shift := round / 2 % len(order)
	for _, c := range append(order[shift:], order[:shift]...) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.repeats(c, size) {
			continue
		}
		at := At{Workload: r.w.Name, System: string(c.system), Strategy: c.strategy, Size: r.size(c, size), Round: round, Rounds: Rounds(r.o.Rounds, r.o.Full, size)}
		r.o.Progress(fmt.Sprintf("%s, %d elements, round %d of %d: %s", r.w.Name, at.Size, round+1, at.Rounds, c))
		if err := newStage(r, c, at).run(); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// size returns how many elements a system uses when the others use n.
func (r *runner) size(c contender, n int) int {
	most := r.w.BlobSmall
	if r.o.Full {
		most = r.w.BlobFull
	}
	if c.system != spec.Blob || most == 0 {
		return n
	}
	return min(n, most)
}

// repeats reports whether a system has already run with the size that it uses for this one.
func (r *runner) repeats(c contender, size int) bool {
	for _, earlier := range r.o.Sizes {
		if earlier == size {
			return false
		}
		if r.size(c, earlier) == r.size(c, size) {
			return true
		}
	}
	return false
}

// folder returns a new folder for a store.
func (r *runner) folder() string {
	r.stores++
	return filepath.Join(r.root, strconv.Itoa(r.stores))
}

// sameOps compares the hash of a row's operations with that of other systems and rounds.
func (r *runner) sameOps(row *result.Row) error {
	if row.StreamHash == "" {
		return nil
	}
	key := row.Workload + " " + strconv.Itoa(row.Elements)
	if had, ok := r.hashes[key]; ok && had != row.StreamHash {
		where := "in another round or on another system"
		if r.o.Unfinished != nil {
			where += ", or in the rounds that this run goes on from, which then belong to another run"
		}
		return fmt.Errorf("%w: %s did other operations: their hash is %s, and was %s %s", ErrWrong, row.Workload, row.StreamHash, had, where)
	}
	r.hashes[key] = row.StreamHash
	return nil
}
