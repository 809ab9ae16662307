//go:build !linux

package main

import "time"

var origin = time.Now()

// cpu is the time that has passed: elsewhere than on Linux the machine's other work is in it.
func cpu() time.Duration { return time.Since(origin) }
