package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the processor time of the thread that asks. The machine's other work is not in it.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
