package lsm

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"bigset"
)

// ballastFile takes up room that is released, once, when the disk is full, so that a flush or a shutdown in progress can complete.
const ballastFile = "BALLAST"

// A warning is reported when free space falls below each of spaceWarnings, in percent of the disk. Below spaceTight, operations
// that take room before they free some wait. Below the last one adds are refused: the rest is for compactions, removes and the log.
// On a disk larger than spaceTotalMax, the percentages are of spaceTotalMax.
const (
	spaceTotalMax      = 50 << 30
	spaceTight         = 5
	spaceReserve       = 2
	spaceCheckInterval = time.Second
)

var spaceWarnings = [...]uint64{spaceReserve, 3, spaceTight, 10}

// tightLevel is the number of spaceWarnings that apply at spaceTight.
const tightLevel = 2

// disk watches the disk of a store.
type disk struct {
	db      *DB
	inner   vfs.FS // below the watch
	closer  func() error
	ballast atomic.Bool                   // the file exists
	checked atomic.Int64                  // when free space was last checked, in nanoseconds
	level   atomic.Int64                  // how many of spaceWarnings apply
	usage   atomic.Pointer[vfs.DiskUsage] // as of that check; nil if the file system could not report it
	full    atomic.Pointer[DiskSpaceError]
	met     atomic.Bool // a write has found the disk full
}

// watch returns the store's file system, watched.
func (d *disk) watch(db *DB) vfs.FS {
	d.db, d.inner, d.closer = db, db.opt.FS, func() error { return nil }
	fs := d.inner
	if fs == vfs.Default && inMemory(db.dir) {
		fs = unreserved{fs}
	}
	if db.opt.SlowDisk > 0 {
		healthy, closer := vfs.WithDiskHealthChecks(fs, db.opt.SlowDisk, nil, d.slow)
		fs, d.closer = healthy, closer.Close
	}
	return vfs.OnDiskFull(fs, d.release)
}

// slow records an operation that takes long. It is called repeatedly while the operation lasts.
func (d *disk) slow(i vfs.DiskSlowInfo) {
	d.db.Counters.SlowDisk.Add(1)
	d.db.opt.Logger.Warn("bigset: slow disk", "path", i.Path, "operation", i.OpType.String(), "took", i.Duration)
	d.db.event(Event{Kind: EventSlowDisk, Took: i.Duration, Err: fmt.Errorf("engine: slow disk: %s", i.String())})
}

// tight reports whether room is short: less than spaceTight at the last check, or none.
func (d *disk) tight() bool { return d.level.Load() >= tightLevel || d.full.Load() != nil }

// lay puts the ballast in place, if there is room for it twice, and in addition enough to keep the disk from being tight.
func (d *disk) lay() error {
	path := d.inner.PathJoin(d.db.dir, ballastFile)
	want := d.db.opt.BallastBytes
	if info, err := d.inner.Stat(path); err == nil && info.Size() == want && want > 0 {
		d.ballast.Store(true)
		return nil
	}
	if err := d.inner.Remove(path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	if usage, err := d.inner.GetDiskUsage(d.db.dir); want == 0 || err == nil && usage.AvailBytes < 2*uint64(want)+partOf(usage, spaceTight) {
		return nil
	}
	f, err := d.inner.Create(path, vfs.WriteCategoryUnspecified)
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	if err != nil {
		return err
	}
	zeros := make([]byte, min(want, 1<<20)) // written, not only reserved, because not every file system can reserve
	for left := want; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		if gone := d.inner.Remove(path); gone != nil || !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, gone)
		}
		return nil
	}
	d.ballast.Store(true)
	return nil
}

// release is called when a write found the disk full, before it is tried once more.
func (d *disk) release() {
	d.full.CompareAndSwap(nil, &DiskSpaceError{})
	d.db.Counters.FullDisk.Add(1)
	freed := d.ballast.CompareAndSwap(true, false)
	if freed {
		freed = d.inner.Remove(d.inner.PathJoin(d.db.dir, ballastFile)) == nil
	}
	if again := d.met.Swap(true); freed || !again { // a full disk is found again and again
		d.db.opt.Logger.Error("bigset: disk is full, free some space", "dir", d.db.dir, "ballast released", freed)
		d.db.event(Event{Kind: EventDiskSpace, Err: bigset.ErrDiskFull})
	}
}

