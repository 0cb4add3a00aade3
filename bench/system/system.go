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

// System is one way to keep sets in a folder. One goroutine uses it; each set handle may have a goroutine of its own.
type System interface {
	// Set returns a handle of a set, which is made by its first insert.
	Set(name string) Set
	// Fill inserts elements into a set that is there only to warm up, in one batch, flushes, and drops the set.
	Fill(elements [][]byte) error
	// Settle flushes what was written, waits until background work rests, and returns since when it has rested.
	Settle(ctx context.Context) (time.Time, error)
	// Usage returns what was written since the store was opened and what is there.
	Usage() (Usage, error)
	// Compact takes what is dead off the disk, the way the system does it.
	Compact(ctx context.Context, name string) error
	// Drop deletes a whole set and returns when that is durable.
	Drop(name string) error
	// Verify proves the store right, as far as it can be asked to, and its set to hold that many elements.
	Verify(name string, elements int) error
	// Label returns what rows say of the system; the strategy is empty where it has none, and the record of a blob.
	Label() (system, record, strategy string)
	// RestFully waits until nothing happens in the background, and the strategy wants nothing more or finds nothing to do that is worth it.
	RestFully(ctx context.Context) error
	// Bottom brings all that is there to the bottommost level, as far as the system can without another strategy.
	Bottom(ctx context.Context) error
	// Checkpoint makes what the disk would hold if the process were killed now, once the log was synced, in a folder that is new.
	Checkpoint(ctx context.Context, dir string) error
	// Dir returns the folder.
	Dir() string
	// Close closes the store. No handle may be in use.
	Close() error
}

// Set is a handle of one set. Slices passed in are not kept.
type Set interface {
	// Insert adds elements that are new, with an empty context, in one atomic batch. It notes the counters of their dots,
	// by which they are removed, in dots, unless that is nil.
	Insert(elements [][]byte, dots []uint64) error
	// Exchange removes elements that are present by those dots and inserts others, in one atomic batch.
	Exchange(gone [][]byte, goneDots []uint64, fresh [][]byte, freshDots []uint64) error
	// TakeFirst reads the first n elements and removes them, in one atomic batch.
	TakeFirst(n int) error
	// Contains looks an element up, with its context.
	Contains(element []byte) (bool, error)
	// Read reads elements in order with their contexts, all or as many as limit, and tells each of how many came at a time.
	Read(limit int, each func(n int)) error
	// First runs a query until its first element is at hand, and reports whether there is one.
	First(q Query) (bool, error)

	// Change adds, replaces and removes elements, in one atomic batch.
	Change(c *Change) error
	// See notes the clock of the set, for changes of which KnownClock is what is known.
	See() error
	// Take reads the first elements, as many as n or all, and removes them, in one atomic batch. It calls each with each of them; each may be nil.
	Take(n int, each func(element []byte)) error
	// Scan runs a query to its end, and returns how many elements came, and the first, appended to dst.
	Scan(q Query, dst []byte) (n int, first []byte, err error)
	// Count returns the number of elements.
	Count() (int, error)
	// Look looks an element up by its dot where the system can do that, without its context; else as Contains does.
	Look(element []byte, dot uint64) (bool, error)
}

// Receiver is a Set of a system that has replicas.
type Receiver interface {
	// Receive takes new elements that another replica has added, in one atomic batch, and notes their dots like Insert. Replicas are told apart
	// by their numbers, from 0.
	Receive(replica int, elements [][]byte, dots []uint64) error
}

// Change is what is changed in a set at a time. Slices of dots are as long as those of elements, or nil where their dots are not wanted.
type Change struct {
	Fresh, Again, Gone [][]byte // elements that are new, that are present and added again, and that are present and removed
	FreshDots          []uint64 // set to the dots that they get
	AgainDots          []uint64 // the dots that they have, set to those that they get
	GoneDots           []uint64 // the dots that they have
	Known              Known    // of what is replaced and removed
}

// Known is what the writer knows of what it replaces and removes. The systems beside Bigset always go by the dots.
type Known byte

// What is known.
const (
	KnownDot     Known = iota // the dot of each element
	KnownClock                // the clock of the set when See was called
	KnownNothing              // nothing: the store looks elements up, those that are new, too
)

// Query asks for elements in order: a range, those with a prefix, or the first ones.
type Query struct {
	From, To, Prefix []byte
	Limit            int
}

// Usage is what a store has written since it was opened, and what it holds. Sizes are bytes.
type Usage struct {
	WAL, Flush, Compact, Rewrite, Read uint64
	Tables                             uint64 // in use now

	Counted    bool   // Keys and Live are known
	Keys, Live uint64 // element keys in tables, live dots
	Stalls     uint64 // times that writes waited for flushes or compactions, since the store was opened
	KeysTabled uint64 // element keys that were written to tables, each as often as it was
}

// Since returns what was written since o. What is there now stays.
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
	// FilterCacheBytes is bytes of pages of bloom filters in memory; 0 is the engine's default.
	FilterCacheBytes int64
	Warm             bool // with the memtables of a long run, where bigset and raw Pebble stand side by side
	// KeepContexts keeps wide contexts unresolved.
	KeepContexts bool
	// Strategy takes the place of the ready one of the name; nil does not.
	Strategy compaction.Strategy
	Deletes  bool // raw Pebble deletes the keys of what is removed, and does not only note it
	// Record is the kind of record of a new store.
	Record compaction.Record
	// ReadsClocks has raw Pebble get a set's clock before each write, as one must where the clocks of all sets do not fit into memory.
	ReadsClocks bool
	// Pebble are options of the LSM by their names in spec.Options. Nil changes nothing.
	Pebble map[string]int64
	// Before is the system that has written what the folder holds, or what it is a checkpoint of: dots that it has given are known. Nil is none.
	Before System
}

// RecordFor returns the kind of record that a strategy is measured on: merge where it can.
func RecordFor(s compaction.Strategy) compaction.Record {
	if s.WorksOn(compaction.Merge) != nil {
		return compaction.Set
	}
	return compaction.Merge
}

// WarmName returns the name of the set that is there only to warm a store up. It sorts before all others, so that what is
// left of it lies in tables of its own, together with the store's metadata.
func WarmName() string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("warm-%d", i)
		if keyscheme.SetSlot([]byte(name)) < 1<<20 { // one in 4,096
			return name
		}
	}
}

// WarmElements returns elements that take less than half of a memtable, above which a batch would bypass it, and so much
// that the next one is as large as they become.
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

// Expect returns an error unless a count is as it should be.
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

// Resting polls look until it says for as long as quiet that nothing goes on and its state stays the same. It returns when
// that began.
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

// RestPoll is how often Resting looks.
const (
	RestPoll   = 2 * time.Millisecond
	restEnough = 3 * RestPoll
)
