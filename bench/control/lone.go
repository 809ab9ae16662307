package main

import (
	"fmt"
	"strconv"
	"time"
)

// Figures of ours alone. The hand-over of one of two partitions is measured as the benchmark of the library does it: messages lie ready
// for its reader, who has one in flight and rests a millisecond after it; the other partition is empty.
const (
	moved = 1  // of two, the partition that the newcomer gets
	some  = 50 // messages that an owner is handed at least before the next change
	ahead = 5_000
)

// ready keeps some messages before the readers of the moved partition.
func (s *stage) ready(written *int64, least int64) error {
	for s.last().offset+least > *written {
		if err := fill(s.ctx, s.admin, s.topic, []int32{moved}, int(least)); err != nil {
			return err
		}
		*written += least
	}
	return nil
}

// last is the newest message of the moved partition.
func (s *stage) last() (newest handed) {
	for i := len(s.lines[moved]) - 1; i >= max(0, len(s.lines[moved])-1000); i-- { // each process is read by itself
		if h := s.lines[moved][i]; h.at.After(newest.at) {
			newest = h
		}
	}
	return newest
}

// at waits until the moved partition is at a process, and its reader in the middle of its work.
func (s *stage) at(who int, after time.Time, least int) error {
	ok, err := s.until(time.Minute, func() bool {
		n := 0
		for i := len(s.lines[moved]) - 1; i >= 0 && n < least; i-- {
			if h := s.lines[moved][i]; h.who == who && h.at.After(after) {
				n++
			}
		}
		return n >= least && s.last().who == who
	})
	if err == nil && !ok {
		err = fmt.Errorf("waited in vain for the moved partition at %s", s.cast[who].name)
	}
	return err
}

// handovers has a process join and leave, again and again, and gives the times from the last message at one owner to the first at
// the next, in ms.
func (p *program) handovers(n int) (joins, leaves []float64, err error) {
	s, err := newStage(p.ctx, p.admin, p.dir, "handover", 2)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	const ttl = 3 * time.Second // the newcomer waits less for membership to be still; the rest is as with 10 s
	var written int64
	if err := s.ready(&written, ahead); err != nil {
		return nil, nil, err
	}
	a, at, err := s.join(task{Client: "ours", TTL: ttl, Earliest: true, Slow: true})
	if err != nil {
		return nil, nil, err
	}
	b, err := s.enter(task{Client: "ours", TTL: ttl, Earliest: true, Slow: true})
	if err != nil {
		return nil, nil, err
	}
	if err := s.at(a, at, some); err != nil {
		return nil, nil, err
	}
	for range (n + 1) / 2 {
		if err := s.ready(&written, ahead); err != nil {
			return nil, nil, err
		}
		now := time.Now()
		if _, err := s.order(b, orderJoin); err != nil {
			return nil, nil, err
		}
		if err := s.at(b, now, some); err != nil {
			return nil, nil, err
		}
		now = time.Now()
		if _, err := s.order(b, orderLeave); err != nil {
			return nil, nil, err
		}
		if err := s.at(a, now, some); err != nil {
			return nil, nil, err
		}
	}
	s.lines.sort()
	between := s.lines.between(moved)
	p.say("control, between two messages at one owner: p50 %.1f, p99.9 %.1f, longest %.1f ms", quantile(between, 0.5), quantile(between, 0.999), quantile(between, 1))
	for _, h := range s.lines.handovers(moved) {
		if h.skipped != 0 {
			return nil, nil, fmt.Errorf("a hand-over skipped %d messages", h.skipped)
		}
		if ms := float64(h.took.Nanoseconds()) / 1e6; h.to == b {
			joins = append(joins, ms)
		} else {
			leaves = append(leaves, ms)
		}
	}
	return joins, leaves, nil
}

