package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// worker is one run of a worker process.
type worker struct {
	name   string
	cmd    *exec.Cmd
	output bytes.Buffer
	done   chan struct{} // closed when it has ended
	err    error         // why, once done is closed
	ending bool          // it is to end
}

// launch starts a worker process: this program, as a worker.
func (s *stage) launch(process, client string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := &worker{name: process, done: make(chan struct{})}
	w.cmd = exec.Command(self, "demo-worker", "-brokers", s.addrs, "-process", process, "-client", client, "-group", s.group, //nolint:gosec // ourselves
		"-topic", s.topic, "-dir", s.dir, "-ttl", demoTTL.String())
	w.cmd.Stdout, w.cmd.Stderr = &w.output, &w.output
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("starting worker %s: %w", process, err)
	}
	s.show.wg.Go(func() {
		w.err = w.cmd.Wait()
		close(w.done)
	})
	s.workers = append(s.workers, w)
	return nil
}

func (s *stage) worker(name string) *worker {
	for _, w := range s.workers {
		if w.name == name {
			return w
		}
	}
	panic("no worker " + name)
}

// failures finds workers that ended by themselves.
func (s *stage) failures() error {
	var errs []error
	for _, w := range s.workers {
		if !w.alive() && !w.ending {
			errs = append(errs, fmt.Errorf("worker %s has ended: %w\n%s", w.name, w.err, w.output.Bytes()))
		}
	}
	return errors.Join(errs...)
}

func (w *worker) alive() bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

func (w *worker) signal(sig syscall.Signal) error {
	if err := w.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("worker %s: %v: %w", w.name, sig, err)
	}
	return nil
}

// kill is kill -9; it waits until the process is gone.
func (w *worker) kill() {
	w.ending = true
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.done
}

// wait waits for the end of a worker that was asked to end.
func (w *worker) wait(ctx context.Context) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("worker %s does not end: %w\n%s", w.name, ctx.Err(), w.output.Bytes())
	}
	if w.err != nil && w.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		return nil // killed before
	}
	if w.err != nil {
		return fmt.Errorf("worker %s: %w\n%s", w.name, w.err, w.output.Bytes())
	}
	return nil
}
