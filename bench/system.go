package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bigset/compaction"
)

// The names of the systems.
const (
	systemBigset = "bigset"
	systemPebble = "pebble"
	systemBlob   = "blob"
)

// allSystems are those that the plain workloads compare.
var allSystems = []string{systemBigset, systemPebble, systemBlob}

// system is one way to keep sets in a folder. One goroutine uses it; each set handle may have a goroutine of its own.
type system interface {
	// set returns a handle of a set, which is made by its first insert.
	set(name string) set
	// settle flushes what was written, waits until background work rests, and returns since when it has rested.
	settle(ctx context.Context) (time.Time, error)
	// usage returns what was written since the store was opened and what is there.
	usage() (usage, error)
	// verify proves the store right, as far as it can be asked to, and its set to hold that many elements.
	verify(name string, elements int) error
	// label fills in what a row says of the system.
	label(*Row)
	dir() string
	close() error
}

// set is a handle of one set. Slices passed in are not kept.
type set interface {
	// insert adds elements that are new, with an empty context, in one atomic batch. It notes the counters of their dots,
	// by which they are removed, in dots, unless that is nil.
	insert(elements [][]byte, dots []uint64) error
	// observe adds an element that may be present, in place of what is there. A system that does the same bytes by hand is
	// told the dot that is there, or 0.
	observe(element []byte, old uint64) error
	// remove removes elements that are present by those dots, in one atomic batch.
	remove(elements [][]byte, dots []uint64) error
	// contains looks an element up, with its context.
	contains(element []byte) (bool, error)
	// read reads elements in order with their contexts, all or as many as limit, and tells each of how many came at a time.
	read(limit int, each func(n int)) error
	// first runs a query until its first element is at hand, and reports whether there is one.
	first(q query) (bool, error)
}

// query asks for elements in order: a range, those with a prefix, or the first ones.
type query struct {
	from, to, prefix []byte
	limit            int
}

// usage is what a store has written since it was opened, and what it holds. Sizes are bytes.
type usage struct {
	wal, flush, compact, rewrite, read uint64
	tables                             uint64 // in use now

	counted    bool   // keys and live are known
	keys, live uint64 // element keys in tables, live dots
}

func (u usage) since(o usage) usage {
	u.wal -= o.wal
	u.flush -= o.flush
	u.compact -= o.compact
	u.rewrite -= o.rewrite
	u.read -= o.read
	return u
}

// openOptions say how a system is opened.
type openOptions struct {
	strategy string // of bigset; "" is the run's
	memTable int    // bytes; 0 is the run's
	sync     bool   // also where the run is not synced
	// record is the kind of record where it does not follow from the strategy.
	record compaction.Record
}

// fill replaces zeros by what the run says.
func (o openOptions) fill(c Config) (openOptions, error) {
	if o.strategy == "" {
		o.strategy = c.Strategy
	}
	if o.memTable == 0 {
		o.memTable = c.MemTableBytes
	}
	o.sync = o.sync || c.Sync
	if o.record == 0 {
		s, err := compaction.ByName(o.strategy)
		if err != nil {
			return o, err
		}
		o.record = recordFor(s)
	}
	return o, nil
}

// recordFor returns the kind of record that a strategy is measured on: merge where it can.
func recordFor(s compaction.Strategy) compaction.Record {
	if s.WorksOn(compaction.Merge) != nil {
		return compaction.Set
	}
	return compaction.Merge
}

// open opens a system in a folder.
func (e *env) open(name, dir string, o openOptions) (system, error) {
	o, err := o.fill(e.cfg)
	if err != nil {
		return nil, err
	}
	switch name {
	case systemBigset:
		return openBigset(e.ctx, dir, o, e.cfg.CacheBytes)
	case systemPebble:
		return openRaw(dir, o, e.cfg.CacheBytes)
	case systemBlob:
		return openBlob(dir, o, e.cfg.CacheBytes)
	}
	return nil, fmt.Errorf("bench: no system %q", name)
}

// errWrong is in the chain of errors about a system that gave a wrong answer.
var errWrong = errors.New("bench: wrong answer")

// expect returns an error unless a count is as it should be.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%w: %s: %v, and should be %v", errWrong, what, got, want)
	}
	return nil
}

// verifyMax is the greatest number of elements at which stores are verified after a round.
const verifyMax = 1_000_000

// check verifies a store outside the measured time, when it is small.
func (e *env) check(sys system, name string, elements int) error {
	if elements > verifyMax {
		return nil
	}
	return sys.verify(name, elements)
}

// countBy reads a whole set and compares the number of its elements.
func countBy(s set, want int) error {
	n := 0
	if err := s.read(0, func(k int) { n += k }); err != nil {
		return err
	}
	return expect("elements", n, want)
}

// resting polls look until it says for as long as quiet that nothing goes on and its state stays the same. It returns when
// that began.
func resting[S comparable](ctx context.Context, quiet time.Duration, look func() (state S, busy bool, err error)) (time.Time, error) {
	var since time.Time
	var last S
	for {
		state, busy, err := look()
		now := time.Now()
		switch {
		case err != nil:
			return now, err
		case busy:
			since = time.Time{}
		case since.IsZero() || state != last:
			since, last = now, state
		case now.Sub(since) >= quiet:
			return since, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(restPoll):
		}
	}
}

const (
	restPoll   = 2 * time.Millisecond
	restEnough = 3 * restPoll // of a store whose compactions can be asked about
)
