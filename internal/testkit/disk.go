package testkit

import (
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"bigset/internal/faultdisk"
)

// Disk is a faultdisk.Disk, and Hook one of its hooks.
type (
	Disk = faultdisk.Disk
	Hook = faultdisk.Hook
)

// NewDisk returns an empty disk.
func NewDisk() *Disk { return faultdisk.New() }

// IsWrite reports whether an operation changes the disk.
func IsWrite(op errorfs.Op) bool { return faultdisk.IsWrite(op) }

// NeedsRoom reports whether a full disk may fail an operation.
func NeedsRoom(op errorfs.Op) bool { return faultdisk.NeedsRoom(op) }

// Beside runs f in a goroutine of its own and waits for it. A hook must use it to call the store: the goroutine of the hook may
// hold locks that come after those of the store.
func Beside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
