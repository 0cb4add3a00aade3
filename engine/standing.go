package engine

import (
	"context"
	"fmt"

	"bigset/engine/internal/lsm"
)

// Identity returns who the disk is: bytes that stay the same over clean and unclean stops and over DropRange, and that are others in a folder that was
// copied, restored, or put back from an older copy. It is not the actor that mints dots (Actor), which changes with each unclean stop. It is on
// disk after the first write. The caller must not change it.
func (s *Store) Identity() []byte { return s.db.DiskID() }

// FormatNewest is the format of a new store, and of one that was upgraded.
const FormatNewest = lsm.FormatNewest

// Format returns the number of the store's format: FormatNewest, or the one before, of a store that an older program made.
func (s *Store) Format() int { return s.db.Format() }

// Upgrade brings the store to the newest format, on disk when it returns, if it has an older one. Programs that don't know that format refuse the
// store from then on. Until then a store of an older format stays one that the program that made it can open and write. A crash, or an error,
// leaves a store of one format or of the other, and Upgrade may be called again.
func (s *Store) Upgrade(ctx context.Context) error {
	if err := s.db.Enter(); err != nil {
		return err
	}
	defer s.db.Leave()
	if err := s.db.Upgrade(ctx); err != nil {
		return fmt.Errorf("engine: upgrade: %w", lsm.DiskError(err))
	}
	return nil
}

// Promise is a kind of acknowledgement that a crash may take back.
type Promise byte

// Promises.
const (
	// PromiseSets is a write of a set that was not synced: any crash may take it back.
	PromiseSets = Promise(lsm.PromiseSets)
	// PromiseFiltersMemory is a mark of a filter that is in memory only: any crash takes it back.
	PromiseFiltersMemory = Promise(lsm.PromiseFiltersMemory)
	// PromiseFiltersLog is a mark in the log that was not synced: a power cut may take it back.
	PromiseFiltersLog = Promise(lsm.PromiseFiltersLog)
)

// Promise notes, on disk, that something is about to be acknowledged that a crash may take back. The store calls it by itself before it answers a write
// of a set that is not synced (PromiseSets), and marks of a filter of durability interval (PromiseFiltersMemory) or log (PromiseFiltersLog); filters that
// are in memory only promise nothing. The first call since an open costs a synced write, each later one an atomic load. A close that could write all that
// was in memory ends what was promised.
func (s *Store) Promise(p Promise) error { return s.db.Promise(lsm.Promise(p)) }

// MayLack says whether sets, or filters, may lack what this store has acknowledged, because a crash may have taken it back. It stays so until
// MadeGood. A store that syncs what it acknowledges never lacks anything.
func (s *Store) MayLack() (sets, filters bool) {
	lacks := s.db.Lacks()
	return lacks&lsm.PromiseSets != 0, lacks&(lsm.PromiseFiltersMemory|lsm.PromiseFiltersLog) != 0
}

// MadeGood notes, on disk, that sets, or filters, lack nothing any more: others have brought what may have been lost.
func (s *Store) MadeGood(sets, filters bool) error {
	var p lsm.Promise
	if sets {
		p |= lsm.PromiseSets
	}
	if filters {
		p |= lsm.PromiseFiltersMemory | lsm.PromiseFiltersLog
	}
	return s.db.MadeGood(p)
}

// Meta names a value that the store keeps for its owner. It is on disk.
type Meta = lsm.Meta

// What the members of a cluster keep.
const (
	MetaCluster Meta = "c" // the records of the cluster that this store holds
	MetaFilled  Meta = "f" // under which of them it has been filled
	MetaFilters Meta = "l" // the catalogue of the cluster's filters
	MetaTokens  Meta = "t" // the tokens of clients; a node alone has them too
)

// MetaFiltersPage names a page of the catalogue, so that a change of one filter writes a part of it.
func MetaFiltersPage(page byte) Meta { return MetaFilters + Meta([]byte{page}) }

// SetMeta keeps a value of at most 4 MiB, under a name of 1 or 2 bytes, outside all slots: DropRange leaves it alone, and a checkpoint has it. It is on disk when SetMeta returns. A
// restored or copied store has it too: who reads it asks whose it was (Identity).
func (s *Store) SetMeta(ctx context.Context, k Meta, value []byte) error {
	if err := s.db.SetMeta(ctx, k, value); err != nil {
		return fmt.Errorf("engine: keep metadata %q: %w", k, lsm.DiskError(err))
	}
	return nil
}

// Meta returns a value, or nil. It belongs to the caller.
func (s *Store) Meta(k Meta) ([]byte, error) { return s.db.Meta(k) }
