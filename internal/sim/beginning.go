package sim

import (
	"fmt"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// look reads the log from one of the look-back times on, or, after the last, from its start.
func (p *process) look(i int) {
	s, run := p.sim, p.run
	s.after(p.delay()+p.delay(), func() {
		p.deliver(run, func() {
			if p.lose(p.link.readCut) {
				s.after(p.timeout, func() { p.deliver(run, func() { p.look(i) }) })
				return
			}
			from, last := s.log.start, true
			if backs := history.Lookbacks(); i < len(backs) {
				from, last = s.log.since(s.brokerMillis()-backs[i].Milliseconds()), false
			}
			p.scan(i, from, last)
		})
	})
}

func (p *process) scan(i int, from int64, last bool) {
	s := p.sim
	read := s.log.between(from, s.log.end())
	sc := history.NewScan(topicID, from)
	group := false
	for _, e := range read {
		if e.group {
			group = true
			rec := e.rec
			sc.Add(&rec, e.value)
		}
	}
	base, ok := sc.Base()
	switch {
	case ok:
		p.follow(base, read)
	case !last && from > s.log.start:
		p.look(i + 1)
	case !last:
		p.look(len(history.Lookbacks()))
	default:
		p.begin(sc, from, read, group)
	}
}

// begin goes on without a base: probe until there is one.
func (p *process) begin(sc *history.Scan, from int64, read []*entry, group bool) {
	s, run := p.sim, p.run
	p.phase = beginning
	p.cursor = from
	if n := len(read); n > 0 {
		p.lastRead = read[n-1]
		p.cursor = p.lastRead.offset + 1
	}
	p.began = s.now
	s.tracef("%s finds no base in %d..%d", p.name, from, p.cursor)
	p.beginner = history.NewBeginner(topicID, sc, p.cursor-1, group, s.rng.Uint64(), p.nowClocks().Mono)
	p.tellOldest()
	p.fetch()
	p.deliver(run, p.tickBeginner)
}

// tellOldest tells the beginner of the shard's oldest record.
func (p *process) tellOldest() {
	l := &p.sim.log
	if e := l.at(l.start); e != nil {
		p.beginner.Oldest(e.millis, true)
	}
}

func (p *process) tickBeginner() {
	s, run := p.sim, p.run
	if p.phase != beginning {
		return
	}
	records, wake := p.beginner.Tick(p.nowClocks().Mono, p.tokenBase())
	for _, rec := range records {
		if rec.Kind == lease.KindBase {
			// An hour's rule needs no time; silence takes the largest ttl.
			if s.now-p.began > lease.MaxTTL*9/10 {
				s.table.branch(baseAfterSilenceBranch)
			} else {
				s.table.branch(baseAfterHourBranch)
			}
		}
		s.tracef("%s writes %s", p.name, recordString(&rec))
		p.aux.add(rec, nil, origin{readTo: -1})
	}
	s.at(p.clock.real(wake), func() { p.deliver(run, p.tickBeginner) })
}

func (p *process) tokenBase() int64 {
	return max(p.nowClocks().Wall.Milliseconds(), p.largestSeen()+1) << 20
}

// largestSeen is the largest timestamp that the process can have seen in the shard.
func (p *process) largestSeen() int64 {
	l := &p.sim.log
	if e := l.below(p.cursor); e != nil {
		return e.millis
	}
	return 0
}

// takeBeginning reads what comes while there is no base.
func (p *process) takeBeginning(batch []*entry) {
	s := p.sim
	now := p.nowClocks().Mono
	for _, e := range batch {
		p.cursor, p.lastRead = e.offset+1, e
		if e.group {
			rec := e.rec
			p.beginner.Add(&rec, e.value, now)
		}
		p.beginner.Read(e.offset, now)
		base, ok := p.beginner.Base()
		if !ok {
			continue
		}
		if base.From < s.log.start { // what follows it cannot be read any more: all is looked for again
			p.dropWorld(offStartBranch)
			return
		}
		// Read again from the base on, up to here.
		read := s.log.between(base.From, p.cursor)
		if base.World.Last() >= 0 {
			s.table.branch(probeAnsweredBranch)
		}
		p.follow(base, read)
		return
	}
	if d := p.dark; d > 0 {
		p.dark = 0
		s.outage(d)
	}
	run := p.run
	p.deliver(run, p.tickBeginner)
}

// follow starts the world at a base: read is what stands in the log, from the base or from before it on, as the process
// has read it.
func (p *process) follow(base history.Base, read []*entry) {
	s := p.sim
	p.chain = s.chainBelow(base)
	switch {
	case base.From == 0:
		s.table.branch(originStartBranch)
	case base.World.Last() < 0:
		s.table.branch(baseStartBranch)
	default:
		s.table.branch(snapshotStartBranch)
	}
	p.phase, p.beginner = following, nil
	p.log, p.planner = history.NewLog(base), &policy.Planner{}
	p.cursor = base.From
	s.tracef("%s bases its world on %d", p.name, base.From)
	if base.World.Last() >= 0 {
		s.compareBase(p, base.From)
	}
	p.readyAt = 0
	if n := len(read); n > 0 {
		p.readyAt = read[n-1].offset + 1
	}
	for len(read) > 0 && read[0].offset < base.From {
		read = read[1:]
	}
	p.take(read)
	if p.phase != following {
		return
	}
	if len(read) == 0 || p.cursor >= p.readyAt {
		p.begun()
	}
	p.fetch()
}

// begun makes the members: everything that stood in the log at the start has been applied.
func (p *process) begun() {
	if p.ready {
		return
	}
	p.ready = true
	if s := p.sim; s.lost && s.diverged(p) {
		// Nobody alive could tell that the log had lost what all had read; p can show it to them. Exception 2 of S3 begins here.
		s.lossUntil = max(s.lossUntil, s.now+s.maxTTL)
	}
	for i := range p.plan {
		p.newAgent(&p.plan[i], fmt.Sprintf("%s%c", p.name, 'a'+i))
	}
	run := p.run
	p.sim.after(p.sim.between(0, p.appEvery), func() { p.deliver(run, p.work) })
}
