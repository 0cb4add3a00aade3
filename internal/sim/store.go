package sim

import (
	"context"
	"errors"
	"iter"

	"bigset/clock"
	"bigset/engine"
	"bigset/fold"
)

var bg = context.Background()

// store keeps one replica's copy of one set: by the rules alone, or in an engine. Its verbs are those of engine.Store.
type store interface {
	Actor() clock.Actor
	Write(ops []engine.Op, d engine.Durability) (engine.Result, error)
	Drop(seen *clock.Clock, d engine.Durability) (engine.Delta, error)
	ApplyDelta(m engine.Delta, d engine.Durability) error
	ApplyFacts(m engine.Facts, d engine.Durability) error
	State() (engine.State, error)
	Locate(dots *clock.Clock) iter.Seq2[engine.Facts, error]
	Read(o engine.ReadOptions) iter.Seq2[*fold.Chunk, error]
	// Export and Ingest are those of a copy, SetNote and Note keep its progress.
	Export(after []byte, bytesMax int) (*engine.Span, error)
	Ingest(span *engine.Span) error
	SetNote(name string, value []byte, d engine.Durability) error
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
func stateOf(s store) (engine.State, error) {
	st, err := s.State()
	if errors.Is(err, engine.ErrNotFound) {
		return engine.State{Seen: &clock.Clock{}, Dead: &clock.Clock{}}, nil
	}
	return st, err
}
