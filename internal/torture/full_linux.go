package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// diskBytes is the size of a node's own disk: what a run of some minutes writes, with some of it twice.
const diskBytes = 512 << 20

// mountDisk mounts a file system in memory at a folder. It requires the right to mount.
func mountDisk(dir string) error {
	if err := syscall.Mount("bigset-torture", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		return fmt.Errorf("torture: the fault %q makes a disk in memory for each node, and may not mount it: %w", full, err)
	}
	return nil
}

func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// keepFull keeps a disk full for a time: it takes again what the store frees. Then it frees what it took.
func keepFull(ctx context.Context, disk string, d time.Duration) (err error) {
	f, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	at := int64(0)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		var st syscall.Statfs_t
		if err := syscall.Statfs(disk, &st); err != nil {
			return err
		}
		free := int64(st.Bavail) * st.Bsize
		if free == 0 {
			continue
		}
		if err := syscall.Fallocate(int(f.Fd()), 0, at, free); err == nil {
			at += free
		} else if !errors.Is(err, syscall.ENOSPC) { // the store was faster
			return err
		}
	}
	return nil
}
