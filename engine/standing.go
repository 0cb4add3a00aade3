package engine

import (
	"context"
	"fmt"

	"bigset/clock"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// Identity returns the identity of the disk. It survives stops, clean or not, and DropRange. A folder that was
// copied, restored, or replaced by an older copy has another one. It is not the actor that mints dots (Actor), which
// changes with each unclean stop. It is on disk after the first write. The caller must not change it.
func (r Replica) Identity() []byte { return r.s.db.DiskID() }

// Actor returns the newest actor under which this store mints dots. It changes after each DropRange, and after an
// open of a store that was not closed cleanly or whose folder is a copy. Sets outside of dropped ranges mint under an
// older one: see ActorOf.
func (r Replica) Actor() clock.Actor { return r.s.db.Actor() }

// ActorOf returns the actor under which this store mints the dots of a set until the store is closed or the set is dropped with its range.
func (r Replica) ActorOf(name []byte) clock.Actor { return r.s.db.ActorAt(keyscheme.SetSlot(name)) }

// KeepsContexts reports whether the store was opened with Options.KeepContexts.
func (r Replica) KeepsContexts() bool { return r.s.opt.KeepContexts }

// Keyring returns the keys that seal this store's context tokens. They are created with the store and live as long.
func (r Replica) Keyring() keyscheme.Keyring { return r.s.db.Keyring() }

// Promise is a kind of acknowledgement that a crash may take back.
type Promise byte

// Kinds of promises.
const (
	// PromiseSets is a write of a set that was not synced: any crash may take it back.
	PromiseSets = Promise(lsm.PromiseSets)
	// PromiseFiltersMemory is a mark of a filter that is in memory only: any crash takes it back.
	PromiseFiltersMemory = Promise(lsm.PromiseFiltersMemory)
	// PromiseFiltersLog is a mark in the log that was not synced: a power cut may take it back.
	PromiseFiltersLog = Promise(lsm.PromiseFiltersLog)
)

// Promise records on disk that something is about to be acknowledged that a crash may take back. The store calls it
// by itself before it answers an unsynced write of a set (PromiseSets), and marks of a filter of durability interval
// (PromiseFiltersMemory) or log (PromiseFiltersLog). Filters that exist only in memory promise nothing. The first
// call after an open costs a synced write, each later one an atomic load. A close that wrote everything from memory
// ends all promises.
func (r Replica) Promise(p Promise) error { return r.s.db.Promise(lsm.Promise(p)) }

// MayLack reports whether acknowledged changes of sets, or of filters, may be missing because of a crash. It stays
// true until MadeGood is called. In a store that syncs what it acknowledges, none ever are.
func (r Replica) MayLack() (sets, filters bool) {
	lacks := r.s.db.Lacks()
	return lacks&lsm.PromiseSets != 0, lacks&(lsm.PromiseFiltersMemory|lsm.PromiseFiltersLog) != 0
}

// MadeGood records on disk that nothing is missing any more, of sets or of filters, because other replicas have sent
// it.
func (r Replica) MadeGood(sets, filters bool) error {
	var p lsm.Promise
	if sets {
		p |= lsm.PromiseSets
	}
	if filters {
		p |= lsm.PromiseFiltersMemory | lsm.PromiseFiltersLog
	}
	return r.s.db.MadeGood(p)
}

// Meta names a value that the store keeps for its owner, on disk.
type Meta = lsm.Meta

// Values that the members of a cluster keep.
const (
	MetaCluster Meta = "c" // the records of the cluster that this store holds
	MetaFilled  Meta = "f" // the record of these under which it was filled
	MetaFilters Meta = "l" // the catalogue of the cluster's filters
	MetaTokens  Meta = "t" // the tokens of clients; a single node has them too
)

// MetaFiltersPage names a page of the catalogue, so that a change of one filter writes a part of it.
func MetaFiltersPage(page byte) Meta { return MetaFilters + Meta([]byte{page}) }

// SetMeta stores a value of at most 4 MiB, under a name of 1 or 2 bytes, outside all slots: DropRange leaves it
// alone, and a checkpoint includes it. It is on disk when SetMeta returns. Restored and copied stores have it too:
// compare Identity to find out whose it was.
func (r Replica) SetMeta(ctx context.Context, k Meta, value []byte) error {
	if err := r.s.db.SetMeta(ctx, k, value); err != nil {
		return fmt.Errorf("engine: keep metadata %q: %w", k, lsm.DiskError(err))
	}
	return nil
}

// Meta returns a value, or nil. The result belongs to the caller.
func (r Replica) Meta(k Meta) ([]byte, error) { return r.s.db.Meta(k) }
