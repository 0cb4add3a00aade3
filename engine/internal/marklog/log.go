package marklog

import (
	"errors"
	iofs "io/fs"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
	"bigset/bloomslice"
	"bigset/engine/internal/lockorder"
	"bigset/engine/internal/lsm"
)

// Log is the log of marks of filters whose marks are acknowledged when they are written (bigset.FilterLog) or on disk
// (bigset.FilterSync). It lists the keys that were marked since their pages were flushed. A segment is removed when all filters
// were flushed since it was ended. Without marks it has no file.
//
//	Append      a record gets its position, in the order of the calls
//	Wait        until that position is written, or synced: one of the waiting goroutines does it for all
//	Rotate      ends the segment, so that later records are in another
//	Remove      removes segments that were ended
//	Replay      reads what a crash has left, before anything is appended
//
// A write or a sync that fails fails the store, for good: then it is unknown what is on disk, and nothing more is acknowledged. All
// methods may be called by any number of goroutines.
type Log struct {
	db   *lsm.DB
	full func() // see Init

	mu       lockorder.Mutex[lockorder.LogMu]
	err      error  // why it accepts no more records
	pending  []byte // the next chunk: room for its header, then records
	spare    []byte // the buffer of the last chunk
	appended uint64 // the number of records so far; a position is such a number
	written  uint64
	synced   uint64

	writing bool
	wrote   sync.Cond // signalled when a write has ended

	syncing bool
	taking  uint64       // the position that the sync in progress covers
	rounds  uint64       // the number of syncs that were begun
	turns   [2]sync.Cond // goroutines that wait for the sync in progress, by its parity, and those that wait for the next

	file      vfs.File // the segment; nil before there is one. Used by the goroutine that is writing
	salt      uint32
	offset    int64                                  // its length
	syncedTo  int64                                  // how much of it is on disk
	last      uint64                                 // the number of the newest segment so far
	segments  []uint64                               // the existing segments, ascending
	segmentAt int64                                  // full is called at this length
	removing  lockorder.Mutex[lockorder.LogRemoving] // held while segments are removed

	asked atomic.Bool    // full is being called
	work  sync.WaitGroup // that call
}

// chunkBytesMax is how much may be pending: above that, a goroutine that appends waits for a write.
const chunkBytesMax = 1 << 20

// Init prepares a log for a store, before any other call. When a segment reaches segmentBytes, full is called in a goroutine of its
// own, which Settle waits for: it must rotate the log, and remove ended segments.
func (l *Log) Init(db *lsm.DB, segmentBytes int64, full func()) {
	l.db, l.full, l.segmentAt = db, full, segmentBytes
	l.wrote.L, l.turns[0].L, l.turns[1].L = &l.mu, &l.mu, &l.mu
	l.pending = make([]byte, chunkHeader)
	l.spare = make([]byte, chunkHeader)
}

// Append adds a record and returns its position, for Wait.
func (l *Log) Append(generation uint64, to *bloomslice.Layer, h *bloomslice.Hash) (position uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && len(l.pending) >= chunkBytesMax {
		l.writeOrWait()
	}
	if l.err != nil {
		return 0, l.err
	}
	l.pending = appendRecord(l.pending, generation, to, h)
	l.appended++
	return l.appended, nil
}

// End returns the position of the last record.
func (l *Log) End() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appended
}

// Wait returns when everything up to a position is as durable as marks of durability d must be. After an error nothing of it may be
// acknowledged.
func (l *Log) Wait(position uint64, d bigset.FilterDurability) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d != bigset.FilterSync {
		for l.err == nil && l.written < position {
			l.writeOrWait()
		}
		if l.written >= position {
			return nil
		}
		return l.err
	}
	for l.err == nil && l.synced < position {
		if !l.syncing {
			l.sync(false)
		} else if position <= l.taking {
			l.turns[l.rounds%2].Wait()
		} else {
			l.turns[(l.rounds+1)%2].Wait()
		}
	}
	if l.synced >= position {
		return nil
	}
	return l.err
}

// writeOrWait writes what is pending, or waits for the goroutine that is writing. The lock is held, but released during the wait or
// the write.
func (l *Log) writeOrWait() {
	if l.writing {
		l.wrote.Wait()
	} else {
		l.write()
	}
}

// write writes what is pending. The lock is held, but released during the write; no other goroutine is writing.
func (l *Log) write() {
	if len(l.pending) == chunkHeader {
		return
	}
	l.writing = true
	chunk, upTo, synced := l.pending, l.appended, l.syncedTo
	l.pending, l.spare = l.spare[:chunkHeader], nil
	l.mu.Unlock()
	err := l.put(chunk, synced)
	l.mu.Lock()
	l.spare, l.writing = chunk, false
	if err != nil {
		l.failed(err)
	} else {
		l.written = upTo
	}
	l.wrote.Broadcast()
}

