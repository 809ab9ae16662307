package marshal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// causes gathers why something has failed for single partitions: as an error it names each cause once, and the partitions beside it.
// The zero value is ready.
type causes struct {
	all map[string]*cause // by the text of err
}

type cause struct {
	err error
	of  map[string][]int32 // by topic
}

// At most so many causes, and stretches of partitions of a topic for one of them, are named.
const (
	causesNamed    = 10
	stretchesNamed = 50
)

// add notes why it has failed for a partition; nil: it has not.
func (cs *causes) add(topic string, partition int32, err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*kafka.OffsetError](err); ok { // which one that is stands beside
		err = e.Err
	}
	c := cs.all[err.Error()]
	if c == nil {
		if cs.all == nil {
			cs.all = map[string]*cause{}
		}
		c = &cause{err: err, of: map[string][]int32{}}
		cs.all[err.Error()] = c
	}
	c.of[topic] = append(c.of[topic], partition)
}

// err is nil where nothing has failed.
func (cs *causes) err() error {
	if len(cs.all) == 0 {
		return nil
	}
	type named struct{ what, why string }
	var list []named
	for why, c := range cs.all {
		list = append(list, named{c.whom(), why})
	}
	slices.SortFunc(list, func(a, b named) int { return cmp.Or(strings.Compare(a.what, b.what), strings.Compare(a.why, b.why)) })
	e := &causesError{}
	var texts []string
	for i, n := range list {
		if i < causesNamed {
			texts = append(texts, n.what+": "+n.why)
		}
		e.errs = append(e.errs, cs.all[n.why].err)
	}
	if more := len(list) - causesNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d other causes", more))
	}
	e.text = strings.Join(texts, "; ")
	return e
}

// errOf is err with what it is about before it: "offset of".
func (cs *causes) errOf(what string) error {
	if err := cs.err(); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	return nil
}

// whom names the partitions: "orders [0-3,7], bills/2".
func (c *cause) whom() string {
	var texts []string
	for _, topic := range slices.Sorted(maps.Keys(c.of)) {
		slices.Sort(c.of[topic])
		ids := slices.Compact(c.of[topic])
		c.of[topic] = ids
		if len(ids) == 1 {
			texts = append(texts, fmt.Sprintf("%s/%d", topic, ids[0]))
		} else {
			texts = append(texts, fmt.Sprintf("%s [%s]", topic, stretches(ids)))
		}
	}
	return strings.Join(texts, ", ")
}

// stretches writes rising numbers: "0-3,7".
func stretches(ids []int32) string {
	var texts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if len(texts) == stretchesNamed {
			return fmt.Sprintf("%s and %d more", strings.Join(texts, ","), len(ids)-i)
		}
		if i == j {
			texts = append(texts, fmt.Sprint(ids[i]))
		} else {
			texts = append(texts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(texts, ",")
}

// causesError is what causes.err gives: errors.Is and errors.As find each cause in it.
type causesError struct {
	text string
	errs []error
}

func (e *causesError) Error() string   { return e.text }
func (e *causesError) Unwrap() []error { return e.errs }
