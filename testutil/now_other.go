//go:build !linux && !darwin

package testutil

import "time"

// Now is nanoseconds on the wall clock: this system has no monotonic clock that processes share, so a step of the wall
// clock during a run spoils what the judge says.
func Now() int64 { return time.Now().UnixNano() }
