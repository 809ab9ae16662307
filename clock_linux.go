package marshal

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime goes on while the machine is suspended, which the monotonic clock of Linux does not.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
