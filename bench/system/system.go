package system

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
	NameBigset = "bigset"
	NamePebble = "pebble"
	NameBlob   = "blob"
)

// System is one way to store sets in a folder. Only one goroutine may use it; each set handle may have a goroutine of its own.
type System interface {
	// Set returns a handle of a set, which is made by its first insert.
	Set(name string) Set
	// Fill inserts elements in one batch into a set used only for the warm-up, flushes, and drops the set.
	Fill(elements [][]byte) error
	// Settle flushes the writes, waits until background work rests, and returns since when it has rested.
	Settle(ctx context.Context) (time.Time, error)
	// Usage returns what was written since the store was opened, and what it contains.
	Usage() (Usage, error)
	// Compact removes dead keys from the disk in the system's own way.
	Compact(ctx context.Context, name string) error
	// Drop deletes a whole set. The deletion is durable when it returns.
	Drop(name string) error
	// Verify verifies the store as far as it can, and that its set contains that many elements.
	Verify(name string, elements int) error
	// Label returns the names for rows. The strategy is empty for a system without one, and the record for a blob.
	Label() (system, record, strategy string)
	// RestFully waits until the background is idle, and the strategy has nothing more to do or finds nothing worth doing.
	RestFully(ctx context.Context) error
	// Bottom moves everything to the bottommost level, as far as the system can without another strategy.
	Bottom(ctx context.Context) error
	// Checkpoint writes into a new folder what the disk would contain if the process were killed now, with a synced log.
	Checkpoint(ctx context.Context, dir string) error
	// Dir returns the folder.
	Dir() string
	// Close closes the store. No handle may be in use.
	Close() error
}

// Set is a handle of one set. It retains no slices passed in.
type Set interface {
	// Insert adds new elements with an empty context in one atomic batch. If dots is not nil, it stores there the counters of their dots,
	// by which they are removed.
	Insert(elements [][]byte, dots []uint64) error
	// Exchange removes present elements by the given dots and inserts others, in one atomic batch.
	Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error
	// TakeFirst reads the first n elements and removes them, in one atomic batch.
	TakeFirst(n int) error
	// Contains looks an element up, with its context.
	Contains(element []byte) (bool, error)
	// Read reads elements in order with their contexts, all or up to limit, and calls each with the number of elements in each chunk.
	Read(limit int, each func(n int)) error
	// First runs a query until its first element arrives, and reports whether there is one.
	First(q Query) (bool, error)

	// Change adds, replaces and removes elements, in one atomic batch.
	Change(c *Change) error
	// See records the clock of the set for changes with KnownClock.
	See() error
	// Take reads the first elements, up to n or all, and removes them in one atomic batch. It calls each with each of them; each may be
	// nil.
	Take(n int, each func(element []byte)) error
	// Scan runs a query to its end. It returns the number of elements, and the first one appended to dst.
	Scan(q Query, dst []byte) (n int, first []byte, err error)
	// Count returns the number of elements.
	Count() (int, error)
	// Look looks an element up by its dot, without its context, if the system can do that; otherwise as Contains does.
	Look(element []byte, dot uint64) (bool, error)
}

// Receiver is a Set of a system with replicas.
type Receiver interface {
	// Receive takes new elements that another replica has added, in one atomic batch, and stores their dots like Insert. Replicas are
	// identified by numbers from 0.
	Receive(replica int, elements [][]byte, dots []uint64) error
}

// Change is one change of a set. Slices of dots are as long as those of elements, or nil if the dots are not needed.
type Change struct {
	Fresh, Again, Gone [][]byte // elements that are new; present and added again; present and removed
	FreshDots          []uint64 // set to their new dots
	AgainDots          []uint64 // their current dots, set to their new ones
	GoneDots           []uint64 // their current dots
	Known              Known    // about the elements replaced and removed
}

// Known is what the writer knows about the elements that it replaces and removes. Systems other than Bigset always use the dots.
type Known byte

// What is known.
const (
	KnownDot     Known = iota // the dot of each element
	KnownClock                // the clock of the set when See was called
	KnownNothing              // nothing: the store looks elements up, including new ones
)

