package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func offsets(es []*entry) (list []int64) {
	for _, e := range es {
		list = append(list, e.offset)
	}
	return list
}

func TestALogWithHolesIsReadPastThem(t *testing.T) {
	l := vlog{first: 10, start: 10, next: 10}
	for range 3 {
		l.add(&entry{group: true})
	}
	l.skip(1000, &entry{}) // 13 … 1012
	l.add(&entry{group: true})
	assert.Equal(t, []int64{10, 11, 12, 1012, 1013}, offsets(l.entries))
	assert.Equal(t, int64(1014), l.end())

	assert.Equal(t, []int64{12, 1012}, offsets(l.read(12, 2)))
	assert.Equal(t, []int64{1012, 1013}, offsets(l.read(500, 9)))
	assert.Equal(t, []int64{11, 12}, offsets(l.between(11, 1000)))
	assert.Empty(t, l.read(1014, 5))
	assert.Equal(t, int64(1012), l.at(13).offset)
	assert.Nil(t, l.at(1014))
	assert.Equal(t, int64(12), l.below(1012).offset)
	assert.Nil(t, l.below(10))
	assert.Equal(t, int64(12), l.before(1012).offset, "the newest of the group")

	l.cut(1012)
	assert.Equal(t, int64(1012), l.end(), "what other groups wrote below it is still there")
	assert.Equal(t, []int64{10, 11, 12, 1011}, offsets(l.entries))
	assert.False(t, l.at(1011).group)
	l.cut(1011)
	l.cut(500)
	assert.Equal(t, []int64{10, 11, 12, 499}, offsets(l.entries))
	l.cut(12)
	assert.Equal(t, []int64{10, 11}, offsets(l.entries), "nothing is missing just below")
	l.cut(10)
	assert.Equal(t, int64(10), l.end())
	assert.Empty(t, l.entries)
}

// TestAForgottenInstanceComesBackAndEnds: a Join is a Join again once nobody remembers that its instance has ended. Such a
// one must end by eviction, and nobody may ever hand out by what it has.
func TestAForgottenInstanceComesBackAndEnds(t *testing.T) {
	var table Table
	for seed := uint64(1); seed <= 400 && table.Count[branchRows+int(ghostGoneBranch)] == 0; seed++ {
		res := Run(Config{Schedule: Schedule{Seed: seed}.with(often1, int(skipFault)+1).with(often2, int(crashFault)+1).with(faultsOf, 8)})
		assert.Nil(t, res.Violation, "%s", res.Schedule)
		table.Add(&res.Table)
	}
	assert.Positive(t, table.Count[branchRows+int(ghostBranch)])
	assert.Positive(t, table.Count[branchRows+int(ghostGoneBranch)])
}
