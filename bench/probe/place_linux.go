package probe

import (
	"os"
	"syscall"
)

// tmpfsMagic is the type that statfs reports for a file system in memory.
const tmpfsMagic = 0x01021994

// Place returns where to make temporary folders: dir if it is not empty, otherwise the system's default place, or the current folder if
// that place is in memory, and so not a disk to measure.
func Place(dir string) string {
	if dir != "" {
		return dir
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(os.TempDir(), &fs); err == nil && fs.Type == tmpfsMagic {
		return "."
	}
	return os.TempDir()
}
