package lsm

import (
	"fmt"
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
