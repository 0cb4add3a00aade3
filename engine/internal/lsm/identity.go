package lsm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// A store mints dots under the actor of its incarnation: the store's random name, the number of the incarnation, and bytes drawn
// again for each. A range that was dropped since uses that actor with a salt, see salts.go.
//
// A counter issued twice is the worst bug this system can have. It has three possible causes: a crash that took back batches whose
// dots some other process has already seen, a folder that was copied and is used twice, and a folder that was restored from an
// older copy. So a store takes a new incarnation, before its first write, unless it can prove that it was closed cleanly and that
// its folder is the very one in which it was closed.
const (
	formatFile    = "BIGSET"
	identityFile  = "IDENTITY"
	nodeBytes     = 4
	saltBytes     = 4
	actorBytes    = nodeBytes + 4 + saltBytes
	identityBytes = 16

	formatLeast  = 2 // the oldest format that this program reads and writes
	formatNewest = 3 // the format of a new store, and of one that was upgraded

	formatText     = "bigset store\nformat %d\nrecord %s\n" // what formatFile says
	smallFileBytes = 64 << 10                               // the most that readFile reads
)

// Keys of the store's own metadata: shorter than a slot, so they belong to no slot.
var (
	keyIdentity = []byte("i")  // the identity record
	keyOpen     = []byte("m")  // the mark: exists while the store may have been written and was not closed cleanly
	keySeal     = []byte("ks") // the keys that seal tokens
)

// identity is the identity of a store.
type identity struct {
	// These are set by Open.
	minting atomic.Pointer[minting] // except that DropRange renews it
	place   string                  // of the identity file: where the store was when its actor was drawn
	doubt   bool                    // the actor is that of a new incarnation, which must be stored before the first write
	moved   bool                    // the folder is not the one in which the store was written: a copy, or an older state that was restored
	keyring keyscheme.Keyring

	mu     lockorder.Mutex[lockorder.IdentityMu] // taken after the lock of notes by goroutines that hold both
	marked atomic.Bool                           // this open has set the mark; changes under mu
}

// Actor returns the newest actor under which this store mints dots. Open sets it, and RenewActor changes it, for some slots or for
// all.
func (d *DB) Actor() clock.Actor { return d.id.minting.Load().newest }

// ActorAt returns the actor under which this store mints the dots of a slot. Open sets it, and RenewActor may change it.
func (d *DB) ActorAt(slot keyscheme.Slot) clock.Actor { return d.id.minting.Load().at(slot) }

// incarnation returns the actor without a salt.
func (d *DB) incarnation() clock.Actor { return d.id.minting.Load().actor }

// FirstIncarnation reports whether the store is in its first incarnation: it has always been closed cleanly, was never copied, and
// no dropped range has renewed the whole actor.
func (d *DB) FirstIncarnation() bool {
	return binary.BigEndian.Uint32([]byte(d.incarnation()[nodeBytes:])) == 1
}

// nextActor returns the actor of the incarnation after the given one, with fresh random bytes, so that two copies of one folder
// that both continue from the same incarnation get different actors.
func (d *DB) nextActor(old clock.Actor) clock.Actor {
	a := make([]byte, actorBytes)
	d.random(a)
	if len(old) == actorBytes {
		copy(a, old[:nodeBytes])
		n := binary.BigEndian.Uint32([]byte(old[nodeBytes:]))
		binary.BigEndian.PutUint32(a[nodeBytes:], n+1)
	} else {
		binary.BigEndian.PutUint32(a[nodeBytes:], 1)
	}
	return clock.Actor(a)
}

// random draws bytes. Open calls it, and later only a goroutine that holds the lock of the identity.
func (d *DB) random(b []byte) {
	from := d.opt.Random
	if from == nil {
		from = rand.Reader
	}
	if _, err := io.ReadFull(from, b); err != nil {
		panic(fmt.Sprintf("lsm: no random bytes: %v", err)) // crypto/rand never fails, and a name that is not random could be issued twice
	}
}

