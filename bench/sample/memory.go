package sample

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"bigset/bench/screen"
)

// DataAndMemory returns a sentence that says whether data of this size exceeds the memory available to this process: the machine's, or its
// cgroup's if that is less. Smaller data is read from the page cache, whatever the size of the store's own caches.
func DataAndMemory(data uint64) string { return dataAndMemory("/", data) }

func dataAndMemory(root string, data uint64) string {
	memory, whose := memoryOf(root)
	size := screen.Bytes(float64(data))
	switch {
	case memory == 0:
		return fmt.Sprintf("Whether the data, %s, are larger than memory is not known here.", size)
	case data > memory:
		return fmt.Sprintf("The data, %s, are larger than memory, %s of the %s.", size, screen.Bytes(float64(memory)), whose)
	}
	return fmt.Sprintf("The data, %s, fit in memory, %s of the %s: reads may be served without the disk.", size, screen.Bytes(float64(memory)), whose)
}

// memoryOf returns the bytes of memory, or 0 if unknown, and whose limit that is.
func memoryOf(root string) (memory uint64, whose string) {
	kib, err := strconv.ParseUint(pairsOf(readFile(root, "proc/meminfo"))["MemTotal:"], 10, 64)
	if err != nil || kib > math.MaxUint64>>10 {
		return 0, ""
	}
	memory, whose = kib<<10, "machine"
	for line := range strings.Lines(readFile(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(f) != 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		if strings.Contains(","+f[1]+",", ",memory,") {
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if f[1] != "" {
			continue
		}
		// A group is also limited by the groups that contain it. In a container the path may be that of the host: then the top is the
		// container's.
		for path := filepath.Clean("/" + f[2]); ; path = filepath.Dir(path) {
			limit, err := strconv.ParseUint(readFile(root, filepath.Join(folder, path, file)), 10, 64)
			if err == nil && limit > 0 && limit < memory { // "max" means no limit
				memory, whose = limit, "control group"
			}
			if path == "/" {
				break
			}
		}
	}
	return memory, whose
}
