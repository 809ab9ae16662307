package window

import "time"

// Ages remembers when offsets were handed out, so that the age of the oldest unfinished one can be told. Its zero value is
// empty. Not safe for concurrent use. Offsets that were handed out within 10 ms share one entry of 16 bytes, so that what a
// stuck message costs is bounded by time as well as by the window's limit.
type Ages struct {
	marks []mark // rising in both; what is in front of head is forgotten
	head  int
}

// mark says when the offsets above the mark before, up to last, were handed out: the first of them.
type mark struct {
	last int64
	at   time.Duration
}

const sameAge = 10 * time.Millisecond

// Note says that the offsets from first to last, which are above those noted before, were handed out at now. Where first was
// noted before, it and all above it were taken back meanwhile, and count from now.
func (a *Ages) Note(first, last int64, now time.Duration) {
	n := len(a.marks)
	for n > a.head && a.marks[n-1].last >= first {
		if n-1 == a.head || a.marks[n-2].last < first-1 {
			a.marks[n-1].last = first - 1
		} else {
			n--
		}
	}
	a.marks = a.marks[:n]
	if n > a.head && now-a.marks[n-1].at < sameAge {
		a.marks[n-1].last = last
		return
	}
	a.marks = append(a.marks, mark{last, now})
}

// Since tells when the offset at the position was handed out, to 10 ms, and forgets those below it. It gives false when
// none at or above it is.
func (a *Ages) Since(position int64) (time.Duration, bool) {
	for a.head < len(a.marks) && a.marks[a.head].last < position {
		a.head++
	}
	found := a.head < len(a.marks)
	var at time.Duration
	if found {
		at = a.marks[a.head].at
	}
	if a.head > len(a.marks)/2 {
		a.marks = a.marks[:copy(a.marks, a.marks[a.head:])]
		a.head = 0
	}
	return at, found
}
