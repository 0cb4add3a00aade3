package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// The identity of a disk, as distinct from the actors that mint its dots, and which of its acknowledgements a crash may have taken
// back. An actor changes with every unclean stop, because a counter must never be issued twice. The disk stays the same as long as
// it has kept what it acknowledged.

// DiskIDBytes is the length of the identity of a disk.
const DiskIDBytes = 12

// Promise is a kind of acknowledgement that a crash may take back. It is on disk, as a bit.
type Promise byte

// Promises.
const (
	PromiseSets          Promise = 1 << iota // a write of a set that was not synced: any crash may take it back
	PromiseFiltersMemory                     // a mark that is only in memory: any crash takes it back
	PromiseFiltersLog                        // a mark in the log, not synced: a power cut takes it back
	promisesAll          = PromiseSets | PromiseFiltersMemory | PromiseFiltersLog
)

// Keys of the store's own metadata.
var (
	keyDiskID   = []byte("n") // the identity of the disk
	keyPromised = []byte("q") // the promises given since the store was last closed cleanly, and the boot of the machine
	keyLacks    = []byte("l") // what the store may be missing: promises that were taken back
)

// standing is the identity of a disk and what it may be missing.
type standing struct {
	id     [DiskIDBytes]byte
	lacks  atomic.Uint32 // Promises that may have been taken back
	given  atomic.Uint32 // Promises that are on disk
	wanted atomic.Uint32 // Promises that the first mark is to record
	giving lockorder.Mutex[lockorder.PromiseMu]

	stored   bool // the identity is on disk; changes under identity.mu
	promised bool // a record of promises is on disk; changes under identity.mu, or giving
}

// bootID identifies the boot of the machine, or is empty if the system does not report it.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// loadStanding reads the standing, after the identity. Nothing is written before the first mark.
func (d *DB) loadStanding(unclean bool) error {
	s := &d.standing
	id, ok, err := d.Get(keyDiskID)
	switch {
	case err != nil:
		return err
	case ok && len(id) != DiskIDBytes:
		return fmt.Errorf("%w: identity of the disk of %d bytes", bigset.ErrCorrupt, len(id))
	case ok && !d.id.moved:
		copy(s.id[:], id)
		s.stored = true
	default: // a store from before there was one, or a copy
		d.random(s.id[:])
	}
	lacks, err := d.readPromises(keyLacks)
	if err != nil {
		return err
	}
	given, boot, err := d.readPromised()
	if err != nil {
		return err
	}
	s.promised = given != 0
	if unclean {
		lost := given
		if own := bootID(); own != "" && own == boot {
			// The system has kept what the process had written. A power cut may still take it, so the promise remains.
			lost &^= PromiseFiltersLog
			s.given.Store(uint32(given & PromiseFiltersLog))
		}
		lacks |= lost
	}
	s.lacks.Store(uint32(lacks))
	return nil
}

func (d *DB) readPromises(key []byte) (Promise, error) {
	b, ok, err := d.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	if len(b) == 0 || Promise(b[0])&^promisesAll != 0 {
		return 0, fmt.Errorf("%w: promises %x", bigset.ErrCorrupt, b)
	}
	return Promise(b[0]), nil
}

func (d *DB) readPromised() (given Promise, boot string, err error) {
	if given, err = d.readPromises(keyPromised); err != nil {
		return 0, "", err
	}
	b, _, err := d.Get(keyPromised)
	if len(b) > 1 {
		boot = string(b[1:])
	}
	return given, boot, err
}

// markStanding adds the identity of the disk and what it may be missing to the batch of the first mark. From then on the promises
// of earlier opens are settled, except those that it returns; the batch records those together with the ones that this open is
// about to give first.
func (d *DB) markStanding(b *pebble.Batch) (given Promise, err error) {
	given = Promise(d.standing.given.Load() | d.standing.wanted.Load())
	if !d.standing.stored {
		err = b.Set(keyDiskID, d.standing.id[:], nil)
	}
	if given != 0 {
		err = errors.Join(err, b.Set(keyPromised, promised(given), nil))
	} else if d.standing.promised {
		err = errors.Join(err, b.Delete(keyPromised, nil))
	}
	if lacks := d.standing.lacks.Load(); lacks != 0 {
		err = errors.Join(err, b.Set(keyLacks, []byte{byte(lacks)}, nil))
	}
	return given, err
}