// loadIdentity reads the identity of the store, or decides it for a new store, and finds out whether a new incarnation is due. It
// writes nothing into an existing store: a store that is only read keeps its incarnation.
func (d *DB) loadIdentity() error {
	place, err := readPlace(d.opt.FS, d.dir)
	if err != nil {
		return err
	}
	value, ok, err := d.Get(keyIdentity)
	if err != nil {
		return err
	}
	if !ok {
		return d.newIdentity()
	}
	if len(value) < actorBytes {
		return fmt.Errorf("%w: identity record of %d bytes", bigset.ErrCorrupt, len(value))
	}
	d.id.place = string(value[actorBytes:])
	actor := clock.Actor(value[:actorBytes])
	_, open, err := d.Get(keyOpen)
	if err != nil {
		return err
	}
	d.id.moved = place == "" || d.id.place != place
	if d.id.doubt = open || place == "" || d.id.place != place; d.id.doubt {
		// It is not stored yet, but nothing may be minted under the old actor.
		d.id.place = place
		actor = d.nextActor(actor)
	}
	return errors.Join(d.loadSalts(actor), d.loadStanding(open), d.loadSeal())
}

// loadSalts determines, from the actor of its incarnation, under which actors the store mints. A table of another incarnation is
// ignored.
func (d *DB) loadSalts(actor clock.Actor) error {
	d.id.minting.Store(newMinting(actor))
	value, ok, err := d.Get(keySalts)
	if err != nil || !ok {
		return err
	}
	m, err := decodeMinting(value)
	if err == nil && m.actor == actor {
		d.id.minting.Store(m)
	}
	return err
}

// newIdentity makes a store's identity, and its keys, in one synced batch.
func (d *DB) newIdentity() error {
	if err := d.disk.held(); err != nil {
		return err
	}
	if err := d.writeIdentityFile(""); err != nil {
		return err
	}
	place, err := readPlace(d.opt.FS, d.dir)
	if err != nil {
		return err
	}
	d.id.place = place
	d.id.minting.Store(newMinting(d.nextActor("")))
	seal := make([]byte, len(d.id.keyring.Current)+len(d.id.keyring.Domain))
	d.random(seal)
	d.random(d.standing.id[:])
	b := d.pebble.NewBatch()
	defer b.Close()
	err = errors.Join(
		b.Set(keyIdentity, append([]byte(d.incarnation()), d.id.place...), nil),
		b.Set(keySeal, seal, nil),
		b.Set(keyDiskID, d.standing.id[:], nil),
		d.guard(func() error { return b.Commit(pebble.Sync) }))
	if err != nil {
		return err
	}
	// Pebble begins the first log of a new store before the store has its format, so that log does not record what was on disk.
	if err := d.FlushTables(context.Background()); err != nil {
		return err
	}
	d.standing.marked(0)
	return d.loadSeal()
}

func (d *DB) loadSeal() error {
	value, ok, err := d.Get(keySeal)
	if err != nil {
		return err
	}
	k := &d.id.keyring
	if !ok || len(value) != len(k.Current)+len(k.Domain) {
		return fmt.Errorf("%w: no seal key", bigset.ErrCorrupt)
	}
	copy(k.Domain[:], value[copy(k.Current[:], value):])
	return nil
}

// Mark ensures, before the first write after an open, that the disk records that the store is open, and under which incarnation it
// writes.
func (d *DB) Mark() error {
	if d.id.marked.Load() {
		return nil
	}
	if err := d.disk.held(); err != nil { // before id.mu, because this may write what the open has in memory
		return err
	}
	d.id.mu.Lock()
	defer d.id.mu.Unlock()
	if d.id.marked.Load() {
		return nil
	}
	// The identity file is new each time, so that an older copy of the folder is recognized even if it is restored by a tool that
	// skips files that look unchanged. The log that it names exists on disk before the file does.
	log, err := lastLog(d.fs, d.dir)
	if err == nil {
		err = d.writeIdentityFile(log.name)
	}
	if err == nil {
		d.id.place, err = readPlace(d.opt.FS, d.dir)
	}
	b := d.pebble.NewBatch()
	defer b.Close()
	given, standingErr := d.markStanding(b)
	err = errors.Join(err, standingErr,
		b.Set(keyOpen, []byte{1}, nil),
		b.Set(keyIdentity, append([]byte(d.incarnation()), d.id.place...), nil))
	if err == nil && d.id.moved {
		err = d.hooks.Moved(b)
	}
	if err == nil {
		err = d.guard(func() error { return b.Commit(pebble.Sync) })
	}
	if err != nil {
		return err
	}
	if d.id.doubt {
		d.event(Event{Kind: EventIncarnation, Actor: d.Actor()})
	}
	d.standing.marked(given)
	d.id.marked.Store(true)
	return nil
}

