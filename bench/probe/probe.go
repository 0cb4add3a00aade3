// Package probe decides how a benchmark reads its own process and the folders of stores: CPU time, heap, bytes of tables, and the place of
// temporary folders. Any number of goroutines may call its functions. HeapBytes collects garbage, which slows all of them down.
package probe

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
)

// HeapBytes returns the number of live bytes on the heap.
func HeapBytes() uint64 {
	runtime.GC()
	runtime.GC() // objects in pools survive the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TableFiles returns the bytes of all tables in a folder, in use or not. A file with two names counts once.
func TableFiles(dir string) uint64 {
	total, seen := uint64(0), map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(d.Name(), ".sst") && !strings.HasSuffix(d.Name(), ".tmp") {
			return nil // files vanish during the walk
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if n, known := fileNumber(info); known {
			if seen[n] {
				return nil
			}
			seen[n] = true
		}
		total += uint64(info.Size())
		return nil
	})
	return total
}
