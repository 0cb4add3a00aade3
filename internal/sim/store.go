package sim

import (
	"context"
	"errors"
	"iter"

	"bigset"
	"bigset/clock"
	"bigset/fold"
)

var bg = context.Background()

// store keeps one replica's copy of one set: by the rules alone, or in an engine. Its verbs are those of engine.Store.
type store interface {
	Actor() clock.Actor
	Write(ops []bigset.Op, d bigset.Durability) (bigset.Result, error)
	Drop(seen *clock.Clock, d bigset.Durability) (bigset.Delta, error)
	ApplyDelta(m bigset.Delta, d bigset.Durability) error
	ApplyFacts(m bigset.Facts, d bigset.Durability) error
	State() (bigset.State, error)
	Locate(dots *clock.Clock) iter.Seq2[bigset.Facts, error]
	Read(o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error]
	// Export and Ingest are those of a copy, SetNote and Note keep its progress.
	Export(after []byte, bytesMax int) (*bigset.Portion, error)
	Ingest(portion *bigset.Portion) error
	SetNote(name string, value []byte, d bigset.Durability) error
	Note(name string) ([]byte, error)
	// Leave forgets the set for good, as DropRange does.
	Leave() error

	// Sync makes durable all that was written.
	Sync() error
	// Verify proves the store right.
	Verify() error
	// Maintain does a unit of background work, and names it.
	Maintain(n int) (string, error)
	// Fault makes the disk fail, or heals it: kind is then empty.
	Fault(kind string) error
	// Backup returns a copy of the disk.
	Backup() (any, error)
	// Crash ends the store and returns what a power cut leaves: of what is not durable, so many quarters.
	Crash(quarters int) any
	// Stop closes the store and returns its disk.
	Stop() (any, error)
	// Close ends the store; it is not needed any more.
	Close()
}

// stateOf returns what a store knows; of a set of which it has never heard, nothing.
func stateOf(s store) (bigset.State, error) {
	st, err := s.State()
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}, nil
	}
	return st, err
}