// room returns an error that wraps bigset.ErrDiskFull if there is no room for adds. It checks the disk now and then.
func (d *disk) room() error {
	now := time.Now().UnixNano()
	if then := d.checked.Load(); now-then > int64(spaceCheckInterval) && d.checked.CompareAndSwap(then, now) {
		d.check()
	}
	if full := d.full.Load(); full != nil {
		return full
	}
	return nil
}

// check checks the free space of the disk. A file system that can't report it counts as having enough until a write says otherwise,
// and is asked again at the next check.
func (d *disk) check() {
	usage, err := d.inner.GetDiskUsage(d.db.dir)
	if err != nil || usage.TotalBytes == 0 {
		d.usage.Store(nil)
		d.full.Store(d.owed(math.MaxUint64))
		d.level.Store(0)
		return
	}
	d.usage.Store(&usage)
	level := 0
	for _, percent := range spaceWarnings {
		if usage.AvailBytes <= partOf(usage, percent) {
			level++
		}
	}
	if was := d.level.Swap(int64(level)); int64(level) > was {
		err := &DiskSpaceError{Free: usage.AvailBytes, Reserve: reserveOf(usage)}
		d.db.opt.Logger.Warn("bigset: the disk fills up", "dir", d.db.dir, "free bytes", usage.AvailBytes, "adds are refused at", err.Reserve)
		d.db.event(Event{Kind: EventDiskSpace, Err: err})
	}
	if usage.AvailBytes <= reserveOf(usage) {
		if d.full.Swap(&DiskSpaceError{Free: usage.AvailBytes, Reserve: reserveOf(usage)}) == nil {
			d.db.Counters.FullDisk.Add(1)
		}
		return
	}
	owed := d.owed(usage.AvailBytes)
	if d.full.Swap(owed) != nil && owed == nil {
		d.met.Store(false)
		d.db.opt.Logger.Info("bigset: the disk has room again, adds are taken", "dir", d.db.dir, "free bytes", usage.AvailBytes)
	}
}

// DiskSpace is the room on the disk of a store, in bytes. All fields are 0 if the file system can't report it.
type DiskSpace struct {
	Free    uint64
	Reserve uint64 // adds are refused when no more than this is free
	// Level is 0 while there is enough room, and 1, 2, 3, 4 when at most 10, 5, 3, 2 % are free: at 4 adds are refused. On a disk
	// larger than 50 GiB, the percentages are of 50 GiB.
	Level int
}

// DiskSpace returns how much room the disk has. full is nil while the store takes adds, otherwise the error that they get, which
// wraps bigset.ErrDiskFull. It checks the disk unless it was checked within the last second.
func (d *DB) DiskSpace() (space DiskSpace, full error) {
	full = d.disk.room()
	if usage := d.disk.usage.Load(); usage != nil {
		space = DiskSpace{usage.AvailBytes, reserveOf(*usage), int(d.disk.level.Load())}
	}
	return space, full
}

// Room returns an error that wraps bigset.ErrDiskFull if there is no room for adds. It checks the disk unless it was checked within
// the last second.
func (d *DB) Room() error { return d.disk.room() }

// Full reports whether adds are refused for lack of room, by the last check of the disk.
func (d *DB) Full() bool { return d.disk.full.Load() != nil }

// Tight reports whether room is short, by the last check of the disk: operations that take room before they free some should wait.
func (d *DB) Tight() bool { return d.disk.tight() }

// Stalled returns an error if a write might have to wait for a flush or a compaction that finds no room, or could not be logged at
// all.
func (d *DB) Stalled() error { return d.disk.stalled() }

// Held returns an error as long as what the open has in memory can't be written to disk. Nothing is written to the store before
// that.
func (d *DB) Held() error { return d.disk.held() }

// Holds reports whether what the open had to write is still in memory.
func (d *DB) Holds() bool { return d.hold.holds() }

// CheckSpace checks the free space of the disk now.
func (d *DB) CheckSpace() { d.disk.check() }

// ForgetSpace makes the next call that depends on free space check the disk.
func (d *DB) ForgetSpace() { d.disk.checked.Store(0) }

