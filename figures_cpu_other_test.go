//go:build !unix

package marshal

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
