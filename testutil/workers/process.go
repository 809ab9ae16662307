package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// variable is where a program that is started as a worker finds what it is.
const variable = "MARSHAL_WORKER"

// Serve is the first thing that a program does which starts itself as a worker: there it works until SIGTERM, or until who
// started it is gone, and exits; else it returns at once.
func Serve() {
	text, asked := os.LookupEnv(variable)
	if !asked {
		return
	}
	var parent sync.WaitGroup // nobody waits: it ends with the process
	parent.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the other end of the pipe is closed
		os.Exit(1)
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, text)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(ctx context.Context, text string) error {
	var w Worker
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	m, err := Open(w)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 4)
	signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
	m.wg.Go(func() {
		for sig := range told {
			if sig == syscall.SIGUSR1 {
				m.Hurry()
			} else if m.network != nil {
				m.network.toggle()
			}
		}
	})
	err = m.Run(ctx)
	signal.Stop(told)
	close(told)
	m.wg.Wait()
	return err
}

// Process is one run of a worker in a process of its own.
type Process struct {
	Worker
	cmd    *exec.Cmd
	output bytes.Buffer
	parent io.Closer // closed when who started it is gone
	wg     sync.WaitGroup
	done   chan struct{} // closed when it has ended
	err    error         // why, once done is closed

	mu     sync.Mutex
	ending bool // it is to end
}

// Start starts a worker process: this program, which calls Serve. Who starts it waits for its end, by Kill or Wait.
func Start(w Worker) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	p := &Process{Worker: w, done: make(chan struct{}), cmd: exec.Command(self)} //nolint:gosec // ourselves
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if p.parent, err = p.cmd.StdinPipe(); err != nil { // its other end is closed when we are gone, however that comes
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting worker %s: %w", w.Process, err)
	}
	p.wg.Go(func() {
		p.err = p.cmd.Wait()
		close(p.done)
	})
	return p, nil
}

// Alive tells whether it still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Failed gives an error if it has ended and nobody wanted it to.
func (p *Process) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Alive() || p.ending {
		return nil
	}
	return fmt.Errorf("worker %s has ended: %w\n%s", p.Worker.Process, p.err, p.output.Bytes())
}

func (p *Process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

// Signal sends a signal. After SIGTERM it is expected to end.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGTERM {
		p.expectEnd()
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("worker %s: %v: %w", p.Worker.Process, sig, err)
	}
	return nil
}

// Hurry has its work take no time from here on.
func (p *Process) Hurry() error { return p.Signal(syscall.SIGUSR1) }

// Cut cuts the network of one that is Cuttable, or makes it whole again.
func (p *Process) Cut() error { return p.Signal(syscall.SIGUSR2) }

// Kill is kill -9; it waits until the process is gone.
func (p *Process) Kill() {
	p.expectEnd()
	_ = p.cmd.Process.Kill() // it may have ended
	p.wg.Wait()
}

// Wait waits for the end of one that was asked to end. That it was killed before is no error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("worker %s does not end: %w\n%s", p.Worker.Process, ctx.Err(), p.output.Bytes())
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return nil
	}
	if p.err != nil {
		return fmt.Errorf("worker %s: %w\n%s", p.Worker.Process, p.err, p.output.Bytes())
	}
	return nil
}
