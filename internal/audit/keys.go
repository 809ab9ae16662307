package audit

import (
	"strconv"
	"strings"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// keyList is a list of keys for people: partitions that follow each other, and of which the same is to be said, are a range.
type keyList struct {
	runs []keyRun
	all  int // keys
}

type keyRun struct {
	first lease.Key
	last  int32
	note  string
}

// add appends a key, and what is to be said of it.
func (l *keyList) add(k lease.Key, note string) {
	l.all++
	if n := len(l.runs); n > 0 {
		if r := &l.runs[n-1]; r.first.Topic == k.Topic && r.last != lease.WholeTopic && k.Partition == r.last+1 && r.note == note {
			r.last++
			return
		}
	}
	l.runs = append(l.runs, keyRun{first: k, last: k.Partition, note: note})
}

// String names the keys as in "orders/0-7,9, paid/3 at 20", most ranges of them, and counts the rest.
func (l *keyList) String() string {
	var b strings.Builder
	named := 0
	for i := range l.runs[:min(most, len(l.runs))] {
		r := &l.runs[i]
		named += int(r.last-r.first.Partition) + 1
		switch {
		case i == 0:
			b.WriteString(keyName(r.first))
		case r.note == "" && l.runs[i-1].note == "" && r.last != lease.WholeTopic && l.runs[i-1].last != lease.WholeTopic && l.runs[i-1].first.Topic == r.first.Topic:
			b.WriteString("," + strconv.Itoa(int(r.first.Partition)))
		default:
			b.WriteString(", " + keyName(r.first))
		}
		if r.last > r.first.Partition {
			b.WriteString("-" + strconv.Itoa(int(r.last)))
		}
		b.WriteString(r.note)
	}
	if more := l.all - named; more > 0 {
		b.WriteString(", and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

func keyNames(keys []lease.Key) string {
	var l keyList
	for _, k := range keys {
		l.add(k, "")
	}
	return l.String()
}
