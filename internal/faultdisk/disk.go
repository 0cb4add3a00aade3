// Package faultdisk is a file system in memory that loses power and fails on request.
package faultdisk

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Disk is an in-memory file system that can lose power and fail, and that reports operations on it to hooks.
type Disk struct {
	vfs.FS
	mem *memory

	mu    sync.Mutex
	hooks atomic.Pointer[map[string]Hook]
}

// Hook is called before each operation of a Disk, in the goroutine of the operation. An error that it returns is the operation's
// error. It may take crash clones.
type Hook func(op errorfs.Op) error

// New returns an empty disk.
func New() *Disk { return newDisk(newMemory()) }

func newDisk(mem *memory) *Disk {
	d := &Disk{mem: mem}
	d.FS = errorfs.Wrap(d.mem, errorfs.InjectorFunc(d.before))
	return d
}

// before calls the hooks.
func (d *Disk) before(op errorfs.Op) error {
	if hooks := d.hooks.Load(); hooks != nil {
		for _, h := range *hooks {
			if err := h(op); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReuseForWrite wraps the file that errorfs returns unwrapped: logs are recycled, and hooks must see the operations on them.
func (d *Disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = newname
		return d.before(op)
	})), nil
}

// SetShortWrites sets a function that is called before each write to a file, in the goroutine of the write. If it returns an error,
// half of the bytes are written, and the write returns the error. Nil removes the function.
func (d *Disk) SetShortWrites(short func(path string) error) {
	if short == nil {
		d.mem.short.Store(nil)
		return
	}
	d.mem.short.Store(&short)
}

// FailWrites makes writes to files whose names end in suffix fail with cause, except the next after writes, until Heal. It returns
// the count of writes that have failed so far.
func (d *Disk) FailWrites(suffix string, after int, cause error) (failed *atomic.Int64) {
	var n atomic.Int64
	failed = new(atomic.Int64)
	d.SetHook("fail", func(op errorfs.Op) error {
		if !IsWrite(op) || !strings.HasSuffix(op.Path, suffix) || n.Add(1) <= int64(after) {
			return nil
		}
		failed.Add(1)
		return cause
	})
	return failed
}

// Fill makes all operations that need room fail with ENOSPC, except the next after operations, until Heal. It returns the count of
// operations that have failed so far.
func (d *Disk) Fill(after int64) (failed *atomic.Int64) { return d.FillFor(after, NeedsRoom) }

// FillFor is Fill for the operations that fit.
func (d *Disk) FillFor(after int64, fits func(errorfs.Op) bool) (failed *atomic.Int64) {
	var n atomic.Int64
	failed = new(atomic.Int64)
	d.SetHook("fail", func(op errorfs.Op) error {
		if !fits(op) || n.Add(1) <= after {
			return nil
		}
		failed.Add(1)
		return &os.PathError{Op: "inject", Path: op.Path, Err: syscall.ENOSPC}
	})
	return failed
}

// NeedsRoom reports whether a full disk may fail an operation.
func NeedsRoom(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpLock, errorfs.OpFileClose, errorfs.OpRemove, errorfs.OpRemoveAll:
		return false
	}
	return IsWrite(op)
}

// Heal ends FailWrites and Fill.
func (d *Disk) Heal() { d.SetHook("fail", nil) }

// SetUsage sets what the disk reports as its free space; before the first call it reports none.
func (d *Disk) SetUsage(u vfs.DiskUsage) { d.mem.TestingSetDiskUsage(u) }

// SetHook sets the hook of that name; nil removes it.
func (d *Disk) SetHook(name string, h Hook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[string]Hook{}
	if old := d.hooks.Load(); old != nil {
		for n, h := range *old {
			next[n] = h
		}
	}
	if next[name] = h; h == nil {
		delete(next, name)
	}
	d.hooks.Store(&next)
}

// CrashClone returns the disk as it may look after a power cut at this moment: what was synced, and each other block and directory
// entry with the given probability in percent. The same seed leaves the same of a disk with the same content.
func (d *Disk) CrashClone(unsyncedPercent int, seed uint64) *Disk {
	if unsyncedPercent == 0 {
		return newDisk(d.mem.clone(nil))
	}
	return newDisk(d.mem.clone(byChance(unsyncedPercent, seed)))
}

// CrashAt takes a crash clone before the n-th write operation from now on, counting from 0. The returned function ends the wait and
// returns the clone, or nil if there were fewer operations.
func (d *Disk) CrashAt(n int64, unsyncedPercent int, seed uint64) func() *Disk {
	var mu sync.Mutex
	var left *Disk
	d.SetHook("crash", func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if IsWrite(op) {
			if n--; n == -1 {
				left = d.CrashClone(unsyncedPercent, seed)
			}
		}
		return nil
	})
	return func() *Disk {
		d.SetHook("crash", nil)
		mu.Lock()
		defer mu.Unlock()
		n = -1
		return left
	}
}

// IsWrite reports whether an operation changes the disk.
func IsWrite(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }

// CrashEverywhere takes crash clones, one for each percentage, before every write operation from now on. The returned function
// takes the last ones, and returns all.
func (d *Disk) CrashEverywhere(unsyncedPercents ...int) func() []*Disk {
	var mu sync.Mutex
	var left []*Disk
	done := false
	take := func() {
		for _, percent := range unsyncedPercents {
			left = append(left, d.CrashClone(percent, uint64(len(left))))
		}
	}
	d.SetHook("crashes", func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if IsWrite(op) && !done {
			take()
		}
		return nil
	})
	return func() []*Disk {
		d.SetHook("crashes", nil)
		mu.Lock()
		defer mu.Unlock()
		take()
		done = true
		return left
	}
}
