package door

// descriptorReserve is the least number of the process's file descriptors that connections leave to the store. A store that can't open one
// of its own files takes no more writes.
const descriptorReserve = 512

// ConnectionsMost returns how many of the configured connections are possible if the process may have limit file descriptors; a limit of 0
// means none.
func ConnectionsMost(configured int, limit uint64) int {
	reserve := max(descriptorReserve, limit/4)
	if limit == 0 || uint64(configured)+reserve <= limit {
		return configured
	}
	if limit < 2*reserve {
		return max(1, min(configured, int(limit/2)))
	}
	return int(limit - reserve)
}
