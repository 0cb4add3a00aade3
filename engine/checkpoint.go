package engine

import (
	"context"
	"errors"
	"fmt"

	"bigset/engine/internal/lsm"
)

// Checkpoint makes a copy of the store, as it is at one moment, in a folder that is new or empty; on one file system tables
// are shared by hard links, and little is copied but the log. It may be opened where it is, or copied elsewhere: it is a
// store of its own, which takes a new incarnation before its first write. Everything acknowledged before the call is in it,
// synced or not. Reads, writes and background work go on.
//
// ErrNotEmpty is returned for a folder that holds something. After a crash the folder has the whole store, or is refused by
// Open with ErrUnfinished and taken by the next Checkpoint; an error leaves no more than that. Copying does not end early
// when ctx does.
func (s *Store) Checkpoint(ctx context.Context, dest string) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := errors.Join(ctx.Err(), s.db.Writable(), s.db.Held()); err != nil {
		return err
	}
	err := s.db.Copy(ctx, dest, func() error {
		if err := s.filters.Flush(context.Background()); err != nil { // which syncs the log, too; then the copy needs no log of marks
			return err
		}
		return s.filters.Whole() // the log of marks has what the copy would deny
	})
	if err != nil {
		return fmt.Errorf("engine: checkpoint in %s: %w", dest, lsm.DiskError(err))
	}
	return nil
}