// crashes has a process join and kills it, again and again, and gives how much later than a ttl after that its partition is at the
// survivor, in ms.
func (p *program) crashes(n int, ttl time.Duration) (beyond []float64, err error) {
	s, err := newStage(p.ctx, p.admin, p.dir, "kill9", 2)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var written int64
	if err := s.ready(&written, ahead); err != nil {
		return nil, err
	}
	mine := task{Client: "ours", TTL: ttl, Earliest: true, Slow: true}
	survivor, at, err := s.join(mine)
	if err != nil {
		return nil, err
	}
	if err := s.at(survivor, at, some); err != nil {
		return nil, err
	}
	for i := range n {
		if err := s.ready(&written, ahead+int64(ttl/time.Millisecond)*2); err != nil {
			return nil, err
		}
		victim, at, err := s.join(mine)
		if err != nil {
			return nil, err
		}
		if err := s.at(victim, at, some*(1+i)); err != nil { // so that it is killed anywhere between two heartbeats
			return nil, err
		}
		killed := s.kill(victim)
		if err := s.at(survivor, killed, some); err != nil {
			return nil, err
		}
		s.lines.sort()
		moves := s.lines.handovers(moved)
		again := moves[len(moves)-1]
		if again.to != survivor || again.skipped > 0 {
			return nil, fmt.Errorf("after a crash %d messages were skipped", again.skipped)
		}
		beyond = append(beyond, float64((again.at.Sub(killed)-ttl).Nanoseconds())/1e6)
	}
	return beyond, nil
}

// cold starts so many processes together, and gives how long it takes until every partition flows that nobody had before, in s.
func (p *program) cold(processes, partitions int) (float64, error) {
	s, err := newStage(p.ctx, p.admin, p.dir, "cold", partitions)
	if err != nil {
		return 0, err
	}
	defer s.close()
	if err := fill(s.ctx, s.admin, s.topic, s.all(), 20); err != nil {
		return 0, err
	}
	for range processes {
		if _, err := s.enter(task{Client: "ours", Earliest: true}); err != nil {
			return 0, err
		}
	}
	for who := range processes {
		if _, err := s.order(who, orderJoin); err != nil {
			return 0, err
		}
	}
	ok, err := s.until(time.Minute, func() bool {
		for _, l := range s.lines {
			if len(l) == 0 {
				return false
			}
		}
		return true
	})
	if err != nil || !ok {
		return 0, orNever(err)
	}
	s.lines.sort()
	first, last := s.cast[0].marks[begun], time.Time{}
	for _, p := range s.cast {
		if at := p.marks[begun]; at.Before(first) {
			first = at
		}
	}
	for _, l := range s.lines {
		last = later(last, l[0].at)
	}
	return last.Sub(first).Seconds(), nil
}

// idle gives the CPU time of one process of a group of members with nothing to read, in per cent of a processor. The others share a
// process.
func (p *program) idle(members, partitions int, d time.Duration) (float64, error) {
	s, err := newStage(p.ctx, p.admin, p.dir, "idle", partitions)
	if err != nil {
		return 0, err
	}
	defer s.close()
	if _, _, err := s.join(task{Client: "ours", Name: "others", Members: members - 1, Earliest: true}); err != nil {
		return 0, err
	}
	one, _, err := s.join(task{Client: "ours", Name: "one", Earliest: true})
	if err != nil {
		return 0, err
	}
	if err := s.pass(quietTime * 2); err != nil { // nothing can be seen of it from here
		return 0, err
	}
	if err := s.share(one, partitions/members); err != nil {
		return 0, err
	}
	if err := s.pass(quietTime); err != nil { // so that what was read is committed
		return 0, err
	}
	used := func() (float64, error) {
		text, err := s.order(one, orderCPU)
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(text, 64)
	}
	before, err := used()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := s.pass(d); err != nil {
		return 0, err
	}
	after, err := used()
	return 100 * (after - before) / time.Since(begun).Seconds(), err
}

// share writes a message to each partition, and requires that a process is handed so many of them.
func (s *stage) share(who, want int) error {
	if err := fill(s.ctx, s.admin, s.topic, s.all(), 1); err != nil {
		return err
	}
	ok, err := s.until(time.Minute, func() bool {
		for _, l := range s.lines {
			if len(l) == 0 {
				return false
			}
		}
		return true
	})
	if n := s.lines.owners(len(s.cast), time.Now())[who]; err == nil && (!ok || n != want) {
		err = fmt.Errorf("%s has %d of %d partitions, not %d", s.cast[who].name, n, s.partitions, want)
	}
	return err
}
