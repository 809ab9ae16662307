package lease

import (
	"hash/maphash"
	"iter"
)

// topicTable finds topics by name: a table of pointers with linear probing, at least a quarter empty. A group may have as
// many topics as keys, and a map would take three times as much for each. Where a topic stands is this process's affair.
type topicTable struct {
	cells []*topic // their number is a power of two
	count int
}

// seed keeps a foreign writer from choosing names that stand in each other's way.
var seed = maphash.MakeSeed()

// home is the cell where the search for a name begins.
func (x *topicTable) home(name string) int {
	return int(maphash.String(seed, name)) & (len(x.cells) - 1)
}

func (x *topicTable) next(cell int) int { return (cell + 1) & (len(x.cells) - 1) }

// find gives the topic of that name; nil: there is none.
func (x *topicTable) find(name string) *topic {
	if len(x.cells) == 0 {
		return nil
	}
	for i := x.home(name); x.cells[i] != nil; i = x.next(i) {
		if x.cells[i].name == name {
			return x.cells[i]
		}
	}
	return nil
}

// add takes a topic in whose name is not there yet.
func (x *topicTable) add(t *topic) {
	if 4*(x.count+1) > 3*len(x.cells) {
		old := *x
		*x = topicTable{cells: make([]*topic, max(8, 2*len(old.cells)))}
		for o := range old.all() {
			x.add(o)
		}
	}
	i := x.home(t.name)
	for x.cells[i] != nil {
		i = x.next(i)
	}
	x.cells[i] = t
	x.count++
}

// remove takes a topic out that is there, and moves up those that are searched for over its cell.
func (x *topicTable) remove(t *topic) {
	i := x.home(t.name)
	for x.cells[i] != t {
		i = x.next(i)
	}
	for j := x.next(i); x.cells[j] != nil; j = x.next(j) {
		mask := len(x.cells) - 1
		if home := x.home(x.cells[j].name); (j-home)&mask >= (j-i)&mask {
			x.cells[i], i = x.cells[j], j
		}
	}
	x.cells[i] = nil
	x.count--
}

// all yields the topics in no order.
func (x *topicTable) all() iter.Seq[*topic] {
	return func(yield func(*topic) bool) {
		for _, t := range x.cells {
			if t != nil && !yield(t) {
				return
			}
		}
	}
}
