// Package replay replays what a run of real processes has left in the coordination topic by the rules of `marshal verify`, for the
// end of every test and demo.
package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/kafka-marshal/marshal"
)

// Result is what a replay has found.
type Result struct {
	Records, Replayed int
	Findings          []string // each with the offset of its record
}

// Err says what is wrong, nil if nothing is. That nothing was replayed is wrong too.
func (r Result) Err() error {
	var errs []error
	if r.Replayed == 0 {
		errs = append(errs, fmt.Errorf("of %d records none was replayed", r.Records))
	}
	for _, f := range r.Findings {
		errs = append(errs, errors.New(f))
	}
	return errors.Join(errs...)
}

// Log replays the records of a group. c is a connection to the cluster, which writes nothing.
func Log(ctx context.Context, c *marshal.KafkaCluster, group string) (Result, error) {
	var r Result
	for rec, err := range c.Log(ctx, group) {
		if err != nil {
			return r, fmt.Errorf("the log of group %s: %w", group, err)
		}
		r.Records++
		if rec.Replayed {
			r.Replayed++
		}
		for _, f := range rec.Findings {
			r.Findings = append(r.Findings, fmt.Sprintf("log of group %s, offset %d: %s", group, rec.Offset, f))
		}
	}
	return r, nil
}