// owed returns why nothing may be added although there may be room again: something that was postponed for lack of room has not
// been written yet. What the open has in memory is written now.
func (d *disk) owed(free uint64) *DiskSpaceError {
	db := d.db
	if need := db.hold.bytes(); need > 0 {
		if free < need {
			return &DiskSpaceError{Free: free, Need: need}
		}
		late, err := db.hold.settle()
		if late {
			_ = db.Fail(err)
		}
		if err != nil {
			return &DiskSpaceError{Need: need}
		}
		db.opt.Logger.Warn("bigset: there is room again, and the store takes writes", "dir", db.dir)
	}
	if db.hooks.Owes() || db.flushRetry.full() {
		return &DiskSpaceError{}
	}
	return nil
}

// heldMost is how many times the size of a memtable the log may have for the store to be opened on a full disk: it is in memory
// until there is room.
const heldMost = 16

// roomToOpen returns an error if the log is too large to be replayed in memory, and does not fit on the disk a second time.
func (d *disk) roomToOpen() error {
	names, err := d.inner.List(d.db.dir)
	if err != nil {
		return err
	}
	need := uint64(0)
	for _, name := range names {
		if _, ok := logNumber(name); !ok {
			continue
		}
		info, err := d.inner.Stat(d.inner.PathJoin(d.db.dir, name))
		if err != nil {
			return err
		}
		need += uint64(info.Size())
	}
	usage, err := d.inner.GetDiskUsage(d.db.dir)
	if err != nil || usage.TotalBytes == 0 || usage.AvailBytes >= need || need <= heldMost*uint64(d.db.opt.MemTableBytes) {
		return nil
	}
	return &DiskSpaceError{Free: usage.AvailBytes, Need: need}
}

// opened logs that the open found the disk full.
func (d *disk) opened() {
	if need := d.db.hold.bytes(); need > 0 {
		d.full.Store(&DiskSpaceError{Need: need})
		d.db.opt.Logger.Error("bigset: the disk is full: the store is open for reading, and takes no writes until there is room",
			"dir", d.db.dir, "bytes needed", need)
	}
}

// held returns an error as long as what the open has in memory can't be written to disk. Nothing is written to the store before
// that.
func (d *disk) held() error {
	if !d.db.hold.holds() {
		return nil
	}
	if err := d.room(); err != nil {
		return err
	}
	if need := d.db.hold.bytes(); need > 0 {
		return &DiskSpaceError{Need: need}
	}
	return d.db.Writable()
}

// stalled returns an error if a write might have to wait for a flush or a compaction that finds no room, or could not be logged at
// all. Pebble stops writes when memtables have bigset.LSM.MemTablesStop times their full size, and when level 0 has too many sublevels: each
// memtable that waits for its flush may add one.
func (d *disk) stalled() error {
	if err := d.held(); err != nil {
		return err
	}
	db := d.db
	flushes, compactions := db.flushRetry.full(), db.compactionRetry.full()
	if !flushes && !compactions {
		return nil
	}
	m := db.pebble.Metrics()
	if flushes && m.MemTable.Size >= uint64(db.pebbleOpts.MemTableStopWritesThreshold-1)*uint64(db.opt.MemTableBytes) ||
		compactions && int(m.Levels[0].Sublevels) >= db.pebbleOpts.L0StopWritesThreshold-db.pebbleOpts.MemTableStopWritesThreshold {
		return &DiskSpaceError{}
	}
	return nil
}

func partOf(u vfs.DiskUsage, percent uint64) uint64 {
	return percent * min(u.TotalBytes, spaceTotalMax) / 100
}

func reserveOf(u vfs.DiskUsage) uint64 { return partOf(u, spaceReserve) }

// DiskSpaceError says that little room is left on the disk. As the answer to an add it says that the add was refused: reads and
// removes continue. errors.Is finds bigset.ErrDiskFull in it.
type DiskSpaceError struct {
	Free, Reserve uint64 // bytes; both are 0 when a write found the disk full
	Need          uint64 // bytes that have to be written before anything else can be; 0 if not known or not the case
}

// Error implements error.
func (e *DiskSpaceError) Error() string {
	switch {
	case e.Need > 0:
		return fmt.Sprintf("%v: %d bytes are needed to write what the log has", bigset.ErrDiskFull, e.Need)
	case e.Reserve == 0:
		return fmt.Sprintf("%v: nothing is added until then", bigset.ErrDiskFull)
	}
	return fmt.Sprintf("%v: %d bytes are left, adds are refused at %d", bigset.ErrDiskFull, e.Free, e.Reserve)
}

// Unwrap makes errors.Is find bigset.ErrDiskFull.
func (e *DiskSpaceError) Unwrap() error { return bigset.ErrDiskFull }
