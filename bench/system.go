package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"bigset/compaction"
	"bigset/keyscheme"
)

// The names of the systems.
const (
	systemBigset = "bigset"
	systemPebble = "pebble"
	systemBlob   = "blob"
)

// contender is a system that takes part in a comparison; bigset with a strategy, "" for the run's, and where that is what is
// compared a form of context.
type contender struct{ system, strategy, form string }

// allSystems are those that the plain workloads compare.
var allSystems = []contender{{system: systemBigset}, {system: systemPebble}, {system: systemBlob}}

// system is one way to keep sets in a folder. One goroutine uses it; each set handle may have a goroutine of its own.
type system interface {
	// set returns a handle of a set, which is made by its first insert.
	set(name string) set
	// fill inserts elements into a set that is there only to warm up, in one batch, flushes, and drops the set.
	fill(elements [][]byte) error
	// settle flushes what was written, waits until background work rests, and returns since when it has rested.
	settle(ctx context.Context) (time.Time, error)
	// usage returns what was written since the store was opened and what is there.
	usage() (usage, error)
	// compact takes what is dead off the disk, the way the system does it.
	compact(ctx context.Context, name string) error
	// drop deletes a whole set and returns when that is durable.
	drop(name string) error
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
	// exchange removes elements that are present by those dots and inserts others, in one atomic batch.
	exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error
	// takeFirst reads the first n elements and removes them, in one atomic batch.
	takeFirst(n int) error
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
	memTable int   // bytes; 0 is the run's
	cache    int64 // bytes of the block cache; 0 is the run's
	setCache int64 // bytes of clocks and tombstones in memory; 0 is the engine's default
	sync     bool  // also where the run is not synced
	// filterCache is bytes of pages of bloom filters in memory; 0 is the engine's default.
	filterCache int64
	warm        bool // with the memtables of a long run, where bigset and raw Pebble stand side by side
	// openContexts keeps wide contexts open.
	openContexts bool
	deletes      bool // raw Pebble deletes the keys of what is removed, and does not only note it
	// record is the kind of record where it does not follow from the strategy.
	record compaction.Record
}

// fill replaces zeros by what the run says, for a strategy.
func (o openOptions) fill(c Config, strategy string) (openOptions, error) {
	if o.memTable == 0 {
		o.memTable = c.MemTableBytes
	}
	if o.cache == 0 {
		o.cache = c.CacheBytes
	}
	o.sync = o.sync || c.Sync
	if o.record == 0 {
		s, err := compaction.ByName(strategy)
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
func (e *env) open(c contender, dir string, o openOptions) (sys system, err error) {
	strategy := c.strategy
	if strategy == "" {
		strategy = e.cfg.Strategy
	}
	if o, err = o.fill(e.cfg, strategy); err != nil {
		return nil, err
	}
	switch c.system {
	case systemBigset:
		sys, err = openBigset(e.ctx, dir, strategy, o)
	case systemPebble:
		sys, err = openRaw(dir, o)
	case systemBlob:
		sys, err = openBlob(dir, o)
	default:
		err = fmt.Errorf("bench: no system %q", c.system)
	}
	if err != nil {
		return nil, err
	}
	if !o.warm || c.system == systemBlob {
		return sys, nil
	}
	return sys, e.warm(sys, o.memTable)
}

// warm brings a store to the memtables of a long run, by one batch that fills nearly half of one, which then goes. Pebble
// begins with a small memtable and doubles it at each rotation: how often a young store flushes, and so what it compacts,
// would hang on chance.
func (e *env) warm(sys system, memTable int) error {
	err := sys.fill(warmElements(memTable))
	if err == nil {
		_, err = sys.settle(e.ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("bench: warm up: %w", err), sys.close())
	}
	return nil
}

// warmName returns the name of the set that is there only to warm a store up. It sorts before all others, so that what is
// left of it lies in tables of its own, together with the store's metadata.
func warmName() string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("warm-%d", i)
		if keyscheme.SetSlot([]byte(name)) < 1<<20 { // one in 4,096
			return name
		}
	}
}

// warmElements returns elements that take less than half of a memtable, above which a batch would bypass it, and so much
// that the next one is as large as they become.
func warmElements(memTable int) [][]byte {
	const size = 60 << 10
	var list [][]byte
	for i := range max(1, memTable*45/100/size) {
		element := make([]byte, size)
		binary.BigEndian.PutUint32(element, uint32(i))
		list = append(list, element)
	}
	return list
}

// ErrWrong is in the chain of errors about a system that gave a wrong answer.
var ErrWrong = errors.New("bench: wrong answer")

// expect returns an error unless a count is as it should be.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%w: %s: %v, and should be %v", ErrWrong, what, got, want)
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

// removeAll removes a batch of elements.
func removeAll(s set, b *batch) error { return s.exchange(b.list, b.dots, nil, nil) }

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
	restEnough = 3 * restPoll
)
