package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A process writes down what it is handed in a file that is mapped into memory: that costs it some 50 ns, the program that measures
// reads it as it grows, and what a killed process has written stays.

// event is one line of a journal.
type event struct {
	at        int64 // Unix ns; written last: 0 says that the rest is not there yet
	offset    int64
	partition int32 // or a mark
	_         int32
}

// Marks of what a process does, in place of a partition.
const (
	begun   = -1 - iota // is about to make its client
	leaving             // is about to close it
	left                // has closed it
)

const (
	eventSize   = int64(unsafe.Sizeof(event{}))
	journalSize = 6 << 20 // events; the file has holes where none is written
)

// journal is the file, as its process writes it.
type journal struct {
	events []event
	next   atomic.Int64
}

func openJournal(path string) (*journal, error) {
	events, err := mapEvents(path, syscall.PROT_READ|syscall.PROT_WRITE)
	return &journal{events: events}, err
}

func mapEvents(path string, protection int) ([]event, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(journalSize * eventSize); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(journalSize*eventSize), protection, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return unsafe.Slice((*event)(unsafe.Pointer(unsafe.SliceData(b))), journalSize), nil
}

// note writes one line. Safe for concurrent use; what does not fit is left out.
func (j *journal) note(partition int32, offset int64) {
	n := j.next.Add(1) - 1
	if n >= journalSize {
		return
	}
	e := &j.events[n]
	e.partition, e.offset = partition, offset
	atomic.StoreInt64(&e.at, time.Now().UnixNano())
}

// reader reads the journal of another process as it grows.
type reader struct {
	events []event
	next   int64
}

func newReader(dir, name string) (*reader, string, error) {
	path := filepath.Join(dir, name)
	events, err := mapEvents(path, syscall.PROT_READ)
	return &reader{events: events}, path, err
}

// read passes on what is new.
func (r *reader) read(each func(at time.Time, partition int32, offset int64)) {
	for r.next < journalSize {
		e := &r.events[r.next]
		at := atomic.LoadInt64(&e.at)
		if at == 0 {
			return
		}
		each(time.Unix(0, at), e.partition, e.offset)
		r.next++
	}
}

func (r *reader) close() {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(r.events))), journalSize*eventSize)
	_ = syscall.Munmap(b) // it was mapped
}
