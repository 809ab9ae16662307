package history

import "github.com/kafka-marshal/marshal/internal/lease"

// Recheck compares a second reading from the base with what was applied the first time. Only positions and hashes are
// compared, so the world and the running claims go on beside it.
type Recheck struct {
	log    *Log
	p      int64 // where the log was when this began, and the hash there
	target uint64
	last   int64 // where the second reading is
	hash   uint64
	done   bool
	same   bool
}

// Recheck begins: b is the base as found again, and what it finds is held against l.
func (l *Log) Recheck(b Base) *Recheck { return l.recheck(b.World.Last(), b.Hash) }

// RecheckFrom begins one of a log in which no base is left: at the newest position below start that l remembers, or at the
// oldest of all. from is where the second reading begins. Not ok: l remembers nothing.
func (l *Log) RecheckFrom(start int64) (r *Recheck, from int64, ok bool) {
	p, hash, ok := l.ring.below(start)
	if !ok {
		return nil, 0, false
	}
	return l.recheck(p, hash), max(p+1, start), true
}

func (l *Log) recheck(last int64, hash uint64) *Recheck {
	r := &Recheck{log: l, last: last, hash: hash}
	r.p, r.target = l.Position()
	r.compare()
	return r
}

// Add takes the next record of the second reading, from the base on.
func (r *Recheck) Add(rec *lease.Record, value []byte) {
	if r.done || rec.Kind == lease.KindProbe {
		return
	}
	if rec.Kind == lease.KindBase && validBase(rec, r.last) {
		r.hash = 0
	}
	r.last, r.hash = rec.Offset, roll(r.hash, rec.Offset, value)
	r.compare()
}

// compare holds the second reading against the first once it is as far. A base that is newer than the position is
// compared when the log has come that far.
func (r *Recheck) compare() {
	if r.last < r.p {
		return
	}
	if r.last == r.p {
		r.done, r.same = true, r.hash == r.target
		return
	}
	if p, _ := r.log.Position(); p < r.last {
		return
	}
	hash, ok := r.log.ring.find(r.last)
	r.done, r.same = true, ok && hash == r.hash
}

// Same tells, when the second reading has reached the log's position, whether the log is the one that was applied. A
// second reading that ends before it is of another log.
func (r *Recheck) Same() (same, reached bool) {
	if !r.done {
		r.compare()
	}
	return r.same, r.done
}
