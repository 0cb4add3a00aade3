package engine

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

	"bigset/clock"
	"bigset/compaction"
	"bigset/engine/internal/lockorder"
	"bigset/keyscheme"
)

// A store mints dots under one actor: the store's random name, an incarnation, and bytes drawn anew for each incarnation.
// A counter issued twice is the worst bug this system can have, and there are three ways to it: a crash that took back
// batches whose dots somebody has already seen, a folder that was copied and lives twice, a folder that was put back from
// an older copy. So a store takes a new incarnation, before its first write, unless it can show that it was closed in
// order and that its folder is the very one it was closed in.
const (
	formatFile    = "BIGSET"
	identityFile  = "IDENTITY"
	formatNumber  = 2
	nodeBytes     = 4
	saltBytes     = 4
	actorBytes    = nodeBytes + 4 + saltBytes
	identityBytes = 16

	formatText     = "bigset store\nformat %d\nrecord %s\n" // what formatFile says
	smallFileBytes = 64 << 10                               // the most that readFile reads
)

// Keys of the store's own metadata: shorter than a slot, so they belong to none.
var (
	keyIdentity = []byte("i")  // the identity record
	keyOpen     = []byte("m")  // the mark: there while the store may have been written and was not closed in order
	keySeal     = []byte("ks") // the keys that seal tokens
)

// identity is who a store is.
type identity struct {
	// These are settled by Open.
	name    atomic.Pointer[clock.Actor] // but DropRange renews it
	place   string                      // of the identity file: where the store was when name was drawn
	doubt   bool                        // name is a new incarnation, to be written down before the first write
	moved   bool                        // the folder is not the one in which the store was written: a copy, or an older state put back
	keyring keyscheme.Keyring

	mu     lockorder.Mutex[lockorder.IdentityMu] // taken after the lock of notes by those who hold both
	marked atomic.Bool                           // the mark is set by this open; changes under mu
}

// actor returns the actor under which this store mints dots: it is settled by Open, and renewed by DropRange.
func (s *Store) actor() clock.Actor { return *s.id.name.Load() }

func (s *Store) setActor(a clock.Actor) { s.id.name.Store(&a) }

// first reports whether the store is in its first incarnation: it has always been closed in order, was never copied, and has dropped no
// range.
func (id *identity) first() bool {
	return binary.BigEndian.Uint32([]byte((*id.name.Load())[nodeBytes:])) == 1
}

// nextActor returns the actor of the incarnation after the one given, with fresh random bytes: two copies of one folder
// that both go on from the same incarnation do not meet.
func nextActor(old clock.Actor) clock.Actor {
	a := make([]byte, actorBytes)
	randomBytes(a)
	if len(old) == actorBytes {
		copy(a, old[:nodeBytes])
		n := binary.BigEndian.Uint32([]byte(old[nodeBytes:]))
		binary.BigEndian.PutUint32(a[nodeBytes:], n+1)
	} else {
		binary.BigEndian.PutUint32(a[nodeBytes:], 1)
	}
	return clock.Actor(a)
}

func randomBytes(b []byte) {
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the process instead
}

// loadIdentity reads who this store is, or decides it for a new one, and finds out whether a new incarnation is due. It
// writes nothing into an existing store: a store that is only read keeps its incarnation.
func (s *Store) loadIdentity() error {
	place, err := readPlace(s.opt.FS, s.dir)
	if err != nil {
		return err
	}
	value, ok, err := get(s.db, keyIdentity)
	if err != nil {
		return err
	}
	if !ok {
		return s.newIdentity()
	}
	if len(value) < actorBytes {
		return fmt.Errorf("%w: identity record of %d bytes", ErrCorrupt, len(value))
	}
	s.id.place = string(value[actorBytes:])
	s.setActor(clock.Actor(value[:actorBytes]))
	_, open, err := get(s.db, keyOpen)
	if err != nil {
		return err
	}
	s.id.moved = place == "" || s.id.place != place
	if s.id.doubt = open || place == "" || s.id.place != place; s.id.doubt {
		// Not written yet, but nothing may be minted under the old name.
		s.id.place = place
		s.setActor(nextActor(s.actor()))
	}
	return s.loadSeal()
}

// newIdentity makes a store's identity, and its keys, in one synced batch.
func (s *Store) newIdentity() error {
	if err := s.disk.held(); err != nil {
		return err
	}
	if err := writeIdentityFile(s.fs, s.dir, ""); err != nil {
		return err
	}
	place, err := readPlace(s.opt.FS, s.dir)
	if err != nil {
		return err
	}
	s.id.place = place
	s.setActor(nextActor(""))
	seal := make([]byte, len(s.id.keyring.Current)+len(s.id.keyring.Domain))
	randomBytes(seal)
	b := s.db.NewBatch()
	defer b.Close()
	err = errors.Join(
		b.Set(keyIdentity, append([]byte(s.actor()), s.id.place...), nil),
		b.Set(keySeal, seal, nil),
		s.guard(func() error { return b.Commit(pebble.Sync) }))
	if err != nil {
		return err
	}
	// Pebble begins the first log of a new store before it has its format: that log does not tell what was on disk.
	if err := s.flushTables(context.Background()); err != nil {
		return err
	}
	return s.loadSeal()
}

