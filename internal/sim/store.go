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

// store keeps one replica's copy of one set: by the rules alone, or in an engine. Its methods are those of engine.Store.
type store interface {
	Actor() clock.Actor
	Write(ops []bigset.Op, d bigset.Durability) (bigset.Result, error)
	Drop(seen *clock.Clock, d bigset.Durability) (bigset.Delta, error)
	ApplyDelta(m bigset.Delta, d bigset.Durability) error
	ApplyFacts(m bigset.Facts, d bigset.Durability) error
	State() (bigset.State, error)
	Locate(dots *clock.Clock) iter.Seq2[bigset.Facts, error]
	Read(o bigset.ReadOptions) iter.Seq2[*fold.Chunk, error]
	// Export and Ingest make a copy, SetNote and Note keep its progress.
	Export(after []byte, bytesMax int) (*bigset.Portion, error)
	Ingest(portion *bigset.Portion) error
	SetNote(name string, value []byte, d bigset.Durability) error
	Note(name string) ([]byte, error)
	// Leave forgets the set for good, as DropRange does.
	Leave() error

	// Sync makes durable everything that was written.
	Sync() error
	// Verify verifies the store.
	Verify() error
	// Maintain does a unit of background work, and returns its name.
	Maintain(n int) (string, error)
	// Fault makes the disk fail, or heals it if kind is empty.
	Fault(kind string) error
	// Backup returns a copy of the disk.
	Backup() (any, error)
	// Crash ends the store and returns what a power cut leaves: everything durable, and the given number of quarters of the rest.
	Crash(quarters int) any
	// Stop closes the store and returns its disk.
	Stop() (any, error)
	// Close ends the store, which is not needed any more.
	Close()
}

// stateOf returns what a store knows of the set; nothing if it does not have the set.
func stateOf(s store) (bigset.State, error) {
	st, err := s.State()
	if errors.Is(err, bigset.ErrNotFound) {
		return bigset.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}, nil
	}
	return st, err
}