// RenewActor makes the slots from first to last mint under an actor that has minted nothing, and stores that with a batch, which
// the caller still owns. The other slots keep their actors, unless the store has an older format or the table of salts is full:
// then the store takes a new incarnation. RenewActor calls within, which commits once: locks that within takes around the commit
// are taken before the identity's. The store must be marked (Mark), and no goroutine may mint dots of the slots.
func (d *DB) RenewActor(batch *pebble.Batch, first, last keyscheme.Slot, within func(commit func() error) error) error {
	return within(func() error {
		d.id.mu.Lock() // after the owner's locks, in the order in which committers take them
		defer d.id.mu.Unlock()
		next, err := d.renewed(batch, first, last)
		if err != nil {
			return err
		}
		if err := d.guard(func() error { return batch.Commit(pebble.Sync) }); err != nil {
			return err
		}
		d.id.minting.Store(next)
		d.event(Event{Kind: EventIncarnation, Actor: next.newest})
		return nil
	})
}

// renewed decides how the store mints after a drop, and adds that to a batch. A new incarnation leaves the old table on disk, where
// it is ignored.
func (d *DB) renewed(batch *pebble.Batch, first, last keyscheme.Slot) (*minting, error) {
	now := d.id.minting.Load()
	if d.Format() >= formatSalts {
		if next := now.dropped(first, last); next != nil {
			return next, batch.Set(keySalts, next.append(nil), nil)
		}
	}
	next := newMinting(d.nextActor(now.actor))
	return next, batch.Set(keyIdentity, append([]byte(next.actor), d.id.place...), nil)
}

// Moved reports whether the store was copied, or restored from an older copy, since it was last open.
func (d *DB) Moved() bool { return d.id.moved }

// InDoubt reports whether the open found that the store must take a new incarnation.
func (d *DB) InDoubt() bool { return d.id.doubt }

// Marked reports whether the disk records that the store has been written since it was opened.
func (d *DB) Marked() bool { return d.id.marked.Load() }

// Keyring returns the keys that seal tokens. They are made with the store and never change.
func (d *DB) Keyring() keyscheme.Keyring { return d.id.keyring }

// markClean records, last of all, that the store was closed cleanly. If the owner could not write everything that it had in memory,
// the promises that it has given are broken.
func (d *DB) markClean(whole bool) error {
	if !d.id.marked.Load() {
		return nil
	}
	if !d.standing.promised {
		return d.guard(func() error { return d.pebble.Delete(keyOpen, pebble.Sync) })
	}
	b := d.pebble.NewBatch()
	defer b.Close()
	var err error
	if lacks := Promise(d.standing.lacks.Load() | d.standing.given.Load()); !whole && lacks != 0 {
		err = b.Set(keyLacks, []byte{byte(lacks)}, nil)
	}
	return errors.Join(err, b.Delete(keyPromised, nil), b.Delete(keyOpen, nil), d.guard(func() error { return b.Commit(pebble.Sync) }))
}

// writeIdentityFile writes a file of random bytes, and the name of a log if it is not empty. What counts is which file it is, not
// its content: a copy of the folder has another file.
func (d *DB) writeIdentityFile(log string) error {
	b := make([]byte, identityBytes)
	d.random(b)
	text := hex.EncodeToString(b) + "\n"
	if log != "" {
		text += log + "\n"
	}
	return WriteFile(d.fs, d.dir, identityFile, text)
}

