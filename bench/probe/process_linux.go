package probe

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU returns the CPU time of a process, user and system, in nanoseconds. /proc/PID/stat reports it only in hundredths of a second.
func ProcessCPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // as clock_getcpuclockid(3) makes it: the scheduler's time of all threads of the process
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
