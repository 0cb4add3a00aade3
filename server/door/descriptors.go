package door

// descriptorReserve is the least of the process's file descriptors that connections leave to the store. A store that can't open a file of
// its own takes no writes any more.
const descriptorReserve = 512

// ConnectionsMost returns how many connections there may be of those that are configured, where the process may have so many file
// descriptors; a limit of 0 is none.
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
