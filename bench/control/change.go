package main

import (
	"fmt"
	"time"
)

// A change is looked at for as long as the quiet time before it at least, until everything has flowed evenly for a while.
const (
	quietTime   = 10 * time.Second
	steadyTime  = 3 * time.Second
	changeLimit = 2 * time.Minute
	stop        = 500 * time.Millisecond // who is silent for so long does not flow
	members     = 3                      // before one joins
)

// periods says how often each partition gets a message: such that two processors are half idle with every client.
var periods = map[int]time.Duration{100: 50 * time.Millisecond, 900: 250 * time.Millisecond}

// shift is what one change of the group did.
type shift struct {
	took       time.Duration // until every partition flows again, at its last owner; negative: it never did
	gap        time.Duration // the longest, of the partitions that did not move
	moved      int
	balanced   bool
	bystanders float64 // gap ÷ that of the quiet time
}

// run is one client with one number of partitions.
type run struct {
	client     string
	partitions int
	quiet      time.Duration // the longest gap of the quiet time
	busy       float64       // of the machine, in it: 0 to 1
	shifts     map[string]shift
}

// measure takes a group through a member's coming, going, and crash.
func (p *program) measure(client string, partitions int) (r run, err error) {
	r = run{client: client, partitions: partitions, shifts: map[string]shift{}}
	s, err := p.newRun(client, partitions)
	if err != nil {
		return r, err
	}
	defer s.close()
	period := periods[partitions]
	for range members {
		if _, _, err := s.join(task{Client: client}); err != nil {
			return r, err
		}
	}
	living := []bool{true, true, true}
	rested := func() bool { return s.rested(period, living) }
	if ok, err := s.until(changeLimit, rested); err != nil || !ok {
		return r, fmt.Errorf("%s with %d partitions: %w at the beginning: the newest messages are at %v", client, partitions, orNever(err),
			s.lines.owners(len(s.cast), time.Now()))
	}
	from, busy := time.Now(), readBusy()
	if err := s.pass(quietTime); err != nil {
		return r, err
	}
	quiet := span{from, time.Now()}
	r.busy = busy.since()
	s.lines.sort()
	r.quiet = s.lines.longest(quiet, nil)
	if *details {
		p.say("in quiet: %s", s.detail(quiet, nil))
	}

	change := func(name string, at time.Time) error {
		_, err := s.until(changeLimit, func() bool { return time.Since(at) >= quietTime && rested() })
		s.lines.sort()
		r.shifts[name] = s.judge(span{at, time.Now()}, r.quiet, living)
		p.say("%-9s %3d partitions, %-5s %s", client, partitions, name, r.shifts[name])
		if *details {
			p.say("the others: %s", s.detail(span{at, time.Now()}, func(p int) bool { return s.lines.stayed(p, span{at, time.Now()}) }))
		}
		return err
	}
	who, at, err := s.join(task{Client: client})
	if err != nil {
		return r, err
	}
	living = append(living, true)
	if err := change("join", at); err != nil {
		return r, err
	}
	living[who] = false
	if at, err = s.leave(who); err != nil {
		return r, err
	}
	if err := change("leave", at); err != nil {
		return r, err
	}
	living[members-1] = false
	return r, change("kill", s.kill(members-1))
}

func orNever(err error) error {
	if err == nil {
		return errNever
	}
	return err
}

// rested tells whether everything has flowed evenly for a while.
func (s *stage) rested(period time.Duration, living []bool) bool {
	now := time.Now()
	steady := span{now.Add(-steadyTime), now}
	for p, all := range s.lines {
		if len(all) == 0 || now.Sub(all[len(all)-1].at) > 4*period+stop || !s.lines.stayed(p, steady) {
			return false
		}
	}
	return even(s.lines.owners(len(s.cast), now), living)
}

// judge tells what a change did.
func (s *stage) judge(change span, quiet time.Duration, living []bool) (j shift) {
	j.took = -1
	if at := s.lines.settled(change, max(quiet*3/2, stop)); !at.IsZero() {
		j.took = at.Sub(change.from)
	}
	j.balanced = even(s.lines.owners(len(s.cast), change.to), living)
	stayed := func(p int) bool { return s.lines.stayed(p, change) }
	for p := range s.lines {
		if !stayed(p) {
			j.moved++
		}
	}
	j.gap = s.lines.longest(change, stayed)
	j.bystanders = float64(j.gap) / float64(quiet)
	return j
}

func (j shift) String() string {
	balance := ""
	if !j.balanced {
		balance = ", NOT balanced"
	}
	return fmt.Sprintf("flows again after %6.2f s, %3d moved, longest gap of the others %6.0f ms (%.2f of quiet)%s",
		j.took.Seconds(), j.moved, float64(j.gap.Microseconds())/1e3, j.bystanders, balance)
}

// detail tells of the longest gap, and how many partitions had one half as long.
func (s *stage) detail(look span, which func(int) bool) string {
	worst, gap := s.lines.worst(look, which)
	long := 0
	for p := range s.lines {
		if (which == nil || which(p)) && s.lines.longest(look, func(q int) bool { return p == q }) > gap.to.Sub(gap.from)/2 {
			long++
		}
	}
	before, _ := s.lines.newest(worst, gap.from)
	after, _ := s.lines.newest(worst, gap.to)
	return fmt.Sprintf("partition %d at %s: offset %d at %s, %d at %s; %d partitions had a gap half as long", worst, s.cast[before.who].name,
		before.offset, before.at.Format("05.000"), after.offset, after.at.Format("05.000"), long)
}
