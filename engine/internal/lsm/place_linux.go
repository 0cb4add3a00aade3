package lsm

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// filePlace returns what distinguishes a file from a copy of it: device, inode, and the time of the last change of the inode, which
// no copying tool can set. It is empty for file systems in memory.
func filePlace(fs vfs.FS, path string) string {
	info, err := fs.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d.%09d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
}

// tmpfsMagic is the type of a Linux file system in memory, from linux/magic.h.
const tmpfsMagic = 0x01021994

// inMemory reports whether a folder, which need not exist yet, is on a file system in memory.
func inMemory(dir string) bool {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	for errors.Is(err, iofs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = syscall.Statfs(dir, &st)
	}
	return err == nil && st.Type == tmpfsMagic
}
