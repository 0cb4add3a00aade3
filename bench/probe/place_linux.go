package probe

import (
	"os"
	"syscall"
)

// tmpfsMagic is what statfs says of a file system in memory.
const tmpfsMagic = 0x01021994

// Place returns where temporary folders go: dir if it is given, the system's place for such, or the current folder where
// that is in memory, and so no disk to measure.
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