// readIdentity returns the text of the identity file, and the name of the log in it. Both are empty if there is no such file. The
// bytes may be anything, because a person who copied the folder may have changed them. A short file is damage.
func readIdentity(fs vfs.FS, dir string) (text, log string, err error) {
	path := fs.PathJoin(dir, identityFile)
	text, exists, err := readFile(fs, path)
	if err != nil || !exists {
		return "", "", err
	}
	if len(text) <= 2*identityBytes {
		return "", "", damagedFile(path, "%d bytes, which is too short (if you remove it, the store takes a new incarnation)", len(text))
	}
	_, log, _ = strings.Cut(text, "\n")
	log, _ = strings.CutSuffix(log, "\n")
	return text, log, nil
}

// readPlace returns the identity file's bytes and, if the file system has them, its device, inode and change time. It is empty if
// there is no such file.
func readPlace(fs vfs.FS, dir string) (string, error) {
	text, _, err := readIdentity(fs, dir)
	if err != nil || text == "" {
		return "", err
	}
	return text + filePlace(fs, fs.PathJoin(dir, identityFile)), nil
}

// format is the kind of store in a folder.
type format struct {
	number int // formatLeast to formatNewest
	record compaction.Record
}

// String returns the text of the format file.
func (f format) String() string { return fmt.Sprintf(formatText, f.number, f.record) }

// readFormat reads what kind of store is in the folder. exists is false if there is none yet; then the format is that of a new
// store. A store that does not have the wanted kind of record is an error; 0 accepts any kind, and means Merge for a new store.
func readFormat(fs vfs.FS, dir string, want compaction.Record) (f format, exists bool, err error) {
	path := fs.PathJoin(dir, formatFile)
	text, exists, err := readFile(fs, path)
	if err != nil {
		return format{}, false, err
	}
	if exists {
		f, err = parseFormat(path, text, want)
		return f, true, err
	}
	if f = (format{formatNewest, want}); want == 0 {
		f.record = compaction.Merge
	}
	return f, false, nil
}

func writeFormat(fs vfs.FS, dir string, f format) error {
	return WriteFile(fs, dir, formatFile, f.String())
}

// refuseForeign ensures that a new store is not made in a folder that belongs to something else. It leaves no trace.
func refuseForeign(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, formatFile) {
		return nil
	}
	for _, name := range names {
		if name != lockFile && !strings.HasSuffix(name, tempSuffix) {
			return fmt.Errorf("%w: %s holds %q and no file %s: it is not a store, choose an empty folder",
				ErrFormat, dir, name, formatFile)
		}
	}
	return nil
}

// parseFormat returns the format that a format file names, if this program knows it.
func parseFormat(path, text string, want compaction.Record) (format, error) {
	var number int
	var word string
	n, _ := fmt.Sscanf(text, formatText, &number, &word)
	if n == 0 || known(number) && text != fmt.Sprintf(formatText, number, word) { // another format may have other lines
		return format{}, damagedFile(path, "%.64q is not a valid store format", text)
	}
	if !known(number) {
		use := "a newer program"
		if number < formatLeast {
			use = "the program that made it"
		}
		return format{}, fmt.Errorf("%w: the store has format %d, this program knows %d to %d: use %s", ErrFormat, number, formatLeast, formatNewest, use)
	}
	record, err := compaction.ParseRecord(word)
	if err != nil {
		return format{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if want != 0 && want != record {
		return format{}, fmt.Errorf("%w: the store has %s records, not %s records; the kind is fixed when the store is created",
			ErrFormat, record, want)
	}
	return format{number, record}, nil
}

// known reports whether this program reads and writes a format.
func known(number int) bool { return number >= formatLeast && number <= formatNewest }

// readFile returns a small file's text, and whether the file exists.
func readFile(fs vfs.FS, path string) (text string, exists bool, err error) {
	f, err := fs.Open(path)
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return "", false, nil
		}
		return "", false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, smallFileBytes))
	return string(b), true, err
}

// WriteFile writes a small file so that after a crash it is either whole or absent.
func WriteFile(fs vfs.FS, dir, name, text string) error {
	path := fs.PathJoin(dir, name)
	f, err := fs.Create(path+tempSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+tempSuffix, path); err != nil {
		return err
	}
	return SyncFolder(fs, dir)
}

// makeFolder makes a folder, and missing folders above it, so that they survive a crash. Pebble does that for a folder that it
// makes itself, but not for one that already exists.
func makeFolder(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeFolder(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return SyncFolder(fs, parent)
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
