//go:build linux || darwin

package testutil

import "golang.org/x/sys/unix"

// Now is the machine's monotonic clock in nanoseconds: the same one for every process of this machine.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("testutil: no monotonic clock: " + err.Error())
	}
	return t.Nano()
}
