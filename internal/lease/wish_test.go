package lease

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A thousand members that want the same topics keep the list of them once, and the last one who goes takes it away.
func TestWhatManyWantIsKeptOnce(t *testing.T) {
	s := newScript(t)
	two, one := wanting("client", TopicInterest{"t", 4}, TopicInterest{"u", 2}), wanting("client", TopicInterest{"t", 4})
	s.write("a", two)
	s.write("b", two)
	s.write("c", one)
	topics := func(name string) *TopicInterest { return &s.w.Instance(id(name)).Interests[0].Topics[0] }
	assert.Same(t, topics("a"), topics("b"))
	assert.NotSame(t, topics("a"), topics("c"))
	two.Join.Interests[0].Topics[0].Topic = "changed by its writer"
	assert.Equal(t, "t", topics("a").Topic)

	s.write("c", wanting("client", TopicInterest{"t", 4}, TopicInterest{"u", 2}))
	assert.Same(t, topics("a"), topics("c"), "a later Join shares too")
	assert.Len(t, s.w.wishes, 1, "nobody wants just one any more")

	copied := s.w.Clone()
	parsed, err := ParseWorld(s.w.AppendBinary(nil))
	require.NoError(t, err)
	s.leave("a")
	s.park("b", MaxGrace)
	assert.Equal(t, "t", topics("c").Topic)
	assert.EqualValues(t, 4, s.w.Partitions("t"))
	s.leave("c")
	for what, w := range map[string]*World{"left": s.w, "copied": copied, "parsed": parsed} {
		n := 0
		for in := range w.Instances() {
			if in.Status == Alive {
				n++
			}
		}
		times := 0
		for _, wish := range w.wishes {
			times += wish.times
		}
		assert.Equal(t, n, times, what)
		assert.LessOrEqual(t, len(w.wishes), n, what)
	}
}

// Two lists that differ and have one hash stand beside each other.
func TestWantsThatHaveOneHash(t *testing.T) {
	s := newScript(t)
	first := []Interest{{Topics: []TopicInterest{{"t", 4}}}}
	other := []Interest{{Topics: []TopicInterest{{"u", 4}}}}
	s.w.wishes[hashInterests(other)] = &wish{first, 1}
	s.write("a", wanting("client", TopicInterest{"u", 4}))
	got := s.w.Instance(id("a")).Interests
	if hashInterests(got) == hashInterests(other) {
		assert.Equal(t, "u", got[0].Topics[0].Topic)
	}
	s.leave("a")
	assert.Equal(t, 1, s.w.wishes[hashInterests(other)].times, "another's is left alone")
}
