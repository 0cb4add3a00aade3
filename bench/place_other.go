//go:build !linux

package bench

import "os"

// place returns where temporary folders go: dir if it is given, else the system's place for such.
func place(dir string) string {
	if dir != "" {
		return dir
	}
	return os.TempDir()
}
