package main

import (
	"errors"
	"strings"

	"github.com/kafka-marshal/marshal/testutil/workers"
)

// launch starts a worker process.
func (s *stage) launch(process, client string) error {
	w := workers.Worker{
		Brokers: strings.Split(s.addrs, ","), Process: process, Client: client, Group: s.group, Topics: []string{s.topic}, Dir: s.dir, TTL: demoTTL,
	}
	w.Options.FastReclaim, w.Options.DrainTimeout = true, demoTTL
	p, err := workers.Start(w)
	if err != nil {
		return err
	}
	s.workers = append(s.workers, p)
	return nil
}

func (s *stage) worker(name string) *workers.Process {
	for _, w := range s.workers {
		if w.Process == name {
			return w
		}
	}
	panic("no worker " + name)
}

// failures finds workers that ended by themselves.
func (s *stage) failures() error {
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.Failed())
	}
	return errors.Join(errs...)
}