// marked records that the batch of the first mark is on disk, with the promises in it.
func (s *standing) marked(given Promise) {
	s.stored, s.promised = true, given != 0
	s.given.Store(uint32(given))
}

// promised returns the value of keyPromised.
func promised(given Promise) []byte { return append([]byte{byte(given)}, bootID()...) }

// Promised reports whether a promise is on disk. It costs one atomic load.
func (d *DB) Promised(p Promise) bool { return Promise(d.standing.given.Load())&p == p }

// DiskID returns the identity of the disk: the same after clean and unclean stops, another one in a folder that was copied or
// restored from an older copy. It is on disk after the first write.
func (d *DB) DiskID() []byte { return d.standing.id[:] }

// Promise records, on disk, that something is about to be acknowledged that a crash may take back. After the first time it costs
// one atomic load.
func (d *DB) Promise(p Promise) error {
	s := &d.standing
	if d.Promised(p) {
		return nil
	}
	s.wanted.Or(uint32(p))
	if err := d.Mark(); err != nil {
		return err
	}
	s.giving.Lock()
	defer s.giving.Unlock()
	given := Promise(s.given.Load()) | p
	if d.Promised(given) {
		return nil
	}
	if err := d.guard(func() error { return d.pebble.Set(keyPromised, promised(given), pebble.Sync) }); err != nil {
		return err
	}
	s.given.Store(uint32(given))
	s.promised = true
	return nil
}

// Lacks returns the promises that crashes may have taken back and that were not made good since.
func (d *DB) Lacks() Promise { return Promise(d.standing.lacks.Load()) }

// MadeGood records, on disk, that the store has everything of some promises again.
func (d *DB) MadeGood(p Promise) error {
	s := &d.standing
	if Promise(s.lacks.Load())&p == 0 {
		return nil
	}
	if err := d.Mark(); err != nil {
		return err
	}
	s.giving.Lock()
	defer s.giving.Unlock()
	lacks := Promise(s.lacks.Load()) &^ p
	err := d.guard(func() error {
		if lacks == 0 {
			return d.pebble.Delete(keyLacks, pebble.Sync)
		}
		return d.pebble.Set(keyLacks, []byte{byte(lacks)}, pebble.Sync)
	})
	if err == nil {
		s.lacks.Store(uint32(lacks))
	}
	return err
}

// Meta names a value that the store keeps for its owner, outside all slots: its bytes are the end of a key on disk.
type Meta string

const (
	// MetaNameBytesMax is the longest name: a key of more bytes would lie in a slot, among the sets.
	MetaNameBytesMax = keyscheme.StoreMetaBytesMax - 1
	// MetaBytesMax is the longest value.
	MetaBytesMax = 4 << 20
)

func metaKey(k Meta) []byte { return append([]byte{'M'}, k...) }

// Meta returns a value, or nil if there is none.
func (d *DB) Meta(k Meta) ([]byte, error) {
	v, _, err := d.Get(metaKey(k))
	return v, err
}

// SetMeta stores a value, which is on disk when it returns.
func (d *DB) SetMeta(ctx context.Context, k Meta, value []byte) error {
	switch {
	case len(k) == 0:
		return fmt.Errorf("%w: metadata without a name", bigset.ErrRequest)
	case len(k) > MetaNameBytesMax:
		return &bigset.LimitError{What: "bytes of the name of metadata", Got: len(k), Max: MetaNameBytesMax}
	case len(value) > MetaBytesMax:
		return &bigset.LimitError{What: "bytes of metadata", Got: len(value), Max: MetaBytesMax}
	}
	if err := errors.Join(ctx.Err(), d.Writable()); err != nil {
		return err
	}
	if err := d.Mark(); err != nil {
		return err
	}
	return d.guard(func() error { return d.pebble.Set(metaKey(k), value, pebble.Sync) })
}
