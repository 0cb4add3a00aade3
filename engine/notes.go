package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"bigset"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
	"bigset/keyscheme"
)

// A note is a value that a caller keeps with a range of this store, such as the progress of a copy. It must not
// outlive the range: DropRange deletes it in the batch before the excise. So a crash may leave the range without the
// note, but never the note without the range. A store whose folder was copied or put back has no notes: a copy that
// resumed from an old note would skip sets that it had finished before the store lost part of them.

// Limits of notes.
const (
	NoteNameBytesMax = 1 << 10
	NoteBytesMax     = 64 << 20
	NotesMax         = 1 << 10
)

const noteVersion = 1

// noteKeyHead opens the keys of notes, in the store's metadata: a number of two bytes, BE, follows.
const noteKeyHead = 'n'

// notes knows which notes exist. Their values are on disk only.
type notes struct {
	mu     lockorder.Mutex[lockorder.NotesMu]
	loaded bool
	byName map[string]noteAt
}

// noteAt is where a note is stored, and the range that it belongs to.
type noteAt struct {
	number uint16
	slots  slotRange
}

func noteKey(number uint16) []byte { return binary.BigEndian.AppendUint16([]byte{noteKeyHead}, number) }

// SetNote stores a value under a name, and forgets it when DropRange drops any part of the slots from first to last,
// both included. It replaces the previous value of the name; nil deletes the name. If a note is on disk after a
// crash, so is everything that was written before it. The note is as durable as asked for.
func (r Replica) SetNote(ctx context.Context, name string, first, last keyscheme.Slot, value []byte, d bigset.Durability) error {
	switch {
	case len(name) == 0 || first > last:
		return fmt.Errorf("%w: note %q of slots %08x to %08x", bigset.ErrRequest, name, first, last)
	case len(name) > NoteNameBytesMax:
		return &bigset.LimitError{What: "bytes of a note's name", Got: len(name), Max: NoteNameBytesMax}
	case len(value) > NoteBytesMax:
		return &bigset.LimitError{What: "bytes of a note", Got: len(value), Max: NoteBytesMax}
	}
	if err := r.s.db.Enter(); err != nil {
		return err
	}
	defer r.s.db.Leave()
	if err := errors.Join(ctx.Err(), r.s.db.Writable()); err != nil {
		return err
	}
	wait, err := r.s.setNote(name, slotRange{first, last}, value, d == bigset.Sync || d == bigset.DefaultDurability && r.s.opt.Durability == bigset.Sync)
	if err != nil {
		return fmt.Errorf("engine: note %q: %w", name, lsm.DiskError(err))
	}
	if wait != nil {
		err = wait()
	}
	return err
}

func (s *Store) setNote(name string, slots slotRange, value []byte, sync bool) (wait func() error, err error) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := s.loadNotes(); err != nil {
		return nil, err
	}
	at, known := n.byName[name]
	if !known && value == nil {
		return nil, nil
	}
	batch := s.db.NewBatch()
	if value == nil {
		err = batch.Delete(noteKey(at.number), nil)
	} else {
		if !known {
			if at.number, err = n.free(); err != nil {
				return nil, errors.Join(err, batch.Close())
			}
		}
		at.slots = slots
		b := append(binary.AppendUvarint([]byte{noteVersion}, uint64(len(name))), name...)
		b = keyscheme.AppendSlot(keyscheme.AppendSlot(b, slots.first), slots.last)
		err = batch.Set(noteKey(at.number), append(b, value...), nil)
	}
	if err != nil {
		return nil, errors.Join(err, batch.Close())
	}
	if wait, err = s.db.Commit(batch, sync); err != nil {
		return nil, err
	}
	if n.byName[name] = at; value == nil {
		delete(n.byName, name)
	}
	return wait, nil
}

// Note returns the value of a name, or nil.
func (r Replica) Note(ctx context.Context, name string) ([]byte, error) {
	if err := r.s.db.Enter(); err != nil {
		return nil, err
	}
	defer r.s.db.Leave()
	n := &r.s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := errors.Join(ctx.Err(), r.s.loadNotes()); err != nil {
		return nil, err
	}
	at, ok := n.byName[name]
	if !ok {
		return nil, nil
	}
	value, _, err := r.s.db.Get(noteKey(at.number))
	if err != nil {
		return nil, lsm.DiskError(err)
	}
	_, _, body, ok := decodeNote(value)
	if !ok {
		return nil, fmt.Errorf("%w: note %q", bigset.ErrCorrupt, name)
	}
	return body, nil
}

// free returns a number that no note has.
func (n *notes) free() (uint16, error) {
	used := make(map[uint16]bool, len(n.byName))
	for _, at := range n.byName {
		used[at.number] = true
	}
	for i := range uint16(NotesMax) {
		if !used[i] {
			return i, nil
		}
	}
	return 0, &bigset.LimitError{What: "notes", Got: NotesMax + 1, Max: NotesMax}
}

// loadNotes reads, once, which notes exist. It skips damaged ones: their callers begin again. n.mu is held.
func (s *Store) loadNotes() (err error) {
	n := &s.notes
	if n.loaded {
		return nil
	}
	byName := map[string]noteAt{}
	if !s.db.Moved() {
		err = s.eachNote(func(key, value []byte) error {
			name, slots, _, ok := decodeNote(value)
			if ok && len(key) == len(noteKey(0)) {
				byName[name] = noteAt{binary.BigEndian.Uint16(key[1:]), slots}
			}
			return nil
		})
	}
	if err == nil {
		n.byName, n.loaded = byName, true
	}
	return err
}

// eachNote calls f for each note on disk.
func (s *Store) eachNote(f func(key, value []byte) error) error {
	// The key that is the head alone is not a note: it has the identity of the disk.
	return s.db.Each(keyscheme.Bounds{Lower: []byte{noteKeyHead, 0}, Upper: []byte{noteKeyHead + 1}}, f)
}

// forgetNotes deletes all notes on disk, in a batch.
func (s *Store) forgetNotes(batch *pebble.Batch) error {
	return s.eachNote(func(key, _ []byte) error { return batch.Delete(key, nil) })
}

func decodeNote(b []byte) (name string, slots slotRange, body []byte, ok bool) {
	if len(b) == 0 || b[0] != noteVersion {
		return "", slots, nil, false
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n == 0 || n > uint64(len(b)-1-size) {
		return "", slots, nil, false
	}
	b = b[1+size:]
	raw, b := b[:n], b[n:]
	if len(b) < 2*keyscheme.SlotBytes {
		return "", slots, nil, false
	}
	slots.first = keyscheme.Slot(binary.BigEndian.Uint32(b))
	slots.last = keyscheme.Slot(binary.BigEndian.Uint32(b[keyscheme.SlotBytes:]))
	return string(raw), slots, slices.Clone(b[2*keyscheme.SlotBytes:]), true
}

// dropNotes deletes, in a batch, the notes of any part of a range, and forgets them once commit has returned nil.
func (s *Store) dropNotes(r slotRange, batch *pebble.Batch, commit func() error) error {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := s.loadNotes(); err != nil {
		return err
	}
	var gone []string
	for name, at := range n.byName {
		if at.slots.first <= r.last && r.first <= at.slots.last {
			gone = append(gone, name)
			if err := batch.Delete(noteKey(at.number), nil); err != nil {
				return err
			}
		}
	}
	if err := commit(); err != nil {
		return err
	}
	for _, name := range gone {
		delete(n.byName, name)
	}
	return nil
}