// Query asks for elements in order: a range, those with a prefix, or the first ones.
type Query struct {
	From, To, Prefix []byte
	Limit            int
}

// Usage is what a store has written since it was opened, and what it contains. Sizes are in bytes.
type Usage struct {
	WAL, Flush, Compact, Rewrite, Read uint64
	Tables                             uint64 // in use now

	Counted    bool   // Keys and Live are known
	Keys, Live uint64 // element keys in tables, live dots
	Stalls     uint64 // times that writes waited for flushes or compactions, since the store was opened
	KeysTabled uint64 // element keys written to tables, each as often as it was written
}

// Since returns what was written since o. The current contents stay.
func (u Usage) Since(o Usage) Usage {
	u.WAL -= o.WAL
	u.Flush -= o.Flush
	u.Compact -= o.Compact
	u.Rewrite -= o.Rewrite
	u.Read -= o.Read
	u.Stalls -= o.Stalls
	u.KeysTabled -= o.KeysTabled
	return u
}

// Options say how a system is opened.
type Options struct {
	MemTableBytes int   // the size of a memtable
	CacheBytes    int64 // of the block cache
	SetCacheBytes int64 // of clocks and tombstones in memory; 0 is the engine's default
	Sync          bool  // writes are durable before they return
	// FilterCacheBytes bounds the bytes of bloom-filter pages in memory; 0 means the engine's default.
	FilterCacheBytes int64
	Warm             bool // with the memtables of a long run, for comparisons of bigset and raw Pebble
	// KeepContexts keeps wide contexts unresolved.
	KeepContexts bool
	// Strategy replaces the ready strategy with the name; nil keeps it.
	Strategy compaction.Strategy
	Deletes  bool // raw Pebble deletes the keys of removed elements instead of only recording the removal
	// Record is the kind of record of a new store.
	Record compaction.Record
	// ReadsClocks makes raw Pebble get a set's clock before each write, which is necessary if the clocks of all sets do not fit into
	// memory.
	ReadsClocks bool
	// Pebble contains options of the LSM by their names in spec.Options. Nil changes nothing.
	Pebble map[string]int64
	// Before is the system that has written the contents of the folder, or of which the folder is a checkpoint: its dots are known. Nil
	// means none.
	Before System
}

// RecordFor returns the kind of record for measurements of a strategy: merge if the strategy works on it.
func RecordFor(s compaction.Strategy) compaction.Record {
	if s.WorksOn(compaction.Merge) != nil {
		return compaction.Set
	}
	return compaction.Merge
}

// WarmName returns the name of the set used only to warm a store up. It sorts before all others, so that what is left of it is in tables of
// its own, together with the store's metadata.
func WarmName() string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("warm-%d", i)
		if keyscheme.SetSlot([]byte(name)) < 1<<20 { // one in 4,096
			return name
		}
	}
}

// WarmElements returns elements that take less than half of a memtable, above which a batch would bypass it, but enough that the next
// memtable has the full size.
func WarmElements(memTable int) [][]byte {
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

// Expect returns an error unless two values are equal.
func Expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%w: %s: %v, and should be %v", ErrWrong, what, got, want)
	}
	return nil
}

// RemoveAll removes a batch of elements.
func RemoveAll(s Set, b *Batch) error { return s.Exchange(b.List, b.Dots, nil, nil) }

// CountBy reads a whole set and compares the number of its elements.
func CountBy(s Set, want int) error {
	n := 0
	if err := s.Read(0, func(k int) { n += k }); err != nil {
		return err
	}
	return Expect("elements", n, want)
}

// Resting polls look until it has reported no activity and an unchanged state for as long as quiet. It returns when that period began.
func Resting[S comparable](ctx context.Context, quiet time.Duration, look func() (state S, busy bool, err error)) (time.Time, error) {
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
		case <-time.After(RestPoll):
		}
	}
}

// RestPoll is the interval at which Resting polls.
const (
	RestPoll   = 2 * time.Millisecond
	restEnough = 3 * RestPoll
)
