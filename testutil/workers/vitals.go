package workers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/kafka-marshal/marshal/testutil"
)

// Vitals are what a process needs at a moment.
type Vitals struct {
	At         int64 // as testutil.Now
	Goroutines int
	Files      int
	RSS        int64 // bytes
}

const vitalsSuffix = ".vitals"

// watch writes the vitals of this process down, each second.
func (m *Member) watch(ctx context.Context) {
	f, err := os.Create(filepath.Join(m.Dir, m.Process+vitalsSuffix))
	if err != nil {
		return // who looks for them will miss them
	}
	defer f.Close()
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for {
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		}
		files, _ := os.ReadDir("/proc/self/fd")
		statm, _ := os.ReadFile("/proc/self/statm")
		pages := int64(0)
		if fields := bytes.Fields(statm); len(fields) > 1 {
			pages, _ = strconv.ParseInt(string(fields[1]), 10, 64)
		}
		if _, err := fmt.Fprintln(f, testutil.Now(), runtime.NumGoroutine(), len(files), pages*int64(os.Getpagesize())); err != nil {
			return
		}
	}
}

// ReadVitals reads what a worker has written down of itself.
func ReadVitals(dir, process string) ([]Vitals, error) {
	text, err := os.ReadFile(filepath.Join(dir, process+vitalsSuffix))
	if err != nil {
		return nil, err
	}
	var all []Vitals
	for line := range bytes.Lines(text) {
		var v Vitals
		if _, err := fmt.Sscan(string(line), &v.At, &v.Goroutines, &v.Files, &v.RSS); err != nil {
			break // the last one, while it is written
		}
		all = append(all, v)
	}
	return all, nil
}
