package main

import (
	"fmt"
	"os"
	"strings"
)

// busy is the time that the machine's processors have spent so far, as the kernel counts it; zero where it does not say.
type busy struct{ idle, all float64 }

func readBusy() (b busy) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return b
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		var v float64
		if _, err := fmt.Sscan(field, &v); err != nil || i > 8 { // its name, and what is counted twice
			continue
		}
		b.all += v
		if i == 2 || i == 4 || i == 5 { // of lower priority, idle, and waiting for a disk
			b.idle += v
		}
	}
	return b
}

// since is how much of the time since then was spent at work, 0 to 1.
func (b busy) since() float64 {
	now := readBusy()
	if now.all == b.all {
		return 0
	}
	return 1 - (now.idle-b.idle)/(now.all-b.all)
}
