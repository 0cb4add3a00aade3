//go:build !linux

package probe

import "os"

// Place returns where temporary folders go: dir if it is given, else the system's place for such.
func Place(dir string) string {
	if dir != "" {
		return dir
	}
	return os.TempDir()
}
