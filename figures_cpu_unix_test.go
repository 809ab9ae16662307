//go:build unix

package marshal

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of its processors. It is hardly touched by what else the machine does.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
