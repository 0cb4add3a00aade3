//go:build !linux

package probe

import "os"

// Place returns where to make temporary folders: dir if it is not empty, otherwise the system's default place.
func Place(dir string) string {
	if dir != "" {
		return dir
	}
	return os.TempDir()
}