// failed records why the log accepts no more records, and wakes all waiting goroutines. The lock is held.
func (l *Log) failed(err error) {
	if l.err == nil {
		l.err = err
	}
	l.wrote.Broadcast()
	l.turns[0].Broadcast()
	l.turns[1].Broadcast()
}

// put writes a chunk. Only one goroutine at a time does.
func (l *Log) put(chunk []byte, synced int64) error {
	if err := l.db.Writable(); err != nil {
		return err
	}
	if l.file == nil {
		if err := l.begin(); err != nil {
			return l.db.Fail(err)
		}
		synced = l.offset
	}
	seal(chunk, l.salt, synced)
	n, err := l.file.Write(chunk)
	l.offset += int64(n)
	if err != nil {
		return l.db.Fail(err)
	}
	if l.offset >= l.segmentAt && l.asked.CompareAndSwap(false, true) {
		l.work.Go(l.ask)
	}
	return nil
}

// begin makes the next segment. Its head and its name are on disk before anything else is in it.
func (l *Log) begin() error {
	fs, dir := l.db.FS(), l.db.Dir()
	number := l.last + 1
	f, err := fs.Create(fs.PathJoin(dir, segmentName(number)), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.salt = rand.Uint32() | 1
	head := appendSegmentHead(nil, number, l.salt)
	_, err = f.Write(head)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = lsm.SyncFolder(fs, dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.last, l.offset, l.syncedTo = f, number, int64(len(head)), int64(len(head))
	l.segments = append(l.segments, number)
	return nil
}

// sync writes and syncs everything that was appended, and ends the segment if end is set. The lock is held, but released during the
// sync; no other goroutine is syncing. It wakes the goroutines whose records it covers, and one of those that came later, which
// does the next sync.
func (l *Log) sync(end bool) {
	l.syncing, l.taking = true, math.MaxUint64
	l.rounds++
	round := l.rounds
	for l.writing {
		l.wrote.Wait()
	}
	l.taking = l.appended
	l.write()
	if l.err == nil && l.file != nil {
		file, offset := l.file, l.offset
		l.writing = end // keeps others from writing after the end
		l.mu.Unlock()
		var err error
		if end {
			err = l.endSegment(file)
		} else {
			err = file.SyncData()
		}
		if err != nil {
			err = l.db.Fail(err)
		}
		l.mu.Lock()
		l.syncedTo = offset
		if end {
			l.file, l.writing = nil, false
			l.wrote.Broadcast()
		}
		if err != nil {
			l.failed(err)
		}
	}
	if l.err == nil {
		l.synced = l.taking
	}
	l.syncing = false
	l.turns[round%2].Broadcast()
	l.turns[(round+1)%2].Signal()
}

// endSegment writes the chunk that ends a segment, and syncs and closes it.
func (l *Log) endSegment(file vfs.File) error {
	var chunk [chunkHeader]byte
	seal(chunk[:], l.salt, l.syncedTo)
	_, err := file.Write(chunk[:])
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Rotate ends the segment, and returns the number of the newest segment that has ended: what was appended before the call is in
// that or in older ones.
func (l *Log) Rotate() (last uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	position := l.appended
	for l.err == nil && l.syncing {
		if position <= l.taking {
			l.turns[l.rounds%2].Wait()
		} else {
			l.turns[(l.rounds+1)%2].Wait()
		}
	}
	if l.err != nil {
		return 0, l.err
	}
	l.sync(true)
	return l.last, l.err
}

// Remove removes the segments up to a number, which must have ended. Until their absence is on disk no segment is begun that could
// make an older, torn one look damaged: those that a crash has left are removed before a new one exists.
func (l *Log) Remove(last uint64) error {
	l.removing.Lock()
	defer l.removing.Unlock()
	fs, dir := l.db.FS(), l.db.Dir()
	for n := 0; ; n++ {
		l.mu.Lock()
		if len(l.segments) == 0 || l.segments[0] > last {
			l.mu.Unlock()
			if n == 0 {
				return nil
			}
			return lsm.SyncFolder(fs, dir)
		}
		number := l.segments[0]
		l.mu.Unlock()
		if err := fs.Remove(fs.PathJoin(dir, segmentName(number))); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
		l.mu.Lock()
		l.segments = l.segments[1:]
		l.mu.Unlock()
	}
}

// ask makes the caller of Init flush what the log contains.
func (l *Log) ask() {
	defer l.asked.Store(false)
	l.full()
}

// Settle waits for the call of full, if one is running. No goroutine may append any more.
func (l *Log) Settle() { l.work.Wait() }

// Close ends the background work, and closes the file. No goroutine may append any more.
func (l *Log) Close() error {
	l.Settle()
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}