func (s *Store) loadSeal() error {
	value, ok, err := get(s.db, keySeal)
	if err != nil {
		return err
	}
	k := &s.id.keyring
	if !ok || len(value) != len(k.Current)+len(k.Domain) {
		return fmt.Errorf("%w: no seal key", ErrCorrupt)
	}
	copy(k.Domain[:], value[copy(k.Current[:], value):])
	return nil
}

// mark makes sure, before the first write after an open, that the disk says that the store is open, and under which
// incarnation it writes.
func (s *Store) mark() error {
	if s.id.marked.Load() {
		return nil
	}
	if err := s.disk.held(); err != nil { // before id.mu, for this may write what the open has in memory
		return err
	}
	s.id.mu.Lock()
	defer s.id.mu.Unlock()
	if s.id.marked.Load() {
		return nil
	}
	// The identity file is new each time, so that an older copy of the folder is known also when it is put back by a tool
	// that leaves alone what looks unchanged. The log that it names exists on disk before the file does.
	log, err := lastLog(s.fs, s.dir)
	if err == nil {
		err = writeIdentityFile(s.fs, s.dir, log.name)
	}
	if err == nil {
		s.id.place, err = readPlace(s.opt.FS, s.dir)
	}
	b := s.db.NewBatch()
	defer b.Close()
	err = errors.Join(err,
		b.Set(keyOpen, []byte{1}, nil),
		b.Set(keyIdentity, append([]byte(s.actor()), s.id.place...), nil))
	if err == nil && s.id.moved {
		err = s.forgetNotes(b)
	}
	if err == nil {
		err = s.guard(func() error { return b.Commit(pebble.Sync) })
	}
	if err != nil {
		return err
	}
	if s.id.doubt {
		s.event(Event{Kind: EventIncarnation, Actor: s.actor()})
	}
	s.id.marked.Store(true)
	return nil
}

// markClean writes down, last of all, that the store was closed in order.
func (s *Store) markClean() error {
	if !s.id.marked.Load() {
		return nil
	}
	return s.guard(func() error { return s.db.Delete(keyOpen, pebble.Sync) })
}

// writeIdentityFile writes a file of random bytes, and the name of a log if it is not empty. What counts is not what is in it but which
// file it is: a copy of the folder has another one.
func writeIdentityFile(fs vfs.FS, dir, log string) error {
	b := make([]byte, identityBytes)
	randomBytes(b)
	text := hex.EncodeToString(b) + "\n"
	if log != "" {
		text += log + "\n"
	}
	return writeFile(fs, dir, identityFile, text)
}

// readIdentity returns the text of the identity file, and what it has for the name of a log. Both are empty if there is no such file. The
// bytes may be any: somebody who has copied the folder may have put others there. A short file is damage.
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

// readPlace returns the identity file's bytes and, where the file system has them, its device, inode and change time. It
// is empty when there is no such file.
func readPlace(fs vfs.FS, dir string) (string, error) {
	text, _, err := readIdentity(fs, dir)
	if err != nil || text == "" {
		return "", err
	}
	return text + filePlace(fs, fs.PathJoin(dir, identityFile)), nil
}

// readFormat reads what kind of store is in the folder; exists is false when there is none yet.
func readFormat(o *Options, dir string) (record compaction.Record, exists bool, err error) {
	path := o.FS.PathJoin(dir, formatFile)
	text, exists, err := readFile(o.FS, path)
	if err != nil {
		return 0, false, err
	}
	if exists {
		record, err = parseFormat(path, text, o.Record)
		return record, true, err
	}
	if record = o.Record; record == 0 {
		record = compaction.Merge
	}
	return record, false, nil
}

func writeFormat(fs vfs.FS, dir string, record compaction.Record) error {
	return writeFile(fs, dir, formatFile, fmt.Sprintf(formatText, formatNumber, record))
}

// refuseForeign makes sure that a new store is not made in a folder that belongs to something else. It leaves no trace.
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

// parseFormat returns the kind of record that a format file names.
func parseFormat(path, text string, want compaction.Record) (compaction.Record, error) {
	var number int
	var word string
	n, _ := fmt.Sscanf(text, formatText, &number, &word)
	if n == 0 || number == formatNumber && text != fmt.Sprintf(formatText, number, word) { // another format may have other lines
		return 0, damagedFile(path, "%.64q, which is not what a store says of its format", text)
	}
	if number != formatNumber {
		use := "a newer program"
		if number < formatNumber {
			use = "the program that made it"
		}
		return 0, fmt.Errorf("%w: the store has format %d, this program knows %d: use %s", ErrFormat, number, formatNumber, use)
	}
	record, err := compaction.ParseRecord(word)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if want != 0 && want != record {
		return 0, fmt.Errorf("%w: the store has %s records, %s records were asked for: that is chosen when it is made",
			ErrFormat, record, want)
	}
	return record, nil
}

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

// writeFile writes a small file so that a crash leaves it whole or absent.
func writeFile(fs vfs.FS, dir, name, text string) error {
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
	return syncFolder(fs, dir)
}

// makeFolder makes a folder, and those above it that are missing, so that they survive a crash. Pebble does that for a
// folder that it makes itself, but not for one that it finds.
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
	return syncFolder(fs, parent)
}

func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
