package history

// ringSize is how many of the newest positions a Log remembers.
const ringSize = 4096

// ring holds the newest positions: where a record of the group was, and the rolling hash there. It grows to ringSize;
// then the oldest is overwritten. Looking up costs O(1): positions of one bucket form a chain from the newest to the
// oldest, and a chain ends where it leads to one that has been overwritten.
type ring struct {
	entries []position
	heads   []uint64 // of each bucket: the number of its newest position; 0: none
	count   uint64   // positions ever added; they are numbered from 1
}

type position struct {
	offset int64
	hash   uint64
	before uint64 // number of the next older position of its bucket
}

func (r *ring) bucket(offset int64) *uint64 {
	return &r.heads[uint64(offset)*0x9e3779b97f4a7c15>>32%uint64(len(r.heads))]
}

// kept is how many positions there are.
func (r *ring) kept() uint64 { return min(r.count, uint64(len(r.entries))) }

func (r *ring) entry(number uint64) *position { return &r.entries[number%uint64(len(r.entries))] }

// add remembers a position; offsets rise.
func (r *ring) add(offset int64, hash uint64) {
	if r.count == uint64(len(r.entries)) && r.count < ringSize {
		r.grow()
	}
	r.count++
	head := r.bucket(offset)
	*r.entry(r.count) = position{offset, hash, *head}
	*head = r.count
}

// grow makes room for four times as many while none has been overwritten yet.
func (r *ring) grow() {
	old := *r
	size := max(64, 4*len(old.entries))
	*r = ring{entries: make([]position, size), heads: make([]uint64, size)}
	for n := uint64(1); n <= old.count; n++ {
		e := old.entry(n)
		r.add(e.offset, e.hash)
	}
}

// find gives the hash at a position.
func (r *ring) find(offset int64) (hash uint64, ok bool) {
	if r.count == 0 {
		return 0, false
	}
	for n := *r.bucket(offset); n != 0 && r.count-n < r.kept(); n = r.entry(n).before {
		if e := r.entry(n); e.offset == offset {
			return e.hash, true
		}
	}
	return 0, false
}

// oldest is the lowest position that is remembered.
func (r *ring) oldest() (offset int64, ok bool) {
	if r.count == 0 {
		return 0, false
	}
	return r.entry(r.count - r.kept() + 1).offset, true
}

// below is the newest position below an offset, or the oldest where all are above.
func (r *ring) below(offset int64) (p int64, hash uint64, ok bool) {
	if r.count == 0 {
		return 0, 0, false
	}
	n, oldest := r.count, r.count-r.kept()+1
	for n > oldest && r.entry(n).offset >= offset {
		n--
	}
	e := r.entry(n)
	return e.offset, e.hash, true
}

// reset forgets all positions.
func (r *ring) reset() {
	clear(r.heads)
	r.count = 0
}
