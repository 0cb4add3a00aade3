package engine

import (
	"context"
	"errors"
	"fmt"

	"bigset/engine/internal/lsm"
)

// Checkpoint copies the store, as of one moment, to a folder that is new or empty. On one file system tables are
// shared by hard links, and little more than the log is copied. The copy may be opened in place or copied elsewhere.
// It is a store of its own, which takes a new incarnation before its first write. It contains everything that was
// acknowledged before the call, synced or not. Reads, writes and background work continue.
//
// Checkpoint returns ErrNotEmpty if the folder holds something. After a crash the folder holds the whole store, or
// Open refuses it with ErrUnfinished and the next Checkpoint may use it; an error leaves no more than that. Copying
// does not end early when ctx does.
func (s *Store) Checkpoint(ctx context.Context, dest string) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := errors.Join(ctx.Err(), s.db.Writable(), s.db.Held()); err != nil {
		return err
	}
	err := s.db.Copy(ctx, dest, func() error {
		if err := s.filters.Flush(context.Background()); err != nil { // this syncs the log, too; the copy then needs no log of marks
			return err
		}
		return s.filters.Whole() // fails if some marks are only in the log, which is not copied
	})
	if err != nil {
		return fmt.Errorf("engine: checkpoint in %s: %w", dest, lsm.DiskError(err))
	}
	return nil
}
